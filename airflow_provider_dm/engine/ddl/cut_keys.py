"""ALTER TABLE behind which a plain key holds only the beginning of a column, for a MySQL that is told so by a MariaDB.

MariaDB cuts a plain key's part by itself where the column becomes a text, or longer than an index. MySQL refuses that
(1170, 1071): it is told to drop the key and to add the one that MariaDB has made of it.

    KEY k (b):  MODIFY b text  ─▶  DROP KEY k, ADD KEY k (b(768)), MODIFY b text

A UNIQUE key has a hash then, which MySQL cannot have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from airflow_provider_dm.engine.ddl.statements import AddConstraint, AlterTable, DropKey, Key, KeyKind, TableDefinition


def with_cut_keys(statement: AlterTable, before: TableDefinition, after: TableDefinition) -> AlterTable:
    """Return the statement with what becomes of such keys said. `before`, `after`: the source's table around it."""
    said = {spec.name.lower() for spec in statement.specs if isinstance(spec, DropKey)}
    known = {key.name: key for key in _plain(before)}
    again = [key for key in _plain(after) if key.name in known and _is_cut(known[key.name], key)]
    again = [key for key in again if str(key.name).lower() not in said]
    drops = [DropKey(str(key.name)) for key in again]
    return replace(statement, specs=(*drops, *map(AddConstraint, again), *statement.specs))


def _plain(table: TableDefinition) -> Iterator[Key]:
    return (one for one in table.constraints if isinstance(one, Key) and one.kind is KeyKind.PLAIN)


def _is_cut(key: Key, becomes: Key) -> bool:
    if len(key.parts) != len(becomes.parts):
        return False
    return any(old.prefix is None and new.prefix is not None for old, new in zip(key.parts, becomes.parts, strict=True))
