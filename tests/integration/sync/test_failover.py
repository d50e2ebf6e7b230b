"""The source fails over to its replica, and the sync continues: no row is lost, none is applied twice."""

import re
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from airflow_provider_dm.engine.binlog.errors import FailoverNotFollowed, OldLogNotHeld
from airflow_provider_dm.engine.merge.contests import end_in, is_in_log_of
from airflow_provider_dm.engine.merge.servers import ContestServers
from airflow_provider_dm.engine.mysql.location import Location, has_passed
from airflow_provider_dm.engine.sync import loop, noting
from airflow_provider_dm.engine.sync.epoch import EpochSize
from airflow_provider_dm.engine.sync.errors import EarlierLogMissing
from airflow_provider_dm.engine.sync.following import Following
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.sync_result import SyncResult
from testbed import Server, start_servers, stop_servers
from tests.binlogs import purge_before
from tests.integration.binlog.walking import end_xa
from tests.integration.relay.replicas import has_all_of, replicate, replicated
from tests.integration.sync.conftest import SOURCE_ID, NewKit, Strike
from tests.integration.sync.failover import Address, FailoverKit, executed
from tests.waiting import wait_for

OPTIONS = {
    "mysql": ("--replica-parallel-workers=4", "--replica-preserve-commit-order=OFF", "--binlog-cache-size=64K"),
    "mariadb": ("--log-slave-updates=ON", "--slave-parallel-threads=4", "--gtid-strict-mode=1"),
}


@pytest.fixture(scope="module")
def servers(source: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[Server]]:
    """Two servers for all tests. (`source` is only the flavour.)"""
    specs = replicated("a", "b", source.flavour, OPTIONS[source.flavour])
    started = start_servers(specs, tmp_path_factory.mktemp("replicas"))
    yield started
    stop_servers(started, keep_logs=True)


@pytest.fixture
def replicas(servers: Sequence[Server]) -> tuple[Server, Server]:
    """A server and a replica that applies with several workers; both begin anew."""
    a, b = servers
    for server in servers:
        server.start()
        server.sql("STOP SLAVE" if server.flavour == "mariadb" else "STOP REPLICA")
        for (name,) in server.sql("SHOW DATABASES WHERE `Database` LIKE 't\\_%' OR `Database` = 'apart'"):
            server.sql(f"DROP DATABASE `{name}`")
        server.sql("RESET SLAVE ALL" if server.flavour == "mariadb" else "RESET REPLICA ALL")
        server.reset_log()
        if server.flavour == "mariadb":
            server.sql("SET GLOBAL gtid_slave_pos = ''")
    replicate(a, b)
    return a, b


@pytest.fixture
def kit(replicas: tuple[Server, Server], mariadb_target: Server, mysql_target: Server, new_kit: NewKit) -> FailoverKit:
    """Begun, with all tables, on the first of the two; the target is of the other flavour."""
    a, b = replicas
    target = mysql_target if a.flavour == "mariadb" else mariadb_target
    kit = new_kit(FailoverKit, a, target, address=Address(a))
    kit.begin_with()
    has_all_of(a, b)
    return kit


@contextmanager
def syncing(kit: FailoverKit) -> Iterator[tuple[SyncProgress, Callable[[], SyncResult]]]:
    """A sync without an end; the second value ends it and gives its result."""
    stop, progress = threading.Event(), SyncProgress()
    with ThreadPoolExecutor(1) as pool:
        running: Future[SyncResult] = pool.submit(kit.run, kit.spec("forever"), None, stop, progress)

        def end() -> SyncResult:
            stop.set()
            return running.result(180)

        try:
            yield progress, end
        finally:
            stop.set()


def die_ahead_of_the_relay(kit: FailoverKit, replica: Server) -> None:
    """Kill the server under load, when the address leads nowhere and the replica has more than the relay."""
    with kit.load(seed=1):
        kit.work(50, seed=2)
        kit.address.lead_to(None)
        kit.work(50, seed=3)
        wanted = executed(kit.source)  # the load continues, so the replica never has all of it
        wait_for(lambda: contains(replica, wanted))
        kit.source.kill()


def contains(server: Server, wanted: str) -> bool:
    """Return True if it has these transactions."""
    if server.flavour == "mysql":
        return server.sql(f"SELECT GTID_SUBSET('{wanted}', @@gtid_executed)") == [(1,)]
    return server.sql(f"SELECT MASTER_GTID_WAIT('{wanted}', 0.1)") == [(0,)]


