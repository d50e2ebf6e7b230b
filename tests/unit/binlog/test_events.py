"""Each of the 256 event codes: applied, harmless for a reason, or a typed error at its location.

What is expected is written down here a second time, apart from the engine's table: a change there is a decision, and
this test asks whether it was one.
"""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from airflow_provider_dm.engine.binlog import events
from airflow_provider_dm.engine.binlog.errors import ChecksumMismatch, EventTooLarge, MalformedEvent, UnknownEvent
from airflow_provider_dm.engine.binlog.events import EVENTS, ROLES, EventRole, Kind, every_code
from airflow_provider_dm.engine.binlog.header import HEADER_SIZE, START
from airflow_provider_dm.engine.binlog.maps import WantedTables
from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, UpToDate
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.rows import RowChange, decode_range
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.codec import Row
from tests.unit.binlog.building import ORDERS, UUID_OF_SOURCE, Log, order

# Applied: an event, what it does to a log, and the ids and rows that come out

Rows = list[tuple[bytes | None, bytes | None]]
"""(key before, key after)"""

INSERTED: Rows = [(None, b"1")]


def changing(kind: str, *, compressed: bool = False, version: int = 0) -> Log:
    log = Log(server="mariadb-10.11" if compressed or version == 1 else "mysql-9.7")
    log.begin()
    log.table_map()
    log.rows(kind, IMAGES[kind], compressed=compressed, version=version)
    log.xid()
    return log


IMAGES = {"insert": [order(1)], "update": [order(1), order(2)], "delete": [order(1)]}
KEYS: dict[str, Rows] = {"insert": INSERTED, "update": [(b"1", b"2")], "delete": [(b"1", None)]}


def insert_of(server: str = "", gtid: Callable[[Log], object] | None = None) -> Log:
    log = Log(server=server)
    _ = log.gtid() if gtid is None else gtid(log)
    if log.flavour == "mysql":
        log.query("BEGIN")
    log.change(None, order(1))
    log.xid()
    return log


def committed_as_text() -> Log:
    log = Log()
    log.begin()
    log.change(None, order(1))
    log.query("COMMIT")
    return log


def ended_by(code: int, body: bytes = b"") -> Log:
    log = insert_of()
    log.add(code, body)
    return log


def behind(code: int, body: bytes, server: str) -> Log:
    log = Log(server=server)
    log.add(code, body)
    log.sequence = 7
    log.transaction()
    return log


def in_a_payload() -> Log:
    inner = Log.inner()
    inner.query("BEGIN")
    inner.change(None, order(1))
    inner.xid()
    log = Log()
    log.gtid()
    log.payload(inner)
    return log


def in_two_phases() -> Log:
    log = Log()
    log.gtid()
    log.query("XA START X'78',X'',1")
    log.change(None, order(1))
    log.query("XA END X'78',X'',1")
    log.add(38, struct.pack("<BIII", 0, 1, 1, 0) + b"x")
    log.transaction(("insert", [order(2)]))
    log.gtid()
    log.query("XA COMMIT X'78',X'',1")
    return log


def anonymous(log: Log) -> None:
    log.add(34, bytes(42))


def tagged(log: Log) -> None:
    log.tagged_gtid("blue")


def empty_statement() -> Log:
    log = Log(server="mariadb-10.11")
    log.ddl("# nothing", compressed=True)
    log.transaction()
    return log


SEVEN = b"\1" + bytes(7) + UUID_OF_SOURCE.bytes + b"\1" + bytes(7) + b"\1" + bytes(7) + b"\x08" + bytes(7)
LISTED = b"\1\0\0\0" + b"\0\0\0\0" + b"\7\0\0\0" + b"\7" + bytes(7)
UUID = str(UUID_OF_SOURCE)

