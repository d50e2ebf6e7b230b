"""XA transactions: rows count where they are committed, wherever they were prepared."""

import json
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_dm.engine.binlog.boundary import last_boundary
from airflow_provider_dm.engine.binlog.errors import ChangeNotInLog, MalformedEvent, XaRowsGone
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.maps import WantedTable, WantedTables
from airflow_provider_dm.engine.binlog.planned import Epoch, EpochLimits, UpToDate
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.prepared_ranges import look_back
from airflow_provider_dm.engine.binlog.rows import decode_range
from airflow_provider_dm.engine.binlog.xa import PreparedXa, Xid, read_end, read_prepare
from airflow_provider_dm.engine.mysql.location import Location
from tests.unit.binlog.building import FLAVOURS, ORDERS, Log, order

A, B = Xid(1, b"a", b""), Xid(7, b"b\x00'", b"\xff")
HUGE = 1 << 40


def xa_prepare(log: Log, xid: Xid, *numbers: int, one_phase: bool = False, rollback_to: bool = False) -> int:
    """A group that prepares rows of ORDERS with these ids, as the flavour logs it; where it begins."""
    start = of_mariadb(log, xid, 64 | 8, b"\x01\xff") if log.flavour == "mariadb" else log.gtid()
    if log.flavour == "mysql":
        log.query(f"XA START {xid}")
    for number in numbers:
        log.change(None, order(number))
    if rollback_to:
        log.query("ROLLBACK TO `s`")
    log.query(f"XA END {xid}")
    head = struct.pack("<BIII", one_phase, xid.format, len(xid.gtrid), len(xid.bqual))
    log.add(38, head + xid.gtrid + xid.bqual)
    return start


def of_mariadb(log: Log, xid: Xid, flags: int, end: bytes = b"") -> int:
    log.sequence += 1
    name = struct.pack("<IBB", xid.format, len(xid.gtrid), len(xid.bqual)) + xid.gtrid + xid.bqual
    return log.add(162, struct.pack("<QIB", log.sequence, 0, flags) + name + end)


def xa_end(log: Log, xid: Xid, verb: str = "COMMIT") -> int:
    start = of_mariadb(log, xid, 128 | 8 | 1) if log.flavour == "mariadb" else log.gtid()
    log.query(f"XA {verb} {xid}")
    return start


def insert(log: Log, number: int) -> None:
    log.transaction(("insert", [order(number)]))


def ids(epoch: Epoch, skip_until: str = "") -> list[int]:
    wanted = WantedTables([WantedTable(ORDERS, skip_until)], lambda _name: None)
    return [int(change.after[0] or 0) for one in epoch.ranges for change in decode_range(one, wanted) if change.after]


def plan(
    files: Sequence[LogFile],
    lo: Location,
    prepared: Sequence[PreparedXa] = (),
    *,
    max_bytes: int = HUGE,
    part: int = HUGE,
) -> Epoch | None:
    found = plan_epoch(
        files, lo, EpochLimits(max_bytes=max_bytes, range_bytes=part), prepared=prepared, held=lambda: files
    )
    assert not isinstance(found, UpToDate) or found.at.position >= lo.position
    return found if isinstance(found, Epoch) else None


def epochs(files: Sequence[LogFile], lo: Location, *, max_bytes: int = HUGE, part: int = HUGE) -> list[Epoch]:
    """All of a log, each plan with what the one before has left prepared."""
    found: list[Epoch] = []
    prepared: tuple[PreparedXa, ...] = ()
    while (one := plan(files, lo, prepared, max_bytes=max_bytes, part=part)) is not None:
        found.append(one)
        lo, prepared = one.hi, prepared if one.prepared is None else one.prepared
    return found


