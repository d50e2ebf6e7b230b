"""What servers say about the session of a statement, and by which number they mean which charset."""

from typing import Any

import pytest

from airflow_provider_dm.engine.binlog import events as codes
from airflow_provider_dm.engine.binlog.client_charsets import ASCII_IDS, LATIN1_IDS, SWE7_IDS, UTF8_IDS
from airflow_provider_dm.engine.binlog.planner import DdlStatement
from airflow_provider_dm.engine.binlog.query_event import query_of
from airflow_provider_dm.engine.binlog.session_variables import NO_FOREIGN_KEY_CHECKS, RELAXED_UNIQUE_CHECKS
from airflow_provider_dm.engine.mysql.identifiers import TableName
from testbed import Server
from tests.integration.binlog.reading import FreshSchema, here, session
from tests.integration.binlog.walking import events_between, plans, run

IDS = {"utf8mb3": UTF8_IDS, "utf8mb4": UTF8_IDS, "latin1": LATIN1_IDS, "ascii": ASCII_IDS, "swe7": SWE7_IDS}


def charset_of_every_id(server: Server) -> dict[int, str]:
    table, column = (
        ("collation_character_set_applicability", "id") if server.flavour == "mariadb" else ("collations", "id")
    )
    rows = server.sql(f"SELECT {column}, character_set_name FROM information_schema.{table}")
    return {int(number): "utf8mb3" if name == "utf8" else name for number, name in rows if number is not None}


def check_ids(server: Server) -> None:
    listed = charset_of_every_id(server)
    assert len(listed) > 200
    wrong = {
        number: name
        for number, name in listed.items()
        for kind in {id(ids): ids for ids in IDS.values()}.values()
        if (number in kind) != (kind is IDS.get(name))
    }
    assert wrong == {}


def test_every_collation_id_of_the_server_is_of_the_charset_that_we_take_it_for(source: Server) -> None:
    check_ids(source)


def test_so_is_every_id_of_a_newer_mariadb(mariadb11_source: Server) -> None:
    check_ids(mariadb11_source)


def statements(server: Server, schema: str, *texts: str | bytes) -> list[DdlStatement]:
    """DDL as planned, of these statements run in one session."""
    connection = session(server)
    lo = here(connection)
    with connection.cursor() as cursor:
        cursor.execute(f"USE `{schema}`")
        for one in texts:
            cursor.execute(one)  # type: ignore[arg-type]  # bytes go as they are
    return [one for one in plans(server, lo, here(connection)) if isinstance(one, DdlStatement)]


def test_what_a_session_was_set_to(source: Server, fresh_schema: FreshSchema) -> None:
    schema = fresh_schema(source)
    first, second = statements(
        source,
        schema,
        "SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES', foreign_key_checks = 0, unique_checks = 0",
        "SET SESSION auto_increment_increment = 3, auto_increment_offset = 2, lc_time_names = 'de_DE'",
        "SET SESSION timestamp = 1700000000.123456, time_zone = '+02:00'",
        "SET NAMES latin1",
        'CREATE TABLE "t" (a TIMESTAMP(6) DEFAULT NOW(6), b INT AUTO_INCREMENT PRIMARY KEY)',
        "SET SESSION lc_time_names = 'en_US', time_zone = '+00:00'",
        "CREATE TABLE u AS SELECT NOW(6) AS a, FROM_UNIXTIME(0) AS b",
    )
    said = first.session
    assert said.unknown is None
    assert said.sql_mode is not None
    assert said.sql_mode & (1 << 2 | 1 << 20) == 1 << 2 | 1 << 20 == first.sql_mode & (1 << 2 | 1 << 20)
    assert said.flags is not None
    both = NO_FOREIGN_KEY_CHECKS | RELAXED_UNIQUE_CHECKS
    assert said.flags & both == both
    assert said.auto_increment == (3, 2)
    assert said.time_names == 4
    assert said.charsets is not None
    assert said.charsets[:2] == (8, 8)
    assert (first.timestamp, first.schema) == (1_700_000_000, schema)
    assert second.session.time_names is None


def test_time_zone_and_microseconds_of_a_statement(source: Server, fresh_schema: FreshSchema) -> None:
    """In statement format: there they decide what the statement writes."""
    name = TableName(fresh_schema(source), "t")
    connection = session(source)
    run(connection, name, "CREATE TABLE t (a DATETIME(6), b DATETIME)")
    lo = here(connection)
    run(connection, name, "SET SESSION binlog_format = STATEMENT, timestamp = 1700000000.123456, time_zone = '+02:00'")
    run(connection, name, "INSERT INTO t VALUES (NOW(6), FROM_UNIXTIME(0))")
    found = [one for one in events_between(source, lo, here(connection)) if one.code == codes.QUERY]
    (insert,) = [query_of(one.body, "f:4") for one in found if b"INSERT" in one.body]
    assert (insert.session.time_zone, insert.session.microseconds) == (b"+02:00", 123456)