def test_a_replica_takes_over_while_the_sync_is_running(kit: FailoverKit, replicas: tuple[Server, Server]) -> None:
    _, b = replicas
    with syncing(kit) as (progress, end):
        die_ahead_of_the_relay(kit, b)
        kit.fail_over_to(b)
        with kit.load(seed=4):
            wait_for(lambda: len(kit.sub_dirs()) == 2, shows=kit.sub_dirs)
            wait_for(lambda: progress.location is not None and progress.location.suffix == 2, shows=lambda: progress)
            kit.work(50, seed=5)
        result = end()
    assert result.location.suffix == 2
    result = kit.sync()
    assert result.finished
    assert kit.differences() == []
    assert same_set(result.location.gtid_set, executed(b))


def test_a_sync_that_is_started_after_the_failover_and_dies_after_it(
    kit: FailoverKit, replicas: tuple[Server, Server]
) -> None:
    """The applied GTIDs are read from both servers' logs if they were not recorded; then the first server returns."""
    a, b = replicas
    kit.work(30, seed=1)
    before = kit.sync().location
    kit.work(100, seed=2)
    kit.catch_up_relay()
    has_all_of(a, b)
    a.kill()
    kit.fail_over_to(b)
    kit.work(100, seed=3)
    assert kit.sync(size=EpochSize(limit=4096, one_task=1024, smallest=1024)).location.suffix == 2
    assert kit.differences() == []

    kit.forget_location(before)
    kit.work(30, seed=4)
    a.start()
    replicate(b, a)
    has_all_of(b, a)
    kit.catch_up_relay()
    b.kill()
    kit.fail_over_to(a)
    kit.work(100, seed=5)
    result = kit.sync()
    assert result.location.suffix == 3
    assert kit.differences() == []
    assert same_set(result.location.gtid_set, executed(a))

    middle = kit.upstream()
    kit.work(10, seed=6)
    result = kit.sync(until=str(middle))  # a file of the server that answers now
    assert (str(result.location), result.location.suffix) == (str(middle), 3)
    kit.sync_and_compare()


def test_the_end_of_a_source_is_in_the_log_of_the_answering_server(
    kit: FailoverKit, replicas: tuple[Server, Server]
) -> None:
    """A merged table's other source asks so. The upstream knows nothing of sub-directories, where the sync has them."""
    a, b = replicas
    endpoint = kit.source_spec().endpoint.resolve()
    servers = ContestServers(kit.spec().target.resolve(), kit.ref, {SOURCE_ID: endpoint})

    def end() -> Location:
        found = servers.ends([SOURCE_ID])
        assert found is not None
        return found[SOURCE_ID]

    kit.work(20, seed=1)
    kit.sync()
    before, of_a = servers.applied(SOURCE_ID), end()
    assert before is not None
    assert is_in_log_of(before, of_a)
    assert has_passed(before, end_in(before, of_a))
    has_all_of(a, b)
    a.kill()
    kit.fail_over_to(b)
    kit.work(20, seed=2)
    kit.sync()
    here, of_b = servers.applied(SOURCE_ID), end()
    kit.write("INSERT INTO plain VALUES (1000, 'later')")
    later = end()

    assert here is not None
    assert (here.suffix, of_b.suffix) == (2, 1)
    assert not is_in_log_of(here, of_a), "the file of another server"
    assert not is_in_log_of(before, of_b), "the sync has not come to the new server yet"
    assert is_in_log_of(here, of_b)
    assert has_passed(here, end_in(here, of_b))
    assert is_in_log_of(here, later)
    assert not has_passed(here, end_in(here, later))


def test_the_old_servers_log_is_lost_after_the_failover(kit: FailoverKit, replicas: tuple[Server, Server]) -> None:
    """The older sub-directory is gone, and nothing of it is missing."""
    a, b = replicas
    kit.work(50, seed=1)
    kit.sync()
    has_all_of(a, b)
    a.kill()
    kit.fail_over_to(b)
    kit.work(100, seed=3)
    kit.catch_up_relay()
    kit.stop_relays()
    shutil.rmtree(kit.folder / "relay" / kit.sub_dirs()[0])
    assert kit.sync().location.suffix == 2
    assert kit.differences() == []


# What stops


