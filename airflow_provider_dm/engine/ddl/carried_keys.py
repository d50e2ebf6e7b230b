"""What becomes of a key when its columns are changed, dropped, or replaced by others of the same name.

KEY k (a, b(10)):  DROP a, MODIFY b varchar(9)  ─▶  KEY k (b)
"""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_dm.engine.ddl.collations import character_bytes
from airflow_provider_dm.engine.ddl.column_types import BLOBS, GEOMETRIES, MEMBERS, TEXTS, octets, packed_bytes
from airflow_provider_dm.engine.ddl.keys import PREFIXED, Columns
from airflow_provider_dm.engine.ddl.server import CannotTrack, Server
from airflow_provider_dm.engine.ddl.statements import ColumnDefinition, ColumnType, Key, KeyKind

Successors = dict[str, tuple[ColumnDefinition, bool]]
"""The column that a key's column is now, and whether that is another one, by its former name in lower case."""


def carried(server: Server, columns: Columns, key: Key, successors: Successors) -> Key | None:
    """Return the key after its columns have changed; None: none of them is left. `columns`: as they were."""
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


def _prefix_of_another(key: Key, old: ColumnDefinition, new: ColumnDefinition) -> int | None:
    if old.type.name in PREFIXED:
        return int(old.type.arguments[0])
    if new.type.name in PREFIXED and key.kind is not KeyKind.PLAIN:
        raise CannotTrack(f"how much of the new {new.name} is in the key {key.name}")
    return None


def _prefix_left(server: Server, old: ColumnDefinition, new: ColumnDefinition, prefix: int | None) -> int | None:
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


def _prefix_of_whole(old: ColumnType, new: ColumnType) -> int | None:
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
