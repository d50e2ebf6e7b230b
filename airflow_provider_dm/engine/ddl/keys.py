"""The keys that a server makes of the keys in a statement: their names, prefixes and order.

    CREATE TABLE t (a int, b int, KEY (a), UNIQUE (a, b), FOREIGN KEY (b) REFERENCES u (id))
    ─▶ UNIQUE KEY a_2 (a, b), KEY a (a), KEY b (b)

Names are assigned in the order of the text, before keys are sorted. A foreign key adds an index of its own, which the
server drops when another key begins with the same columns. A server does not show which index it added: an index counts
as such if it has the foreign key's columns and a name that the server would choose. The decoding of rows does not
depend on this, only on PRIMARY and UNIQUE keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.collations import character_bytes
from airflow_provider_dm.engine.ddl.column_types import (
    BLOBS,
    CHARACTER_TYPES,
    MEMBERS,
    TEXT_SIZES,
    octets,
    packed_bytes,
)
from airflow_provider_dm.engine.ddl.errors import CannotTrack, NotKnown
from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.schema.codec import GEOMETRIES

PRIMARY: Final = "PRIMARY"
_OVER_EXPRESSION: Final = "functional_index"
_LONGEST: Final = {"innodb": 3072, "myisam": 1000, "aria": 2000}
"""Maximum bytes of a key, by engine."""
_WITH_HASHES: Final = "memory"
"""The engine whose indexes are hashes, so it adds no hidden hash."""
_POINT_BYTES: Final = 25
"""Bytes of a POINT in a key of MariaDB."""
PREFIXED: Final = frozenset({"char", "varchar", "binary", "varbinary"})
"""Types of which a key may hold a prefix or the whole value."""
_PASSING_OPTIONS: Final = frozenset({"ALGORITHM", "LOCK", "VISIBLE", "NOT IGNORED", "KEY_BLOCK_SIZE"})

Columns = Mapping[str, ddl.ColumnDefinition]
"""Resolved columns by their names in lower case."""


def by_name(columns: Iterable[ddl.ColumnDefinition]) -> Columns:
    """Return the columns by their names in lower case."""
    return {column.name.lower(): column for column in columns}


@dataclass(frozen=True)
class _Wanted:
    """A key and whether it was generated for a foreign key."""

    key: ddl.KeyDefinition
    generated: bool = False


def settled_keys(
    server: Server,
    columns: Columns,
    old: Sequence[ddl.KeyDefinition],
    new: Sequence[ddl.KeyDefinition | ddl.ForeignKey],
    *,
    engine: str,
    foreign_keys: Sequence[ddl.ForeignKey] = (),
    shown: bool = False,
) -> tuple[ddl.KeyDefinition, ...]:
    """Return the keys as the server has them. `old`: the table's keys; `new`: keys, and foreign keys for their indexes.

    `foreign_keys`: those of the table; `shown`: the text is the server's own, so no key is dropped. Raises CannotTrack.
    """
    wanted = [_Wanted(_named_as_columns(columns, key), _is_generated(key, foreign_keys, old)) for key in old]
    for one in new:
        key = _index_of(one) if isinstance(one, ddl.ForeignKey) else one
        wanted.append(_Wanted(_named_as_columns(columns, key), isinstance(one, ddl.ForeignKey)))
    named: list[ddl.KeyDefinition] = []
    for made in wanted if shown else _without_needless(wanted):
        key = made.key
        key = replace(key, name=_name(key, {str(other.name).lower() for other in named}), constraint=None)
        hashed = (not shown and _is_too_long(server, columns, key, engine)) or is_hashed(server, engine, key)
        named.append(_settled(server, columns, key, engine, hashed=hashed))
    return tuple(sorted(named, key=lambda key: _rank(columns, key, hashed=is_hashed(server, engine, key))))


def is_hashed(server: Server, engine: str, key: ddl.KeyDefinition) -> bool:
    """Return True if MariaDB keeps a hidden hash for a UNIQUE key, as it does for keys longer than an index."""
    asked = ("USING", "HASH") in key.options
    return server.mariadb and key.kind is ddl.KeyKind.UNIQUE and asked and engine.lower() != _WITH_HASHES


def without_hash(server: Server, key: ddl.KeyDefinition) -> ddl.KeyDefinition:
    """Return the key as MariaDB treats it in an ALTER TABLE: without an explicit USING HASH."""
    if not server.mariadb or key.kind is not ddl.KeyKind.UNIQUE:
        return key
    return replace(key, options=tuple(option for option in key.options if option != ("USING", "HASH")))


def _index_of(foreign_key: ddl.ForeignKey) -> ddl.KeyDefinition:
    parts = tuple(ddl.KeyPart(column) for column in foreign_key.columns)
    return ddl.KeyDefinition(ddl.KeyKind.PLAIN, parts, foreign_key.constraint or foreign_key.name)


def _named_as_columns(columns: Columns, key: ddl.KeyDefinition) -> ddl.KeyDefinition:
    """Return the key with the names of its columns in the spelling of the columns."""
    parts = []
    for part in key.parts:
        if part.column is not None:
            if part.column.lower() not in columns:
                raise NotKnown(f"the key's column {part.column} is not known")
            part = replace(part, column=columns[part.column.lower()].name)
        parts.append(part)
    return replace(key, parts=tuple(parts))


def _is_generated(
    key: ddl.KeyDefinition, foreign_keys: Iterable[ddl.ForeignKey], others: Iterable[ddl.KeyDefinition]
) -> bool:
    """Return True if the server drops the key when another key begins with its columns; False if one already does."""
    own = _columns_of(key)
    if key.kind is not ddl.KeyKind.PLAIN or key.options:
        return False
    if any(_columns_of(other)[: len(own)] == own for other in others if other is not key):
        return False
    for one in foreign_keys:
        index = _index_of(one)
        names = {str(index.name).lower(), _name(replace(key, name=None), set()).lower()}
        if own == _columns_of(index) and str(key.name).lower() in names:
            return True
    return False


def _columns_of(key: ddl.KeyDefinition) -> list[tuple[str, int | None, bool]]:
    return [((part.column or part.expression or "").lower(), part.prefix, part.descending) for part in key.parts]


def _without_needless(wanted: Sequence[_Wanted]) -> list[_Wanted]:
    """Leave out the indexes of foreign keys with whose columns another key begins.

    As in the server, each key is compared with the keys before it, and the first matching pair decides.
    """
    kept: list[_Wanted | None] = []
    for one in wanted:
        kept.append(one)
        for place, other in enumerate(kept[:-1]):
            if other is None or not _one_is_enough(one, other):
                continue
            shorter = one.generated and len(one.key.parts) < len(other.key.parts)
            if other.generated and not shorter:
                kept[place] = None
            else:
                kept[-1] = None
            break
    return [key for key in kept if key is not None]


def _one_is_enough(one: _Wanted, other: _Wanted) -> bool:
    """Return True if one of the two is generated and the other begins with its columns."""
    ours, theirs = _columns_of(one.key), _columns_of(other.key)
    return (one.generated and theirs[: len(ours)] == ours) or (other.generated and ours[: len(theirs)] == theirs)


def _name(key: ddl.KeyDefinition, taken: set[str]) -> str:
    if key.kind is ddl.KeyKind.PRIMARY:
        return PRIMARY
    if (given := key.name or key.constraint) is not None:
        return given
    base = key.parts[0].column or _OVER_EXPRESSION
    if base.lower() not in taken and base.upper() != PRIMARY:
        return base
    return next(name for number in range(2, 10_000) if (name := f"{base}_{number}").lower() not in taken)


def _settled(
    server: Server, columns: Columns, key: ddl.KeyDefinition, engine: str, *, hashed: bool
) -> ddl.KeyDefinition:
    """Return a named key with its prefixes and options as the server has them."""
    longest = _LONGEST.get(engine.lower(), _LONGEST["innodb"])
    of_geometry = key.parts[0].column is not None and columns[key.parts[0].column.lower()].type.name in GEOMETRIES
    kind = ddl.KeyKind.SPATIAL if of_geometry and key.kind is ddl.KeyKind.PLAIN and not server.mariadb else key.kind
    descends = server.can.keeps_descending and not hashed
    parts = []
    for part in key.parts:
        if part.column is not None:
            prefix = _prefix(server, columns[part.column.lower()], part.prefix)
            if kind is ddl.KeyKind.PLAIN:
                prefix = _shortened(server, columns[part.column.lower()], prefix, longest)
            part = replace(part, prefix=prefix, descending=part.descending and descends)
        parts.append(part)
    options = _options(server, key.options, hashed=hashed, engine=engine)
    return replace(key, kind=kind, parts=tuple(parts), options=options)


def _prefix(server: Server, column: ddl.ColumnDefinition, given: int | None) -> int | None:
    """Return the prefix that the server stores: none for a whole column, and none for types other than strings."""
    kind = column.type
    if kind.name == "point" and server.mariadb:
        return _POINT_BYTES
    if given is None or kind.name in GEOMETRIES:
        return given
    if kind.name in PREFIXED:
        return None if kind.arguments == (str(given),) else given
    return given if kind.name in TEXT_SIZES or kind.name in BLOBS else None


def _shortened(server: Server, column: ddl.ColumnDefinition, prefix: int | None, longest: int) -> int | None:
    """Return the prefix that fits into a plain key: the server cuts a longer one with a warning."""
    whole = (TEXT_SIZES | BLOBS).get(column.type.name, longest)
    most = longest if server.mariadb else min(whole, longest)
    if _part_bytes(column, prefix) <= most:
        return prefix
    return min(whole, most // _character_bytes(column))


def _options(server: Server, given: ddl.Options, *, hashed: bool, engine: str) -> ddl.Options:
    options: dict[str, str] = {"USING": "HASH"} if hashed else {}
    for name, value in given:
        if name in _PASSING_OPTIONS or (name == "COMMENT" and not value):
            continue
        if (name, value) == ("USING", "HASH") and not server.mariadb and engine.lower() in _LONGEST:
            continue  # the engine has no hash indexes, and MySQL drops the option
        name = server.can.key_visibility[True] if name == "IGNORED" else name
        options[name] = "HASH" if hashed and name == "USING" else value
    return tuple(sorted(options.items()))


def _is_too_long(server: Server, columns: Columns, key: ddl.KeyDefinition, engine: str) -> bool:
    """Return True if a unique key of MariaDB is longer than an index can be. Raises CannotTrack."""
    if not server.mariadb or key.kind is not ddl.KeyKind.UNIQUE or engine.lower() == _WITH_HASHES:
        return False
    named = [columns[part.column.lower()] for part in key.parts if part.column is not None]
    if any(column.type.name in GEOMETRIES - {"point"} for column in named):
        raise CannotTrack("a unique key over a geometry is not supported")
    size = key_bytes(columns, key)
    if engine.lower() not in _LONGEST and size > min(_LONGEST.values()):
        raise CannotTrack(f"the maximum length of a unique key of the engine {engine} is not known")
    return size > _LONGEST.get(engine.lower(), size)


def key_bytes(columns: Columns, key: ddl.KeyDefinition) -> int:
    """Return the maximum bytes of a key's columns in an index."""
    parts = ((columns[part.column.lower()], part.prefix) for part in key.parts if part.column is not None)
    return sum(_part_bytes(column, prefix) for column, prefix in parts)


