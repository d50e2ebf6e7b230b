"""XA transactions between real servers: rows arrive with their commit, whatever happens in between."""

from collections.abc import Callable, Iterator

import pytest

from airflow_provider_dm.engine.binlog.errors import ChangeNotInLog, XaRowsGone
from airflow_provider_dm.engine.downstream.prepared_xa import forget_ended, note_prepared, read_prepared
from airflow_provider_dm.engine.downstream.session import target_connection
from airflow_provider_dm.engine.relay.purge import Inactive
from airflow_provider_dm.engine.relay.purge_order import PurgeOrder, carried_out
from airflow_provider_dm.engine.sync import noting as module
from airflow_provider_dm.engine.sync.epoch import EpochSize
from tests.integration.binlog.walking import end_xa
from tests.integration.sync.conftest import SOURCE_ID, SyncKit
from tests.waiting import wait_for

MANY = EpochSize(limit=1, one_task=1 << 20, smallest=1, usual=1, largest=1)
"""Each transaction is an epoch."""


def prepare(kit: SyncKit, xid: str, *statements: str) -> None:
    """Prepare a transaction in a session that ends."""
    with kit.source.connect(database=kit.schema) as connection, connection.cursor() as cursor:
        for statement in (f"XA START {xid}", *statements, f"XA END {xid}", f"XA PREPARE {xid}"):
            cursor.execute(statement)


def end(kit: SyncKit, xid: str, verb: str = "COMMIT") -> None:
    end_xa(kit.source, xid, verb)


@pytest.fixture(autouse=True)
def nothing_stays_prepared(request: pytest.FixtureRequest) -> Iterator[None]:
    """It would hold its locks, and its name, for all that follows on the same server."""
    kit: SyncKit = request.getfixturevalue("one_kit" if "one_kit" in request.fixturenames else "kit")
    yield
    kit.source.start()
    with kit.source.connect(use_unicode=False) as connection, connection.cursor() as cursor:
        cursor.execute("XA RECOVER")
        for number, gtrid, _, name in cursor.fetchall():
            cursor.execute(f"XA ROLLBACK X'{name[:gtrid].hex()}',X'{name[gtrid:].hex()}',{number}")


def open_ones(kit: SyncKit) -> list[str]:
    """Return what the target notes as prepared."""
    connection = target_connection(kit.endpoint(kit.target, "target").resolve())
    return [str(one.xid) for one in read_prepared(connection, kit.ref)]


def needed_file(kit: SyncKit) -> str:
    (status,) = kit.store.list_subtasks(source=SOURCE_ID)
    assert status.needed is not None
    return status.needed.file


def purged(kit: SyncKit) -> set[str]:
    """The files of the relay log that a purge of all that is not needed leaves."""
    root = kit.folder / "relay"
    wait_for(lambda: kit.store.relay_status(SOURCE_ID) is not None)  # a relay reports once in a while
    carried_out(kit.store, SOURCE_ID, root, PurgeOrder(Inactive()))
    return {path.name for path in root.glob("*/*bin.*")}


@pytest.mark.parametrize("size", [None, MANY], ids=["one epoch", "many epochs"])
def test_interleaved_transactions_arrive_in_the_order_of_their_commits(kit: SyncKit, size: EpochSize | None) -> None:
    kit.begin_with("plain", "uniq")
    prepare(kit, "'a','\x01''',7", "INSERT INTO plain VALUES (1, 'a')", "INSERT INTO uniq VALUES (1, 10, 'a')")
    prepare(kit, "'b'", "INSERT INTO plain VALUES (2, 'b')", "INSERT INTO uniq VALUES (2, 20, 'b')")
    prepare(kit, "'c'", "INSERT INTO plain VALUES (3, 'c')")
    kit.write("INSERT INTO plain VALUES (4, 'd')", "INSERT INTO uniq VALUES (4, 40, 'd')")
    end(kit, "'b'")
    kit.write("UPDATE uniq SET u = 21 WHERE id = 2", "UPDATE uniq SET u = 20 WHERE id = 4")
    end(kit, "'c'", "ROLLBACK")
    end(kit, "'a','\x01''',7")
    kit.write("UPDATE plain SET v = 'last' WHERE id = 1")
    with kit.source.connect(database=kit.schema) as connection, connection.cursor() as cursor:
        for one in ("XA START 'o'", "DELETE FROM plain WHERE id = 4", "XA END 'o'", "XA COMMIT 'o' ONE PHASE"):
            cursor.execute(one)
    kit.sync_and_compare(size=size)
    assert open_ones(kit) == []