@FLAVOURS
def test_prepared_transactions_are_part_of_the_epoch_and_of_its_json(flavour: str, tmp_path: Path) -> None:
    log = Log(flavour)
    start = xa_prepare(log, B, 1)
    end = log.position
    files = [log.file(tmp_path)]
    first = plan(files, Location(log.name, start))
    assert first is not None
    assert first.prepared == (PreparedXa(B, Location(log.name, start), end, rows=True),)
    assert (first.ranges, first.bytes, first.transactions, first.hi.position) == ((), 0, 1, end)
    kept = [PreparedXa.from_json(json.loads(json.dumps(one.to_json()))) for one in first.prepared]
    assert kept == list(first.prepared)

    insert(log, 2)
    xa_end(log, B)
    second = plan([log.file(tmp_path)], first.hi, kept)
    assert second is not None
    assert (ids(second), second.prepared) == ([2, 1], ())


@FLAVOURS
def test_an_xa_transaction_that_is_committed_at_once_is_one_range(flavour: str, tmp_path: Path) -> None:
    log = Log(flavour)
    start = log.position
    for number in range(5):
        xa_prepare(log, A, number)
        xa_end(log, A)
    (epoch,) = epochs([log.file(tmp_path)], Location(log.name, start))
    assert ids(epoch) == [0, 1, 2, 3, 4]
    assert [(one.start, one.end, one.counts_at) for one in epoch.ranges] == [(start, log.position, "")]


def test_a_commit_in_one_phase_is_an_ordinary_transaction(tmp_path: Path) -> None:
    log = Log()
    start = xa_prepare(log, A, 1, one_phase=True)
    (epoch,) = epochs([log.file(tmp_path)], Location(log.name, start))
    assert (ids(epoch), epoch.prepared) == ([1], None)


@FLAVOURS
def test_an_xa_transaction_without_rows_is_ignored(flavour: str, tmp_path: Path) -> None:
    log = Log(flavour)
    start = xa_prepare(log, A)
    insert(log, 1)
    xa_end(log, A)
    (epoch,) = epochs([log.file(tmp_path)], Location(log.name, start))
    assert ids(epoch) == [1]


def test_an_xid_that_is_prepared_again_has_ended(tmp_path: Path) -> None:
    log = Log()
    start = xa_prepare(log, A, 1)
    again = xa_prepare(log, A, 2)
    files = [log.file(tmp_path)]
    first = plan(files, Location(log.name, start))
    assert first is not None
    assert [one.at.position for one in first.prepared or ()] == [again]
    insert(log, 3)
    xa_end(log, A)
    (epoch,) = epochs([log.file(tmp_path)], Location(log.name, start))
    assert ids(epoch) == [3, 2]


def test_a_large_xa_transaction_is_cut_at_its_statements(tmp_path: Path) -> None:
    log = Log()
    start = xa_prepare(log, A, *range(50))
    insert(log, 99)
    xa_end(log, A)
    (epoch,) = epochs([log.file(tmp_path)], Location(log.name, start), part=200)
    parts = [one for one in epoch.ranges if one.counts_at]
    assert len(parts) > 5
    assert {one.inside for one in parts} == {True, False}
    assert ids(epoch) == [99, *range(50)]
    second = epochs([log.file(tmp_path)], Location(log.name, start), part=200, max_bytes=1)[-1]
    assert [(one.start, one.end) for one in second.ranges if one.counts_at] == [(one.start, one.end) for one in parts]


def test_a_compressed_xa_transaction_is_read(tmp_path: Path) -> None:
    log = Log()
    events = Log.inner()
    events.query(f"XA START {A}")
    events.change(None, order(1))
    events.query(f"XA END {A}")
    events.add(38, struct.pack("<BIII", 0, 1, 1, 0) + b"a")
    start = log.gtid()
    log.payload(events)
    end = log.position
    insert(log, 2)
    commit = xa_end(log, A)
    file = log.file(tmp_path)
    (epoch,) = epochs([file], Location(log.name, start))
    assert ids(epoch) == [2, 1]
    found = look_back(A, Location(log.name, commit), [file])
    assert found == (PreparedXa(A, Location(log.name, start), end, rows=True), file)


