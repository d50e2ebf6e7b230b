"""ALTER TABLE that drops a column of a unique key over several, for a MariaDB that is told so by a MySQL.

MySQL leaves the column out of the key. MariaDB refuses that (1072), as fewer rows may be distinct then: it is told to
drop the key and to add the one that MySQL has made of it.

    UNIQUE KEY k (a, b):  DROP COLUMN b  ─▶  DROP KEY k, ADD UNIQUE KEY k (a), DROP COLUMN b

So are the unique keys behind it, as their order may decide which of them tells rows apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from airflow_provider_dm.engine.ddl.statements import (
    AddConstraint,
    AlterTable,
    DropColumn,
    DropKey,
    Key,
    KeyKind,
    TableDefinition,
)

_PRIMARY = "PRIMARY"


def with_shrunk_keys(statement: AlterTable, before: TableDefinition, after: TableDefinition) -> AlterTable:
    """Return the statement with what becomes of such keys said. `before`, `after`: the source's table around it."""
    gone = {spec.name.lower() for spec in statement.specs if isinstance(spec, DropColumn)}
    if not gone:
        return statement
    said = {spec.name.lower() for spec in statement.specs if isinstance(spec, DropKey)}
    known = {_name(key): key for key in _unique(before)}
    again: list[Key] = []
    for becomes in _unique(after):
        key = known.get(_name(becomes))
        if key is None or _name(key).lower() in said:
            continue
        shrinks = len(becomes.parts) < len(key.parts) and not gone.isdisjoint(_columns(key))
        if shrinks or any(one.kind is KeyKind.UNIQUE for one in again):
            again.append(becomes)
    drops = [DropKey(_name(key)) for key in again]
    adds = [AddConstraint(key if key.kind is KeyKind.UNIQUE else replace(key, name=None)) for key in again]
    return replace(statement, specs=(*drops, *adds, *statement.specs))


def _unique(table: TableDefinition) -> Iterator[Key]:
    return (one for one in table.constraints if isinstance(one, Key) and one.kind in (KeyKind.PRIMARY, KeyKind.UNIQUE))


def _name(key: Key) -> str:
    return _PRIMARY if key.kind is KeyKind.PRIMARY else str(key.name)


def _columns(key: Key) -> Iterator[str]:
    return (part.column.lower() for part in key.parts if part.column is not None)
