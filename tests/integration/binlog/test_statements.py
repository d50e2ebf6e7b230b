"""The session of a statement in the logs of servers, and the numbers of their charsets."""

import re
from typing import Final

import pymysql
import pytest

from airflow_provider_dm.engine.binlog import events as codes
from airflow_provider_dm.engine.binlog.client_charsets import CLIENT_CHARSETS, SWE7_IDS, UTF8_IDS, ClientCharset
from airflow_provider_dm.engine.binlog.planned import DdlStatement
from airflow_provider_dm.engine.binlog.query_event import query_of
from airflow_provider_dm.engine.ddl.errors import Unreadable
from airflow_provider_dm.engine.ddl.lexer import tokens
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.charsets import MULTI_BYTE, UNSURE
from testbed import Server
from tests.integration.binlog.reading import FreshSchema, here, session
from tests.integration.binlog.walking import events_between, plans, run

IDS = {"utf8mb3": UTF8_IDS, "utf8mb4": UTF8_IDS, "swe7": SWE7_IDS, **{one.name: one.ids for one in CLIENT_CHARSETS}}


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
    assert {name for name in listed.values() if name not in IDS} == {"ucs2", "utf16", "utf16le", "utf32"}, "no clients'"


def test_every_collation_id_has_the_charset_of_the_server(source: Server) -> None:
    check_ids(source)


def test_every_collation_id_of_a_newer_mariadb_is_known(mariadb11_source: Server) -> None:
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


def test_session_variables_of_statements_are_decoded(source: Server, schema: str) -> None:
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
    context = first.session
    assert context.unknown is None
    assert context.sql_mode is not None
    assert context.sql_mode & (1 << 2 | 1 << 20) == 1 << 2 | 1 << 20 == first.sql_mode & (1 << 2 | 1 << 20)
    assert context.flags is not None
    both = 1 << 26 | 1 << 27  # no foreign_key_checks, relaxed unique_checks
    assert context.flags & both == both
    assert context.auto_increment == (3, 2)
    assert context.charsets is not None
    assert context.charsets[:2] == (8, 8)
    assert (first.timestamp, first.schema) == (1_700_000_000, schema)
    assert second.session.unknown is None


def test_time_zone_and_microseconds_of_a_statement(source: Server, fresh_schema: FreshSchema) -> None:
    """They decide, in statement format, what the statement writes."""
    name = TableName(fresh_schema(source), "t")
    connection = session(source)
    run(connection, name, "CREATE TABLE t (a DATETIME(6), b DATETIME)")
    lo = here(connection)
    run(connection, name, "SET SESSION binlog_format = STATEMENT, timestamp = 1700000000.123456, time_zone = '+02:00'")
    run(connection, name, "INSERT INTO t VALUES (NOW(6), FROM_UNIXTIME(0))")
    found = [one for one in events_between(source, lo, here(connection)) if one.code == codes.QUERY]
    (insert,) = [query_of(one.body, "f:4") for one in found if b"INSERT" in one.body]
    assert (insert.session.time_zone, insert.session.microseconds) == (b"+02:00", 123456)


def test_definer_and_collation_variables_are_parsed(source: Server, schema: str) -> None:
    (created,) = statements(source, schema, "CREATE DEFINER = CURRENT_USER PROCEDURE p() SELECT 1")
    assert created.session.unknown is None
    if source.flavour == "mysql":  # it follows them
        assert created.session.utf8mb4_collation == 255


def test_syntax_of_mysql_alone(mysql_source: Server, schema: str) -> None:
    further = f"{schema}_further"
    table, database, dropped = statements(
        mysql_source,
        schema,
        "SET SESSION sql_require_primary_key = ON, explicit_defaults_for_timestamp = ON",
        "CREATE TABLE t (id INT PRIMARY KEY, a TIMESTAMP)",
        f"CREATE DATABASE `{further}`",
        f"DROP DATABASE `{further}`",
    )
    assert table.session.explicit_timestamp_defaults is True
    assert [one.session.unknown for one in (table, database, dropped)] == [None] * 3


def test_collations_by_charset_precede_the_clients_charset(mariadb11_source: Server, schema: str) -> None:
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
    assert created.sql == "CREATE TABLE t (a VARCHAR(3) CHARACTER SET latin1 COMMENT '中')"


TEXTS: list[tuple[str, str, str, str]] = [
    ("utf8mb4", "utf8mb4_bin", "utf-8", "é中😀"),
    ("utf8mb4", "utf8mb4_unicode_520_ci", "utf-8", "é中😀"),
    ("utf8mb3", "utf8mb3_general_ci", "utf-8", "é中"),
    ("latin1", "latin1_german2_ci", "cp1252", "é€"),
    ("gbk", "gbk_chinese_ci", "gbk", "表乗"),
    ("big5", "big5_chinese_ci", "big5", "功許"),
    ("sjis", "sjis_japanese_ci", "shift-jis", "表ｶ"),
    ("cp932", "cp932_japanese_ci", "cp932", "表①"),
    ("ujis", "ujis_japanese_ci", "euc-jp", "表"),
    ("euckr", "euckr_korean_ci", "cp949", "똠하"),
    ("cp1251", "cp1251_general_ci", "cp1251", "Ж"),
    ("greek", "greek_general_ci", "iso8859-7", "α"),
]
UNSURE_CODES: Final = {"815f"}
"""In sjis: servers take it for a backslash."""