def test_a_prepared_transaction_in_an_older_file_is_found(tmp_path: Path) -> None:
    old = Log()
    start = xa_prepare(old, A, 1)
    old.rotate("mysql-bin.000002")
    new = Log(name="mysql-bin.000002")
    insert(new, 2)
    commit = xa_end(new, A)
    files = [old.file(tmp_path, last=False), new.file(tmp_path)]
    first = plan(files[:1], Location(old.name, start))
    assert first is not None
    lo = Location(new.name, 4)
    behind = plan_epoch(files[1:], lo, prepared=first.prepared or (), held=lambda: files)
    assert isinstance(behind, Epoch)
    assert ids(behind) == [2, 1]
    assert behind.ranges[-2].counts_at == Location(new.name, commit).sort_key

    before = plan_epoch(files[1:], lo, prepared=first.prepared or ())
    assert isinstance(before, Epoch)
    assert (ids(before), before.hi.position, before.prepared) == ([2], commit, None)
    with pytest.raises(XaRowsGone) as raised:
        plan_epoch(files[1:], before.hi, prepared=first.prepared or ())
    assert raised.value.details() == {"at": f"{new.name}:{commit}", "xid": str(A), "prepared": f"{old.name}:{start}"}


@FLAVOURS
def test_an_xa_transaction_prepared_before_the_start_is_found_in_the_log(flavour: str, tmp_path: Path) -> None:
    log = Log(flavour)
    xa_prepare(log, A, 1)
    xa_end(log, A, "ROLLBACK")
    xa_prepare(log, A, 2)
    log.ddl("CREATE TABLE other (a INT)")
    begin = log.position
    insert(log, 3)
    xa_end(log, A)
    (epoch,) = epochs([log.file(tmp_path)], Location(log.name, begin))
    assert ids(epoch) == [3, 2]


@FLAVOURS
def test_the_commit_of_an_unknown_xa_stops_and_its_rollback_does_not(flavour: str, tmp_path: Path) -> None:
    log = Log(flavour)
    xa_prepare(log, A, 1)
    xa_end(log, A)
    begin = xa_end(log, B, "ROLLBACK")
    insert(log, 2)
    commit = xa_end(log, A)
    file = log.file(tmp_path)
    first = plan([file], Location(log.name, begin))
    assert first is not None
    assert (ids(first), first.hi.position) == ([2], commit)
    with pytest.raises(ChangeNotInLog) as raised:
        plan([file], first.hi)
    assert f"the XA transaction {A} is committed at {log.name}:{commit}, but" in raised.value.happened()
    assert "XA RECOVER" in raised.value.workaround()
    bounds = plan_epoch([file], first.hi, bounds_only=True)
    assert isinstance(bounds, Epoch)
    assert bounds.hi.position == log.position


def test_a_gap_in_the_log_hides_earlier_transactions(tmp_path: Path) -> None:
    old, new = Log(), Log(name="mysql-bin.000003")
    xa_prepare(old, A, 1)
    xa_end(new, A)
    files = [old.file(tmp_path, last=False), new.file(tmp_path)]
    assert look_back(A, Location(new.name, new.position), files) is None
    near = replace(files[1], name="mysql-bin.000002")
    assert look_back(A, Location(near.name, 4), [files[0], near]) is not None


@FLAVOURS
@pytest.mark.parametrize("between", [False, True], ids=["at once", "with another in between"])
def test_a_snapshot_between_prepare_and_commit_does_not_have_its_rows(
    flavour: str, between: bool, tmp_path: Path
) -> None:
    log = Log(flavour)
    start = log.position
    insert(log, 1)
    xa_prepare(log, A, 2)
    prepared = log.position
    if between:
        insert(log, 3)
    commit = xa_end(log, A)
    end = log.position
    insert(log, 4)
    (epoch,) = epochs([log.file(tmp_path)], Location(log.name, start))
    others = [3] if between else []
    for snapshot, missing in (
        (start, [1, *others, 2, 4]),
        (prepared, [*others, 2, 4]),
        (commit, [2, 4]),
        (end, [4]),
        (log.position, []),
    ):
        assert ids(epoch, Location(log.name, snapshot).sort_key) == missing


