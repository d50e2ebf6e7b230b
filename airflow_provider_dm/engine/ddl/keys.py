"""The keys that a server makes of those that a statement names: their names, prefixes and order.

    CREATE TABLE t (a int, b int, KEY (a), UNIQUE (a, b), FOREIGN KEY (b) REFERENCES u (id))
    ─▶ UNIQUE KEY a_2 (a, b), KEY a (a), KEY b (b)

A name is given in the order of the text, and the order changes only then. A foreign key brings an index of its own,
which goes as soon as another one begins with the same columns. Which index a server has made for a foreign key it does
not show; one is taken for that if it has the foreign key's columns and a name that the server would give. Whether rows
are decoded rightly does not depend on it: only PRIMARY and UNIQUE keys do that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.collations import character_bytes
from airflow_provider_dm.engine.ddl.column_types import (
    BLOBS,
    GEOMETRIES,
    MEMBERS,
    OF_CHARACTERS,
    TEXTS,
    octets,
    packed_bytes,
)
from airflow_provider_dm.engine.ddl.server import CannotTrack, NotKnown, Server

PRIMARY: Final = "PRIMARY"
_OVER_EXPRESSION: Final = "functional_index"
_LONGEST: Final = {"innodb": 3072, "myisam": 1000, "aria": 2000}
"""How many bytes a key may have, by engine."""
_WITH_HASHES: Final = "memory"
"""The engine whose indexes are hashes; it keeps none beside them."""
_POINT_BYTES: Final = 25
"""What MariaDB takes of a POINT."""
PREFIXED: Final = frozenset({"char", "varchar", "binary", "varbinary"})
"""Types of which a key may hold the beginning, and that may be in it as a whole."""
_PASSING_OPTIONS: Final = frozenset({"ALGORITHM", "LOCK", "VISIBLE", "NOT IGNORED", "KEY_BLOCK_SIZE"})

Columns = Mapping[str, ddl.ColumnDefinition]
"""Resolved columns by their names in lower case."""


def by_name(columns: Iterable[ddl.ColumnDefinition]) -> Columns:
    """Return the columns by their names in lower case."""
    return {column.name.lower(): column for column in columns}


@dataclass(frozen=True)
class _Wanted:
    """A key on its way. `generated`: for a foreign key."""

    key: ddl.Key
    generated: bool = False


def settled_keys(
    server: Server,
    columns: Columns,
    old: Sequence[ddl.Key],
    new: Sequence[ddl.Key | ddl.ForeignKey],
    *,
    engine: str,
    foreign_keys: Sequence[ddl.ForeignKey] = (),
    shown: bool = False,
) -> tuple[ddl.Key, ...]:
    """Return the keys as the server has them. `old`: the table's; `new`: where a foreign key stands for its index.

    `foreign_keys`: the table's; `shown`: the server itself says all this, so nothing is left out. Raises CannotTrack.
    """
    wanted = [_Wanted(_named_as_columns(columns, key), _is_generated(key, foreign_keys, old)) for key in old]
    for one in new:
        key = _index_of(one) if isinstance(one, ddl.ForeignKey) else one
        wanted.append(_Wanted(_named_as_columns(columns, key), isinstance(one, ddl.ForeignKey)))
    named: list[ddl.Key] = []
    for made in wanted if shown else _without_needless(wanted):
        key = made.key
        key = replace(key, name=_name(key, {str(other.name).lower() for other in named}), constraint=None)
        hashed = (not shown and _is_too_long(server, columns, key, engine)) or is_hashed(server, engine, key)
        named.append(_settled(server, columns, key, engine, hashed=hashed))
    return tuple(sorted(named, key=lambda key: _rank(columns, key, hashed=is_hashed(server, engine, key))))


def is_hashed(server: Server, engine: str, key: ddl.Key) -> bool:
    """Tell whether MariaDB keeps a hidden hash for a UNIQUE key, as it does where an index is not long enough."""
    asked = ("USING", "HASH") in key.options
    return server.mariadb and key.kind is ddl.KeyKind.UNIQUE and asked and engine.lower() != _WITH_HASHES


def without_hash(server: Server, key: ddl.Key) -> ddl.Key:
    """Return the key as MariaDB takes it up in an ALTER: it forgets that USING HASH was asked for."""
    if not server.mariadb or key.kind is not ddl.KeyKind.UNIQUE:
        return key
    return replace(key, options=tuple(option for option in key.options if option != ("USING", "HASH")))


def _index_of(foreign_key: ddl.ForeignKey) -> ddl.Key:
    parts = tuple(ddl.KeyPart(column) for column in foreign_key.columns)
    return ddl.Key(ddl.KeyKind.PLAIN, parts, foreign_key.constraint or foreign_key.name)


def _named_as_columns(columns: Columns, key: ddl.Key) -> ddl.Key:
    """Return the key with its columns' names as the columns have them."""
    parts = []
    for part in key.parts:
        if part.column is not None:
            if part.column.lower() not in columns:
                raise NotKnown(f"the key's column {part.column} is not known")
            part = replace(part, column=columns[part.column.lower()].name)
        parts.append(part)
    return replace(key, parts=tuple(parts))


