"""Requests to relays, refusals, and the end of relays."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from airflow_provider_dm.engine.meta.records import Stage
from testbed import Server, ServerSpec
from tests.binlogs import purge_before
from tests.conftest import FreshSchema, StartServers
from tests.integration.relay.conftest import KitOf, RelayKit, is_settled, load_on
from tests.waiting import wait_for


def test_a_relay_follows_the_desired_stage(kit: RelayKit, source: Server, schema: str) -> None:
    relay = kit.start()
    wait_for(kit.has_caught_up)
    kit.store.set_relay_desired(kit.source_id, Stage.PAUSED)
    wait_for(lambda: kit.status().stage is Stage.PAUSED)
    source.sql(f"CREATE TABLE `{schema}`.t (id INT)")
    wait_for(lambda: not kit.status().caught_up)  # it asks the source for its end from time to time
    time.sleep(2)
    assert not kit.status().caught_up
    kit.store.set_relay_desired(kit.source_id, Stage.RUNNING)
    wait_for(lambda: kit.status().caught_up)
    kit.store.set_relay_desired(kit.source_id, Stage.STOPPED)
    assert relay.wait(120) == 0
    assert kit.status().stage is Stage.STOPPED
    assert kit.differences() == []


def test_a_relay_dies_with_its_launcher(kit: RelayKit, tmp_path: Path) -> None:
    launcher = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        real, os.getpid = os.getpid, lambda: launcher.pid
        try:
            relay = kit.start()
        finally:
            os.getpid = real
        wait_for(lambda: kit.store.relay_status(kit.source_id) is not None)
    finally:
        launcher.kill()
        launcher.wait()
    assert relay.wait(120) == 143


def test_a_purged_upstream_is_named_with_what_it_still_has(kit: RelayKit, source: Server) -> None:
    source.sql("FLUSH BINARY LOGS; FLUSH BINARY LOGS")
    last = kit.upstream().file
    purge_before(source, last)
    error = kit.fails_with()
    assert error.code == "DM-4022"
    assert kit.first_file in error.message
    assert last in error.message
    status = kit.status()
    assert (status.stage, (status.error or {})["ErrCode"]) == (Stage.PAUSED, "DM-4022")


@pytest.mark.parametrize("held_before", [False, True])
def test_a_copied_server_gets_the_identity_of_the_first_one(
    kit: RelayKit, source: Server, start_own: StartServers, *, held_before: bool
) -> None:
    """The remedy of DM-4030, with and without files of the relay log."""
    (own,) = start_own(ServerSpec("copied", source.flavour))
    kit.server, kit.first_file = own, "mysql-bin.000001"
    own.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT); INSERT INTO d.t VALUES (1)")
    kit.needs(kit.upstream())
    if held_before:
        wait_for(lambda: is_settled(own))
        kit.catch_up()
    cnf, first = own.datadir / "auto.cnf", own.argv
    identity = cnf.read_bytes() if own.flavour == "mysql" else b""
    own.stop()
    if identity:
        cnf.unlink()
    own.argv = (*first, "--server-id=77")
    own.start()
    own.sql("INSERT INTO d.t VALUES (2)")
    error = kit.fails_with()
    assert error.code == "DM-4030"
    assert "server_uuid in auto.cnf (MySQL), gtid_domain_id and server_id" in error.message

    own.stop()
    own.argv = first
    if identity:
        cnf.write_bytes(identity)
    own.start()
    own.sql("INSERT INTO d.t VALUES (3)")
    kit.catch_up()
    (held,) = (path for path in kit.root.iterdir() if path.is_dir())
    for file in sorted(own.datadir.glob("mysql-bin.0*")):
        here = file.read_bytes()
        assert (held / file.name).read_bytes()[23:] == here[23:]  # after the flag of a file that is in use


def test_an_upstream_that_was_reset_is_detected(kit: RelayKit, source: Server, start_own: StartServers) -> None:
    (own,) = start_own(ServerSpec("reset", source.flavour))
    kit.server, kit.first_file = own, "mysql-bin.000001"
    own.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT); INSERT INTO d.t VALUES (1)")
    kit.catch_up()
    held = [path.read_bytes() for path in kit.root.glob("*/mysql-bin.*")]
    own.sql("SELECT SLEEP(1.1)")  # a first event is known by its second
    own.reset_log()
    assert kit.fails_with().code == "DM-4023"  # its file is shorter now
    own.sql("DROP DATABASE d; CREATE DATABASE d; CREATE TABLE d.t (id INT); INSERT INTO d.t VALUES (1)")
    assert kit.fails_with().code == "DM-4023"  # it is long enough, and another file
    assert [path.read_bytes() for path in kit.root.glob("*/mysql-bin.*")] == held


@pytest.mark.parametrize(("wrong", "code"), [({"user": "nobody"}, "DM-2002"), ({"port": 1}, "DM-2001")])
def test_a_source_that_cannot_be_reached(kit: RelayKit, wrong: dict[str, object], code: str) -> None:
    assert kit.fails_with(endpoint=kit.endpoint.model_copy(update=wrong)).code == code


@pytest.mark.parametrize("removed", [False, True], ids=["locks do not exclude", "the lock was removed"])
def test_a_new_writer_fences_the_old_one(
    kit: RelayKit, source: Server, fresh_schema: FreshSchema, *, removed: bool
) -> None:
    relay = kit.start()
    wait_for(kit.has_caught_up)
    if removed:
        (kit.root / "relay.lock").unlink()
        kit.start()
    else:
        (kit.root / "relay.lock").write_text("generation 99, process 1 on elsewhere\n")
        (kit.root / kit.status().sub_dir / ".relay.meta.new").mkdir()  # relay.meta is the new writer's
        source.sql(f"CREATE TABLE {fresh_schema(source)}.t (id INT)")  # data that the old one has not saved
    assert relay.wait(120) == 2
    error = relay.error()
    assert error is not None
    assert error.code == "DM-4033"
    assert kit.differences() == []


def test_a_request_is_followed_while_the_upstream_is_down(start_own: StartServers, kit_of: KitOf) -> None:
    (own,) = start_own(ServerSpec("away", "mariadb"))
    kit = kit_of(own)
    relay = kit.start(checker={"backoff-min": 3600, "backoff-max": 3600})
    wait_for(kit.has_caught_up)
    own.stop()
    wait_for(lambda: kit.log().count("Next attempt") >= 2)  # the second one would come in an hour
    kit.store.set_relay_desired(kit.source_id, Stage.PAUSED)
    wait_for(lambda: kit.status().stage is Stage.PAUSED)
    kit.store.set_relay_desired(kit.source_id, Stage.STOPPED)
    assert relay.wait(120) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_awaited(kit: RelayKit, source: Server, fresh_schema: FreshSchema) -> None:
    kit.root.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", kit.root], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        with load_on(source, fresh_schema(source), seed=3):
            relay = kit.start(purge={"interval": 0})  # else it would make room by itself
            wait_for(lambda: _is_full(kit))
        assert relay.alive()
        subprocess.run(["mount", "-o", "remount,size=50%", kit.root], check=True)
        wait_for(lambda: kit.status().caught_up)
        assert (kit.status().stage, kit.status().error) == (Stage.RUNNING, None)
        relay.stop()
        assert kit.differences() == []
    finally:
        for process in kit.started:
            process.stop()
        subprocess.run(["umount", kit.root], check=True)


def _is_full(kit: RelayKit) -> bool:
    status = kit.store.relay_status(kit.source_id)
    return status is not None and status.stage is Stage.PAUSED and (status.error or {})["ErrCode"] == "DM-4003"