def test_a_relay_log_that_is_recreated_from_the_first_number(kit: FailoverKit, replicas: tuple[Server, Server]) -> None:
    """Its first sub-directory is the new server's: neither read as the old one's, nor taken for all there is."""
    a, b = replicas
    kit.sync()
    has_all_of(a, b)
    a.kill()
    kit.fail_over_to(b)
    kit.work(10, seed=1)
    assert kit.sync().location.suffix == 2
    kit.stop_relays()
    (kit.folder / "relay").rename(kit.folder / "aside")
    (kit.folder / "relay").mkdir()
    (newest,) = [one for one in (kit.folder / "aside").iterdir() if one.name.endswith(".000002")]
    newest.rename(kit.folder / "relay" / newest.name.replace(".000002", ".000001"))
    kit.work(10, seed=2)
    positions = kit.positions()
    kit.stops(EarlierLogMissing, match="was created again")
    assert kit.positions() == positions
    kit.stop_relays()
    shutil.rmtree(kit.folder / "relay")
    kit.sync_and_compare()


def test_a_replica_with_transactions_of_its_own_stops_the_sync(
    kit: FailoverKit, replicas: tuple[Server, Server]
) -> None:
    """The replica has a transaction of its own in the middle: an error before it, and nothing is applied."""
    a, b = replicas
    kit.work(20, seed=1)
    has_all_of(a, b)
    if b.flavour == "mariadb":
        b.sql("SET gtid_domain_id = 7; CREATE DATABASE apart")  # in one domain it could not replicate any more
    else:
        b.sql("CREATE DATABASE apart")
    kit.work(20, seed=2)
    wait_for(lambda: contains(b, executed(a)))
    kit.sync_and_compare()
    positions, rows = kit.positions(), kit.digest()
    a.kill()
    kit.fail_over_to(b)
    kit.work(20, seed=3)
    caught = kit.stops(FailoverNotFollowed)
    apart = b.sql("SELECT @@server_uuid")[0][0] if b.flavour == "mysql" else f"7-{b.server_id}-1"
    assert re.search(rf"the transaction {apart}.* lacked applied transactions", str(caught))
    assert (kit.positions(), kit.digest()) == (positions, rows)


def test_a_server_that_lacks_what_is_applied(kit: FailoverKit, replicas: tuple[Server, Server]) -> None:
    """It was killed before its replica had everything: the relay refuses, and the sync waits for nothing."""
    a, b = replicas
    b.sql("STOP REPLICA" if b.flavour == "mysql" else "STOP SLAVE")
    kit.work(20, seed=1)
    kit.sync()
    positions, rows = kit.positions(), kit.digest()
    a.kill()
    kit.fail_over_to(b)
    wait_for(lambda: kit.relay_error() == "DM-4027", shows=kit.relay_error)
    assert len(kit.sub_dirs()) == 1
    assert (kit.positions(), kit.digest()) == (positions, rows)


def test_a_server_that_has_purged_what_is_not_pulled(kit: FailoverKit, replicas: tuple[Server, Server]) -> None:
    a, b = replicas
    kit.work(20, seed=1)
    kit.sync()
    positions, rows = kit.positions(), kit.digest()
    kit.address.lead_to(None)
    kit.work(20, seed=2)
    has_all_of(a, b)
    b.sql("FLUSH BINARY LOGS")
    last = b.sql("SHOW BINARY LOGS")[-1][0]
    purge_before(b, last)
    a.kill()
    kit.fail_over_to(b)
    wait_for(lambda: kit.relay_error() == "DM-4025", shows=kit.relay_error)
    assert (kit.positions(), kit.digest()) == (positions, rows)


def same_set(ours: str, theirs: str) -> bool:
    return set(ours.split(",")) == set(theirs.split(","))


def test_a_goal_on_the_old_server_is_reached_in_the_log_of_the_new_one(
    kit: FailoverKit, replicas: tuple[Server, Server]
) -> None:
    """What the goal promised is applied, though the place itself is in a file that is never pulled."""
    a, b = replicas
    kit.work(20, seed=1)
    kit.catch_up_relay()
    kit.run(kit.spec("caught-up"))
    kit.stop_relays()
    kit.work(40, seed=2)
    has_all_of(a, b)
    progress = SyncProgress()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(kit.run, kit.spec("caught-up"), None, threading.Event(), progress)
        wait_for(lambda: progress.goal is not None or running.done())
        a.kill()
        kit.fail_over_to(b)
        kit.pull()
        result = running.result(180)
    assert result.finished
    assert result.location.suffix == 2
    assert kit.differences() == []