def _is_generated(key: ddl.Key, foreign_keys: Iterable[ddl.ForeignKey], others: Iterable[ddl.Key]) -> bool:
    """Tell whether a key may go as soon as another one begins with its columns. One that is beside such stays."""
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


def _columns_of(key: ddl.Key) -> list[tuple[str, int | None, bool]]:
    return [((part.column or part.expression or "").lower(), part.prefix, part.descending) for part in key.parts]


def _without_needless(wanted: Sequence[_Wanted]) -> list[_Wanted]:
    """Leave out indexes of foreign keys that another key begins with.

    As the server does it: each is held against those before it, and the first pair decides.
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
    return [one for one in kept if one is not None]


def _one_is_enough(one: _Wanted, other: _Wanted) -> bool:
    """Tell whether one of the two is generated and the other begins with it."""
    ours, theirs = _columns_of(one.key), _columns_of(other.key)
    return (one.generated and theirs[: len(ours)] == ours) or (other.generated and ours[: len(theirs)] == theirs)


def _name(key: ddl.Key, taken: set[str]) -> str:
    if key.kind is ddl.KeyKind.PRIMARY:
        return PRIMARY
    if (said := key.name or key.constraint) is not None:
        return said
    base = key.parts[0].column or _OVER_EXPRESSION
    if base.lower() not in taken and base.upper() != PRIMARY:
        return base
    return next(name for number in range(2, 10_000) if (name := f"{base}_{number}").lower() not in taken)


def _settled(server: Server, columns: Columns, key: ddl.Key, engine: str, *, hashed: bool) -> ddl.Key:
    """Return a named key with its prefixes and options as the server has them."""
    longest = _LONGEST.get(engine.lower(), _LONGEST["innodb"])
    of_geometry = key.parts[0].column is not None and columns[key.parts[0].column.lower()].type.name in GEOMETRIES
    kind = ddl.KeyKind.SPATIAL if of_geometry and key.kind is ddl.KeyKind.PLAIN and not server.mariadb else key.kind
    descends = server.keeps_descending and not hashed
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


def _prefix(server: Server, column: ddl.ColumnDefinition, said: int | None) -> int | None:
    """Return the prefix that the server keeps: none over the whole column, and none of what is no string."""
    kind = column.type
    if kind.name == "point" and server.mariadb:
        return _POINT_BYTES
    if said is None or kind.name in GEOMETRIES:
        return said
    if kind.name in PREFIXED:
        return None if kind.arguments == (str(said),) else said
    return said if kind.name in TEXTS or kind.name in BLOBS else None


def _shortened(server: Server, column: ddl.ColumnDefinition, prefix: int | None, longest: int) -> int | None:
    """Return the prefix of a part that a plain key can hold: a longer one is cut with a warning."""
    whole = (TEXTS | BLOBS).get(column.type.name, longest)
    most = longest if server.mariadb else min(whole, longest)
    if _part_bytes(column, prefix) <= most:
        return prefix
    return min(whole, most // _character_bytes(column))


def _options(server: Server, said: ddl.Options, *, hashed: bool, engine: str) -> ddl.Options:
    found: dict[str, str] = {"USING": "HASH"} if hashed else {}
    for name, value in said:
        if name in _PASSING_OPTIONS or (name == "COMMENT" and not value):
            continue
        if (name, value) == ("USING", "HASH") and not server.mariadb and engine.lower() in _LONGEST:
            continue  # the engine has none, and MySQL forgets it
        name = {"IGNORED": "INVISIBLE"}.get(name, name) if not server.mariadb else name
        found[name] = "HASH" if hashed and name == "USING" else value
    return tuple(sorted(found.items()))


def _is_too_long(server: Server, columns: Columns, key: ddl.Key, engine: str) -> bool:
    """Tell whether a unique key of MariaDB is longer than an index can be. Raises CannotTrack."""
    if not server.mariadb or key.kind is not ddl.KeyKind.UNIQUE or engine.lower() == _WITH_HASHES:
        return False
    found = [(columns[part.column.lower()], part.prefix) for part in key.parts if part.column is not None]
    if any(column.type.name in GEOMETRIES - {"point"} for column, _ in found):
        raise CannotTrack("a unique key over a geometry")
    size = sum(_part_bytes(column, prefix) for column, prefix in found)
    if engine.lower() not in _LONGEST and size > min(_LONGEST.values()):
        raise CannotTrack(f"how long a unique key of the engine {engine} may be is not known")
    return size > _LONGEST.get(engine.lower(), size)


def _part_bytes(column: ddl.ColumnDefinition, prefix: int | None) -> int:
    kind = column.type
    if kind.name == "point":
        return _POINT_BYTES
    if prefix is not None:
        return prefix * _character_bytes(column)
    if kind.name in TEXTS or kind.name in BLOBS or kind.name in GEOMETRIES:
        return TEXTS["longtext"]  # however short: it has no length that an index could have
    if kind.name in PREFIXED:
        return int(kind.arguments[0]) * _character_bytes(column)
    return packed_bytes(kind)


def _character_bytes(column: ddl.ColumnDefinition) -> int:
    if column.type.name not in OF_CHARACTERS or column.type.collation is None:
        return 1
    return character_bytes(column.type.collation)


def _rank(columns: Columns, key: ddl.Key, *, hashed: bool) -> tuple[bool, ...]:
    """Return what servers sort keys by; among equals their order stays."""
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
"""The column that a key's column is now, and whether that is another one, by its former name in lower case."""


