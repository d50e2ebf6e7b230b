r"""From a source's SHOW CREATE TABLE to the statement that creates the target's table.

The source's text is never sent as it is. It is parsed into a value, every part of which must be known (`copyable`), and
the statement is generated from the value. A comment, a function as default, a partition clause, a CHECK, a foreign key
or an engine's own option raises CannotCreateTarget, and a person creates the table. Only the following is changed:
- the table's name;
- AUTO_INCREMENT= and the statistics options are dropped (they mean nothing in a merged table; the server counts
  itself);
- what the target's family writes differently or lacks (`dialects`), which is reported;
- collations that the target's family lacks, by the tables below: the collation closest in equality of characters and in
  the treatment of trailing spaces. Each is reported, as ORDER BY and `=` may differ for rare characters;
- a character set without a collation gets its collation: the default differs between servers and decides equality.

With `strict`, DM's `collation_compatible: strict`, a missing collation raises an error instead."""

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
"""No replacement treats more characters as equal, so that two different rows of the source never become equal: trailing
spaces are significant in all of them. utf8mb4_unicode_ci, although closer, treats all characters beyond the BMP as
equal."""
COLLATIONS: Final[dict[tuple[Flavour, Flavour], dict[str, str]]] = {
    (Flavour.MYSQL, Flavour.MARIADB): MYSQL_TO_MARIADB,
    (Flavour.MARIADB, Flavour.MYSQL): MARIADB_TO_MYSQL,
    (Flavour.MYSQL, Flavour.TIDB): MYSQL_TO_TIDB,
    (Flavour.MARIADB, Flavour.TIDB): MARIADB_TO_TIDB,
}


class CannotCreateTarget(DmError):
    """The source's table has a feature that the target's table cannot be created with."""

    source: str
    target: str
    found: str

    code = "DM-7010"
    scope = Scope.DOWNSTREAM
    what = "the target table {target} does not exist and cannot be created like {source}, which has {found}."
    hint = "Create it by hand, with the same columns and keys, then start again. Nothing was changed."


@dataclass(frozen=True)
class NewTable:
    """A statement for the target. `notes`: differences from the source that a person may want to know."""

    name: TableName
    sql: str
    notes: tuple[str, ...] = ()
    keyless: bool = False
    """It has no PRIMARY KEY."""


@dataclass(frozen=True)
class NewSchema:
    """A schema for the target. `collation`: its default in the target's family; None: the target's own default.

    `strict`: the server rejects the statement if it lacks this collation.
    """

    name: str
    collation: str | None
    notes: tuple[str, ...] = ()
    strict: bool = False

    def sql(self) -> str:
        """Return the CREATE DATABASE statement; the collation's name begins with the charset."""
        plain = f"CREATE DATABASE IF NOT EXISTS {quote(self.name)}"
        if self.collation is None:
            return plain
        return f"{plain} CHARACTER SET {charset_of(self.collation)} COLLATE {self.collation}"


def charset_of(collation: str) -> str:
    """Return the charset with which a collation's name begins.

    >>> charset_of("utf8mb4_0900_ai_ci"), charset_of("binary")
    ('utf8mb4', 'binary')
    """
    return collation.partition("_")[0]


def create_schema_like(
    name: str, collation: str, *, source_flavour: Flavour, target_flavour: Flavour, strict: bool = False
) -> NewSchema:
    """Return a schema whose tables get the same default collation as the source's. `strict`: no replacement is used, so
    the server rejects a collation that it lacks.
    """
    if strict:
        return NewSchema(name, collation, strict=True)
    if target_flavour is Flavour.MARIADB and charset_of(collation) in MYSQL_ONLY_CHARSETS:
        return NewSchema(name, None, (f"the target has no {collation}; the schema has the target's default",))
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
    """Return the target's CREATE TABLE. `statement`: the source's own; `collation`: the source table's default.

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
    used = dict.fromkeys(name for name in (*(one.type.collation for one in columns), options["COLLATE"]) if name)
    if strict and (lacking := next((name for name in used if name.lower() in swaps), None)):
        raise CannotCreateTarget(str(source.name), str(target), not_there(lacking))
    notes += further + tuple(
        f"collation {name} becomes {swaps[name.lower()]}" for name in used if name.lower() in swaps
    )

    def swapped(name: str | None) -> str | None:
        return None if name is None else swaps.get(name.lower(), name)

    options["COLLATE"] = swaps.get(options["COLLATE"].lower(), options["COLLATE"])
    columns = [replace(one, type=replace(one.type, collation=swapped(one.type.collation))) for one in columns]
    inherited = any(column.charset and one.type.charset is None and one.type.collation is None
                    for one in columns for column in source.columns if column.name == one.name)  # fmt: skip
    of_columns = {one.name: one.type.collation for one in columns if one.type.collation is not None}
    for where, name in (*of_columns.items(), *[("its text columns", options["COLLATE"])] * inherited):
        if (found := lacks_collation(name, target_flavour)) is not None:
            raise CannotCreateTarget(str(source.name), str(target), f"{found} (of {where})")
    if lacks_collation(options["COLLATE"], target_flavour) is not None:  # no column uses it
        options |= {"CHARSET": "utf8mb4", "COLLATE": "utf8mb4_bin"}
    made = replace(table, columns=tuple(columns), options=tuple(options.items()))
    keyless = not any(key.primary for key in source.unique_keys)
    sql = f"CREATE TABLE {target.quoted()} {definition_sql(made)}"
    return NewTable(target, sql, tuple(dict.fromkeys(notes)), keyless)


def lacks_collation(collation: str, target: Flavour) -> str | None:
    """Return the description of a collation that the target's family lacks; None if the family has it.

    >>> lacks_collation("utf8mb4_bin", Flavour.TIDB), lacks_collation("latin1_swedish_ci", Flavour.MYSQL)
    (None, None)
    """
    known = CAPABILITIES[target].collations
    if known is None or collation.lower() in known:
        return None
    rather = ", ".join(sorted(name for name in known if name.startswith("utf8mb4")))
    return f"the collation {collation}, which {CAPABILITIES[target].title} lacks: choose one of {rather}"


def not_there(collation: str) -> str:
    """Return the description of a collation for which `collation_compatible: strict` forbids a replacement."""
    return f"the collation {collation}, which the target's family does not have (collation_compatible is strict)"


def _definition(statement: str, schema: str) -> TableDefinition:
    try:
        for piece in pieces(statement, 0):
            if piece.kind is TokenKind.COMMENT:
                raise NotCopyable(f"the comment {piece.raw}")
        created = parse(statement, 0, schema)
    except Unreadable as error:
        raise NotCopyable(f"a text that cannot be parsed: {error}") from None
    if not isinstance(created, CreateTable) or created.if_not_exists or created.or_replace:
        raise NotCopyable(f"the statement {statement[:40]!r}…")
    return created.definition


def _with_collation(column: ColumnDefinition, source: Table) -> ColumnDefinition:
    """Return the column with an explicit collation if it names only a character set."""
    if column.type.charset is None or column.type.collation is not None:
        return column
    known = next((one.collation for one in source.columns if one.name == column.name), None)
    return replace(column, type=replace(column.type, collation=known))
