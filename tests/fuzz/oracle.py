"""A naive reader of a log, and the comparison of its rows with the engine's.

`Story` walks the events of a stretch through one small state machine (outside, opened, begun) and keeps the rows events
of tables that the catalogue knows; at the first thing that must not be accepted it stops with a `Refusal`. The engine
may refuse earlier than that, and at anything: a typed error is always right. It may not continue after a Refusal, and
its rows must be those of the story, cell by cell, in order, none missing.

Table maps are in force until the statement ends, as in a replica: a rows event flagged so forgets them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from airflow_provider_dm.engine.binlog.rows import RowChange
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Table
from tests.fuzz import anatomy, codes
from tests.fuzz.anatomy import Cells, Malformed, Span
from tests.fuzz.cell import Form

PASSED: Final = frozenset({3, 4, 15, 27, 29, 35, 36, 37, 41, 160, 161, 163})
"""Events without a change. Codes that are neither here nor handled below must be refused."""
OUTSIDE_ONLY: Final = frozenset(
    {codes.STOP, codes.ROTATE, codes.FORMAT, codes.PREVIOUS_GTIDS, codes.GTID_LIST, codes.START_ENCRYPTION}
)
_GTIDS: Final = frozenset({33, 34, 42, 162})
_XA: Final = 64 | 128
_STANDALONE: Final = 1
_GROUP_COMMIT_ID, _START_OR_ROLLBACK_ALTER = 2, 2 | 8
_NO_TABLE: Final = (b"\xff" * 6, b"\xff\xff\xff\0\0\0", b"\xff\xff\xff\xff\0\0")

_LEADING: Final = re.compile(
    rb"\s+|;|--(?:[\x00-\x20\x7f][^\n]*|$)|#[^\n]*|/\*(?!M?!)[\s\S]*?\*/|/\*M?!(?:\d{5,6})?|\*/"  # what says nothing
)
_FIRST: Final = re.compile(rb"[0-9A-Za-z_$\x80-\x9f\xa1-\xff]*")
_TO: Final = re.compile(rb"ROLLBACK\s+(?:WORK\s+)?TO(?![0-9A-Za-z_$\x80-\x9f\xa1-\xff])", re.IGNORECASE)
_CHANGES: Final = frozenset(b"INSERT UPDATE DELETE REPLACE LOAD WITH CALL DO SELECT".split())


@dataclass(frozen=True)
class ExpectedRows:
    """A rows event of a known table: its images, cell by cell. `end`: of the event that carries it in the file."""

    position: int
    end: int
    kind: str
    table: int
    forms: Sequence[Form]
    data: bytes
    images: Sequence[Cells]

    def changes(self) -> Iterator[tuple[int | None, int | None]]:
        """(before, after) as numbers of images, in the order in which the engine gives them."""
        numbers = range(len(self.images))
        if self.kind == "update":
            yield from zip(numbers[::2], numbers[1::2], strict=True)
        elif self.kind == "insert":
            yield from ((None, number) for number in numbers)
        else:
            yield from ((number, None) for number in numbers)


@dataclass(frozen=True)
class Refusal:
    """Refusal that the engine owes. `unfinished`: the bytes end inside a transaction; `torn`: inside an event."""

    position: int
    reason: str
    unfinished: bool = False
    torn: bool = False


@dataclass(frozen=True)
class Statement:
    """A QUERY event: its text, and the session's variables as they lie there."""

    sql: bytes
    variables: bytes


def _is_void(body: bytes) -> bool:
    """Return True if a GTID event of MariaDB's announces an ALTER that has only started, or has failed."""
    extra = 13 + (8 if body[12] & _GROUP_COMMIT_ID else 0)
    return (
        len(body) > extra
        and body[12] & (_STANDALONE | _XA) == _STANDALONE
        and body[extra] & _START_OR_ROLLBACK_ALTER > 0
    )