def carried(server: Server, columns: Columns, key: ddl.Key, successors: Successors) -> ddl.Key | None:
    """Return the key after its columns have changed, or are others of the same name; None: none of them is left.

    `columns`: as they were.

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


def _prefix_of_another(key: ddl.Key, old: ddl.ColumnDefinition, new: ddl.ColumnDefinition) -> int | None:
    if old.type.name in PREFIXED:
        return int(old.type.arguments[0])
    if new.type.name in PREFIXED and key.kind is not ddl.KeyKind.PLAIN:
        raise CannotTrack(f"how much of the new {new.name} is in the key {key.name}")
    return None


def _prefix_left(
    server: Server, old: ddl.ColumnDefinition, new: ddl.ColumnDefinition, prefix: int | None
) -> int | None:
    """Return the prefix that a part keeps when its column is another one: none that is as long as the column."""
    kind = new.type
    if kind.name in GEOMETRIES:
        return prefix
    if prefix is None and not server.mariadb:
        prefix = _prefix_of_whole(old.type, new.type)
    if kind.name in TEXTS or kind.name in BLOBS:
        return prefix if prefix is None or prefix <= (TEXTS | BLOBS)[kind.name] else None
    if prefix is None or kind.name not in PREFIXED:
        return None
    return prefix if prefix <= int(kind.arguments[0]) else None


def _prefix_of_whole(old: ddl.ColumnType, new: ddl.ColumnType) -> int | None:
    """Return the prefix that MySQL makes of a whole column in a key: as much as there was, counted in bytes of the key.

    A CHAR(20) that becomes a TEXT is in the key with 20 characters. An ENUM has one byte there, so what becomes of it
    is in the key with one character, even where the key is unique.
    """
    to_text = new.name in TEXTS or new.name in BLOBS
    if old.name in PREFIXED:
        return int(old.arguments[0]) if to_text else None
    if old.name not in MEMBERS or not (to_text or new.name in PREFIXED):
        return None
    size = packed_bytes(old)
    if size == octets(old) and not to_text:
        return None
    return size // character_bytes(str(old.collation)) or None
