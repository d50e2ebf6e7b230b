"""By GTID: where a log begins, and how it continues when another server takes over."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay import open_writer
from airflow_provider_dm.engine.relay.directory import RelayDirectory
from airflow_provider_dm.engine.relay.service import run_relay
from testbed import Server, ServerSpec
from tests.binlogs import purge_before
from tests.conftest import StartServers
from tests.integration.relay.conftest import KitOf, RelayKit, is_settled, load_on
from tests.integration.relay.replicas import has_all_of, promote, replicate, replicated
from tests.waiting import wait_for

GTID: dict[str, Any] = {"enable_gtid": True, "relay_binlog_name": ""}


def rows(server: Server, schema: str, *numbers: int) -> None:
    server.sql("; ".join(f"INSERT INTO `{schema}`.t VALUES ({number})" for number in numbers))


def held_files(kit: RelayKit) -> list[tuple[int, str]]:
    directory = RelayDirectory(kit.root)
    return [(one.suffix, str(held.file)) for one in directory.sub_dirs() for held in directory.files(one)]


def test_a_configured_set_names_the_file(kit: RelayKit, source: Server, schema: str) -> None:
    """The file that holds the first transaction outside of the set is pulled whole."""
    source.sql(f"CREATE TABLE `{schema}`.t (id INT)")
    rows(source, schema, 1, 2)
    middle = kit.upstream()
    rows(source, schema, 3)
    source.sql("FLUSH BINARY LOGS")
    rows(source, schema, 4)
    kit.catch_up(relay_binlog_gtid=middle.gtid_set, **GTID)
    assert held_files(kit)[0] == (1, middle.file)
    assert kit.differences() == []
    status = kit.status()
    assert status.relay is not None
    assert status.relay.gtid_set == kit.upstream().gtid_set


def test_a_needed_set_of_an_unknown_server(kit: RelayKit, source: Server, schema: str) -> None:
    """No record has the server of the position: the set counts, in a later sub-directory."""
    source.sql(f"CREATE TABLE `{schema}`.t (id INT)")
    needed = replace(kit.upstream(), server_uuid="")
    kit.needs(needed)
    rows(source, schema, 1)
    source.sql("FLUSH BINARY LOGS")
    kit.catch_up(**GTID)
    assert held_files(kit)[0] == (2, needed.file)


def test_purged_transactions_are_named(source: Server, start_own: StartServers, kit_of: KitOf) -> None:
    (own,) = start_own(ServerSpec("purged", source.flavour))
    kit = kit_of(own)
    own.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT); INSERT INTO d.t VALUES (1)")
    start = kit.upstream()
    own.sql("INSERT INTO d.t VALUES (2); FLUSH BINARY LOGS")
    last = own.sql("SHOW BINARY LOGS")[-1][0]
    own.sql("INSERT INTO d.t VALUES (3)")
    purge_before(own, last)
    error = kit.fails_with(relay_binlog_gtid=start.gtid_set, **GTID)
    assert error.code == "DM-4025"
    assert start.gtid_set in error.message
    assert not held_files(kit)

    needed = Location(last, 4, server_uuid=start.server_uuid)  # without a known set
    kit.needs(needed)
    kit.catch_up(relay_binlog_gtid=start.gtid_set, **GTID)
    assert held_files(kit)[0] == (1, last)


def test_transactions_without_a_gtid_are_pulled_by_position(start_own: StartServers, kit_of: KitOf) -> None:
    """The remedy of the error: with gtid_mode=ON the server does not even send them by position."""
    (own,) = start_own(ServerSpec("permissive", "mysql"))
    kit = kit_of(own)
    own.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT)")
    kit.catch_up(**GTID)
    own.sql("SET GLOBAL gtid_mode = ON_PERMISSIVE; SET GLOBAL gtid_mode = OFF_PERMISSIVE")
    own.sql("INSERT INTO d.t VALUES (1); SET GLOBAL gtid_mode = ON_PERMISSIVE; SET GLOBAL gtid_mode = ON")
    for by_gtid in (True, False):
        error = kit.fails_with(enable_gtid=by_gtid)
        assert (error.code, "gtid_mode=ON_PERMISSIVE and enable-gtid: false" in error.message) == ("DM-4024", True)
    own.sql("SET GLOBAL gtid_mode = ON_PERMISSIVE")
    kit.catch_up(enable_gtid=False)
    own.sql("SET GLOBAL gtid_mode = ON; INSERT INTO d.t VALUES (2)")
    kit.catch_up(**GTID)
    assert kit.differences() == []


@pytest.fixture
def pair(source: Server, start_own: StartServers) -> tuple[Server, Server]:
    """A server with some data, and its replica, which has all of it."""
    options = ("--log-slave-updates=ON",) if source.flavour == "mariadb" else ()
    a, b = start_own(*replicated("a", "b", source.flavour, options))
    replicate(a, b)
    a.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); CREATE DATABASE busy")
    rows(a, "d", 1, 2, 3)
    has_all_of(a, b)
    return a, b


def equals_upstream(kit: RelayKit, suffix: int) -> None:
    directory = RelayDirectory(kit.root)
    sub_dir = directory.by_suffix(suffix)
    assert sub_dir is not None
    held = directory.files(sub_dir)
    assert held
    for one in held:
        theirs = bytearray((kit.server.datadir / str(one.file)).read_bytes())
        theirs[21] &= 0xFE  # "in use"
        assert one.path.read_bytes() == theirs, one


def test_a_replica_takes_over(kit_of: KitOf, pair: tuple[Server, Server]) -> None:
    a, b = pair
    on_a, on_b = kit_of(a), kit_of(b)
    with load_on(a, "busy", seed=5):
        on_a.catch_up(**GTID)
    has_all_of(a, b)
    on_a.catch_up(**GTID)
    held = on_a.status().relay
    assert held is not None
    a.kill()
    promote(b)
    rows(b, "d", 4)
    on_b.catch_up(**GTID)
    equals_upstream(on_b, 2)
    status = on_b.status()
    assert status.relay is not None
    assert (status.relay.suffix, status.relay.gtid_set) == (2, on_b.upstream().gtid_set)
    rows(b, "d", 5)
    on_b.catch_up(**GTID)
    equals_upstream(on_b, 2)
    assert len(RelayDirectory(on_b.root).sub_dirs()) == 2


def test_a_relay_that_is_running_follows(kit_of: KitOf, pair: tuple[Server, Server]) -> None:
    """The address stays, another server answers."""
    a, b = pair
    on_a = kit_of(a)
    relay = on_a.start(**GTID)
    wait_for(on_a.has_caught_up)
    a.kill()
    promote(b)
    rows(b, "d", 4)
    b.stop()
    b.argv = tuple(f"--port={a.port}" if one.startswith("--port=") else one for one in b.argv)
    b.port = a.port
    b.start()
    wait_for(lambda: is_settled(b))
    wait_for(lambda: on_a.status().sub_dir.endswith(".000002") and on_a.status().caught_up)
    assert relay.alive()
    relay.stop()
    equals_upstream(kit_of(b), 2)


def test_transactions_that_the_new_server_lacks_stop_the_relay(
    kit_of: KitOf, pair: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pair
    promote(b)
    rows(a, "d", 4)  # b never gets it
    kit_of(a).catch_up(**GTID)
    a.kill()
    rows(b, "d", 5)
    monkeypatch.setattr(open_writer, "LAG_ALLOWED_SECONDS", 1.0)
    on_b = kit_of(b)
    with pytest.raises(DmError) as raised:
        run_relay(on_b.spec("caught-up", **GTID), on_b.store, threading.Event())
    # MariaDB has given the number to another transaction by then, and says so itself.
    assert raised.value.code == ("DM-4027" if a.flavour == "mysql" else "DM-4025")
    assert [suffix for suffix, _ in held_files(on_b)] == [1]