@dataclass
class Story:
    """Meaning of a stretch of a file."""

    tables: Mapping[tuple[bytes, bytes], tuple[int, Table]]
    deep: bool = True
    """False: only where transactions begin and end; no map, no row and nothing packed is looked into."""
    expected: list[ExpectedRows] = field(default_factory=list)
    refusal: Refusal | None = None
    statements: list[Statement] = field(default_factory=list)
    """DDL."""
    transactions: int = 0
    _state: str = "outside"
    _maps: dict[bytes, bytes] = field(default_factory=dict)
    """The bodies of the maps in force; those of tables that no task selects need not be right."""
    _rows: bool = False
    _void: bool = False
    """The statement that follows is an ALTER that has only started, or has failed (MariaDB's two phases)."""
    _proven: bool = False
    """Checksums show that a log which MariaDB had encrypted is not encrypted any more."""

    def walk(self, data: bytes, trailer: int, start: int, end: int, *, ends_inside: bool = False) -> Story:
        """The events between two positions of a file, which may begin where another walk ended.

        `ends_inside`: the end is a seam, after a statement of a transaction. A walk knows no map from before its
        start.
        """
        position = start
        self._maps.clear()
        self._proven = trailer > 0 and b"MariaDB" in data[:96]
        if self.refusal is not None:
            return self
        try:
            for span in anatomy.split(data[:end], trailer, start):
                position = span.position
                self._take(span.code, span.flags, data[position + 19 : span.end - trailer], span)
        except anatomy.Torn as found:
            self.refusal = Refusal(found.position, str(found), torn=True)
        except Malformed as found:
            self.refusal = Refusal(position, str(found))
        else:
            if self._state != "outside" and not ends_inside:
                self.refusal = Refusal(end, "the bytes end inside a transaction", unfinished=True)
        return self

    def _take(self, code: int, flags: int, body: bytes, span: Span) -> None:
        if code == codes.TABLE_MAP:
            self._need(self._state == "begun", "rows outside of a transaction")
            if self.deep:
                self._need(len(body) >= anatomy.ID_AND_FLAGS, "a map without its number")
                anatomy.map_name(body)
                self._maps[body[:6]] = body
        elif code in anatomy.ROWS:
            self._need(self._state == "begun", "rows outside of a transaction")
            self._rows = True
            if self.deep:
                self._take_rows(code, body, span)
        elif code in _GTIDS:
            self._need(self._state == "outside", "a transaction begins inside another one")
            unusual = body[12] if code == codes.MARIADB_GTID and len(body) > 12 else 0
            self._state = "begun" if code == codes.MARIADB_GTID and not unusual & 1 else "opened"
            self._void = code == codes.MARIADB_GTID and _is_void(body)
        elif code == codes.XID:
            self._need(self._state == "begun", "the end of nothing")
            self._close()
        elif code in (codes.QUERY, codes.QUERY_COMPRESSED):
            self._take_query(read_statement(code, body))
        elif code == codes.PAYLOAD:
            self._need(self._state == "opened", "a payload that no GTID announces")
            self._take_payload(body, span)
        else:
            self._need(code in PASSED or (code == codes.START_ENCRYPTION and self._proven), f"code {code}")
            self._need(code not in OUTSIDE_ONLY or self._state == "outside", f"code {code} inside a transaction")

    def _need(self, fact: bool, reason: str) -> None:
        if not fact:
            raise Malformed(reason)

    def _close(self) -> None:
        self._state, self._rows = "outside", False
        self._maps.clear()
        self.transactions += 1

    def _take_query(self, statement: Statement) -> None:
        sql = statement.sql
        word = first_word(sql)
        match word:
            case b"BEGIN" | b"START":
                self._need(self._state != "begun", "a transaction begins inside another one")
                self._state = "begun"
            case b"COMMIT":
                self._close()
            case b"ROLLBACK":
                self._need(not self._rows, "a rollback of rows")
                if not _TO.search(sql):
                    self._close()
            case b"SAVEPOINT" | b"RELEASE" | None:
                if self._state == "opened":
                    self._close()
            case b"XA":
                raise Malformed("an XA transaction")
            case _:
                self._need(word not in _CHANGES, "a change as text")
                if not (self._void and self._state == "opened"):
                    self.statements.append(statement)
                if self._state != "begun":
                    self._close()

    def _take_payload(self, body: bytes, span: Span) -> None:
        if not self.deep:
            self._close()
            return
        data = anatomy.unpack_payload(body)
        try:
            inner = list(anatomy.split(data, 0, 0))
        except anatomy.Torn as found:
            raise Malformed("an event inside a payload is torn") from found
        for event in inner:
            self._need(event.code not in _GTIDS | {codes.PAYLOAD}, "a payload that holds what it must not")
            self._take(event.code, event.flags, data[event.position + 19 : event.end], span)
        self._need(self._state == "outside", "a payload without its end")

    def _take_rows(self, code: int, body: bytes, span: Span) -> None:
        self._need(len(body) >= anatomy.ID_AND_FLAGS, "rows without their number")
        known = self._maps.get(body[:6])
        if body[6] & codes.END_OF_STATEMENT:
            self._maps = {}
        if known is None:
            head = anatomy.read_rows_head(code, body)
            dummy = head.number in _NO_TABLE and not head.columns and head.start == len(body)
            self._need(dummy, "rows of a table that was not named before")
            return
        index, table = self.tables.get(anatomy.map_name(known), (-1, None))
        if table is None:
            return
        self._need(code != codes.PARTIAL_UPDATE, "changes of documents")
        head = anatomy.read_rows_head(code, body)
        table_map = anatomy.read_map(known)
        self._need(head.columns == len(table_map.types) and head.complete, "not all columns")
        forms = table_map.forms(table)
        self.expected.append(_expected(code, body, head.start, span, index, table, forms))


