"""A statement and the same statement rewritten have the same result on servers.

Each statement of the unit tests' table runs twice in schemas that begin with the same tables, once as its text and once
as `statement_sql` writes its value, under its sql_mode. Afterwards SHOW CREATE of all that is there is compared.
"""

import re
from collections.abc import Iterable

import pymysql
import pytest

from airflow_provider_dm.engine.ddl.errors import NotWritten
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import (
    AddColumn,
    AddConstraint,
    After,
    AlterTable,
    ChangeColumn,
    CheckConstraint,
    ColumnDefinition,
    CreateIndex,
    CreateTable,
    DropColumn,
    DropConstraint,
    DropForeignKey,
    DropIndex,
    DropKey,
    DropTables,
    EnforceCheck,
    ForeignKey,
    KeyDefinition,
    RenameColumn,
    RenameKey,
    RenameTables,
    SetColumnVisibility,
    SetDefault,
    SetKeyVisibility,
    Statement,
    TruncateTable,
)
from airflow_provider_dm.engine.ddl.write import statement_sql
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from testbed import Server
from tests.integration.binlog.reading import FreshSchema
from tests.unit.ddl.table_of_statements import MODES, entries

NOT_TO_RUN = ("START TRANSACTION", "rds_heartbeat", "/*!99999")
"""What only a server writes, a table of the server's own, and what no server runs."""
ENTRIES = [one for one in entries() if one.readable and not any(text in one.sql for text in NOT_TO_RUN)]
PARTS = 4
TEXT_KINDS = ("FULLTEXT", "lower(", "(10)", "->", "concat")


@pytest.fixture
def schemas(source: Server, fresh_schema: FreshSchema) -> dict[str, str]:
    """Fresh names for the schemas that the statements name."""
    first = fresh_schema(source)
    return {"shop": first, "other": f"{first}_o", "d": f"{first}_d", "t": f"{first}_t", "db1": f"{first}_1"}


def in_schemas(sql: str, names: dict[str, str]) -> str:
    for old, new in names.items():
        sql = re.sub(rf"""(?<![\w.])([`"]?){old}\1(\s?)\.""", rf"\1{new}\1\2.", sql)
        head = r"((?:DATABASE|SCHEMA)\b(?:[^`]*EXISTS(?:\*/)?)?\s+)"
        sql = re.sub(rf"{head}(`?){old}\2(?=\s|$)", rf"\1\2{new}\2", sql)
    return sql


# The tables that a statement needs


def needed(statement: Statement) -> list[str]:
    """CREATE TABLEs for all that the statement takes for given."""
    match statement:
        case AlterTable(table, specs):
            return [*_parents(specs), _table(table, *_of_specs(specs, " ".join(map(repr, specs))))]
        case CreateIndex(table, key):
            return [_table(table, {part.column for part in key.parts if part.column} | _named(key), [], repr(key))]
        case DropIndex(table, name):
            return [_table(table, {"a"}, [_key(name)], "")]
        case TruncateTable(table):
            return [_table(table, {"a"}, [], "")]
        case DropTables(tables):
            return [_table(table, {"a"}, [], "") for table in tables]
        case RenameTables(pairs):
            made = {new for _, new in pairs}
            return [_table(old, {"a"}, [], "") for old, _ in pairs if old not in made or pairs[0][0] == old]
        case CreateTable(_, definition):
            references = [one.references for one in definition.constraints if isinstance(one, ForeignKey)]
            references += [column.references for column in definition.columns if column.references]
            return [
                _table(one.table, {*one.columns, "id"}, [f"UNIQUE ({quote(name)})" for name in one.columns], "")
                for one in references
            ]
        case _:
            return []


def _of_specs(specs: Iterable[object], text: str) -> tuple[set[str], list[str], str]:
    columns: set[str] = {"id"}
    added: set[str] = set()
    others: list[str] = []
    for spec in specs:
        match spec:
            case AddColumn(column, place):
                added.add(column.name)
                columns |= {place.column} if isinstance(place, After) and place.column not in added else set()
                columns |= {"price", "amount"} if column.generated else set()
            case DropColumn(name) | RenameColumn(name) | SetDefault(name) | SetColumnVisibility(name):
                columns.add(name)
            case ChangeColumn(name, column, place):
                columns.add(name)
                added |= {column.name} - {name}
                columns |= {place.column} if isinstance(place, After) else set()
            case DropKey(name):
                others.append("PRIMARY KEY (id)" if name == "PRIMARY" else _key(name))
            case RenameKey(name) | SetKeyVisibility(name):
                others.append(_key(name))
            case DropForeignKey(name):
                others.append(f"CONSTRAINT {quote(name)} FOREIGN KEY (id) REFERENCES fk_parent (id)")
            case DropConstraint(name) | EnforceCheck(name):
                others.append(f"CONSTRAINT {quote(name)} CHECK (id > -9)")
            case AddConstraint(KeyDefinition() as key):
                columns |= ({part.column for part in key.parts if part.column} | _named(key)) - added
            case AddConstraint(ForeignKey(names)):
                columns |= set(names) - added
            case AddConstraint(CheckConstraint()):
                columns |= {"a"} - added
            case _:
                columns |= {"a"} - added
    return columns, others, text


