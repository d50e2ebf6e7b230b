"""The start of an incremental task: `meta` is verified before it is stored, and can be corrected until rows change."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.purge import Inactive
from airflow_provider_dm.engine.relay.purge_order import PurgeOrder, carried_out
from airflow_provider_dm.engine.sync.runner import LocalRunner
from airflow_provider_dm.engine.sync.start import begin_incremental
from tests.integration.sync.conftest import SOURCE_ID, SyncKit, rows_of
from tests.waiting import wait_for


def row(number: int) -> str:
    return f"INSERT INTO plain VALUES ({number}, 'v')"


def numbers(kit: SyncKit) -> list[object]:
    return [number for number, _ in rows_of(kit.target, kit.schema, "plain")]


def refused(kit: SyncKit, start: Location | None) -> DmError:
    """The error of a sync from there, which leaves nothing in the target or the metadata DB."""
    kit.pull()
    with pytest.raises(DmError) as raised:
        kit.run(kit.spec("caught-up", start))
    (begun,) = kit.target.sql(f"SELECT start_location FROM `{kit.meta_schema}`.dm_subtask")
    assert begun == (None,)
    assert kit.target.sql(f"SELECT * FROM `{kit.meta_schema}`.dm_frontier") == []
    assert kit.store.list_subtasks(task="test") == []
    return raised.value


def nowhere(kit: SyncKit) -> dict[str, tuple[Location, str]]:
    """Invalid locations, each with its error."""
    here = kit.upstream()
    before = replace(here, gtid_set="")
    kit.write(row(1))
    end = kit.upstream()
    return {
        "inside an event": (before.at(here.position + 1), "no transaction begins there"),
        "inside a transaction": (before.at(first_behind(kit, here)), f"the next one is at {end.position}"),
        "behind the end": (end.at(end.position + 1000), f"that file ends at {end.position}"),
        "a file to come": (replace(before, file="mysql-bin.999999"), f"to {end.file}"),
        "another name": (replace(before, file=f"other.{here.file.rpartition('.')[2]}"), f"to {end.file}"),
    }


def first_behind(kit: SyncKit, here: Location) -> int:
    """Return where the second event after a place begins: inside the transaction that begins there."""
    events = kit.source.sql(f"SHOW BINLOG EVENTS IN '{here.file}' FROM {here.position} LIMIT 1")
    return int(events[0][4])


def test_an_invalid_location_is_refused_and_a_corrected_location_accepted(kit: SyncKit) -> None:
    kit.create("plain")
    good = kit.upstream()
    for what, (start, why) in nowhere(kit).items():
        error = refused(kit, start)
        assert (what, error.code) == (what, "DM-6048")
        assert str(start) in error.message()
        assert why in error.message(), what
    kit.sync_and_compare(start=good)
    assert numbers(kit) == [1]


def test_the_start_is_never_guessed(kit: SyncKit) -> None:
    kit.create("plain")
    error = refused(kit, None)
    assert "needs a start" in str(error)
    assert str(kit.upstream()) in error.message()
    assert "binlog-name" in error.message()


def test_the_start_can_be_corrected_until_changes_are_applied(kit: SyncKit) -> None:
    kit.create("plain")
    early = kit.upstream()
    kit.write(row(1))
    late = kit.upstream()
    kit.write(row(2))
    kit.begin(late)
    kit.begin(early)
    kit.sync(start=early)
    assert numbers(kit) == [1, 2]
    kit.target.sql(f"DELETE FROM `{kit.schema}`.plain")
    kit.write(row(3))
    kit.sync(start=early)
    assert numbers(kit) == [3], "the checkpoint counts, whatever the file says"


def test_a_refused_correction_leaves_the_first_start(kit: SyncKit) -> None:
    kit.create("plain")
    first = kit.upstream()
    kit.write(row(1))
    kit.begin(first)
    with pytest.raises(DmError, match="DM-6048"):
        kit.run(kit.spec("caught-up", first.at(first.position + 1)))
    (needed,) = kit.store.list_subtasks(task="test")
    assert str(needed.needed) == str(first)
    kit.sync(start=first)
    assert numbers(kit) == [1]


@pytest.mark.parametrize("moment", ["current_location", "read_tables", "begin_subtask"])
def test_a_purge_keeps_the_file_it_begins_in(kit: SyncKit, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """The source continues in new files, and a purge removes all files that no task needs."""
    kit.create("plain")
    kit.pull()
    start = kit.upstream()
    kit.write(row(1))
    wait_for(lambda: (kit.folder / "relay").is_dir() and list((kit.folder / "relay").glob(f"*/{start.file}")))

    def purge_after(step: Callable[..., Any]) -> Callable[..., Any]:
        def slowly(*arguments: Any, **options: Any) -> Any:
            found = step(*arguments, **options)
            root = kit.folder / "relay"
            kit.source.sql("FLUSH BINARY LOGS; FLUSH BINARY LOGS")
            newest = kit.source.sql("SHOW BINARY LOGS")[-1][0]
            wait_for(lambda: list(root.glob(f"*/{newest}")) and kit.store.relay_status(SOURCE_ID))
            try:
                carried_out(kit.store, SOURCE_ID, root, PurgeOrder(Inactive()))
            except DmError as error:
                assert error.code == "DM-4052"  # noqa: PT017 - a purge that does not know who needs what is refused
            return found

        return slowly

    monkeypatch.setattr(begin_incremental, moment, purge_after(getattr(begin_incremental, moment)))
    assert kit.run(kit.spec("caught-up", start), LocalRunner(), threading.Event()).finished
    assert numbers(kit) == [1]
    assert kit.differences() == []