def _expected(
    code: int, body: bytes, start: int, span: Span, index: int, table: Table, forms: Sequence[Form]
) -> ExpectedRows:
    """Raises Malformed where the images do not fill the event exactly."""
    if code in anatomy.COMPRESSED_ROWS:
        body, start = anatomy.unpack_mariadb(body[start:]), 0
    images: list[Cells] = []
    while start < len(body):
        image, start = anatomy.cells(forms, body, start)
        images.append(image)
    kind = "insert" if code in anatomy.INSERTS else "update" if code in anatomy.UPDATES else "delete"
    if kind == "update" and len(images) % 2:
        raise Malformed("an update without its new row")
    return ExpectedRows(span.position, span.end, kind, index, forms, body, images)


def read_statement(code: int, body: bytes) -> Statement:
    """Read the body of a QUERY event. Raises Malformed."""
    if len(body) < 13:
        raise Malformed("a QUERY without its fixed part")
    start = 13 + int.from_bytes(body[11:13], "little") + body[8] + 1
    if start > len(body):
        raise Malformed("a QUERY shorter than its lengths say")
    sql = anatomy.unpack_mariadb(body[start:]) if code == codes.QUERY_COMPRESSED else body[start:]
    return Statement(sql, body[13 : start - body[8] - 1])


def first_word(sql: bytes) -> bytes | None:
    """Return the first word in capitals; None: nothing but comments."""
    position = 0
    while match := _LEADING.match(sql, position):
        position = match.end()
    if position >= len(sql):
        return None
    word = _FIRST.match(sql, position)
    return word[0].upper() if word else b""


# Comparing


def differences(expected: Sequence[ExpectedRows], rows: Sequence[RowChange], *, whole: bool) -> str | None:
    """Return why `rows` differ from the expected ones, or None. `whole`: no row may be missing at the end."""
    left = iter(rows)
    for event in expected:
        for number, change in enumerate(event.changes()):
            found = next(left, None)
            if found is None:
                return f"the rows end before row {number} of the event at {event.position}" if whole else None
            problem = _different(event, change, found)
            if problem:
                return f"row {number} of the event at {event.position}: {problem}"
    extra = next(left, None)
    return None if extra is None else f"a row that no event holds: {extra!r:.300}"


def _different(event: ExpectedRows, change: tuple[int | None, int | None], found: RowChange) -> str | None:
    if found.table != event.table:
        return f"it is of table {found.table}, not {event.table}"
    for side, number, row in zip(("before", "after"), change, (found.before, found.after), strict=True):
        if (number is None) != (row is None):
            return f"its {side} image is {row!r:.200}"
        if number is not None and row is not None:
            problem = _different_image(event, number, row)
            if problem:
                return f"its {side} image: {problem}"
    return None


def _different_image(event: ExpectedRows, number: int, row: Row) -> str | None:
    image = event.images[number]
    if len(row) != len(image):
        return f"{len(row)} values"
    for index, (place, value, form) in enumerate(zip(image, row, event.forms, strict=True)):
        if place is None or value is None:
            if place is not None or value is not None:
                return f"column {index} is {value!r:.100}, where the bitmap says {'NULL' if place is None else 'not'}"
            continue
        cell = event.data[place[0] : place[1]]
        if not form.agrees(cell, value):
            return f"column {index} is {value!r:.100}, where the log has {cell[:50].hex()}"
    return None