def _named(key: KeyDefinition) -> set[str]:
    return {name for part in key.parts if part.expression for name in re.findall(r"\b[abcj]\b", part.expression)}


def _parents(specs: Iterable[object]) -> list[str]:
    found = ["CREATE TABLE IF NOT EXISTS fk_parent (id int PRIMARY KEY)"]
    for spec in specs:
        match spec:
            case AddConstraint(ForeignKey(_, reference)) | AddColumn(ColumnDefinition(references=reference)) if (
                reference
            ):
                names = reference.columns or ("id",)
                found.append(_table(reference.table, set(names), [f"UNIQUE ({', '.join(map(quote, names))})"], ""))
    return found


def _key(name: str) -> str:
    return "PRIMARY KEY (id)" if name == "PRIMARY" else f"KEY {quote(name)} (id)"


def _table(table: TableName, columns: set[str], others: list[str], text: str) -> str:
    def kind(name: str) -> str:
        if name == "id":
            return "int NOT NULL"
        if name == "g":
            return "point NOT NULL"
        if name == "j":
            return "json"
        return "varchar(99)" if any(one in text for one in TEXT_KINDS) or "prefix=" in text else "int"

    lines = [f"{quote(name)} {kind(name)}" for name in sorted({*columns, "id"}, key=str.lower)]
    partitioned = ""
    if ("PARTITION" in text.upper() and "PARTITION BY" not in text) or "REMOVE" in text:
        lines = ["a int NOT NULL", "id int NOT NULL"]
        how = "(PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN (9))"
        partitioned = " PARTITION BY RANGE (a) " + how
        if "COALESCE" in text or "PARTITIONS 4" in text:
            partitioned = " PARTITION BY HASH (a) PARTITIONS 4"
        if "REORGANIZE" in text:
            partitioned = " PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (2))"
    return f"CREATE TABLE IF NOT EXISTS {table.quoted()} ({', '.join([*lines, *others])}){partitioned}"


# What comes of it


def outcome(server: Server, names: dict[str, str], setup: list[str], sql: str, modes: str) -> list[str] | None:
    """All definitions after the statement ran in fresh schemas that have its tables; None if it is refused."""
    texts = " ".join([sql, *setup])
    used = [names["shop"], *(name for name in list(names.values())[1:] if re.search(rf"{name}\b", texts))]
    for name in used:
        new = name == names["d"] and sql.upper().startswith("CREATE ")
        server.sql(f"DROP DATABASE IF EXISTS `{name}`" + ("" if new else f"; CREATE DATABASE `{name}`"))
    with server.connect() as connection, connection.cursor() as cursor:
        try:
            cursor.execute(f"USE `{names['shop']}`")
            cursor.execute("SET SESSION foreign_key_checks = 0")
            for one in setup:
                cursor.execute(one)
            cursor.execute("SET SESSION sql_mode = %s", [modes])
            cursor.execute(sql)
        except pymysql.Error:
            return None
    return definitions(server, used)


def definitions(server: Server, schemas: Iterable[str]) -> list[str]:
    found = []
    with server.connect(use_unicode=False) as connection, connection.cursor() as cursor:

        def shown(sql: str) -> list[str]:
            try:
                cursor.execute(sql)
                return [str(row[1 if sql.startswith("SHOW CREATE") else 0]) for row in cursor.fetchall()]
            except pymysql.Error as error:
                return [str(error)]

        for schema in schemas:
            found += shown(f"SHOW CREATE DATABASE `{schema}`")
            cursor.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = %s ORDER BY 1", [schema]
            )
            for (table,) in cursor.fetchall():
                found += shown(f"SHOW CREATE TABLE {quote(schema)}.{quote(table.decode())}")
    return found


@pytest.mark.parametrize("part", range(PARTS))
def test_servers_execute_a_rewritten_statement_equally(part: int, source: Server, schemas: dict[str, str]) -> None:
    flavour = Flavour(source.flavour)
    compared = 0
    for entry in ENTRIES[part::PARTS]:
        sql = in_schemas(entry.sql, schemas)
        statement = parse(sql, entry.sql_mode, schemas["shop"])
        try:
            written = statement_sql(statement, entry.sql_mode, flavour)
        except NotWritten:
            continue
        if not {"both", source.flavour} & set(re.findall(r"\w+", entry.head)):
            continue  # a server reads the other flavour's executable comments in another way
        modes = ",".join(name for name, bit in MODES.items() if entry.sql_mode & bit)
        setup = needed(statement)
        as_it_was = outcome(source, schemas, setup, sql, modes)
        if as_it_was is None:
            continue  # it needs a plug-in, another engine, or tables that are not made here
        assert outcome(source, schemas, setup, written, modes) == as_it_was, (sql, written)
        compared += 1
    assert compared > 200 / PARTS
