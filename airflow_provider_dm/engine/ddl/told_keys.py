"""What becomes of keys in an ALTER TABLE, said for a target of the other flavour, which does not do it unasked.

MariaDB cuts a plain key's part by itself where the column becomes a text, or longer than an index. MySQL refuses that
(1170, 1071). A UNIQUE key has a hash then, which MySQL cannot have.

    KEY k (b):            MODIFY b text  ─▶  DROP KEY k, ADD KEY k (b(768)), MODIFY b text

MySQL leaves a column that is dropped out of a unique key over several. MariaDB refuses that (1072), as fewer rows may
be distinct then.

    UNIQUE KEY k (a, b):  DROP COLUMN b  ─▶  DROP KEY k, ADD UNIQUE KEY k (a), DROP COLUMN b

So are the unique keys behind it, as their order may decide which of them tells rows apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def with_cut_keys(statement: AlterTable, before: TableDefinition, after: TableDefinition) -> AlterTable:
    """Return the statement for a MySQL. `before`, `after`: the table of its MariaDB source around it."""
    kept = _kept(statement, before, after, KeyKind.PLAIN)
    return _with_keys_anew(statement, [becomes for key, becomes in kept if _is_cut(key, becomes)])


def with_shrunk_keys(statement: AlterTable, before: TableDefinition, after: TableDefinition) -> AlterTable:
    """Return the statement for a MariaDB. `before`, `after`: the table of its MySQL source around it."""
    gone = {spec.name.lower() for spec in statement.specs if isinstance(spec, DropColumn)}
    again: list[Key] = []
    for key, becomes in _kept(statement, before, after, KeyKind.PRIMARY, KeyKind.UNIQUE):
        columns = {part.column.lower() for part in key.parts if part.column is not None}
        shrinks = len(becomes.parts) < len(key.parts) and not gone.isdisjoint(columns)
        if shrinks or any(one.kind is KeyKind.UNIQUE for one in again):
            again.append(becomes)
    return _with_keys_anew(statement, again)


def _kept(
    statement: AlterTable, before: TableDefinition, after: TableDefinition, *kinds: KeyKind
) -> Iterator[tuple[Key, Key]]:
    """Yield the keys of these kinds that the statement does not drop: as they were, and as they are then."""
    dropped = {spec.name.lower() for spec in statement.specs if isinstance(spec, DropKey)}
    known = {one.name: one for one in before.constraints if isinstance(one, Key) and one.kind in kinds}
    for key in after.constraints:
        if isinstance(key, Key) and key.kind in kinds and key.name in known and str(key.name).lower() not in dropped:
            yield known[key.name], key


def _is_cut(key: Key, becomes: Key) -> bool:
    if len(key.parts) != len(becomes.parts):
        return False
    return any(old.prefix is None and new.prefix is not None for old, new in zip(key.parts, becomes.parts, strict=True))


def _with_keys_anew(statement: AlterTable, keys: Sequence[Key]) -> AlterTable:
    """Return the statement with these keys dropped, and added as they are then, before all else."""
    drops = [DropKey(str(key.name)) for key in keys]
    adds = [AddConstraint(replace(key, name=None) if key.kind is KeyKind.PRIMARY else key) for key in keys]
    return replace(statement, specs=(*drops, *adds, *statement.specs))
