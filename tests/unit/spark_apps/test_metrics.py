"""The metrics of an app for Prometheus."""

import socket
import urllib.error
import urllib.request

import pytest

from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.progress import SyncProgress
from spark_apps.metrics import exposition, serve


def test_a_sync_in_dms_names() -> None:
    progress = SyncProgress(
        location=Location("mysql-bin.000007", 400),
        master=Location("mysql-bin.000012", 9_000_000_000),
        transactions=7,
        changes=1_234_567,
        ddl_applied=2,
        bytes=5000,
        caught_up=True,
        at_end=True,
    )

    page = exposition('sh"op', "host-a", {"mysql-01": Stage.PAUSED}, {"mysql-01": progress.to_json()})

    lines = [line for line in page.splitlines() if not line.startswith("#")]
    own = 'task="sh\\"op",source_id="mysql-01"'
    assert f'dm_worker_task_state{{{own},worker="host-a"}} 3' in lines
    assert f'dm_syncer_replication_lag_gauge{{{own},worker="host-a"}} 0' in lines
    assert f'dm_syncer_binlog_file{{node="master",{own}}} 12' in lines
    assert f'dm_syncer_binlog_pos{{node="master",{own}}} 9000000000' in lines
    assert f'dm_syncer_binlog_pos{{node="syncer",{own}}} 400' in lines
    assert f'dm_syncer_finished_jobs_total{{type="dml",{own}}} 1234567' in lines
    assert not any(line.startswith("dm_syncer_remaining_time") for line in lines)  # unknown
    assert page.count("# TYPE dm_syncer_binlog_file gauge\n") == 1
    assert page.endswith("\n")


def test_rows_that_are_held_back_in_dms_names() -> None:
    group = {"target": "`s`.`o`", "waits": "for s.o_2 of this source", "unsynced": ["`s`.`o_2`"], "since": 1.0}
    progress = SyncProgress(caught_up=True, at_end=True, unresolved_groups=[], held_back_bytes=0)

    def shown() -> dict[str, str]:
        page = exposition("t", "h", {"a": Stage.RUNNING}, {"a": progress.to_json()})
        names = ("unsynced_table", "shard_lock", "held_back")
        return dict(
            line.split(" ") for line in page.splitlines() if line.startswith(tuple(f"dm_syncer_{n}" for n in names))
        )

    own = 'task="t",source_id="a"'
    resolving, seconds, size = (
        f"dm_syncer_{name}{{{own}}}" for name in ("shard_lock_resolving", "held_back_seconds", "held_back_log_bytes")
    )
    assert shown() == {resolving: "0", seconds: "0", size: "0"}
    progress.unresolved_groups, progress.held_back_bytes = [group], 700
    unsynced = f'dm_syncer_unsynced_table_number{{table="`s`.`o`",{own}}}'
    found = shown()
    assert float(found.pop(seconds)) > 1_000_000_000
    assert found == {unsynced: "1", resolving: "0", size: "700"}
    progress.unresolved_groups = [{**group, "unsynced": []}]
    assert (shown()[unsynced], shown()[resolving]) == ("0", "1")


def test_metrics_of_a_load_and_of_a_source_without_a_report() -> None:
    loading = {"unit": "load", "rows": 10, "chunks": 4, "chunks_done": 1, "contested_rows": 0}

    page = exposition("t", "h", {"a": Stage.RUNNING, "b": Stage.NEW}, {"a": loading})

    assert 'dm_loader_progress{task="t",source_id="a"} 0.25\n' in page
    assert 'dm_worker_task_state{task="t",source_id="b",worker="h"} 1\n' in page


@pytest.mark.parametrize(("address", "bound"), [(":0", "127.0.0.1"), ("127.0.0.2:0", "127.0.0.2"), ("[::1]:0", "::1")])
def test_only_a_configured_address_serves_other_machines(address: str, bound: str) -> None:
    server = serve(address, lambda: "")
    assert server is not None
    try:
        assert server.server_address[0] == bound
    finally:
        server.shutdown()
        server.server_close()


def test_metrics_are_served_and_an_occupied_address_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert serve(f"127.0.0.1:{taken.getsockname()[1]}", lambda: "") is None
    assert "metrics cannot be served" in caplog.text

    server = serve("127.0.0.1:0", lambda: "dm_x 1\n")
    assert server is not None
    try:
        root = f"http://127.0.0.1:{server.server_port}"
        with urllib.request.urlopen(f"{root}/metrics") as answer:
            assert answer.read() == b"dm_x 1\n"
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{root}/")
    finally:
        server.shutdown()
