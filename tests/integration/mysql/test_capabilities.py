"""The table of capabilities against real servers: every fact that a few statements show."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final

import pymysql
import pytest

from airflow_provider_dm.engine.mysql.capabilities import Capabilities
from airflow_provider_dm.engine.mysql.connection import Connection, connected, query, server_info, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Flavour, Secret
from testbed import Server
from tests.conftest import FreshSchema

COLUMN: Final = "FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 't'"
KEY: Final = "CREATE TABLE t (a VARCHAR(9), b INT, KEY k (a, b))"


@dataclass(frozen=True)
class Session:
    """A session as the engine has it, in an empty schema. Each call begins without tables."""

    connection: Connection
    can: Capabilities

    def rows(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last statement."""
        query(self.connection, "DROP TABLE IF EXISTS t, p")
        return [query(self.connection, statement) for statement in statements][-1]

    def takes(self, *statements: str) -> bool:
        try:
            self.rows(*statements)
        except pymysql.err.MySQLError:
            return False
        return True

    def cell(self, *statements: str) -> str:
        """The first cell of the last statement; empty if a statement is refused."""
        try:
            return text(self.rows(*statements)[0][0])
        except pymysql.err.MySQLError:
            return ""

    def shows(self, definition: str, word: str) -> bool:
        return word in text(self.rows(f"CREATE TABLE t ({definition})", "SHOW CREATE TABLE t")[0][1])


def _keeps_checks(on: Session) -> bool:
    if on.can.checks_need:
        on.rows(f"SET GLOBAL {on.can.checks_need} = ON")
    try:
        return on.shows("a INT CHECK (a > 0)", "CHECK")
    finally:
        if on.can.checks_need:
            on.rows(f"SET GLOBAL {on.can.checks_need} = OFF")


def _key_visibility(on: Session) -> tuple[str, str] | None:
    pairs = [("VISIBLE", "INVISIBLE"), ("NOT IGNORED", "IGNORED")]
    found = [pair for pair in pairs if on.takes(KEY, *(f"ALTER TABLE t ALTER INDEX k {word}" for word in pair))]
    return found[0] if found else None


def _collations(on: Session) -> frozenset[str] | None:
    found = {text(row[0]) for row in on.rows("SHOW COLLATION")}
    return on.can.collations and frozenset(found | {name.replace("utf8_", "utf8mb3_") for name in found})


def _table_numbers(on: Session) -> str:
    views = ("innodb_tables", "innodb_sys_tables") if on.can.flavour is Flavour.MYSQL else ()
    return next((view for view in views if on.takes(f"SELECT table_id FROM information_schema.{view} LIMIT 1")), "")


