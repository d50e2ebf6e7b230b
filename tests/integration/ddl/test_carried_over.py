"""Statements run at a source, and what `for_target` makes of them at a target: there are the same tables, mapped.

The source's tables are in one schema, the target's in another, and `old_…` is called `new_…` there. The servers have
other defaults than each other, and the target's schema has latin1: what a statement leaves open shows.
"""

import re
from dataclasses import replace
from typing import Any

import pymysql
import pytest

from airflow_provider_dm.engine.ddl.dialects import COLLATIONS
from airflow_provider_dm.engine.ddl.errors import NotCopyable
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import ColumnDefinition, CreateTable
from airflow_provider_dm.engine.ddl.target_definitions import ConversionContext
from airflow_provider_dm.engine.ddl.target_statements import for_target
from airflow_provider_dm.engine.ddl.write import statement_sql
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.catalogue import create_statement, read_tables
from airflow_provider_dm.engine.schema.errors import TableNotFound
from testbed import Server
from tests.integration.binlog.reading import session
from tests.unit.ddl.table_of_statements import MODES

SHARED = r"""
CREATE TABLE old_a (id int unsigned PRIMARY KEY AUTO_INCREMENT, c varchar(20) NOT NULL DEFAULT 'x', KEY (c(5)))
CREATE TABLE b (id bigint NOT NULL, t timestamp NULL, d decimal(9,2) DEFAULT -1.5, e enum('a','b''c') CHARSET latin1, UNIQUE u (id, d DESC)) AUTO_INCREMENT=9 DEFAULT CHARSET=latin1 COMMENT='a ''b'''
CREATE TABLE IF NOT EXISTS old_c (id bigint NOT NULL, t timestamp NULL)
ALTER TABLE old_a ADD n tinytext, ADD m text(70) CHARACTER SET ascii AFTER id, ADD f double FIRST, ALGORITHM=COPY
ALTER TABLE old_a ADD j json, ADD bl blob(70), ADD at datetime(3) DEFAULT now(3) ON UPDATE now(3), ADD (x int, y int)
[ANSI_QUOTES,NO_BACKSLASH_ESCAPES] ALTER TABLE "old_a" ADD "q" varchar(9) DEFAULT '\' COMMENT 'it''s "\"'
ALTER TABLE old_a ADD r varchar(9) DEFAULT "say 'hi'" COMMENT 'back\\slash\n', ADD UNIQUE (r)
ALTER TABLE old_a CHANGE c c2 varchar(40) CHARACTER SET latin1 NOT NULL DEFAULT 'y', MODIFY n longtext, DROP KEY c
ALTER TABLE old_a ADD KEY k (x, y), ADD FULLTEXT ft (c2), ALTER x SET DEFAULT 5, ALTER c2 DROP DEFAULT
ALTER TABLE old_a DROP KEY k, DROP x, ADD KEY l (y), COMMENT 'new' ROW_FORMAT=DYNAMIC
ALTER TABLE old_a RENAME KEY l TO l2, RENAME COLUMN y TO z
ALTER TABLE b CONVERT TO CHARACTER SET utf8mb4
ALTER TABLE b DEFAULT CHARSET latin1, DROP KEY u, ADD PRIMARY KEY (id)
CREATE UNIQUE INDEX i USING BTREE ON b (t, d DESC) COMMENT 'x'
DROP INDEX i ON b
TRUNCATE TABLE old_c
RENAME TABLE b TO tmp, old_c TO b, tmp TO old_c
ALTER TABLE old_c RENAME TO old_d, ADD last int
CREATE TABLE ex_gone (a int)
CREATE TABLE gone (a int)
DROP TABLE gone, ex_gone
ALTER TABLE b ENGINE=InnoDB
CREATE TABLE child (id int PRIMARY KEY, p int unsigned, CONSTRAINT f FOREIGN KEY (p) REFERENCES old_a (id), CONSTRAINT ch CHECK (p > id + 0))
CREATE TABLE parts (id int NOT NULL, c char(3)) /*!50100 PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5)) */
ALTER TABLE parts ADD PARTITION (PARTITION p1 VALUES LESS THAN (9), PARTITION p2 VALUES LESS THAN MAXVALUE)
ALTER TABLE parts DROP PARTITION p0
[PIPES_AS_CONCAT] CREATE TABLE gen (a varchar(9), g varchar(30) AS (a || 'x') STORED, h int AS (length(a)) VIRTUAL)
"""  # noqa: E501
OWN = {
    "mysql": """
ALTER TABLE old_a ADD inv int INVISIBLE, ADD KEY hid (z) INVISIBLE, ADD p point NOT NULL SRID 4326
ALTER TABLE old_a ALTER INDEX hid VISIBLE
CREATE TABLE own (z int)
ALTER TABLE own ADD CHECK (z < 9) NOT ENFORCED, ADD UNIQUE fx ((z + 1)), ADD de int DEFAULT (1 + 2)
ALTER TABLE own ALTER COLUMN z SET INVISIBLE, DROP CHECK own_chk_1
""",
    "mariadb": """
ALTER TABLE IF EXISTS old_a ADD COLUMN IF NOT EXISTS inv int INVISIBLE, DROP COLUMN IF EXISTS nothing
ALTER TABLE old_a ADD KEY hid (z) IGNORED, ADD co blob COMPRESSED
ALTER TABLE old_a NOWAIT ALTER INDEX hid NOT IGNORED
DROP TABLE b
CREATE TABLE b (a int, u varchar(9) COLLATE utf8mb4_nopad_bin)
CREATE INDEX IF NOT EXISTS i ON b (a)
DROP INDEX IF EXISTS i2 ON b
RENAME TABLE b TO old_z
""",
}
MISSING = {1091, 1146}
"""Answers to a change that was conditional, which the target's SQL cannot express."""
OF_ONE_FAMILY = {"parts", "gen", "own"}
"""Tables with partitions, or with expressions that rows depend on."""


