"""Names of schemas, tables and columns, and the only function that quotes them for SQL."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from airflow_provider_dm.engine.errors import InvalidInput

SYSTEM_SCHEMAS: Final = frozenset(
    {"information_schema", "performance_schema", "metrics_schema", "inspection_schema", "mysql", "sys"}
)
"""The servers' own schemas, in lower case: they are never migrated."""


@lru_cache(4096)
def quote(name: str) -> str:
    """Return the name in back-quotes, safe to splice into SQL. Raises InvalidInput.

    >>> quote("a`b")
    '`a``b`'
    """
    if not name or "\0" in name:
        raise InvalidInput(
            f"{name!r} cannot be an identifier: it is empty or contains a NUL character.",
            "Correct the name in the task's files; if it comes from a server, please report it.",
        )
    return "`" + name.replace("`", "``") + "`"


class TableName(NamedTuple):
    schema: str
    table: str

    def quoted(self) -> str:
        return f"{quote(self.schema)}.{quote(self.table)}"

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"
