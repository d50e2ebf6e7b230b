"""A TiDB that takes small transactions only: copies and epochs are cut to fit, and what has to be whole is named."""

from pathlib import Path

import pymysql
import pytest

from airflow_provider_dm.engine.downstream.errors import TargetLimit
from airflow_provider_dm.engine.downstream.row_statements import MAX_TRANSACTION_BYTES
from airflow_provider_dm.engine.downstream.session import _transaction_bytes, fresh_target, target_dialect
from airflow_provider_dm.engine.mysql.connection import server_info
from airflow_provider_dm.engine.sync.write.apply import BATCH_ROWS
from testbed import Server, ServerSpec
from testbed.tidb import tidb_config
from tests.conftest import FreshSchema, StartServers
from tests.integration.copy.migrations import Migration, assert_same
from tests.integration.sync.conftest import NewKit, SyncKit
from tests.jobs import endpoint

MIB = 1 << 20
LIMIT = 3 * MIB
TABLE = "id INT PRIMARY KEY, a INT, b BIGINT, c VARCHAR(9), v VARCHAR(2000), KEY (a), KEY (b), KEY (c), KEY (a, b)"
ROW = "({n}, {n}, {n} * 7, 'c{n}', REPEAT('v', {n} * 7 % 2000))"


@pytest.fixture(params=["txn-total-size-limit", "tidb_mem_quota_query"])
def small_tidb(
    request: pytest.FixtureRequest, tidb_target: Server, start_own: StartServers, tmp_path: Path
) -> tuple[Server, int]:
    """A TiDB, and its limit. That of the memory is of one that hides its configuration, as TiDB Cloud does."""
    in_memory = request.param == "tidb_mem_quota_query"
    settings = tmp_path / "small.toml"
    limited = "[security]\nenable-sem = true\n" if in_memory else f"[performance]\ntxn-total-size-limit = {LIMIT}\n"
    settings.write_text(f"{tidb_config(tmp_path)}{limited}")
    (server,) = start_own(ServerSpec("small", "tidb", (f"--config={settings}",)))
    if not in_memory:
        return server, LIMIT
    with pytest.raises(pymysql.err.OperationalError, match="RESTRICTED_VARIABLES_ADMIN"):
        server.sql("SELECT @@tidb_config")
    server.sql(f"SET GLOBAL tidb_mem_quota_query = {3 * LIMIT}")
    return server, 3 * LIMIT


@pytest.fixture
def small_kit(mysql_source: Server, small_tidb: tuple[Server, int], new_kit: NewKit) -> SyncKit:
    kit = new_kit(SyncKit, mysql_source, small_tidb[0])
    kit.close()  # a session has the limits with which it began
    assert target_dialect(kit.endpoint(kit.target, "target").resolve()).transaction_bytes == small_tidb[1] // 16
    return kit


def fill(kit: SyncKit, first: int, rows: int) -> None:
    """One transaction at the source."""
    numbers = range(first, first + rows)
    batches = [numbers[at : at + 2000] for at in range(0, rows, 2000)]
    kit.write(*(f"INSERT INTO t VALUES {', '.join(ROW.format(n=n) for n in batch)}" for batch in batches))


def test_epochs_and_copies_fit_into_the_transactions_of_the_target(small_kit: SyncKit) -> None:
    small_kit.source.sql(f"CREATE TABLE t ({TABLE})", database=small_kit.schema)
    fill(small_kit, 0, 8_000)
    Migration.of(small_kit.target, small_kit.source, small_kit.schema).finish()
    assert_same(small_kit.source, small_kit.target, small_kit.schema, "t")
    small_kit.target.sql(f"DROP TABLE `{small_kit.schema}`.t")

    small_kit.tables = ("t",)
    small_kit.both(f"DROP TABLE IF EXISTS t; CREATE TABLE t ({TABLE})")
    small_kit.begin()
    for first in range(0, 8_000, 4_000):
        fill(small_kit, first, 4_000)
    small_kit.write("UPDATE t SET a = a + 1")
    small_kit.sync_and_compare()


def test_a_transaction_that_cannot_be_whole_is_named(small_kit: SyncKit, small_tidb: tuple[Server, int]) -> None:
    small_kit.instance_keys = {"syncer": {"apply": "transactional"}}
    small_kit.both(f"CREATE TABLE t ({TABLE})")
    small_kit.tables = ("t",)
    small_kit.begin()
    fill(small_kit, 0, 10 + small_tidb[1] // 1000)
    small_kit.stops(TargetLimit, match=r"as one: (8004|8175) .*txn-total-size-limit")
    assert small_kit.target.sql(f"SELECT COUNT(*) FROM `{small_kit.schema}`.t") == [(0,)]

    small_kit.instance_keys = {"syncer": {"apply": "concurrent"}}
    small_kit.sync_and_compare()


def test_the_usual_limit_is_far_above_the_largest_pieces(tidb_target: Server, fresh_schema: FreshSchema) -> None:
    """Their number of rows is limited, too, so that indexes do not matter."""
    columns = [f"c{n} INT, KEY (c{n})" for n in range(60)]
    schema = fresh_schema(tidb_target)
    tidb_target.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {', '.join(columns)})", database=schema)
    with tidb_target.connect(database=schema, autocommit=False) as connection, connection.cursor() as cursor:
        for first in range(0, BATCH_ROWS, 500):
            rows = (f"({', '.join([str(n)] * 61)})" for n in range(first, first + 500))
            cursor.execute(f"INSERT INTO t VALUES {', '.join(rows)}")
        cursor.execute(
            "SELECT mem, @@tidb_mem_quota_query FROM information_schema.processlist WHERE id = CONNECTION_ID()"
        )
        ((used, quota),) = cursor.fetchall()
    assert used > MIB
    assert 5 * used < int(quota)
    with fresh_target(endpoint("target", tidb_target)) as connection:
        assert _transaction_bytes(connection, server_info(connection).capabilities) == MAX_TRANSACTION_BYTES