def allowed(table: TableName) -> bool:
    return not table.table.startswith("ex_")


def routed(table: TableName) -> TableName:
    return TableName(table.schema + "_to", table.table.replace("old_", "new_"))


class Source:
    """The definition of a table after the statement, as the schema tracker returns it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.new_names: dict[TableName, TableName] = {}

    def resolve(self, table: TableName, name: str) -> ColumnDefinition | None:
        table = self.new_names.get(table, table)
        try:
            known = read_tables(self.connection, [table])[table].column(name)
        except TableNotFound:
            return None
        created = parse(create_statement(self.connection, table), 0, table.schema)
        assert isinstance(created, CreateTable)
        (shown,) = [column for column in created.definition.columns if column.name == name]
        kind = replace(shown.type, charset=known.charset, collation=known.collation)
        return replace(shown, type=kind, nullable=known.nullable)

    def collation(self, table: TableName) -> str | None:
        table = self.new_names.get(table, table)
        asked = "SELECT table_collation FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
        rows = query(self.connection, asked, tuple(table))
        return text(rows[0][0]) if rows else None


def statements(flavour: str) -> list[tuple[str, str]]:
    """(sql_mode, statement) of each line."""
    lines = [line for line in (SHARED + OWN[flavour]).splitlines() if line]
    found = [re.fullmatch(r"(?:\[(.*?)\] )?(.*)", line) for line in lines]
    return [(match[1] or "", match[2]) for match in found if match is not None]


@pytest.mark.every_pair
def test_the_target_has_the_mapped_tables(source: Server, target: Server, schema: str) -> None:
    target.sql(f"CREATE DATABASE `{schema}_to` CHARACTER SET latin1")
    flavours = Flavour(source.flavour), Flavour(target.flavour)
    upstream, downstream, plain = session(source), session(target), source.connect(autocommit=True)
    known = Source(upstream)
    refused: set[str] = set()
    query(downstream, "SET SESSION foreign_key_checks = 0")
    with plain, plain.cursor() as cursor:
        cursor.execute(f"USE `{schema}`")
        for modes, sql in statements(source.flavour):
            cursor.execute("SET SESSION sql_mode = %s", [modes])
            cursor.execute(sql)
            sql_mode = sum(MODES[mode] for mode in modes.split(",") if mode)
            statement = parse(sql, sql_mode, schema)
            if " RENAME TO " in sql:
                known.new_names[statement.tables[0]] = statement.tables[1]
            way = ConversionContext(
                sql_mode=sql_mode,
                source=flavours[0],
                target_can=CAPABILITIES[flavours[1]],
                route=routed,
                allows=allowed,
                resolve=known.resolve,
                collation=known.collation,
            )
            try:
                found = for_target(statement, way)
            except NotCopyable:
                if flavours[0] is flavours[1]:
                    raise
                refused |= {table.table for table in statement.tables}
                continue
            query(downstream, "SET SESSION sql_mode = %s", (modes,))
            for one in found.statements:
                run(downstream, statement_sql(one, sql_mode, flavours[1]), conditional="EXISTS" in sql or bool(refused))
    there = tables(downstream, f"{schema}_to", flavours[1])
    expected = mapped(tables(upstream, schema, flavours[0]), flavours)
    assert refused == (set() if flavours[0] is flavours[1] else refused & OF_ONE_FAMILY)
    for name in (expected.keys() | there.keys()) - refused:
        for what in ("table", "columns", "keys", "constraints"):
            assert there[name].get(what) == expected[name].get(what), (name, what)
    assert len(there.keys() - refused) >= 4
    upstream.close()
    downstream.close()


def run(connection: Connection, sql: str, *, conditional: bool) -> None:
    try:
        query(connection, sql)
    except pymysql.MySQLError as error:
        if not conditional or error.args[0] not in MISSING:
            raise


# What there is, and what there should be

Found = dict[str, dict[str, list[tuple[Any, ...]]]]
COLUMNS = (
    "SELECT table_name, column_name, column_type, is_nullable, column_default, character_set_name, collation_name, "
    "extra, column_comment, generation_expression FROM information_schema.columns WHERE table_schema = %s "
    "ORDER BY table_name, ordinal_position"
)
KEYS = (
    "SELECT table_name, index_name, seq_in_index, column_name, sub_part, collation, non_unique, index_type, "
    "index_comment FROM information_schema.statistics WHERE table_schema = %s ORDER BY 1, 2, 3"
)
TABLES = (
    "SELECT table_name, table_collation, table_comment, create_options FROM information_schema.tables "
    "WHERE table_schema = %s"
)
FOREIGN = (
    "SELECT table_name, constraint_name, constraint_type FROM information_schema.table_constraints "
    "WHERE table_schema = %s AND constraint_type IN ('FOREIGN KEY', 'CHECK') ORDER BY 1, 2"
)


def tables(connection: Connection, schema: str, flavour: Flavour) -> Found:
    found: Found = {}
    for what, question in {"columns": COLUMNS, "keys": KEYS, "table": TABLES, "constraints": FOREIGN}.items():
        for row in query(connection, question, (schema,)):
            name, *cells = [text(cell) if isinstance(cell, bytes) else cell for cell in row]
            if what == "columns":
                cells[1] = re.sub(r"^(\w*int)\(\d+\)", r"\1", cells[1])
                cells[3] = default(cells[3], flavour)
                cells[6] = cells[6].replace("DEFAULT_GENERATED", "").strip().lower().replace("()", "")
                cells[8] = cells[8] or None
            found.setdefault(name, {}).setdefault(what, []).append(tuple(cells))
    return found


def default(shown: str | None, flavour: Flavour) -> str | None:
    """A default as MySQL shows it; MariaDB shows it as it would be written."""
    if shown is None or (flavour is Flavour.MARIADB and shown == "NULL"):
        return None
    if flavour is Flavour.MARIADB and shown.startswith("'"):
        return re.sub(r"\\(.)|''", lambda match: match[1] or "'", shown[1:-1])
    return shown.lower() if shown.lower().startswith("current_timestamp") else shown


def mapped(found: Found, way: tuple[Flavour, Flavour]) -> Found:
    """The tables that the target should have, as its server shows them."""
    result: Found = {}
    for name, parts in found.items():
        if name.startswith("ex_"):
            continue
        parts = {what: [tuple(_swapped(cell, way) for cell in row) for row in rows] for what, rows in parts.items()}
        if way[0] is not way[1]:
            parts["keys"] = [row for row in parts.get("keys", []) if row[0] != "f"]  # the foreign key's, left out
            parts.pop("constraints", None)
            parts["columns"] = [_of_other_family(row) for row in parts["columns"]]
            parts = {what: rows for what, rows in parts.items() if rows}
        result[name.replace("old_", "new_")] = parts
    return result


def _swapped(cell: Any, way: tuple[Flavour, Flavour]) -> Any:
    return COLLATIONS.get(way, {}).get(cell, cell) if isinstance(cell, str) else cell


def _of_other_family(row: tuple[Any, ...]) -> tuple[Any, ...]:
    if row[1] == "json":
        return (row[0], "longtext", row[2], row[3], "utf8mb4", "utf8mb4_bin", *row[6:])
    return (row[0], row[1].replace(" /*M!100301 COMPRESSED*/", ""), *row[2:])