def _part_bytes(column: ddl.ColumnDefinition, prefix: int | None) -> int:
    kind = column.type
    if kind.name == "point":
        return _POINT_BYTES
    if prefix is not None:
        return prefix * _character_bytes(column)
    if kind.name in TEXT_SIZES or kind.name in BLOBS or kind.name in GEOMETRIES:
        return TEXT_SIZES["longtext"]  # its declared length does not limit the index
    if kind.name in PREFIXED:
        return int(kind.arguments[0]) * _character_bytes(column)
    return packed_bytes(kind)


def _character_bytes(column: ddl.ColumnDefinition) -> int:
    if column.type.name not in CHARACTER_TYPES or column.type.collation is None:
        return 1
    return character_bytes(column.type.collation)


def _rank(columns: Columns, key: ddl.KeyDefinition, *, hashed: bool) -> tuple[bool, ...]:
    """Return the sort key by which servers order keys; the sort is stable."""
    unique = key.kind in (ddl.KeyKind.PRIMARY, ddl.KeyKind.UNIQUE)
    nullable = any(part.column is not None and columns[part.column.lower()].nullable for part in key.parts)
    prefixed = any(part.prefix is not None for part in key.parts)
    computed = any(part.column is None or _is_virtual(columns[part.column.lower()]) for part in key.parts)
    of_unique = (nullable or hashed, key.kind is not ddl.KeyKind.PRIMARY, hashed, prefixed, computed)
    return (not unique, *(of_unique if unique else (False,) * 5), key.kind is ddl.KeyKind.FULLTEXT)