def test_xa_prepared_on_the_old_server_is_committed_on_the_new_one(
    kit: FailoverKit, replicas: tuple[Server, Server]
) -> None:
    a, b = replicas
    kit.write("INSERT INTO plain VALUES (500, 'a wall for scans')")
    for number, xid in enumerate(("'kept'", "'undone'", "'late'"), start=1):
        with a.connect(database=kit.schema) as connection, connection.cursor() as cursor:
            for one in (f"XA START {xid}", f"INSERT INTO plain VALUES ({1000 + number}, 'x')", f"XA END {xid}"):
                cursor.execute(one)
            cursor.execute(f"XA PREPARE {xid}")
    kit.work(20, seed=1)
    kit.catch_up_relay()
    kit.sync()
    has_all_of(a, b)

    kit.fail_over_to(b)
    end_xa(b, "'kept'")
    end_xa(b, "'undone'", "ROLLBACK")
    kit.work(20, seed=2)
    kit.catch_up_relay()
    kit.sync()
    assert len(kit.sub_dirs()) == 2
    assert kit.differences() == []
    end_xa(b, "'late'")
    kit.sync_and_compare()
    assert [row[0] for row in b.sql(f"SELECT id FROM `{kit.schema}`.plain WHERE id > 1000 ORDER BY id")] == [1001, 1003]
    for left in ("'kept'", "'undone'", "'late'"):  # the old server has them still
        end_xa(a, left, "ROLLBACK")


def test_a_sync_completes_open_locations_in_the_old_servers_log(
    kit: FailoverKit, replicas: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an epoch, DDL, a copied table: where that log is not held the sync stops, again and again, and nothing is
    done twice. What the sync has once pulled for itself will do, and so does the old log, put back as the error says.
    """
    a, b = replicas
    swap = "ALTER TABLE x RENAME COLUMN p TO q, RENAME COLUMN q TO p"
    a.sql("CREATE TABLE x (id int primary key, p int, q int)", database=kit.schema)
    kit.tables = (*kit.tables, "x")
    kit.sync()
    kit.write("INSERT INTO x VALUES (1, 10, 20)")
    half = kit.upstream()
    kit.write("INSERT INTO keyless VALUES (1, 'a'), (2, 'b')")
    a.sql(swap, database=kit.schema)
    behind = kit.upstream()
    has_all_of(a, b)
    kit.catch_up_relay()
    (old,) = kit.sub_dirs()
    a.kill()
    kit.fail_over_to(b)
    kit.write("INSERT INTO keyless VALUES (3, 'c')")
    kit.catch_up_relay()
    kit.stop_relays()
    held, aside, fallback = (kit.folder / name for name in ("relay", "aside", "upstream"))
    (held / old).rename(aside)
    source_spec = kit.source_spec()
    config = source_spec.config.model_copy(update={"enable_relay": True})
    spec = source_spec.model_copy(update={"config": config, "fallback_dir": str(fallback)})
    monkeypatch.setattr(kit, "source_spec", lambda: spec)
    meta, where = kit.meta_schema, f"task = '{kit.task}'"

    def refused(place: Location, what: str) -> None:
        before = kit.positions(), kit.digest()
        for _ in range(2):
            with pytest.raises(OldLogNotHeld) as caught:
                kit.run(kit.spec())
            assert caught.value.place == str(place)
            assert what in caught.value.open
        assert (kit.positions(), kit.digest()) == before

    keyless, subtask = f"{where} AND table_name = 'keyless'", f"`{meta}`.dm_subtask"
    ((plan,),) = kit.target.sql(f"SELECT plan FROM {subtask} WHERE {where}")
    kit.target.sql(f"UPDATE `{meta}`.dm_table_schema SET skip_until = '{behind.sort_key}' WHERE {keyless}")
    refused(behind, "keyless up to there")
    kit.target.sql(f"UPDATE `{meta}`.dm_table_schema SET skip_until = '' WHERE {keyless}")
    kit.target.sql(f"UPDATE {subtask} SET plan = '{plan}' WHERE {where}")
    kit.target.sql(f"UPDATE `{meta}`.dm_frontier SET released = '{half.sort_key}' WHERE {where} AND bucket = 0")
    refused(half, "some of the rows")

    fallback.mkdir()
    aside.rename(fallback / old)
    with monkeypatch.context() as patch:
        patch.setattr(loop.Loop, "_has_moved", dies)
        with pytest.raises(Strike):
            kit.run(kit.spec())
    assert set(kit.positions()) == {half.sort_key}
    (fallback / old).rename(held / old)
    with monkeypatch.context() as patch:
        patch.setattr(Following, "_commit", dies)
        patch.setattr(noting, "NOTE_SECONDS", 0)  # of a place that is not noted the GTID set is not known: DM-4047
        with pytest.raises(Strike):
            kit.run(kit.spec())
    (held / old).rename(aside)
    refused(behind, "the target has begun to execute the DDL")
    aside.rename(held / old)
    assert kit.run(kit.spec()).finished
    assert kit.differences() == [], "the swap is made once"


def dies(*_: object) -> None:
    raise Strike