@pytest.mark.parametrize(("charset", "collation", "codec", "text"), TEXTS, ids=lambda value: str(value)[:12])
def test_a_statement_is_text_in_the_charset_of_its_client(
    source: Server, schema: str, charset: str, collation: str, codec: str, text: str
) -> None:
    name = text.replace("😀", "")  # names are utf8mb3
    sql = f"CREATE TABLE `{name}` (a INT PRIMARY KEY COMMENT '{text}')"
    (created,) = statements(source, schema, f"SET NAMES {charset} COLLATE {collation}", sql.encode(codec))
    assert (created.sql, created.undecoded) == (sql, None)
    assert source.sql(f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema}'") == [(name,)]


def test_create_table_select_is_logged_in_utf8_for_any_client_charset(
    source: Server, fresh_schema: FreshSchema
) -> None:
    sql = "CREATE TABLE `表` AS SELECT 1 AS a"
    (created,) = statements(source, fresh_schema(source), "SET NAMES gbk", sql.encode("gbk"))
    assert created.session.charsets is not None
    assert created.session.charsets[0] == 28
    assert created.undecoded is not None
    assert "`表`" in created.undecoded.decode("utf-8")


@pytest.mark.parametrize("charset", [one for one in CLIENT_CHARSETS if one.name != "binary"], ids=lambda one: one.name)
def test_every_character_is_the_servers_or_unsure(source: Server, schema: str, charset: ClientCharset) -> None:
    if not source.sql("SELECT 1 FROM information_schema.character_sets WHERE character_set_name = %s", [charset.name]):
        assert (source.flavour, charset.name) == ("mariadb", "gb18030")
        return
    characters = MULTI_BYTE.get(charset.name)
    one = re.compile(characters or rb"[\x80-\xff]")
    candidates = [bytes([code]) for code in range(0x80, 0x100)]
    if characters is not None:
        candidates += [bytes([lead, trail]) for lead in range(0x80, 0x100) for trail in range(0x30, 0x100)]
        candidates += [bytes([0x8F, lead, trail]) for lead in range(0xA1, 0xFF) for trail in range(0xA1, 0xFF)]
        candidates = [code for code in candidates if len(code) == 1 or one.fullmatch(code)]
    ours = {code: charset.text(code) for code in candidates}
    values = ",".join(f"(x'{code.hex()}')" for code in ours)
    source.sql(f"CREATE TABLE `{schema}`.t (b VARBINARY(8)); INSERT INTO `{schema}`.t VALUES {values}")
    text = f"CONVERT(CONVERT(b USING {charset.name}) USING utf8mb4)"
    back = f"CAST(CONVERT({text} USING {charset.name}) AS BINARY)"
    unknown = set()
    for code, theirs, again in source.sql(f"SELECT b, CAST({text} AS BINARY), {back} FROM `{schema}`.t"):
        if ours[code] != UNSURE:
            assert theirs.decode() == ours[code], code.hex()
        elif len(code) > 1 and again == code and theirs.decode() != UNSURE:
            unknown.add(code.hex())
    assert unknown <= UNSURE_CODES


@pytest.mark.parametrize("charset", sorted(MULTI_BYTE))
def test_a_backslash_is_a_part_of_a_character_where_the_server_takes_it_for_one(source: Server, charset: str) -> None:
    if (source.flavour, charset) == ("mariadb", "gb18030"):
        return
    (ours,) = [one for one in CLIENT_CHARSETS if one.name == charset]
    with source.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SET NAMES {charset}")
        for lead in range(0x80, 0x100):
            sql = b"DO '" + bytes([lead]) + b"\\' '"
            try:
                cursor.execute(sql)
                closed = True
            except pymysql.err.ProgrammingError:
                closed = False  # the backslash belongs to the character, so the second string is open
            if closed:
                assert [token.text for token in tokens(ours.text(sql), 0)] == ["DO", "''"], hex(lead)
            else:
                with pytest.raises(Unreadable):
                    list(tokens(ours.text(sql), 0))


def test_text_under_a_collation_whose_id_is_beyond_a_byte(source: Server, fresh_schema: FreshSchema) -> None:
    collation = "utf8mb4_uca1400_ai_ci" if source.flavour == "mariadb" else "utf8mb4_0900_as_ci"
    text = "CREATE TABLE t (a INT PRIMARY KEY COMMENT 'é中😀')"
    (created,) = statements(source, fresh_schema(source), f"SET NAMES utf8mb4 COLLATE {collation}", text)
    assert created.session.charsets is not None
    assert created.session.charsets[0] > 255
    assert created.sql == text