APPLIED: dict[int, tuple[Callable[[], Log], Rows, str]] = {
    2: (committed_as_text, INSERTED, f"{UUID}:1"),
    3: (partial(ended_by, 3), INSERTED, f"{UUID}:1"),
    4: (partial(ended_by, 4, b"\4" + bytes(7) + b"mysql-bin.000002"), INSERTED, f"{UUID}:1"),
    15: (insert_of, INSERTED, f"{UUID}:1"),
    16: (insert_of, INSERTED, f"{UUID}:1"),
    19: (insert_of, INSERTED, f"{UUID}:1"),
    23: (partial(changing, "insert", version=1), KEYS["insert"], "0-7-1"),
    24: (partial(changing, "update", version=1), KEYS["update"], "0-7-1"),
    25: (partial(changing, "delete", version=1), KEYS["delete"], "0-7-1"),
    30: (partial(changing, "insert"), KEYS["insert"], f"{UUID}:1"),
    31: (partial(changing, "update"), KEYS["update"], f"{UUID}:1"),
    32: (partial(changing, "delete"), KEYS["delete"], f"{UUID}:1"),
    33: (insert_of, INSERTED, f"{UUID}:1"),
    34: (partial(insert_of, "mysql-5.7", anonymous), INSERTED, ""),
    35: (partial(behind, 35, SEVEN, "mysql-8.4"), INSERTED, f"{UUID}:1-8"),
    38: (in_two_phases, [(None, b"2"), (None, b"1")], f"{UUID}:1-3"),
    40: (in_a_payload, INSERTED, f"{UUID}:1"),
    42: (partial(insert_of, "mysql-9.7", tagged), INSERTED, f"{UUID}:blue:1"),
    162: (partial(insert_of, "mariadb-11.8"), INSERTED, "0-7-1"),
    163: (partial(behind, 163, LISTED, "mariadb-10.0"), INSERTED, "0-7-8"),
    165: (empty_statement, INSERTED, "0-7-2"),
    166: (partial(changing, "insert", compressed=True, version=1), KEYS["insert"], "0-7-1"),
    167: (partial(changing, "update", compressed=True, version=1), KEYS["update"], "0-7-1"),
    168: (partial(changing, "delete", compressed=True, version=1), KEYS["delete"], "0-7-1"),
    169: (partial(changing, "insert", compressed=True, version=2), KEYS["insert"], "0-7-1"),
    170: (partial(changing, "update", compressed=True, version=2), KEYS["update"], "0-7-1"),
    171: (partial(changing, "delete", compressed=True, version=2), KEYS["delete"], "0-7-1"),
}

PLANNED = {39: "rows as differences of JSON documents: a transaction to the planner; what they mean is in test_rows"}

HARMLESS = {
    27: "a heartbeat says that a connection lives; in no file of a source",
    29: "the text of the statement whose rows follow",
    36: "what group replication certifies with the transaction whose rows follow",
    37: "who belongs to the replication group",
    41: "a heartbeat, with a longer position",
    160: "the text of the statement whose rows follow",
    161: "which files the source's own recovery needs",
}

ERRORS = {
    0: "the code of no event",
    **dict.fromkeys((1, 6, 7, 8, 10, 12), "before MySQL 5.0"),
    **dict.fromkeys((20, 21, 22), "beta versions of MySQL 5.1"),
    **dict.fromkeys((5, 9, 11, 13, 14, 17, 18), "belongs to a statement that is logged as text"),
    26: "the source lost events",
    28: "an event that hides its kind",
    164: "a file that is encrypted at rest",
    172: "a rows event in fragments",
    **dict.fromkeys(sorted({*range(43, 160), *range(173, 256)}), "no server writes it"),
}


def test_every_event_code_has_exactly_one_expected_outcome() -> None:
    listed = [*APPLIED, *PLANNED, *HARMLESS, *ERRORS]
    assert sorted(listed) == list(range(256))


