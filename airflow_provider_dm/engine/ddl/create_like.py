r"""From a source's SHOW CREATE TABLE to the statement that creates the target's table.

Upstream text is never sent as it is. It becomes a value, all of which has to be known (`copyable`), and the statement
is written anew from that: a comment, a function default, a partition clause, a CHECK, a foreign key or an engine's odd
option stops with CannotCreateTarget, and a person creates the table. What is changed on the way, and only that:
- the table's name;
- AUTO_INCREMENT= and the statistics options are dropped (in a merge they mean nothing, the server counts on by itself);
- what the target's family writes in another way or does not have (`dialects`), which is reported;
- collations that the target's family does not have, by the two tables below: the nearest in what it takes for equal and
  in how it treats trailing spaces. Each is reported, as ORDER BY and `=` may answer differently for rare characters.
- a character set without its collation gets it: the default differs between servers, and decides about equality.

`strict` is DM's `collation_compatible: strict`: a collation that would be another one stops instead."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_dm.engine.ddl.copyable import KEPT_OPTIONS, NotCopyable, check_copyable, without_storing
from airflow_provider_dm.engine.ddl.dialects import adapted
from airflow_provider_dm.engine.ddl.lexer import TokenKind, Unreadable, pieces
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import ColumnDefinition, CreateTable, TableDefinition
from airflow_provider_dm.engine.ddl.write import definition_sql
from airflow_provider_dm.engine.errors import DmError, Scope
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.schema.strings import MYSQL_ONLY_CHARSETS

MYSQL_TO_MARIADB: Final = {
    "utf8mb4_0900_ai_ci": "utf8mb4_unicode_520_nopad_ci",
    "utf8mb4_0900_as_ci": "utf8mb4_uca1400_nopad_as_ci",
    "utf8mb4_0900_as_cs": "utf8mb4_uca1400_nopad_as_cs",
    "utf8mb4_0900_bin": "utf8mb4_nopad_bin",
}
MARIADB_TO_MYSQL: Final = {
    "utf8mb4_uca1400_ai_ci": "utf8mb4_unicode_520_ci",
    "utf8mb4_uca1400_nopad_ai_ci": "utf8mb4_0900_ai_ci",
    "utf8mb4_uca1400_nopad_as_ci": "utf8mb4_0900_as_ci",
    "utf8mb4_uca1400_nopad_as_cs": "utf8mb4_0900_as_cs",
    "utf8mb4_unicode_520_nopad_ci": "utf8mb4_0900_ai_ci",
    "utf8mb4_nopad_bin": "utf8mb4_0900_bin",
}
_UNICODE: Final = "utf8mb4_0900_ai_ci"
MYSQL_TO_TIDB: Final = {"utf8mb4_unicode_520_ci": _UNICODE, "utf8mb4_0900_as_cs": "utf8mb4_0900_bin"}
MARIADB_TO_TIDB: Final = {
    "utf8mb4_uca1400_ai_ci": _UNICODE,
    "utf8mb4_uca1400_nopad_ai_ci": _UNICODE,
    "utf8mb4_uca1400_nopad_as_cs": "utf8mb4_0900_bin",
    "utf8mb4_unicode_520_ci": _UNICODE,
    "utf8mb4_unicode_520_nopad_ci": _UNICODE,
    "utf8mb4_nopad_bin": "utf8mb4_0900_bin",
}
"""Never one that takes more for equal, so that no two rows of the source are one: trailing spaces count in all of them,
and utf8mb4_unicode_ci, which would be nearer, takes all characters beyond the BMP for one."""
COLLATIONS: Final[dict[tuple[Flavour, Flavour], dict[str, str]]] = {
    (Flavour.MYSQL, Flavour.MARIADB): MYSQL_TO_MARIADB,
    (Flavour.MARIADB, Flavour.MYSQL): MARIADB_TO_MYSQL,
    (Flavour.MYSQL, Flavour.TIDB): MYSQL_TO_TIDB,
    (Flavour.MARIADB, Flavour.TIDB): MARIADB_TO_TIDB,
}


class CannotCreateTarget(DmError):
    """The source's table has something that the target's table cannot be created with."""

    source: str
    target: str
    found: str

    code = "DM-7010"
    scope = Scope.DOWNSTREAM
    what = "the target table {target} does not exist and is not created after {source}, which has {found}."
    hint = "Create it by hand, with the same columns and keys, then start again. Nothing was changed."


@dataclass(frozen=True)
class NewTable:
    """A statement for the target. `notes`: what differs from the source and a person may want to know."""

    name: TableName
    sql: str
    notes: tuple[str, ...] = ()
    keyless: bool = False
    """It has no PRIMARY KEY."""


@dataclass(frozen=True)
class NewSchema:
    """A schema for the target. `collation`: its default, as the target's family has it; None: the target's own.

    `strict`: this collation or none.
    """

    name: str
    collation: str | None
    notes: tuple[str, ...] = ()
    strict: bool = False

    def sql(self) -> str:
        """Return the CREATE DATABASE statement; the charset is what the collation's name begins with."""
        plain = f"CREATE DATABASE IF NOT EXISTS {quote(self.name)}"
        if self.collation is None:
            return plain
        return f"{plain} CHARACTER SET {charset_of(self.collation)} COLLATE {self.collation}"


