"""Target tables of tests of the sync: with one key, two, none, and a unique key that may be NULL."""

from collections import Counter

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Column, Index, Table

Rows = Counter[Row]
Logged = tuple[int, Row | None, Row | None]
"""Number of the source table, row before, row after: what the engine decodes."""


def table(name: str, columns: str, *keys: Index) -> Table:
    primary = {one for key in keys if key.primary for one in key.columns}
    described = tuple(Column(one, at, "int", "int", one not in primary) for at, one in enumerate(columns))
    return Table(TableName("shop", name), described, keys)


PRIMARY = Index("PRIMARY", ("k",), prefixes=(None,))
UNIQUE_U = Index("u", ("u",), prefixes=(None,))
TARGETS = (
    table("plain", "kv", PRIMARY),
    table("unique", "kuv", PRIMARY, UNIQUE_U),
    table("keyless", "vw"),
    table("nullable", "uv", UNIQUE_U),
)
