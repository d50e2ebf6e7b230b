"""Events that only a newer MariaDB writes: its types, new fields of GTID events, zero positions, padded events."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from airflow_provider_dm.engine.binlog.maps import WantedTables
from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, EpochLimits
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.rows import decode_range
from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.model import Table
from testbed import Server
from tests.chaos.relay import relays_of
from tests.conftest import FreshSchema
from tests.exactness.journey import Journey
from tests.exactness.samples import SAMPLES
from tests.integration.binlog.reading import definition, here, log_files, logged, raw_rows, session

LARGE_COMMIT_BYTES: Final = 10 << 20  # the least that the server takes for binlog_large_commit_threshold

# type -> its edge values, as SQL; the log drops zero bytes at the end of the fixed ones
NEW_TYPES: Final[dict[str, list[str]]] = {
    "vector(2)": ["vec_fromtext('[1.5,-0.25]')", "vec_fromtext('[0,0]')"],
    "vector(64)": ["vec_fromtext('[" + ",".join(str(number / 7) for number in range(64)) + "]')"],
    "uuid": [
        "'00000000-0000-0000-0000-000000000000'",
        "'5ab0cf4b-e4e6-11f1-88bf-02fc00000001'",  # version 1, which is stored in another order
        "'123e4567-e89b-42d3-a456-426655002020'",
        "'123e4567-e89b-72d3-a456-426655000000'",
        "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
    ],
    "inet4": ["'0.0.0.0'", "'255.255.255.255'", "'1.0.0.0'", "'32.32.32.32'", "'127.0.0.1'"],
    "inet6": ["'::'", "'::1'", "'1::'", "'::ffff:1.2.3.4'", "'2001:db8:0:0:1:0:0:1'", "'::1.2.3.4'", "'fe80::'"],
    "timestamp(3) null": ["'2106-02-07 06:28:15.999'", "'2038-01-19 03:14:08'", "'1970-01-01 00:00:01'"],
    "varchar(20) collate utf8mb4_uca1400_ai_ci": ["'é'", "''", "'😀  '"],
}


@pytest.fixture
def connection(mariadb11_source: Server) -> Iterator[Connection]:
    connection = session(mariadb11_source)
    yield connection
    connection.close()


def created(connection: Connection, name: TableName, columns: str) -> Table:
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name.quoted()} {columns}")
    return definition(connection, name)


def test_the_newer_mariadb_is_version_11(connection: Connection, mariadb11_source: Server) -> None:
    assert text(query(connection, "SELECT VERSION()")[0][0]).startswith("11.")
    assert mariadb11_source.version.startswith("11.")


def test_older_types_are_replicated_from_a_newer_mariadb(
    mariadb11_source: Server, mariadb_target: Server, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(mariadb11_source, mariadb_target)
    dice = Random(11)
    for sample in SAMPLES:
        # Images of updates have no computed columns here (tests/integration/sync/test_special_columns.py).
        if sample.fits("mariadb", "mariadb") and sample.name not in ("computed", "hidden"):
            assert Journey(mariadb11_source, mariadb_target, schema).of(sample, dice, 20).differences == ()


@pytest.mark.parametrize("metadata", ["NO_LOG", "FULL"])
def test_new_types_are_the_same_bytes_by_select_and_from_the_log(
    connection: Connection, mariadb11_source: Server, fresh_schema: FreshSchema, metadata: str
) -> None:
    kinds = ", ".join(f"c{number} {kind}" for number, kind in enumerate(NEW_TYPES))
    name = TableName(fresh_schema(mariadb11_source), "cells")
    table = created(connection, name, f"(id INT PRIMARY KEY AUTO_INCREMENT, {kinds}) DEFAULT CHARSET utf8mb4")
    lo = here(connection)
    with connection.cursor() as cursor:
        cursor.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")
        try:
            for turn in range(max(map(len, NEW_TYPES.values()))):
                values = ", ".join(edges[turn % len(edges)] for edges in NEW_TYPES.values())
                cursor.execute(f"INSERT INTO {name.quoted()} VALUES (NULL, {values})")
            cursor.execute(f"INSERT INTO {name.quoted()} () VALUES ()")
            inserted = raw_rows(connection, table)
            cursor.execute(f"UPDATE {name.quoted()} SET c0 = NULL, c2 = uuid() WHERE id < 4")
        finally:
            cursor.execute("SET GLOBAL binlog_row_metadata = NO_LOG")
    changes = logged(mariadb11_source, table, lo, here(connection))
    inserts = [change.after for change in changes if change.before is None and change.after]
    updates = {change.after[0]: change for change in changes if change.before and change.after}
    assert inserts == inserted
    assert [updates[row[0]].before for row in inserted[:3]] == inserted[:3]
    assert [updates[row[0]].after for row in inserted[:3]] == raw_rows(connection, table)[:3]


def test_gtids_are_counted_through_the_new_fields_of_their_events(
    connection: Connection, mariadb11_source: Server, fresh_schema: FreshSchema
) -> None:
    """Thread ids in every GTID event, a commit in its own file after a padded one, and DDL between them."""
    server = mariadb11_source
    server.sql("FLUSH BINARY LOGS")
    start = Location(here(connection).file, 4)
    table = created(connection, TableName(fresh_schema(server), "t"), "(id INT PRIMARY KEY AUTO_INCREMENT, v LONGBLOB)")
    before = text(query(connection, "SELECT @@binlog_large_commit_threshold")[0][0])
    server.sql(f"SET GLOBAL binlog_large_commit_threshold = {LARGE_COMMIT_BYTES}")
    try:
        server.sql(f"INSERT INTO {table.name.quoted()} (v) VALUES ('small')")
        large = f"INSERT INTO {table.name.quoted()} (v) VALUES (REPEAT('x', {LARGE_COMMIT_BYTES // 5}))"
        server.sql("BEGIN; " + f"{large};" * 6 + "COMMIT")
        server.sql(f"INSERT INTO {table.name.quoted()} (v) VALUES ('behind')")
    finally:
        server.sql(f"SET GLOBAL binlog_large_commit_threshold = {before}")
    assert here(connection).file != start.file

    rows, at, goal = 0, start, here(connection)
    server.sql("FLUSH BINARY LOGS")  # the format event of an open file says "in use", which its checksum does not
    while (at.file, at.position) != (goal.file, goal.position):
        planned = plan_epoch(log_files(server), at, EpochLimits(goal=goal, max_bytes=1 << 30, range_bytes=1 << 20))
        match planned:
            case Epoch(ranges=ranges, hi=at):
                for byte_range in ranges:
                    rows += len(list(decode_range(byte_range, WantedTables.whole([table]))))
            case DdlStatement(end=at):
                pass
            case _:
                raise AssertionError(planned)
    assert rows == 8
    assert at.gtid_set == text(query(connection, "SELECT @@gtid_binlog_pos")[0][0])


def test_a_relay_holds_what_the_server_wrote(
    mariadb11_source: Server, fresh_schema: FreshSchema, tmp_path: Path
) -> None:
    """Events inside a transaction have position 0 here; on other servers only artificial events of the dump have it."""
    with relays_of(mariadb11_source, tmp_path) as kit:
        name = TableName(fresh_schema(mariadb11_source), "t").quoted()
        mariadb11_source.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, u UUID); INSERT INTO {name} VALUES (1, uuid())")
        mariadb11_source.sql(f"FLUSH BINARY LOGS; INSERT INTO {name} VALUES (2, uuid()), (3, NULL)")
        kit.catch_up()
        relay, upstream = kit.status().relay, kit.upstream()
        assert relay is not None
        if relay.position != upstream.position:  # the server has noted a checkpoint in its log meanwhile
            kit.catch_up()
            relay = kit.status().relay
            assert relay is not None
        assert kit.differences() == []
        assert (relay.position, relay.gtid_set) == (upstream.position, upstream.gtid_set)