def charset_of(collation: str) -> str:
    """Return the charset that a collation's name begins with.

    >>> charset_of("utf8mb4_0900_ai_ci"), charset_of("binary")
    ('utf8mb4', 'binary')
    """
    return collation.partition("_")[0]


def create_schema_like(
    name: str, collation: str, *, source_flavour: Flavour, target_flavour: Flavour, strict: bool = False
) -> NewSchema:
    """Return a schema whose tables get, if they do not say otherwise, what the source's would get. `strict`: the server
    is to refuse what it does not have.
    """
    if strict:
        return NewSchema(name, collation, strict=True)
    if target_flavour is Flavour.MARIADB and charset_of(collation) in MYSQL_ONLY_CHARSETS:
        return NewSchema(name, None, (f"there is no {collation}; its default is the target's own",))
    becomes = COLLATIONS.get((source_flavour, target_flavour), {}).get(collation.lower(), collation)
    return NewSchema(name, becomes, () if becomes == collation else (f"collation {collation} becomes {becomes}",))


def create_table_like(
    statement: str,
    source: Table,
    target: TableName,
    *,
    source_flavour: Flavour,
    target_flavour: Flavour,
    collation: str,
    strict: bool = False,
) -> NewTable:
    """Return the target's CREATE TABLE. `statement` is the source's own; `collation` the source table's default.

    Raises CannotCreateTarget.
    """
    try:
        table, notes = without_storing(_definition(statement, source.name.schema))
        check_copyable(table)
        table, further = adapted(table, source_flavour, target_flavour)
    except NotCopyable as error:
        raise CannotCreateTarget(str(source.name), str(target), str(error)) from None
    swaps = COLLATIONS.get((source_flavour, target_flavour), {})
    options = {name: value for name, value in table.options if name in KEPT_OPTIONS}
    options.setdefault("COLLATE", collation)
    columns = [_with_collation(column, source) for column in table.columns]
    said = dict.fromkeys(name for name in (*(one.type.collation for one in columns), options["COLLATE"]) if name)
    if strict and (lacking := next((name for name in said if name.lower() in swaps), None)):
        raise CannotCreateTarget(str(source.name), str(target), not_there(lacking))
    notes += further + tuple(
        f"collation {name} becomes {swaps[name.lower()]}" for name in said if name.lower() in swaps
    )

    def swapped(name: str | None) -> str | None:
        return None if name is None else swaps.get(name.lower(), name)

    options["COLLATE"] = swaps.get(options["COLLATE"].lower(), options["COLLATE"])
    columns = [replace(one, type=replace(one.type, collation=swapped(one.type.collation))) for one in columns]
    inherited = any(column.charset and one.type.charset is None and one.type.collation is None
                    for one in columns for column in source.columns if column.name == one.name)  # fmt: skip
    used = {one.name: one.type.collation for one in columns if one.type.collation is not None}
    for where, name in (*used.items(), *[("its text columns", options["COLLATE"])] * inherited):
        if (found := lacks_collation(name, target_flavour)) is not None:
            raise CannotCreateTarget(str(source.name), str(target), f"{found} (of {where})")
    if lacks_collation(options["COLLATE"], target_flavour) is not None:  # no column has it
        options |= {"CHARSET": "utf8mb4", "COLLATE": "utf8mb4_bin"}
    made = replace(table, columns=tuple(columns), options=tuple(options.items()))
    keyless = not any(key.primary for key in source.unique_keys)
    sql = f"CREATE TABLE {target.quoted()} {definition_sql(made)}"
    return NewTable(target, sql, tuple(dict.fromkeys(notes)), keyless)


def lacks_collation(collation: str, target: Flavour) -> str | None:
    """Return what is found where the target's family lacks a collation; None where it has it.

    >>> lacks_collation("utf8mb4_bin", Flavour.TIDB), lacks_collation("latin1_swedish_ci", Flavour.MYSQL)
    (None, None)
    """
    known = CAPABILITIES[target].collations
    if known is None or collation.lower() in known:
        return None
    rather = ", ".join(sorted(name for name in known if name.startswith("utf8mb4")))
    return f"the collation {collation}, which {CAPABILITIES[target].title} lacks: choose one of {rather}"


def not_there(collation: str) -> str:
    """Return what is found where `collation_compatible: strict` forbids the nearest collation."""
    return f"the collation {collation}, which the target's family does not have (collation_compatible is strict)"


def _definition(statement: str, schema: str) -> TableDefinition:
    try:
        for piece in pieces(statement, 0):
            if piece.kind is TokenKind.COMMENT:
                raise NotCopyable(f"the comment {piece.raw}")
        created = parse(statement, 0, schema)
    except Unreadable as error:
        raise NotCopyable(f"something that is not understood: {error}") from None
    if not isinstance(created, CreateTable) or created.if_not_exists or created.or_replace:
        raise NotCopyable(f"the statement {statement[:40]!r}…")
    return created.definition


def _with_collation(column: ColumnDefinition, source: Table) -> ColumnDefinition:
    """Return the column with its collation said, where only a character set is."""
    if column.type.charset is None or column.type.collation is not None:
        return column
    known = next((one.collation for one in source.columns if one.name == column.name), None)
    return replace(column, type=replace(column.type, collation=known))
