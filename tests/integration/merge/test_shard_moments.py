"""DDL of merged tables about columns that have to do with the moment: which statements give rows another value."""

import pytest

from airflow_provider_dm.engine.errors import DmError, NotSupportedYet
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, SqlPattern
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.merge.conftest import PESSIMISTIC, PLAIN, Shops
from tests.integration.merge.sharding import columns

TIMES = f"{PLAIN}, t timestamp NULL, d datetime NULL, n timestamp NOT NULL DEFAULT '2001-01-01'"
NOW = "DEFAULT CURRENT_TIMESTAMP"


@pytest.mark.parametrize(
    ("kind", "filled"), [("timestamp", "2020-09-13 12:26:40"), ("datetime", "0000-00-00 00:00:00")]
)
@pytest.mark.parametrize("default", ["", NOW, "DEFAULT '2001-01-01'"])
def test_a_server_fills_nulls_of_a_timestamp_with_the_moment_whatever_its_default(
    source: Server, fresh_schema: FreshSchema, kind: str, filled: str, default: str
) -> None:
    with source.connect(database=fresh_schema(source)) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = '', timestamp = 1600000000, time_zone = '+00:00'")
        cursor.execute(f"CREATE TABLE p (id int PRIMARY KEY, t {kind} NULL)")
        cursor.execute("INSERT INTO p VALUES (1, NULL), (2, '2010-01-01')")
        cursor.execute(f"ALTER TABLE p MODIFY t {kind} NOT NULL {default}")
        cursor.execute("SELECT CAST(t AS char) FROM p ORDER BY id")
        assert cursor.fetchall() == ((filled,), ("2010-01-01 00:00:00",))


def test_ddl_that_computes_no_row_is_followed(one_source: Shops) -> None:
    """With `shard-mode`, which is what the error advises without it."""
    one_source.create(TIMES, "a:o_1", "a:o_2")
    one_source.write("a", *(f"INSERT INTO o_{n} (id, d) VALUES ({n}, '2010-01-01')" for n in (1, 2)))
    one_source.load()
    for ddl in (
        f"MODIFY n timestamp NOT NULL {NOW} ON UPDATE CURRENT_TIMESTAMP",
        f"CHANGE n m timestamp NOT NULL {NOW}",
        f"CHANGE t s timestamp NULL {NOW}",
        f"MODIFY d datetime NOT NULL {NOW}",
        "ALTER COLUMN s SET DEFAULT '2002-02-02'",
    ):
        one_source.write("a", *(f"ALTER TABLE o_{n} {ddl}" for n in (1, 2)))
    one_source.write("a", *(f"INSERT INTO o_{n} (id, d) VALUES (1{n}, '2011-01-01')" for n in (1, 2)))
    one_source.stops(NotSupportedYet, match=r"\[DM-6032 .*Set `shard-mode: pessimistic` and start the task again")
    one_source.task = PESSIMISTIC
    one_source.sync()
    assert one_source.compared().equal, one_source.compared()
    assert one_source.meta_rows("dm_shard_member") == 0


@pytest.mark.parametrize(
    "ddl",
    [
        f"ADD c timestamp NOT NULL {NOW}",
        f"DROP COLUMN d, ADD COLUMN d datetime {NOW}",
        "MODIFY t timestamp NOT NULL DEFAULT '2001-01-01'",
        "CHANGE d e timestamp NOT NULL DEFAULT '2001-01-01'",
    ],
)
def test_ddl_that_fills_rows_with_the_moment_stops_before_it(single: Shops, ddl: str) -> None:
    """Each time, and continues by what the error advises."""
    single.create(TIMES, "a:o_1", "a:o_2")
    single.load()
    for number, name in enumerate(("o_1", "o_2")):
        single.write("a", f"SET sql_mode = ''; ALTER TABLE {name} {ddl}", f"INSERT INTO {name} (id) VALUES ({number})")
    for number, name in enumerate(("o_1", "o_2")):
        single.stops(
            NotSupportedYet,
            match=r"its own current time.*Replace the statement with .*Do not do so if the statement drops",
        )
        assert single.meta_rows("dm_shard_member") == number
        instead = f"ALTER TABLE {single.schema}.{name} {ddl}"
        place = SqlPattern(f"TABLE {name} ")
        single.store.put_operators([Operator("test", "a", OperatorKind.REPLACE, place, (instead,))])
    single.sync()
    assert [row[0] for row in single.rows()] == [0, 1]


def test_one_statement_in_two_time_zones_is_not_the_same_ddl(single: Shops) -> None:
    """The target would fill the rows of all shards by the zone of one."""
    ddl = "ADD c timestamp NULL DEFAULT '2024-07-01 12:00:00'"
    single.create(TIMES, "a:o_1", "a:o_2")
    single.write("a", *(f"INSERT INTO o_{n} (id, d) VALUES ({n}, '2010-01-01')" for n in (1, 2)))
    single.load()
    single.write(
        "a", *(f"SET time_zone = '{zone}'; ALTER TABLE o_{n} {ddl}" for n, zone in ((1, "+05:00"), (2, "-05:00")))
    )
    before = columns(single)
    raised = single.stops(DmError, match=r"DM-6051.*SET time_zone = '-05:00'")
    assert "SET time_zone = '+05:00'" in str(raised)
    assert columns(single) == before
