"""A task that is started, paused, resumed and stopped by commands that are over at once, as DM's users know it."""

import os
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from testbed import Server
from testbed.ports import free_ports
from tests.conftest import FreshSchema
from tests.integration.sync.conftest import rows_of
from tests.waiting import wait_for

from .dmctl import Dmctl, Ended, processes_with, write_files
from .test_dmctl_incremental import incremental

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(1200)]
SOURCE = "mysql-01"


def until(true: Callable[[], bool], dmctl: Dmctl, task: str) -> None:
    log = dmctl.work / "tasks" / task / "start-task.log"
    wait_for(true, seconds=300, every=0.2, shows=lambda: log.read_text()[-4000:])


def kill_all_of(folder: Path) -> None:
    """Kill with SIGKILL every process whose arguments name a file in the folder: launcher, relays, JVM and driver."""
    found = processes_with(folder)
    assert len(found) >= 4, found
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_task_from_its_start_to_its_stop(
    mysql_source: Server, mariadb_target: Server, fresh_schema: FreshSchema, tmp_path: Path
) -> None:
    schema = fresh_schema(mysql_source, mariadb_target)
    for server in (mysql_source, mariadb_target):
        server.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", database=schema)
    ((gtids,),) = mysql_source.sql("SELECT @@gtid_executed")
    mysql_source.sql("INSERT INTO t VALUES (1, 1)", database=schema)
    canary = "c4nary-in-a-variable"
    mysql_source.create_user("by_variable", canary)
    dmctl, metrics = Dmctl(tmp_path / "work", {"MINE": canary}), f"127.0.0.1:{free_ports(1)[0]}"
    files = write_files(
        tmp_path,
        target=mariadb_target,
        sources={SOURCE: mysql_source},
        schemas=[schema],
        name=schema,
        extra=f"metrics-addr: {metrics}",
        login={"user": "by_variable"},
    )
    incremental(files, f"{{binlog-gtid: '{gtids}'}}")
    start = ("start-task", *files.arguments, "--password-env", f"{SOURCE}=MINE")

    def ask(*words: object, code: int = 0) -> dict[str, Any]:
        ended: Ended = (dmctl if words == start else dmctl.here)(*words, "--json")
        assert ended.code == code, (ended.out, ended.err)
        return ended.answer

    def stage() -> str:
        (source,) = ask("query-status", schema)["sources"]
        return " ".join(str(source["subTaskStatus"][0][key]) for key in ("unit", "stage"))

    def state() -> str:
        """Return the metrics for Prometheus; empty before a run has begun."""
        try:
            with urllib.request.urlopen(f"http://{metrics}/metrics") as answer:
                found = re.search(r"^dm_worker_task_state\{.*\} (\d)$", answer.read().decode(), re.MULTILINE)
        except urllib.error.HTTPError:
            raise
        except OSError:  # it does not listen yet
            return ""
        return found[1] if found else ""

    def equal() -> bool:
        return rows_of(mariadb_target, schema, "t") == rows_of(mysql_source, schema, "t")

    def known() -> list[tuple[Unit, Stage]]:
        """Return what a status is made of: a command for it takes longer than what is waited for."""
        with MetaStore.open(f"sqlite:///{dmctl.work / 'meta.db'}") as store:
            return [(one.unit, one.stage) for one in store.list_subtasks(task=schema)]

    assert ask(*start)["result"] is True
    try:
        until(lambda: known() == [(Unit.SYNC, Stage.RUNNING)], dmctl, schema)
        assert processes_with(canary, "environ") == {}
        assert stage() == "Sync Running"
        assert "is running already" in ask(*start, code=1)["msg"]

        (paused,) = ask("pause-task", schema)["sources"]
        assert (paused["source"], paused["msg"]) == (SOURCE, "")
        assert stage() == "Sync Paused"
        until(lambda: state() == "3", dmctl, schema)
        before = rows_of(mariadb_target, schema, "t")
        mysql_source.sql("INSERT INTO t VALUES (2, 2)", database=schema)
        assert rows_of(mariadb_target, schema, "t") == before

        assert ask("resume-task", files.task)["op"] == "Resume"
        until(lambda: equal() and state() == "2", dmctl, schema)
        ask("pause-task", "-s", SOURCE)
        mysql_source.sql("INSERT INTO t VALUES (3, 3)", database=schema)
        assert ask(*start)["result"] is True
        until(equal, dmctl, schema)

        kill_all_of(tmp_path)
        mysql_source.sql("INSERT INTO t VALUES (4, 4)", database=schema)
        assert stage() == "Sync Stopped"
        assert ask(*start)["result"] is True  # at once: no heartbeat has to grow old
        until(equal, dmctl, schema)
    finally:
        stopped = dmctl.here("stop-task", schema, "--json")

    assert stopped.code == 0, (stopped.out, stopped.err)
    assert ask("query-status")["tasks"] == []
    ended = tmp_path / "work" / "tasks" / schema / "start-task.json"
    until(lambda: "DM-9050" in ended.read_text(), dmctl, schema)


def test_start_task_answers_with_the_error_that_prevented_the_start(
    mysql_source: Server, mariadb_target: Server, fresh_schema: FreshSchema, tmp_path: Path
) -> None:
    """The precheck of the process that was started."""
    files = write_files(
        tmp_path,
        target=mariadb_target,
        sources={SOURCE: mysql_source},
        schemas=[fresh_schema(mysql_source, mariadb_target)],
        name="refused",
        port=1,
    )

    ended = Dmctl(tmp_path / "work")("start-task", *files.arguments, "--json")

    assert ended.code == 1, ended.err
    assert "connect" in ended.answer["msg"]