def _is_virtual(column: ddl.ColumnDefinition) -> bool:
    return column.generated is not None and not column.stored


# Keys whose columns change

Successors = dict[str, tuple[ddl.ColumnDefinition, bool]]
"""(column, whether it is a different column), by the former name in lower case, for each column that a key refers to.
"""


def carried(
    server: Server, columns: Columns, key: ddl.KeyDefinition, successors: Successors
) -> ddl.KeyDefinition | None:
    """Return the key after changes of its columns, or after other columns took their names; None if no part is left.

    `columns`: the columns before the statement.

        KEY k (a, b(10)):  DROP a, MODIFY b varchar(9)  ─▶  KEY k (b)
    """
    parts = []
    for part in key.parts:
        if part.column is None:
            parts.append(part)
            continue
        new, another = successors.get(part.column.lower(), (None, False))
        if new is not None:
            old = columns[part.column.lower()]
            if another:
                prefix = _prefix_of_another(key, old, new) if part.prefix is None else part.prefix
            else:
                prefix = _prefix_left(server, old, new, part.prefix)
            parts.append(replace(part, column=new.name, prefix=prefix))
    return replace(key, parts=tuple(parts)) if parts else None


def _prefix_of_another(key: ddl.KeyDefinition, old: ddl.ColumnDefinition, new: ddl.ColumnDefinition) -> int | None:
    if old.type.name in PREFIXED:
        return int(old.type.arguments[0])
    if new.type.name in PREFIXED:
        raise CannotTrack(f"the prefix of the new column {new.name} in the key {key.name} is not known")
    return None


