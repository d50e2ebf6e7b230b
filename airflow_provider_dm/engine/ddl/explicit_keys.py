"""Changes of keys that one flavour makes implicitly in an ALTER TABLE, made explicit for a target of the other flavour.

MariaDB shortens a plain key's part if its column becomes a text, or longer than an index. MySQL rejects that (1170,
1071). A UNIQUE key gets a hash instead, which MySQL does not have.

    KEY k (b):            MODIFY b text  ─▶  DROP KEY k, ADD KEY k (b(768)), MODIFY b text

MySQL removes a dropped column from a unique key over several columns. MariaDB rejects that (1072), as fewer rows may be
distinct afterwards.

    UNIQUE KEY k (a, b):  DROP COLUMN b  ─▶  DROP KEY k, ADD UNIQUE KEY k (a), DROP COLUMN b

The unique keys after it are added again too, as their order may decide which of them identifies rows. TiDB rejects it
for any key over several columns, unique or not, even if all of its columns are dropped. If a statement drops a column
and adds it again, MySQL and MariaDB keep its key, and TiDB does not:

    KEY k (b):            DROP COLUMN b, ADD COLUMN b …  ─▶  DROP KEY k, DROP COLUMN b, ADD COLUMN b …, ADD KEY k (b)

And it rejects another collation for a column of a key:

    KEY k (b):            MODIFY b … COLLATE utf8mb4_bin  ─▶  DROP KEY k, ADD KEY k (b), MODIFY b …
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from airflow_provider_dm.engine.ddl import statements as ddl

_Kept: TypeAlias = tuple[ddl.KeyDefinition, ddl.KeyDefinition]
"""A key before and after a statement, under another name if the statement renames it."""


def with_cut_keys(statement: ddl.AlterTable, before: ddl.TableDefinition, after: ddl.TableDefinition) -> ddl.AlterTable:
    """Return the statement for MySQL. `before`, `after`: the table of its MariaDB source."""
    kept = _kept(statement, before, after, ddl.KeyKind.PLAIN)
    return _with_keys_anew(statement, [(key, becomes) for key, becomes in kept if _is_cut(key, becomes)])


_UNIQUE: Final = (ddl.KeyKind.PRIMARY, ddl.KeyKind.UNIQUE)


def with_shrunk_keys(
    statement: ddl.AlterTable,
    before: ddl.TableDefinition,
    after: ddl.TableDefinition,
    kinds: Sequence[ddl.KeyKind] = _UNIQUE,
) -> ddl.AlterTable:
    """Return the statement for MariaDB. `before`, `after`: the table of its MySQL source. `kinds`: of keys."""
    gone = _dropped_columns(statement)
    again: list[_Kept] = []
    for key, becomes in _kept(statement, before, after, *kinds):
        shrinks = len(becomes.parts) < len(key.parts) and not gone.isdisjoint(_columns(key))
        if shrinks or any(one.kind is ddl.KeyKind.UNIQUE for _, one in again):
            again.append((key, becomes))
    return _with_keys_anew(statement, again)


def with_recollated_keys(
    statement: ddl.AlterTable, before: ddl.TableDefinition, after: ddl.TableDefinition, becomes: Callable[[str], str]
) -> ddl.AlterTable:
    """Return the statement for TiDB. `before`, `after`: the table of its source; `becomes`: the target's collation for
    one of the source."""
    old, new = ({column.name.lower(): column.type.collation for column in table.columns} for table in (before, after))

    def collations(key: ddl.KeyDefinition, of: Mapping[str, str | None]) -> list[str | None]:
        found = (None if part.column is None else of.get(part.column.lower()) for part in key.parts)
        return [None if one is None else becomes(one) for one in found]

    kept = _kept(statement, before, after, ddl.KeyKind.UNIQUE, ddl.KeyKind.PLAIN)
    changed = [
        (was, now)
        for was, now in kept
        if len(was.parts) == len(now.parts) and collations(was, old) != collations(now, new)
    ]
    return _with_keys_anew(statement, changed)


def without_dropped_columns(
    statement: ddl.AlterTable, before: ddl.TableDefinition, after: ddl.TableDefinition
) -> ddl.AlterTable:
    """Return the statement for TiDB. `before`, `after`: the table of its source."""
    kinds = (*_UNIQUE, ddl.KeyKind.PLAIN)
    shrunk = with_shrunk_keys(statement, before, after, kinds)
    gone, dropped = _dropped_columns(statement), _dropped_keys(statement)
    kept = list(_kept(statement, before, after, *kinds))
    ended = [
        ddl.DropKey(str(constraint.name))
        for constraint in before.constraints
        if isinstance(constraint, ddl.KeyDefinition)
        and constraint.kind in kinds
        and len(constraint.parts) > 1
        and gone.issuperset(_columns(constraint))
        and all(constraint is not was for was, _ in kept)
        and str(constraint.name).lower() not in dropped
    ]
    remade = [(was, now) for was, now in kept if not gone.isdisjoint(_columns(now))]
    return _with_keys_last(replace(shrunk, specs=(*ended, *shrunk.specs)), remade)


def _columns(key: ddl.KeyDefinition) -> set[str]:
    return {part.column.lower() for part in key.parts if part.column is not None}


def _dropped_columns(statement: ddl.AlterTable) -> set[str]:
    return {spec.name.lower() for spec in statement.specs if isinstance(spec, ddl.DropColumn)}


def _dropped_keys(statement: ddl.AlterTable) -> set[str]:
    return {spec.name.lower() for spec in statement.specs if isinstance(spec, ddl.DropKey)}


def _with_keys_last(statement: ddl.AlterTable, keys: Sequence[_Kept]) -> ddl.AlterTable:
    """Return the statement with these keys dropped before, and added after, all other clauses."""
    drops, adds = _anew(keys)
    others = [spec for spec in _without_renames(statement, keys) if spec not in drops and spec not in adds]
    return replace(statement, specs=(*drops, *others, *adds))


def _kept(
    statement: ddl.AlterTable, before: ddl.TableDefinition, after: ddl.TableDefinition, *kinds: ddl.KeyKind
) -> Iterator[_Kept]:
    """Yield each key of these kinds that the statement does not drop."""
    dropped = _dropped_keys(statement)
    renamed = {spec.name.lower(): spec.to for spec in statement.specs if isinstance(spec, ddl.RenameKey)}
    known = {
        renamed.get(str(one.name).lower(), str(one.name)).lower(): one
        for one in before.constraints
        if isinstance(one, ddl.KeyDefinition) and one.kind in kinds and str(one.name).lower() not in dropped
    }
    for key in after.constraints:
        if isinstance(key, ddl.KeyDefinition) and key.kind in kinds and str(key.name).lower() in known:
            yield known[str(key.name).lower()], key


def _is_cut(key: ddl.KeyDefinition, becomes: ddl.KeyDefinition) -> bool:
    if len(key.parts) != len(becomes.parts):
        return False
    return any(old.prefix is None and new.prefix is not None for old, new in zip(key.parts, becomes.parts, strict=True))


def _with_keys_anew(statement: ddl.AlterTable, keys: Sequence[_Kept]) -> ddl.AlterTable:
    """Return the statement with these keys dropped and added in their new form, before all other clauses."""
    drops, adds = _anew(keys)
    return replace(statement, specs=(*drops, *adds, *_without_renames(statement, keys)))


def _without_renames(statement: ddl.AlterTable, keys: Sequence[_Kept]) -> list[ddl.Spec]:
    """Return the clauses but for those that rename these keys, which get their new names when they are added."""
    olds = {str(was.name).lower() for was, _ in keys}
    return [spec for spec in statement.specs if not (isinstance(spec, ddl.RenameKey) and spec.name.lower() in olds)]


def _anew(keys: Sequence[_Kept]) -> tuple[list[ddl.Spec], list[ddl.Spec]]:
    """Return the clauses that drop these keys, and those that add them."""
    drops: list[ddl.Spec] = [ddl.DropKey(str(was.name)) for was, _ in keys]
    named = [replace(now, name=None) if now.kind is ddl.KeyKind.PRIMARY else now for _, now in keys]
    return drops, [ddl.AddConstraint(key) for key in named]
