"""DDL between servers of one release that would give other rows in the target, as it depends on more than its text."""

import pytest

from airflow_provider_dm.engine.meta.records import OperatorKind, SqlPattern
from airflow_provider_dm.engine.sync.errors import DdlNotSupported
from testbed import Server
from tests.integration.sync.conftest import NewKit, SyncKit
from tests.integration.sync.test_by_hand import wanted
from tests.integration.sync.test_conversions import check

PARTITIONS = "(PARTITION p0 VALUES LESS THAN ({}), PARTITION p1 VALUES LESS THAN (20))"


@pytest.fixture
def alike(mysql_source: Server, mysql_target: Server, new_kit: NewKit) -> SyncKit:
    kit = new_kit(SyncKit, mysql_source, mysql_target)
    kit.begin_with("plain")
    return kit


def test_a_table_like_one_whose_single_partitions_have_changed(alike: SyncKit) -> None:
    """Its p0 would be the one before the change, and DROP PARTITION would drop other rows."""
    alike.write(f"CREATE TABLE a (id int PRIMARY KEY) PARTITION BY RANGE (id) {PARTITIONS.format(10)}")
    alike.write(f"ALTER TABLE a REORGANIZE PARTITION p0, p1 INTO {PARTITIONS.format(5)}")
    alike.write("CREATE TABLE m LIKE a", "INSERT INTO m VALUES (1), (7), (15)")
    alike.stops(DdlNotSupported, match=r"DM-6032.*single partitions have changed.*binlog replace")
    create = f"CREATE TABLE `{alike.schema}`.m (id int PRIMARY KEY) PARTITION BY RANGE (id) {PARTITIONS.format(5)}"
    wanted(alike, OperatorKind.REPLACE, SqlPattern("LIKE"), create)
    alike.write("ALTER TABLE m DROP PARTITION p0")
    alike.sync()
    check(alike)


LISTS = "LIST (id) (PARTITION p VALUES IN ({}), PARTITION q VALUES IN ({}))"
OTHERWISE = [
    ("RANGE (id) (PARTITION p VALUES LESS THAN (20))", f"RANGE (id) {PARTITIONS.format(5)}", "TRUNCATE PARTITION p0"),
    (LISTS.format(12, 1), LISTS.format(1, 12), "DROP PARTITION p"),
    ("HASH (id) PARTITIONS 4", "HASH (id) PARTITIONS 3", "TRUNCATE PARTITION p1"),
    ("HASH (b) PARTITIONS 2", "HASH (id) PARTITIONS 2", "TRUNCATE PARTITION p0"),
]


@pytest.mark.parametrize(("there", "here", "what"), OTHERWISE)
def test_partitions_of_the_same_name_with_other_rows(alike: SyncKit, there: str, here: str, what: str) -> None:
    """A user has created the target table with others."""
    alike.write(f"CREATE TABLE m (id int, b int, PRIMARY KEY (id, b)) PARTITION BY {here}")
    alike.sync()
    alike.target.sql(f"ALTER TABLE m PARTITION BY {there}", database=alike.schema)
    alike.write("INSERT INTO m VALUES (1, 1), (12, 2)", f"ALTER TABLE m {what}")
    alike.stops(DdlNotSupported, match=r"DM-6032.*the target table may have other partitions, and would lose")
    alike.target.sql(f"ALTER TABLE m PARTITION BY {here}", database=alike.schema)
    alike.sync()
    check(alike)


def rotate(kit: SyncKit) -> None:
    """A name comes back with another bound, which the text of the first definition does not have."""
    bounds = "(PARTITION `P0` VALUES LESS THAN (TO_DAYS('2024-01-02')), PARTITION p1 VALUES LESS THAN (739253))"
    kit.write(f"CREATE TABLE m (d date PRIMARY KEY) PARTITION BY RANGE (to_days(`d`)) {bounds}")
    kit.write("INSERT INTO m VALUES ('2024-01-01'), ('2024-01-02')", "ALTER TABLE m DROP PARTITION p0")
    kit.write(
        "ALTER TABLE m ADD PARTITION (PARTITION p0 VALUES LESS THAN (739259), PARTITION p3 VALUES LESS THAN (739500))"
    )
    kit.write("INSERT INTO m VALUES ('2024-01-05'), ('2024-01-04')", "ALTER TABLE m TRUNCATE PARTITION p1")
    kit.write("ALTER TABLE m DROP PARTITION p0", "INSERT INTO m VALUES ('2024-03-02')")
    kit.sync()
    check(kit)


def test_partitions_rotate_under_the_same_names(alike: SyncKit) -> None:
    rotate(alike)


def test_partitions_rotate_in_tidb(tidb_kit: SyncKit) -> None:
    tidb_kit.begin_with("plain")
    rotate(tidb_kit)


def test_texts_with_an_offset_are_converted_in_the_sessions_time_zone(alike: SyncKit) -> None:
    alike.write("CREATE TABLE m (id int PRIMARY KEY, v varchar(40))")
    alike.write("INSERT INTO m VALUES (1, '2024-01-01 12:00:00+05:00'), (2, '2024-07-01 12:00:00')")
    alike.write("SET time_zone = '+02:00'", "ALTER TABLE m ADD a datetime DEFAULT '2024-01-01 12:00:00+05:00'")
    alike.write("SET time_zone = '+02:00'", "ALTER TABLE m MODIFY v datetime")
    alike.sync()
    check(alike)


def test_rows_are_not_numbered_where_the_target_has_another_primary_key(alike: SyncKit) -> None:
    alike.write("CREATE TABLE m (a int, b int, PRIMARY KEY (a, b))")
    alike.sync()
    alike.target.sql("ALTER TABLE m DROP PRIMARY KEY, ADD PRIMARY KEY (b, a)", database=alike.schema)
    alike.write("INSERT INTO m VALUES (1, 9), (2, 5)", "ALTER TABLE m ADD c int AUTO_INCREMENT UNIQUE")
    alike.stops(DdlNotSupported, match=r"DM-6032.*the numbers of `c`, whose order only the source knows")
    alike.target.sql("ALTER TABLE m DROP PRIMARY KEY, ADD PRIMARY KEY (a, b)", database=alike.schema)
    alike.sync()
    check(alike)