def _prefix_left(
    server: Server, old: ddl.ColumnDefinition, new: ddl.ColumnDefinition, prefix: int | None
) -> int | None:
    """Return the prefix that a part keeps when its column changes: none if it is as long as the column."""
    kind = new.type
    if kind.name in GEOMETRIES:
        return prefix
    if prefix is None and not server.mariadb:
        prefix = _prefix_of_whole(old.type, new.type)
    if kind.name in TEXT_SIZES or kind.name in BLOBS:
        return prefix if prefix is None or prefix <= (TEXT_SIZES | BLOBS)[kind.name] else None
    if prefix is None or kind.name not in PREFIXED:
        return None
    return prefix if prefix <= int(kind.arguments[0]) else None


def _prefix_of_whole(old: ddl.ColumnType, new: ddl.ColumnType) -> int | None:
    """Return the prefix by which MySQL replaces a whole column in a key: the same number of bytes as before.

    A CHAR(20) that becomes a TEXT is in the key with 20 characters. An ENUM takes one byte in a key, so its successor
    is in the key with one character, even if the key is unique.
    """
    to_text = new.name in TEXT_SIZES or new.name in BLOBS
    if old.name in PREFIXED:
        return int(old.arguments[0]) if to_text else None
    if old.name not in MEMBERS or not (to_text or new.name in PREFIXED):
        return None
    size = packed_bytes(old)
    if size == octets(old) and not to_text:
        return None
    return size // character_bytes(str(old.collation)) or None