@pytest.mark.parametrize("verb", ["COMMIT", "ROLLBACK"])
def test_prepared_transactions_survive_restarts_of_sync_and_server(kit: SyncKit, verb: str) -> None:
    kit.begin_with("plain")
    prepare(kit, "'x'", "INSERT INTO plain VALUES (1, 'x')")
    kit.write("INSERT INTO plain VALUES (2, 'y')")
    kit.sync_and_compare()  # prepared rows are invisible
    assert open_ones(kit) == ["X'78',X'',1"]

    kit.source.stop()
    kit.source.start()
    kit.write("INSERT INTO plain VALUES (3, 'z')")
    kit.sync()
    assert open_ones(kit) == ["X'78',X'',1"]

    end(kit, "'x'", verb)
    kit.sync_and_compare()
    assert (open_ones(kit), len(kit.source.sql(f"SELECT * FROM `{kit.schema}`.plain"))) == (
        [],
        3 if verb == "COMMIT" else 2,
    )


def test_the_log_is_kept_from_what_is_prepared_on(kit: SyncKit) -> None:
    kit.begin_with("plain")
    prepare(kit, "'x'", "INSERT INTO plain VALUES (1, 'x')")
    first = kit.upstream().file
    for number in range(2, 5):
        kit.source.sql("FLUSH BINARY LOGS")
        kit.write(f"INSERT INTO plain VALUES ({number}, 'y')")
    kit.sync()
    assert needed_file(kit) == first
    assert first in purged(kit)
    end(kit, "'x'")
    kit.sync_and_compare()
    assert first not in purged(kit)


def test_without_the_file_of_the_prepared_rows_the_commit_stops(one_kit: SyncKit) -> None:
    one_kit.begin_with("plain")
    prepare(one_kit, "'x'", "INSERT INTO plain VALUES (1, 'x')")
    first = one_kit.upstream().file
    one_kit.source.sql("FLUSH BINARY LOGS")
    one_kit.write("INSERT INTO plain VALUES (2, 'y')")
    one_kit.sync()
    one_kit.write("INSERT INTO plain VALUES (3, 'z')")
    end(one_kit, "'x'")
    for relay in one_kit.relays:
        relay.kill()
    (path,) = (one_kit.folder / "relay").glob(f"*/{first}")
    hidden = one_kit.folder / "hidden"
    path.rename(hidden)
    raised = one_kit.stops(XaRowsGone)
    assert raised.prepared.startswith(first)
    assert len(one_kit.target.sql(f"SELECT * FROM `{one_kit.schema}`.plain")) == 2
    hidden.rename(path)
    one_kit.sync_and_compare()


@pytest.mark.parametrize("held", [True, False], ids=["the log has it", "the log begins behind it"])
def test_an_xa_transaction_that_was_prepared_before_the_task_began(kit: SyncKit, held: bool) -> None:
    kit.create("plain")
    prepare(kit, "'x'", "INSERT INTO plain VALUES (1, 'x')")
    if not held:
        kit.source.sql("FLUSH BINARY LOGS")
        (kit.folder / "first-file").write_text(kit.upstream().file)
    kit.begin()
    kit.write("INSERT INTO plain VALUES (2, 'y')")
    end(kit, "'x'")
    kit.write("INSERT INTO plain VALUES (3, 'z')")
    if held:
        kit.sync_and_compare()
        return
    kit.stops(ChangeNotInLog, match="X'78',X'',1")
    assert [row[0] for row in kit.target.sql(f"SELECT id FROM `{kit.schema}`.plain")] == [2]


class Died(BaseException):
    """The process was killed."""


def test_a_driver_that_dies_at_any_step_loses_and_invents_nothing(
    one_kit: SyncKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_kit.begin_with("plain", "uniq")
    for number in range(6):
        prepare(one_kit, f"'x{number}'", f"INSERT INTO uniq VALUES ({number}, {number}, 'x')")
        one_kit.write(f"INSERT INTO plain VALUES ({number}, 'y')")
        if number % 2:
            end(one_kit, f"'x{number - 1}'")
            end(one_kit, f"'x{number}'", "ROLLBACK" if number == 3 else "COMMIT")
            one_kit.write(f"UPDATE uniq SET u = u + 100 WHERE id = {number - 1}")

    done: list[int] = []

    def dying(real: Callable[..., None], *, before: bool) -> Callable[..., None]:
        def call(*given: object, **named: object) -> None:
            if not before:
                real(*given, **named)
            done.append(1)
            if len(done) == 2:  # each run gets one step further
                raise Died
            if before:
                real(*given, **named)

        return call

    deaths = 0
    for before in (True, False):
        monkeypatch.setattr(module, "note_prepared", dying(note_prepared, before=before))
        monkeypatch.setattr(module, "forget_ended", dying(forget_ended, before=before))
        while deaths < 100:
            done.clear()
            try:
                one_kit.sync(size=MANY)
                break
            except Died:
                deaths += 1
    assert 4 < deaths < 100
    assert one_kit.differences() == []
    assert open_ones(one_kit) == []
