"""The tables of a schema according to a server, for a comparison of two servers; nothing of the engine is used.

Servers of one flavour are compared by SHOW CREATE TABLE; which collation a column has says the catalogue, as MySQL
shows it in another way where a statement has named what is the default anyway. Two flavours say the same in other
words, so of them it is the catalogue that is compared, in words of our own: types without display widths, defaults as
MariaDB shows them, and where a flavour has another name for the nearest thing, that of MariaDB. Left out are what a
target of the other flavour does not get: CHECKs, foreign keys, and the keys that only these have made.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from testbed import Server

_NUMBERS: Final = re.compile(r" AUTO_INCREMENT=\d+")
_COLLATED: Final = re.compile(r"(?: CHARACTER SET \w+)?(?: COLLATE \w+)?")
_NO_ACTION: Final = re.compile(r" ON (?:DELETE|UPDATE) (?:RESTRICT|NO ACTION)")
"""One thing in two words; without foreign_key_checks MariaDB shows the other one."""
_WIDTH: Final = re.compile(r"\b(tinyint|smallint|mediumint|int|bigint|year)\(\d+\)")
_QUOTED: Final = frozenset(
    {"char", "varchar", "enum", "set", "date", "datetime", "timestamp", "time", "binary", "varbinary"}
)
_NEAREST: Final = {"utf8mb4_0900_ai_ci": "utf8mb4_unicode_520_nopad_ci"}
"""MySQL's collations that MariaDB calls otherwise."""

Definitions = dict[str, str]
"""Name -> definition: of tables, or of their columns and keys (`table.column`, `table key name`)."""


def tables_of(server: Server, schema: str) -> list[str]:
    """Return the names of its base tables."""
    rows = server.sql(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_type = 'BASE TABLE'",
        [schema],
    )
    return sorted(name for (name,) in rows)


def differences(
    source: Server,
    target: Server,
    schema: str,
    *,
    as_shown: bool = True,
    as_shown_by: Callable[[Definitions], Definitions] = dict,
) -> list[str]:
    """Return what is defined in another way, or on one side only.

    `as_shown`: servers of one flavour must print the same text. MySQL prints a charset that a statement named, even
    where it is that of the table, and what the target gets always says it. `as_shown_by`: what is done to the words of
    two flavours before they are compared.
    """
    if source.flavour == target.flavour and as_shown:
        ours, theirs = (_as_shown(server, schema) for server in (source, target))
    else:
        ours, theirs = (as_shown_by(in_our_words(server, schema)) for server in (source, target))
        one_sided = _made_by_foreign_keys(source, schema) & (ours.keys() ^ theirs.keys())
        ours, theirs = ({name: table[name] for name in table.keys() - one_sided} for table in (ours, theirs))
    return [
        f"{name}\n  source: {ours.get(name)}\n  target: {theirs.get(name)}"
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]


def _as_shown(server: Server, schema: str) -> Definitions:
    shown = {}
    for name in tables_of(server, schema):
        ((_, text),) = server.sql(f"SHOW CREATE TABLE `{schema}`.`{name}`")
        for pattern in (_NUMBERS, _COLLATED, _NO_ACTION):
            text = pattern.sub("", text)
        shown[name] = text
    collations = server.sql(
        "SELECT table_name, column_name, character_set_name, collation_name FROM information_schema.columns "
        "WHERE table_schema = %s AND collation_name IS NOT NULL",
        [schema],
    )
    return shown | {f"{table}.{name} is in": f"{charset} {collation}" for table, name, charset, collation in collations}


def in_our_words(server: Server, schema: str) -> Definitions:
    """Return what is compared between two flavours."""
    return dict([*_tables(server, schema), *_columns(server, schema), *_keys(server, schema)])


def _tables(server: Server, schema: str) -> Iterator[tuple[str, str]]:
    rows = server.sql(
        "SELECT table_name, table_collation, table_comment FROM information_schema.tables "
        "WHERE table_schema = %s AND table_type = 'BASE TABLE'",
        [schema],
    )
    for name, collation, comment in rows:
        yield name, f"{_NEAREST.get(collation, collation)} {comment!r}"


def _columns(server: Server, schema: str) -> Iterator[tuple[str, str]]:
    rows = server.sql(
        "SELECT table_name, column_name, ordinal_position, data_type, column_type, is_nullable, column_default, "
        "collation_name, extra, column_comment FROM information_schema.columns WHERE table_schema = %s "
        "AND table_name IN (SELECT table_name FROM information_schema.tables "
        "WHERE table_schema = %s AND table_type = 'BASE TABLE')",
        [schema, schema],
    )
    for table, name, at, kind, full, nullable, default, collation, extra, comment in rows:
        if kind == "json":  # MariaDB's is text
            full, collation = "longtext", "utf8mb4_bin"
        default = default if server.flavour == "mariadb" else _default_in_mariadb(default, kind, extra, nullable)
        on_update = "ON UPDATE" if "on update" in extra.lower() else ""
        words = [word for word in ("auto_increment", "INVISIBLE") if word.lower() in extra.lower()]
        parts = [str(at), _WIDTH.sub(r"\1", full), nullable, str(default), str(_NEAREST.get(collation, collation))]
        yield f"{table}.{name}", " ".join([*parts, *words, on_update, repr(comment)])


def _default_in_mariadb(default: str | None, kind: str, extra: str, nullable: str) -> str | None:
    """Return a default of MySQL's catalogue as MariaDB's shows it."""
    if default is None:
        return "NULL" if nullable == "YES" else None
    if default.upper().startswith("CURRENT_TIMESTAMP"):
        return default.lower() if "(" in default else "current_timestamp()"
    if kind in ("binary", "varbinary") and default.startswith("0x"):
        default = bytes.fromhex(default[2:]).rstrip(b"\0").decode("utf-8", "backslashreplace")
    if kind in _QUOTED and "DEFAULT_GENERATED" not in extra:
        return "'" + default.replace("\\", "\\\\").replace("'", "''") + "'"
    return default


def _keys(server: Server, schema: str) -> Iterator[tuple[str, str]]:
    rows = server.sql(
        "SELECT table_name, index_name, MIN(non_unique) + 0, MIN(index_type), GROUP_CONCAT(CONCAT_WS(' ', column_name, "
        "sub_part, collation) ORDER BY seq_in_index) FROM information_schema.statistics WHERE table_schema = %s "
        "GROUP BY table_name, index_name",
        [schema],
    )
    for table, name, plain, kind, parts in rows:
        yield f"{table} key {name.lower()}", f"{'' if plain else 'UNIQUE '}{kind} ({parts})"


def _made_by_foreign_keys(server: Server, schema: str) -> set[str]:
    """Return the keys that are called like a foreign key, as the server calls those that it makes for one."""
    rows = server.sql(
        "SELECT table_name, constraint_name FROM information_schema.table_constraints "
        "WHERE table_schema = %s AND constraint_type = 'FOREIGN KEY'",
        [schema],
    )
    return {f"{table} key {name.lower()}" for table, name in rows}