def test_who_ran_it_and_where(source: Server, fresh_schema: FreshSchema) -> None:
    schema = fresh_schema(source)
    (created,) = statements(source, schema, "CREATE DEFINER = CURRENT_USER PROCEDURE p() SELECT 1")
    assert created.session.invoker == (b"root", b"127.0.0.1")
    if source.flavour == "mysql":
        assert created.session.updated_schemas == (schema.encode(),)
        assert created.session.utf8mb4_collation == 255


def test_what_only_mysql_says(mysql_source: Server, fresh_schema: FreshSchema) -> None:
    schema = fresh_schema(mysql_source)
    further = f"{schema}_further"
    table, database, dropped = statements(
        mysql_source,
        schema,
        "SET SESSION sql_require_primary_key = ON, explicit_defaults_for_timestamp = ON",
        "CREATE TABLE t (id INT PRIMARY KEY, a TIMESTAMP)",
        f"CREATE DATABASE `{further}`",
        f"DROP DATABASE `{further}`",
    )
    said = table.session
    assert (said.require_primary_key, said.explicit_timestamp_defaults) == (True, True)
    assert said.xid is not None
    assert database.session.encrypt_tables is False
    assert [one.session.unknown for one in (table, database, dropped)] == [None] * 3


def test_collations_by_charset_stand_before_the_client_s_charset(
    mariadb11_source: Server, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(mariadb11_source)
    (created,) = statements(
        mariadb11_source,
        schema,
        "SET character_set_collations = 'latin1=latin1_bin'",
        "SET NAMES gbk",
        "CREATE TABLE t (a VARCHAR(3) CHARACTER SET latin1 COMMENT '中')".encode("gbk"),
    )
    assert created.session.default_collations == ((8, 47),)
    assert created.session.charsets is not None
    assert created.session.charsets[0] == 28
    assert created.undecoded is not None, "and not UTF-8 by mistake"


TEXTS: list[tuple[str, str, str | None]] = [
    ("utf8mb4", "utf8mb4_bin", "CREATE TABLE t (a INT COMMENT 'é中😀')"),
    ("utf8mb4", "utf8mb4_unicode_520_ci", "CREATE TABLE t (a INT COMMENT 'é中😀')"),
    ("utf8mb3", "utf8mb3_general_ci", "CREATE TABLE t (a INT COMMENT 'é中')"),
    ("latin1", "latin1_german2_ci", "CREATE TABLE t (a INT COMMENT 'é€')"),
    ("gbk", "gbk_chinese_ci", None),
    ("sjis", "sjis_japanese_ci", None),
    ("cp1251", "cp1251_general_ci", None),
]


@pytest.mark.parametrize(("charset", "collation", "text"), TEXTS, ids=lambda value: str(value)[:12])
def test_a_statement_is_text_in_four_charsets_and_bytes_in_the_others(
    source: Server, fresh_schema: FreshSchema, charset: str, collation: str, text: str | None
) -> None:
    python: Any = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "latin1": "cp1252", "sjis": "shift-jis"}.get(
        charset, charset
    )
    sql = text or {"cp1251": "CREATE TABLE t (a INT COMMENT 'Ж')"}.get(charset, "CREATE TABLE t (a INT COMMENT '表')")
    (created,) = statements(
        source, fresh_schema(source), f"SET NAMES {charset} COLLATE {collation}", sql.encode(python)
    )
    if text is None:
        assert created.undecoded == sql.encode(python)
    else:
        assert (created.sql, created.undecoded) == (text, None)


def test_text_under_a_collation_whose_id_is_beyond_a_byte(source: Server, fresh_schema: FreshSchema) -> None:
    collation = "utf8mb4_uca1400_ai_ci" if source.flavour == "mariadb" else "utf8mb4_0900_as_ci"
    text = "CREATE TABLE t (a INT COMMENT 'é中😀')"
    (created,) = statements(source, fresh_schema(source), f"SET NAMES utf8mb4 COLLATE {collation}", text)
    assert created.session.charsets is not None
    assert created.session.charsets[0] > 255
    assert created.sql == text
