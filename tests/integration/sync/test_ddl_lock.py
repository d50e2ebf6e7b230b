"""DDL of a run that was replaced: the lock of a frozen driver, and a statement that the server still executes."""

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pymysql
import pytest

from airflow_provider_dm.engine.downstream import ddl_execution
from airflow_provider_dm.engine.downstream.claim import claim_generation
from airflow_provider_dm.engine.downstream.ddl_execution import TargetDdl, execute_ddl
from airflow_provider_dm.engine.downstream.ddl_journal import note_intent
from airflow_provider_dm.engine.downstream.errors import TargetDdlUnderWay
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.meta_tables import ensure_meta_tables
from airflow_provider_dm.engine.downstream.session import close_target, fresh_target, run_transaction, target_dialect
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.connection import query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from testbed import Server
from tests.conftest import FreshSchema
from tests.jobs import endpoint

PLACE = "here"


@dataclass
class Alter:
    """A subtask whose log has an ALTER of the table t of one row."""

    target: Server
    server: Endpoint
    schema: str

    @property
    def statement(self) -> TargetDdl:
        name = TableName(self.schema, "t")
        return TargetDdl(f"ALTER TABLE {name.quoted()} RENAME COLUMN a TO b", (name,))

    def claimed(self, generation: int) -> Fence:
        fence = Fence(SubtaskRef(self.schema, "test", "one"), generation)
        claim_generation(self.server, fence)
        return fence

    def execute(self, fence: Fence) -> int:
        return execute_ddl(self.server, fence, PLACE, [self.statement], [])

    def wait_for_a_job(self) -> None:
        """Wait for a job that has not ended; one that waits for transactions may count as `done` already."""
        jobs = "SELECT COUNT(*) FROM information_schema.ddl_jobs WHERE db_name = %s AND state IN ('running', 'done')"
        while self.target.sql(jobs, [self.schema]) == [(0,)]:
            time.sleep(0.1)

    def columns(self) -> list[str]:
        return [row[0] for row in self.target.sql(f"SHOW COLUMNS FROM `{self.schema}`.t")]


@pytest.fixture
def alter(target: Server, fresh_schema: FreshSchema) -> Iterator[Alter]:
    yield from alter_of(target, fresh_schema)


@pytest.fixture
def alter_in_tidb(tidb_target: Server, fresh_schema: FreshSchema) -> Iterator[Alter]:
    """Make an ALTER that is a job of the server's own: in MySQL and MariaDB a statement ends with its connection."""
    yield from alter_of(tidb_target, fresh_schema)


def alter_of(target: Server, fresh_schema: FreshSchema) -> Iterator[Alter]:
    made = Alter(target, endpoint("target", target), fresh_schema(target))
    target.sql(f"CREATE TABLE `{made.schema}`.t (a INT PRIMARY KEY); INSERT INTO `{made.schema}`.t VALUES (1)")
    ensure_meta_tables(made.server, made.schema)
    yield made
    close_target(made.server)


def test_the_lock_of_a_frozen_driver_is_taken_from_it(alter: Alter) -> None:
    frozen = alter.claimed(1)
    with fresh_target(alter.server) as connection, ddl_execution._locked(alter.server, connection, frozen):
        assert alter.execute(alter.claimed(2)) == 1
        with pytest.raises(pymysql.err.Error):  # it wakes up, and sends what it was about to send
            query(connection, alter.statement.sql)
    assert alter.columns() == ["b"]


def test_a_lock_whose_holder_may_not_be_killed_is_freed_by_a_user(
    alter: Alter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The account of the task was exchanged, and may not kill connections of the first one."""
    monkeypatch.setattr(ddl_execution, "DDL_LOCK_SECONDS", 0)
    alter.target.sql("CREATE USER modest@'%' IDENTIFIED BY ''")
    alter.target.sql(f"GRANT ALL ON `{alter.schema}`.* TO modest@'%'")
    frozen, modest = alter.claimed(1), replace(alter, server=replace(alter.server, user="modest"))
    try:
        with fresh_target(alter.server) as connection, ddl_execution._locked(alter.server, connection, frozen):
            later = alter.claimed(2)
            with pytest.raises(DmError, match="KILL that connection") as raised:
                modest.execute(later)
            (named,) = re.findall(r"connection (\d+) of an earlier run", str(raised.value))
            alter.target.sql(target_dialect(alter.server).server.kill.format(int(named)))
            assert modest.execute(later) == 1
    finally:
        close_target(modest.server)
        alter.target.sql("DROP USER modest@'%'")
    assert alter.columns() == ["b"]


def test_a_job_of_the_servers_own_is_awaited_and_not_begun_again(
    alter_in_tidb: Alter, monkeypatch: pytest.MonkeyPatch
) -> None:
    alter = alter_in_tidb
    monkeypatch.setattr(ddl_execution, "DDL_LOCK_SECONDS", 3)
    earlier = alter.claimed(1)
    before = {name: alter.target.sql(f"SHOW CREATE TABLE {name.quoted()}")[0][1] for name in alter.statement.tables}
    run_transaction(alter.server, lambda tx: note_intent(tx, earlier, PLACE, 0, alter.statement.sql, before))
    with alter.target.connect() as reader, reader.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"SELECT * FROM `{alter.schema}`.t")  # a job waits for transactions that know the old table
        sent = threading.Thread(target=alter.target.sql, args=(alter.statement.sql,))
        sent.start()
        later = alter.claimed(2)
        alter.wait_for_a_job()
        with pytest.raises(TargetDdlUnderWay) as raised:
            alter.execute(later)
        assert f" on {alter.schema}.t of an earlier run" in str(raised.value)
        cursor.execute("COMMIT")
    sent.join()
    assert alter.execute(later) == 0, "it has taken effect"
    assert alter.columns() == ["b"]
