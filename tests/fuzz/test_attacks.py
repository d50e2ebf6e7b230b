"""Logs made to hurt: what random damage would need years to find. Each is refused, or read, within the limits.

A log of some hundred kilobytes is read by every way within three seconds of CPU time and 512 MiB; where it is right and
only large, the time is its own business and the memory is not.
"""

import os
import signal
import struct
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.maps import WantedTables
from airflow_provider_dm.engine.binlog.planned import ByteRange
from airflow_provider_dm.engine.binlog.rows import RowChange
from tests.fuzz import codes, mutate, writer
from tests.fuzz.cases import warm_up
from tests.fuzz.corpus import TABLES, THEMES
from tests.fuzz.limits import MEMORY, bound_memory, cpu_bound
from tests.fuzz.subject import ENGINE, Reading, Subject, Way, follow, log_files
from tests.fuzz.values import table
from tests.fuzz.writer import Event, Log, Sample

pytestmark = pytest.mark.computes

NARROW, BYTES, SQUEEZED, DOCUMENTS = (Sample(THEMES[name]) for name in ("narrow", "bytes", "squeezed", "documents"))
GIB: Final = 1 << 30


@dataclass(frozen=True)
class Attack:
    """A log's events after its first. `refused`: a DmError is all that may come of it. `large`: takes its time, but
    1/16 of the memory only, so that it need not be 16 times as large."""

    events: Callable[[], Iterable[Event]]
    flavour: str = "mysql"
    refused: bool = True
    large: bool = False


def transaction(*events: Event, flavour: str = "mysql") -> list[Event]:
    opening = [writer.gtid(flavour, 1), *([writer.query(b"BEGIN")] if flavour == "mysql" else [])]
    return [*opening, *events, writer.xid()]


def insert(sample: Sample, images: bytes, *, columns: bytes | None = None) -> list[Event]:
    """A map and a WRITE_ROWS with these images, and maybe another number of columns than there are."""
    empty = writer.rows_event(sample, "insert", [], 9, version=2)
    body = empty.body if columns is None else empty.body[:10] + columns + empty.body[11:]
    return [writer.table_map(sample, 9), empty._replace(body=body + images)]


def packed(events: Iterable[Event]) -> Event:
    return writer.payload(writer.assemble(events, checksum=False, position=0, inner=True))


def bombs() -> Iterator[tuple[str, Attack]]:
    """A few bytes that unpack to very many."""
    begin, end = (writer.written(event, checksum=False, position=0) for event in (writer.query(b"BEGIN"), writer.xid()))
    for size in (700 << 20, 3 * GIB):
        for code in (codes.QUERY, codes.TABLE_MAP, codes.ROWS_QUERY, codes.WRITE):
            header = struct.pack("<IBIIIH", writer.NOW, code, 7, min(size, (1 << 32) - 1), 0, 0)
            bomb = mutate.zstd_bomb(begin + header, size - 19, None, end)
            body = writer.payload_of(bomb, len(begin) + size + len(end))
            yield (
                f"a payload with an event of code {code} and {size >> 20} MiB",
                Attack(partial(list, [writer.gtid("mysql", 1), Event(codes.PAYLOAD, body)])),
            )
    rows = writer.rows_event(NARROW, "insert", [], 9, version=1)
    tail = b"\x84" + GIB.to_bytes(4, "big") + mutate.zlib_bomb()
    squeezed = Event(codes.WRITE_COMPRESSED, rows.body + tail)
    events = transaction(writer.table_map(NARROW, 9), squeezed, flavour="mariadb")
    yield "MariaDB's compressed rows of a GiB", Attack(partial(list, events), "mariadb")
    events = [writer.gtid("mariadb", 1), Event(codes.QUERY_COMPRESSED, writer.query(b"").body + tail)]
    yield "MariaDB's compressed statement of a GiB", Attack(partial(list, events), "mariadb")
    image = b"\xee" + struct.pack("<I", 1) + len(tail).to_bytes(4, "little") + tail
    events = transaction(*insert(SQUEEZED, image), flavour="mariadb")
    yield "a compressed column's cell of a GiB", Attack(partial(list, events), "mariadb")


def lies() -> Iterator[tuple[str, Attack]]:
    """Numbers that claim what is not there."""
    table_name = bytes(8) + b"\4shop\0\6narrow\0"
    for number in (1 << 16, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1):
        most = writer.length(number)
        claims = {
            f"a map of {number} columns": [Event(codes.TABLE_MAP, table_name + most + b"\3\0\1")],
            f"a map with {number} bytes of metadata": [Event(codes.TABLE_MAP, table_name + b"\1\3" + most + b"\1")],
            f"rows of {number} columns": insert(NARROW, b"\xfe\1\0\0\0", columns=most),
        }
        for name, events in claims.items():
            yield name, Attack(partial(transaction, *events))
        payload = b"\2\1\0\3" + writer.length(len(most)) + most + b"\1\1\4\0abcd"
        events = [writer.gtid("mysql", 1), Event(codes.PAYLOAD, payload)]
        yield f"a payload of {number} bytes", Attack(partial(list, events))
    long = b"\0\xfe" + struct.pack("<I", 1) + b"\xff\xff\xff\xff" + b"x"
    yield "a LONGBLOB of 4 GiB", Attack(partial(transaction, *insert(BYTES, long)))
    ranges = struct.pack("<Q", 1) + writer.SOURCE.bytes + struct.pack("<Q", 1 << 50)
    alone = {
        "2^40 sources in a PREVIOUS_GTIDS": Event(codes.PREVIOUS_GTIDS, struct.pack("<Q", 1 << 40) + bytes(24)),
        "2^50 intervals in a PREVIOUS_GTIDS": Event(codes.PREVIOUS_GTIDS, ranges),
        "2^28 domains in a GTID_LIST": Event(codes.GTID_LIST, struct.pack("<I", (1 << 28) - 1)),
        "a second format description": Event(codes.FORMAT, bytes(100)),
    }
    for name, event in alone.items():
        yield name, Attack(partial(list, [event]), "mariadb" if event.code == codes.GTID_LIST else "mysql")


