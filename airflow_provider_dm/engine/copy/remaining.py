"""How a table is copied on by the columns that are left of it, where the sync follows what was done to it. Pure.

Pages are read by the columns that it began with, as the target has them until the sync comes to the DDL:

    added since       not read; the target gets it where the source did, and a row with another value than its default
                      is in the log behind that
    dropped since     not there to be read; the target's has what it fills in itself, or a plain value, until the sync
                      drops it
    holds more now    a row that has more than the target's column holds was written behind that DDL, so it is left out
                      here: the log has all of it
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from airflow_provider_dm.engine.copy.lineage import INTEGERS, TEXTS, Lineage, NotTold
from airflow_provider_dm.engine.mysql.identifiers import quote
from airflow_provider_dm.engine.rules.mapping import TableMapping, family
from airflow_provider_dm.engine.schema.model import Column, Table

_PLAIN: Final[dict[str, bytes]] = {
    "integer": b"0", "decimal": b"0", "float": b"0", "text": b"", "bytes": b"", "date": b"2000-01-01",
    "datetime": b"2000-01-01 00:00:00", "timestamp": b"2000-01-01 00:00:00", "time": b"00:00:00", "year": b"2000",
}  # fmt: skip
"""Any value that strict mode takes, by family."""


def remaining(planned: TableMapping, left: Lineage) -> tuple[TableMapping, str]:
    """Return the mapping by which the table is copied on, and the condition for the rows; "": all of them.

    `planned`: the mapping that the copy began with. Raises NotTold.
    """
    source, target = planned.source, planned.target
    lost = [one for one in source.columns if one.constant is None and one.name.lower() not in left.kept]
    kept = [one for one in source.columns if one not in lost]
    only = " AND ".join(f"({one})" for one in _fitting(source, left))
    if not lost:
        return planned, only
    if source.constants or any(one.generated for one in (*source.columns, *target.columns)):
        raise NotTold("a column was dropped of a table with columns that are computed or filled by its route")
    keyed = {name.lower() for key in target.unique_keys for name in key.columns}
    filled = []
    for column in map(target.column, (one.name for one in lost)):
        if column.name.lower() in keyed:
            raise NotTold(f"{column.name} was dropped, and is in a key of the target")
        if not (column.nullable or column.filled):
            if family(column) not in _PLAIN:
                raise NotTold(f"{column.name} was dropped, and the target has to be given a value for it")
            filled.append(replace(column, constant=_PLAIN[family(column)]))
    columns = tuple(replace(one, position=at) for at, one in enumerate(kept))
    return TableMapping(replace(source, columns=columns).with_constants(filled), target), only


def _fitting(source: Table, left: Lineage) -> Iterator[str]:
    """Yield what the values of columns have to be that hold more now."""
    for before in source.columns:
        if before.constant is not None or before.name.lower() not in left.kept:
            continue
        now, name = left.table.column(before.name), quote(before.name)
        holds = _holds(before, name) if now.column_type.lower() != before.column_type.lower() else ""
        if holds:
            yield f"{name} IS NULL OR {holds}" if before.nullable else holds
        elif now.nullable and not before.nullable:
            yield f"{name} IS NOT NULL"


def _holds(column: Column, name: str) -> str:
    """Return the condition that a value is one that the column holds."""
    kind = column.data_type.lower()
    if kind in INTEGERS:
        bits = INTEGERS[kind]
        low, high = (0, (1 << bits) - 1) if column.unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        return f"{name} BETWEEN {low} AND {high}"
    if kind == "decimal":
        digits, scale = column.numeric_precision or 0, column.numeric_scale or 0
        return f"ABS({name}) < 1{'0' * (digits - scale)}"
    if kind == "varchar":
        return f"CHAR_LENGTH({name}) <= {column.column_type.partition('(')[2].partition(')')[0]}"
    assert kind in TEXTS or column.octet_length is not None
    return f"LENGTH({name}) <= {column.octet_length}"