def test_the_table_has_the_same_entries() -> None:
    assert {kind.code for kind in EVENTS if kind.role is EventRole.PASS} == HARMLESS.keys()
    assert {kind.code for kind in EVENTS if kind.role is EventRole.STOP} == ERRORS.keys()
    assert [kind.code for kind in EVENTS] == list(range(256))
    assert list(ROLES) == [kind.role for kind in EVENTS]
    assert [kind.name for kind in EVENTS if kind.role in (EventRole.STOP, EventRole.PASS) and not kind.why] == []


def test_loops_compare_with_the_order_of_roles() -> None:
    names = ["STOP", "PASS", "READER", "BOUNDARY", "SQL", "MAP", "ROWS", "PAYLOAD"]
    assert [(role.name, int(role)) for role in EventRole] == list(zip(names, range(8), strict=True))


def test_a_code_is_declared_once_and_with_its_reason() -> None:
    with pytest.raises(ValueError, match="twice"):
        every_code([Kind(2, "A", EventRole.SQL), Kind(2, "B", EventRole.SQL)])
    with pytest.raises(ValueError, match="no reason"):
        every_code([Kind(2, "A", EventRole.STOP)])


# The oracles


def planned(log: Log, folder: Path, start: int = 4) -> Iterator[Epoch | DdlStatement | UpToDate]:
    """Everything in the log, UpToDate last."""
    here, files = Location(log.name, start), [log.file(folder)]
    while True:
        found = plan_epoch(files, here)
        yield found
        match found:
            case Epoch(hi=end) | DdlStatement(end=end):
                here = end
            case UpToDate():
                return


def outcome(log: Log, folder: Path) -> tuple[Rows, str]:
    """(rows, ids) of a whole log."""
    rows: list[RowChange] = []
    for found in planned(log, folder):
        if isinstance(found, Epoch):
            rows += [row for one in found.ranges for row in decode_range(one, WantedTables.whole([ORDERS]))]
    assert isinstance(found, UpToDate)
    assert found.at.position == log.position
    return [(key_of(row.before), key_of(row.after)) for row in rows], found.at.gtid_set


def key_of(row: Row | None) -> bytes | None:
    return None if row is None else row[0]


def codes_in(data: bytes, position: int = 4) -> set[int]:
    found = set()
    while position < len(data):
        _, code, _, size = START.unpack_from(data, position)
        found.add(code)
        position += size
    return found


@pytest.mark.parametrize("code", range(256), ids=lambda code: f"{code} {EVENTS[code].name}")
def test_an_event_is_applied_or_harmless_or_a_typed_error_at_its_location(code: int, tmp_path: Path) -> None:
    if code in APPLIED:
        write, rows, ids = APPLIED[code]
        log = write()
        assert code in codes_in(bytes(log.data))
        assert outcome(log, tmp_path) == (rows, ids)
    elif code in PLANNED:
        transaction_of_anything(code, tmp_path)
    elif code in HARMLESS:
        changes_nothing_wherever_it_stands(code, tmp_path)
    else:
        stops_wherever_it_stands(code, tmp_path)


@pytest.mark.parametrize("checksum", [True, False])
def test_a_decrypted_log_is_read_if_its_checksums_fit(checksum: bool, tmp_path: Path) -> None:
    """MariaDB's START_ENCRYPTION stays in a log that the server sends, which it decrypts."""
    log = Log("mariadb", checksum=checksum)
    position = log.add(events.START_ENCRYPTION, bytes(17))
    if checksum:
        (nothing_yet,) = planned(log, tmp_path)
        assert isinstance(nothing_yet, UpToDate), "what lies behind it has to tell"
    start, end = log.transaction()
    if checksum:
        (found, _) = planned(log, tmp_path)
        assert isinstance(found, Epoch)
        assert (found.transactions, found.hi.position) == (1, end)
        rows = [row for one in found.ranges for row in decode_range(one, WantedTables.whole([ORDERS]))]
        assert rows == [RowChange(0, None, (b"1", b"x"))]
        log.data[start + HEADER_SIZE] ^= 1
    with pytest.raises(UnknownEvent, match="the file is encrypted") as raised:
        list(planned(log, tmp_path))
    assert raised.value.at == f"{log.name}:{position}"