MALFORMED = {
    "no rows before it": lambda log: log.add(38, struct.pack("<BIII", 0, 1, 1, 0) + b"a"),
    "cut short": lambda log: (log.gtid(), log.query(f"XA START {A}"), log.add(38, b"\0" * 12)),
    "too long a name": lambda log: (
        log.gtid(),
        log.query(f"XA START {A}"),
        log.add(38, struct.pack("<BIII", 0, 1, 65, 0) + bytes(65)),
    ),
    "an end inside": lambda log: (log.begin(), log.query(f"XA COMMIT {A}")),
    "an end of nothing": lambda log: (log.gtid(), log.query(f"XA END {A}")),
    "another form": lambda log: (log.gtid(), log.query("XA COMMIT 'a'")),
}


@pytest.mark.parametrize("wrong", MALFORMED.values(), ids=MALFORMED)
def test_event_sequences_that_no_server_writes_stop(wrong, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    log = Log()
    start = log.position
    wrong(log)
    with pytest.raises(MalformedEvent):
        plan([log.file(tmp_path)], Location(log.name, start))


def test_a_savepoint_that_could_not_be_undone_stops_as_elsewhere(tmp_path: Path) -> None:
    log = Log()
    start = xa_prepare(log, A, 1, rollback_to=True)
    with pytest.raises(ChangeNotInLog, match="was rolled back after"):
        plan([log.file(tmp_path)], Location(log.name, start))


@FLAVOURS
def test_a_relay_may_end_after_prepare_and_after_commit(flavour: str, tmp_path: Path) -> None:
    log = Log(flavour)
    xa_prepare(log, A, 1)
    ends = [log.position]
    xa_end(log, A)
    ends.append(log.position)
    path = log.file(tmp_path).path
    for size in range(ends[0], log.position + 1):
        tail = last_boundary(path, size)
        assert tail is not None
        assert tail.position == max(end for end in ends if end <= size)


NAMES = st.builds(Xid, st.integers(0, (1 << 32) - 1), st.binary(min_size=1, max_size=64), st.binary(max_size=64))


@given(NAMES, st.booleans())
def test_any_name_is_equal_in_all_its_notations(xid: Xid, commit: bool) -> None:
    verb = "COMMIT" if commit else "ROLLBACK"
    assert read_end(f"XA {verb} {xid}".encode()) == (xid, commit)
    body = struct.pack("<BIII", 0, xid.format, len(xid.gtrid), len(xid.bqual)) + xid.gtrid + xid.bqual
    assert read_prepare(body, "here") == (xid, False)
    group = PreparedXa(xid, Location("bin.000001", 4), 100, rows=True, seams=((7, 100),))
    assert PreparedXa.from_json(json.loads(json.dumps(group.to_json()))) == group


ACTS = st.lists(st.tuples(st.sampled_from(["row", "prepare", "commit", "rollback"]), st.integers(0, 3)), max_size=25)


@settings(max_examples=60)
@given(acts=ACTS, flavour=st.sampled_from(["mysql", "mariadb"]), size=st.sampled_from([1, 300, 700, HUGE]))
def test_any_history_is_read_in_the_order_of_its_commits(
    acts: list[tuple[str, int]], flavour: str, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = Log(flavour)
    start, number = log.position, 0
    expected: list[int] = []
    prepared: dict[int, list[int]] = {}
    for act, which in acts:
        xid = Xid(1, b"x%d" % which, b"")
        if act == "row":
            number += 1
            insert(log, number)
            expected.append(number)
        elif act == "prepare" and which not in prepared:
            prepared[which] = [number + 1, number + 2][: which + 1]
            number += 2
            xa_prepare(log, xid, *prepared[which])
        elif act in ("commit", "rollback") and which in prepared:
            rows = prepared.pop(which)
            xa_end(log, xid, act.upper())
            expected += rows if act == "commit" else []
    found = epochs([log.file(tmp_path_factory.mktemp("log"))], Location(log.name, start), max_bytes=size, part=250)
    assert [one for epoch in found for one in ids(epoch)] == expected
    left = found[-1].prepared if found else ()
    known = {one.xid.gtrid for epoch in found[-1:] for one in epoch.prepared or ()}
    if left is not None:
        assert known == {b"x%d" % which for which in prepared}