PROBES: Final[dict[str, Callable[[Session], object]]] = {
    "isolation_is_tx": lambda on: not on.rows("SHOW VARIABLES LIKE 'transaction_isolation'"),
    "utf8mb4_default": lambda on: on.cell(
        "SELECT default_collate_name FROM information_schema.character_sets WHERE character_set_name = 'utf8mb4'"
    ),
    "utf8mb3_charset": lambda on: on.cell(
        "CREATE TABLE t (a TEXT CHARACTER SET utf8mb3)", f"SELECT character_set_name {COLUMN}"
    ),
    "utf8mb3_collations": lambda on: on.cell(
        "CREATE TABLE t (a TEXT CHARACTER SET utf8mb3)", f"SELECT SUBSTRING_INDEX(collation_name, '_', 1) {COLUMN}"
    ),
    "shows_widths": lambda on: on.shows("a INT", "int(11)"),
    "shows_geomcollection": lambda on: (
        on.cell("CREATE TABLE t (a GEOMETRYCOLLECTION)", f"SELECT data_type {COLUMN}") == "geomcollection"
    ),
    "table_numbers": _table_numbers,
    "row_alias": lambda on: on.takes(
        "CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (1) AS n ON DUPLICATE KEY UPDATE a = n.a"
    ),
    "json_keeps_decimals": lambda on: on.cell("SELECT CAST(CAST('1.50' AS DECIMAL(9, 2)) AS JSON)") == "1.50",
    "collations": _collations,
    "raw_types": lambda on: on.takes("CREATE TABLE t (a GEOMETRY)"),
    "gb18030": lambda on: on.takes("CREATE TABLE t (a TEXT CHARACTER SET gb18030)"),
    "alters_columns_of_keys": lambda on: on.takes(KEY, "ALTER TABLE t DROP COLUMN b"),
    "shrinks_unique_keys": lambda on: on.takes(
        "CREATE TABLE t (a INT, b INT, UNIQUE KEY k (a, b))", "ALTER TABLE t DROP COLUMN b"
    ),
    "cuts_keys": lambda on: on.takes("CREATE TABLE t (a INT, KEY (a))", "ALTER TABLE t MODIFY a TEXT"),
    "numbers_rows": lambda on: on.takes(
        "CREATE TABLE t (a INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t ADD n INT NOT NULL UNIQUE AUTO_INCREMENT",
    ),
    "nulls_become_now": lambda on: on.takes(
        "CREATE TABLE t (a TIMESTAMP NULL)", "INSERT INTO t VALUES (NULL)", "ALTER TABLE t MODIFY a TIMESTAMP NOT NULL"
    ),
    "invisible_columns": lambda on: on.takes("CREATE TABLE t (a INT, b INT INVISIBLE)"),
    "alters_visibility": lambda on: on.takes(
        "CREATE TABLE t (a INT, b INT)", "ALTER TABLE t ALTER COLUMN b SET INVISIBLE"
    ),
    "generates_keys": lambda on: on.takes(
        "SET SESSION sql_generate_invisible_primary_key = ON", "SET SESSION sql_generate_invisible_primary_key = OFF"
    ),
    "key_visibility": _key_visibility,
    "distinguishes_case": lambda on: on.takes("CREATE TABLE t (a INT)", "CREATE TABLE T (a INT)", "DROP TABLE T"),
    "keeps_descending": lambda on: on.shows("a INT, KEY k (a DESC)", "DESC"),
    "inline_references": lambda on: (
        on.cell(
            "CREATE TABLE p (a INT PRIMARY KEY)",
            "CREATE TABLE t (a INT REFERENCES p (a))",
            "SELECT MAX(table_name) FROM information_schema.key_column_usage WHERE constraint_schema = DATABASE()"
            " AND referenced_table_name IS NOT NULL",
        )
        == "t"
    ),
    "keeps_checks": _keeps_checks,
    "subpartitions": lambda on: (
        on.cell(
            "CREATE TABLE t (a INT) PARTITION BY RANGE (a) SUBPARTITION BY HASH (a) (PARTITION p VALUES LESS THAN (9))",
            "SELECT subpartition_method FROM information_schema.partitions WHERE table_name = 't' AND "
            "table_schema = DATABASE()",
        )
        == "HASH"
    ),
    "fulltext_keys": lambda on: on.shows("a TEXT, FULLTEXT KEY k (a)", "FULLTEXT"),
    "spreads_rows": lambda on: on.takes("CREATE TABLE t (a BIGINT AUTO_RANDOM PRIMARY KEY)"),
    "conditional_alters": lambda on: on.takes("ALTER TABLE IF EXISTS t DROP COLUMN IF EXISTS b"),
}
_ELSEWHERE: Final = (
    "flavour title oldest family identity server_uuid writes_binlog binlog_status monitor_privilege "
    "executed_gtids gtids_at gtids_can_be_off stated_gtids_are_complete leaves_torn_files dumps_by_gtid kill "
    "unstated_format cascades_can_be_logged lists_prepared snapshots_are_located weighs_text "
    "flush_waits savepoints_release_locks under_sql_mode text_is_utf8 updates_index_0 upserts_wide_bits checks_need "
    "max_error_count_rises alters_one_change_at_a_time computes_as_sources default_functions changes_charsets ddl_jobs "
    "names_lock_holders adds_indexes_faster foreign_keys_need transaction_limits "
    "row_limits warns_about_plans"
)
"""Facts that need more than a few statements: tests of the code that reads them hold them."""


def differing(server: Server, schema: str) -> dict[str, tuple[object, object]]:
    """The facts that differ: what the server shows, and what the table states."""
    assert sorted([*PROBES, *_ELSEWHERE.split()]) == sorted(fact.name for fact in fields(Capabilities))
    with connected(Endpoint("one", server.host, server.port, server.user, Secret(""))) as connection:
        query(connection, f"USE `{schema}`")
        on = Session(connection, server_info(connection).capabilities)
        both = {fact: (probe(on), getattr(on.can, fact)) for fact, probe in PROBES.items()}
    return {fact: (found, stated) for fact, (found, stated) in both.items() if found != stated}


@pytest.mark.parametrize("name", ["mysql_source", "mariadb_source", "mariadb11_source"])
def test_a_source_is_as_the_table_states(name: str, request: pytest.FixtureRequest, fresh_schema: FreshSchema) -> None:
    server: Server = request.getfixturevalue(name)
    assert differing(server, fresh_schema(server)) == {}


def test_tidb_is_as_the_table_states(tidb_target: Server, fresh_schema: FreshSchema) -> None:
    assert differing(tidb_target, fresh_schema(tidb_target)) == {}