def test_no_damage_hides_a_log_that_was_encrypted(tmp_path: Path) -> None:
    """Nothing of a finished file may be passed over in silence: no bit of START_ENCRYPTION and of the event after."""
    log, following = Log("mariadb"), Log("mariadb", name="mysql-bin.000002")
    begin = log.add(events.START_ENCRYPTION, bytes(17))
    start, _ = log.transaction()
    log.rotate(following.name)
    for bit in range(8 * begin, 8 * (start + HEADER_SIZE + 20)):
        log.data[bit // 8] ^= 1 << bit % 8
        files = [log.file(tmp_path, last=False), following.file(tmp_path)]
        with pytest.raises((UnknownEvent, MalformedEvent, EventTooLarge, ChecksumMismatch)):
            plan_epoch(files, Location(log.name, 4))
        log.data[bit // 8] ^= 1 << bit % 8


def transaction_of_anything(code: int, folder: Path) -> None:
    log = Log()
    log.begin()
    log.table_map()
    log.add(code, bytes(40))
    log.xid()
    epoch, _ = planned(log, folder)
    assert isinstance(epoch, Epoch)
    assert (epoch.transactions, epoch.hi.position) == (1, log.position)


def changes_nothing_wherever_it_stands(code: int, folder: Path) -> None:
    log = Log()
    log.add(code, b"x" * 30)
    log.gtid()
    log.add(code, b"x" * 30)
    log.query("BEGIN")
    log.add(code, b"x" * 30)
    log.change(None, order(1))
    log.add(code, b"", flags=0x80)
    log.xid()
    log.add(code, b"x" * 30)
    assert outcome(log, folder) == outcome(insert_of(), folder)


def stops_wherever_it_stands(code: int, folder: Path) -> None:
    for flags in (0, 0x80):  # the ignorable flag does not help
        for place in ("outside", "opened", "begun"):
            log = insert_of()
            end = log.position
            if place != "outside":
                log.gtid()
            if place == "begun":
                log.query("BEGIN")
                log.change(None, order(2))
            position = log.add(code, bytes(40), flags=flags)
            log.xid()

            before, *_ = taken(planned(log, folder), 1)
            assert isinstance(before, Epoch)
            assert before.hi.position == end, "what lies before is applied first"
            with pytest.raises(UnknownEvent) as raised:
                taken(planned(log, folder, end), 1)
            assert raised.value.at == f"{log.name}:{position}"
            assert raised.value.why in str(raised.value)


def test_an_incident_has_its_own_remedy() -> None:
    lost = UnknownEvent.of("bin.000001:4", events.INCIDENT)
    assert "Compare the tables" in lost.workaround()
    assert "LOST_EVENTS" in str(lost)
    assert "Compare" not in UnknownEvent.of("bin.000001:4", 13).workaround()


def taken(plans: Iterator[Epoch | DdlStatement | UpToDate], count: int) -> list[Epoch | DdlStatement | UpToDate]:
    return [next(plans) for _ in range(count)]


# Rotate, real and fake


@pytest.mark.parametrize("flags", [0, 0x20], ids=["real", "fake"])
def test_a_rotate_ends_only_the_file(flags: int, tmp_path: Path) -> None:
    log = insert_of()
    log.add(4, b"\4" + bytes(7) + b"mysql-bin.000002", flags=flags)
    assert outcome(log, tmp_path) == (INSERTED, f"{UUID}:1")

    inside = Log()
    start = inside.begin()
    position = inside.rotate("mysql-bin.000002")
    with pytest.raises(MalformedEvent, match="ROTATE inside") as raised:
        taken(planned(inside, tmp_path, start), 1)
    assert raised.value.at == f"{inside.name}:{position}"