def documents() -> Iterator[tuple[str, Attack]]:
    """JSON that is deeper, or takes longer, than it looks."""

    def document(data: bytes) -> Attack:
        image = b"\xf4" + struct.pack("<I", 1) + struct.pack("<I", len(data)) + data
        return Attack(partial(transaction, *insert(DOCUMENTS, image)))

    deep = b"\3" + b"".join(struct.pack("<IIBI", 1, 0, 3, 13) for _ in range(20_000))
    yield "JSON of 20,000 arrays inside each other", document(deep)
    itself = b"\3" + struct.pack("<II", 3000, 8 + 15_000) + struct.pack("<BI", 3, 0) * 3000
    yield "JSON whose elements are itself", document(itself)
    shared = b"\3" + struct.pack("<II", 10_000, 8 + 50_000 + 2002) + struct.pack("<BI", 12, 50_008) * 10_000
    yield "JSON that holds one long string 10,000 times", document(shared + b"\xd0\x0f" + b"x" * 2000)


def tables(count: int) -> Iterator[Event]:
    """One row for each of many tables."""
    for number in range(count):
        sample = Sample(table(f"tenant_{number}", "int", schema="other"))
        yield writer.table_map(sample, number)
        yield writer.rows_event(sample, "insert", [(b"1",)], number, version=2)


def many() -> Iterator[tuple[str, Attack]]:
    """Much of what is right."""
    rows, begin = insert(NARROW, b"\xff" * 150_000), writer.query(b"BEGIN")
    gtid = writer.gtid("mysql", 1)
    yield "150,000 rows of one byte", Attack(partial(transaction, *rows), refused=False, large=True)

    def squeezed(*events: Event) -> list[Event]:
        return [gtid, packed([begin, *events, writer.xid()])]

    yield "150,000 rows of one byte, compressed", Attack(partial(squeezed, *rows), refused=False, large=True)
    notes = [Event(codes.ROWS_QUERY, b"x")] * 100_000
    yield "100,000 events in a payload", Attack(partial(squeezed, *notes), refused=False)
    yield "16,000 tables", Attack(lambda: transaction(*tables(16_000)), refused=False)
    statements = {
        "blanks": b" " * 1_000_000,
        "semicolons": b";" * 1_000_000,
        "comments that end": b"/**/" * 250_000,
        "comments that do not end": b"/*" * 500_000,
        "executable comments": b"/*!" * 300_000,
        "lines of comments": b"--\n" * 300_000,
        "a blank CREATE": b"CREATE " + b" " * 1_000_000 + b"TEMPORARY",
        "a blank ROLLBACK": b"ROLLBACK" + b" " * 1_000_000 + b"T",
    }
    for name, sql in statements.items():
        yield f"a statement of {name}", Attack(partial(list, [gtid, writer.query(sql)]), refused=False)


ATTACKS: Final = {name: attack for kind in (bombs, lies, documents, many) for name, attack in kind()}


def drained(way: Way) -> Way:
    """The same way, without keeping its rows."""

    def decode(byte_range: ByteRange, wanted: WantedTables) -> Iterable[RowChange]:
        for _ in way(byte_range, wanted):
            pass
        return ()

    return decode


@pytest.fixture(scope="module")
def warm() -> None:
    warm_up()


@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_or_read_within_the_limits(name: str, tmp_path: Path) -> None:
    attack = ATTACKS[name]
    first = writer.format_description(attack.flavour, checksum=True)
    files = log_files(tmp_path, [Log((first, *attack.events()), True).data()])
    for group, ways in ENGINE.ways.items():
        if attack.large and group != "rows":
            continue
        for way in ways:
            subject = Subject({group: {way: drained(ways[way])}}, ENGINE.plans)
            ended = in_a_child(lambda: read_within_limits(files, subject, large=attack.large))  # noqa: B023
            allowed = ("DmError",) if attack.refused else ("DmError", "the end")
            assert ended.startswith(allowed), f"{group}, {way}: {ended}"


def read_within_limits(files: Sequence[LogFile], subject: Subject, *, large: bool) -> str:
    bound_memory(MEMORY // 16 if large else MEMORY)
    try:
        if large:
            outcome = follow(files, TABLES, Reading(), subject)
        else:
            with cpu_bound() as clock:
                outcome = follow(files, TABLES, Reading(), subject, clock=clock)
    except BaseException as error:  # noqa: BLE001  # whatever it is, it is output
        return "".join(traceback.format_exception(error, limit=-3))
    return f"DmError: {outcome.error}" if outcome.error else "the end"


def in_a_child(what: Callable[[], str]) -> str:
    """Run it in a child process; return its result, or how that process has ended. Limits die with that process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, what().encode()[:2000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        output = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return output or (f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}")
