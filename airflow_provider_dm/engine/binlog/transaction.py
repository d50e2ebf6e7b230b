"""The effect of an event on a transaction: the state machine of the boundary scan.

    outside   GTID, BEGIN      -> inside        (a standalone GTID: one statement, which is DDL)
    inside    XID, COMMIT      -> outside       a boundary
    inside    ROLLBACK         -> outside       a boundary, if no row came before
    inside    XA_PREPARE       -> outside       a boundary; the rows count at their commit (xa.py)
    inside    DDL              -> the transaction is a DDL transaction (CREATE TABLE … SELECT carries rows, too)
    outside   DDL              -> a transaction of its own
    outside   any event without a change        a boundary after it

MariaDB can log an ALTER in two transactions (binlog_alter_two_phase). It takes effect at the second:

    START ALTER  … other transactions, in the old definition …  COMMIT ALTER      DDL, at its commit
    START ALTER  …                                              ROLLBACK ALTER    nothing
    START ALTER  … the server crashes                                             nothing

Between a GTID and the statement or BEGIN that must follow, a transaction is *opened*; after BEGIN it is *begun*
(MariaDB's GTID does both). A compressed transaction (TRANSACTION_PAYLOAD) follows its GTID and is scanned by a separate
machine, which begins *opened*; its results are added to the outer one. With `apply=False` the machine also skips events
that cannot be applied, and does not open payloads: the relay stores them, and only needs their ends.

Inside a transaction a range of the log may end at a *seam*: after a statement, before the table maps of the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple

from airflow_provider_dm.engine.binlog import events as codes
from airflow_provider_dm.engine.binlog.compressed import uncompressed_query
from airflow_provider_dm.engine.binlog.errors import ChangeNotInLog, MalformedEvent, UnknownEvent, mixed_engine_rollback
from airflow_provider_dm.engine.binlog.gtid_events import Gtid, GtidTrail, gtid_list, previous_gtids, tagged_gtid
from airflow_provider_dm.engine.binlog.query_event import QueryEvent, query_of
from airflow_provider_dm.engine.binlog.xa import Xid, read_end, read_prepare
from airflow_provider_dm.engine.ddl.first_words import (
    StatementKind,
    head_of_row_change,
    is_of_temporary_table,
    kind_of,
    xa_verb,
)
from airflow_provider_dm.engine.errors import CONTINUE_AFTER
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE

OUTSIDE, OPENED, BEGUN = range(3)
_MYSQL_IDS: Final = frozenset({codes.GTID, codes.ANONYMOUS_GTID, codes.GTID_TAGGED, codes.PREVIOUS_GTIDS})
_MARIADB_IDS: Final = frozenset({codes.MARIADB_GTID, codes.MARIADB_GTID_LIST})
NOWHERE: Final = 1 << 62
"""Greater than every position in a log."""


class ScanEnd(Enum):
    """The reason why a scan has stopped."""

    CUT = "the requested boundary"
    DDL = "a statement that does not change rows"
    EVENT = "an event that cannot be applied"
    FILE = "the end of the bytes"
    INSIDE = "the bytes end inside a transaction"
    TORN = "the bytes end inside an event"


class Seam(NamedTuple):
    """A position between two statements of a transaction, and the end of that transaction."""

    position: int
    closes: int


@dataclass(frozen=True)
class FoundDdl:
    """A statement and its transaction; `rows`: the transaction has rows as well (CREATE TABLE … SELECT)."""

    start: int
    end: int
    timestamp: int
    query: QueryEvent
    rows: bool
    seams: tuple[Seam, ...] = ()


@dataclass(frozen=True)
class FoundXaPrepare:
    """A prepared XA transaction; `rows`: it has rows, which count at its commit."""

    xid: Xid
    start: int
    end: int
    rows: bool
    seams: tuple[Seam, ...] = ()


@dataclass(frozen=True)
class FoundXaEnd:
    """The end of a prepared XA transaction, `start` to `end`: its commit, or its rollback."""

    xid: Xid
    start: int
    end: int
    committed: bool


@dataclass(slots=True)
class ScannedRange:
    """Complete transactions from `start` to the boundary `end`. A DDL statement that ends the range is after `end`.

    `seams`: where the transactions before `end` may be cut into parts of the requested size. `xa`: XA transactions and
    their ends, if they are to be recorded. `unpacked`: the bytes by which compressed rows and transactions that are
    applied grow when they are unpacked.
    """

    start: int
    end: int
    transactions: int = 0
    newest_timestamp: int = 0
    unpacked: int = 0
    ended: ScanEnd = ScanEnd.FILE
    ddl: FoundDdl | None = None
    seams: list[Seam] = field(default_factory=list)
    xa: list[FoundXaPrepare | FoundXaEnd] = field(default_factory=list)
    trail: GtidTrail = field(default_factory=GtidTrail)
    ddl_trail: GtidTrail = field(default_factory=GtidTrail)


@dataclass(slots=True)
class ScanState:
    """The state of a scan between two events.

    `place`: prefix of a position in errors. `pending`: the GTID of the open transaction. `void`: the statement
    directly after that GTID has no effect. `seams`: positions where the transaction may be cut. `inside_payload`: the
    events are those of a compressed transaction. `records_xa`: record XA transactions, even if nothing is applied.
    """

    place: str
    scanned: ScannedRange
    apply: bool
    flavour: Flavour
    state: int = OUTSIDE
    inside_payload: bool = False
    records_xa: bool = False
    opened_at: int = 0
    rows: bool = False
    void: bool = False
    pending: Gtid | None = None
    ddl: QueryEvent | None = None
    seams: list[int] = field(default_factory=list)

    def at(self, position: int) -> str:
        return f"{self.place}{position}"

    def open(self, position: int, state: int) -> None:
        """Begin a transaction with the event at `position`."""
        if self.state == BEGUN or (self.state == OPENED and state == OPENED):
            raise MalformedEvent(self.at(position), "a transaction begins inside another one")
        if self.state == OUTSIDE:
            self.opened_at, self.rows = position, False
            self.seams.clear()
        self.state = state

    def close(self, position: int, timestamp: int) -> None:
        """End a transaction; `position` is the boundary after it."""
        scanned = self.scanned
        seams = [Seam(seam, position) for seam in self.seams]
        self.seams.clear()
        if self.ddl is not None:
            scanned.ddl = FoundDdl(self.opened_at, position, timestamp, self.ddl, self.rows, tuple(seams))
            if self.pending is not None:
                scanned.ddl_trail.add(self.pending)
            return
        scanned.end = position
        scanned.seams += seams
        scanned.transactions += 1
        if timestamp > scanned.newest_timestamp:
            scanned.newest_timestamp = timestamp
        if self.pending is not None:
            scanned.trail.add(self.pending)
            self.pending = None
        self.state = OUTSIDE

    def prepare(self, position: int, timestamp: int, xid: Xid) -> None:
        """End a transaction that is now prepared."""
        if self.records_xa:
            seams = tuple(Seam(seam, position) for seam in self.seams)
            self.scanned.xa.append(FoundXaPrepare(xid, self.opened_at, position, self.rows, seams))
        self.seams.clear()
        self.close(position, timestamp)

    def end_xa(self, position: int, timestamp: int, xid: Xid, *, committed: bool) -> None:
        """End a transaction that only ends a prepared one."""
        if self.records_xa:
            self.scanned.xa.append(FoundXaEnd(xid, self.opened_at, position, committed))
        self.close(position, timestamp)

    def add_payload(self, inner: ScanState, event_end: int) -> None:
        """Add the transaction of a payload whose events `inner` has scanned."""
        scanned = inner.scanned
        if scanned.ddl is None:
            self.rows = inner.rows
            self.scanned.xa += [replace(transaction, start=self.opened_at, end=event_end) for transaction in scanned.xa]
            self.close(event_end, scanned.newest_timestamp)
        elif self.scanned.transactions:
            self.scanned.ended = ScanEnd.DDL
        else:
            self.rows, self.ddl = scanned.ddl.rows, scanned.ddl.query
            self.close(event_end, scanned.ddl.timestamp)

    def skip_event(self, position: int) -> None:
        """Skip an event without a change; the next event is at `position`."""
        if self.state == OUTSIDE:
            self.scanned.end = position

    def skip_statement(self, event_end: int, timestamp: int) -> None:
        """Skip a statement without an effect. Directly after a GTID it is a complete transaction."""
        if self.state == OPENED:
            self.close(event_end, timestamp)
        else:
            self.skip_event(event_end)


def handle_event(scan: ScanState, position: int, event_end: int, timestamp: int, code: int, body: bytes) -> None:
    """Handle an event whose body is needed, except those that the scan loop handles."""
    if code in (_MYSQL_IDS if scan.flavour is Flavour.MARIADB else _MARIADB_IDS):
        raise MalformedEvent(scan.at(position), f"{codes.EVENTS[code].name} in a log of {scan.flavour.value}")
    match code:
        case codes.MARIADB_GTID | codes.GTID:  # the loop has handled all others
            if scan.state != OUTSIDE:
                raise MalformedEvent(scan.at(position), "a transaction begins inside another one")
            raise MalformedEvent(scan.at(position), f"{len(body)} bytes are too few for {codes.EVENTS[code].name}")
        case codes.XID | codes.XA_PREPARE if scan.state != BEGUN:
            raise MalformedEvent(scan.at(position), "the end of a transaction that did not begin")
        case codes.XID:
            scan.close(event_end, timestamp)
        case codes.XA_PREPARE:
            xid, one_phase = read_prepare(body, scan.at(position))
            if one_phase:
                scan.close(event_end, timestamp)
            else:
                scan.prepare(event_end, timestamp, xid)
        case codes.ANONYMOUS_GTID:
            scan.open(position, OPENED)
            scan.pending = None
        case codes.GTID_TAGGED:
            tagged = tagged_gtid(body, scan.at(position))
            scan.open(position, OPENED)
            scan.pending = tagged
        case codes.QUERY:
            _query(scan, position, event_end, timestamp, query_of(body, scan.at(position)))
        case codes.QUERY_COMPRESSED:
            plain = uncompressed_query(body, scan.at(position))
            _query(scan, position, event_end, timestamp, query_of(plain, scan.at(position)))
        case _ if codes.ROLES[code] == codes.EventRole.PASS:
            scan.skip_event(event_end)
        case _:
            _handle_outside(scan, position, event_end, code, body)


def reject_or_skip(scan: ScanState, position: int, event_end: int, timestamp: int, code: int) -> None:
    """Raise UnknownEvent for an event that the table of events marks as STOP; with `apply=False` skip it."""
    if scan.apply:
        raise UnknownEvent.of(scan.at(position), code)
    if scan.state == OPENED:
        scan.close(event_end, timestamp)
    else:
        scan.skip_event(event_end)


def _query(scan: ScanState, position: int, event_end: int, timestamp: int, query: QueryEvent) -> None:
    match kind_of(query.sql):
        case StatementKind.BEGIN:
            scan.open(position, BEGUN)
        case StatementKind.COMMIT:
            scan.close(event_end, timestamp)
        case StatementKind.ROLLBACK | StatementKind.ROLLBACK_TO as kind:
            if scan.apply and scan.rows and scan.state == BEGUN:
                raise mixed_engine_rollback(scan.at(scan.opened_at))
            if kind is StatementKind.ROLLBACK:
                scan.close(event_end, timestamp)
        case StatementKind.SAVEPOINT | StatementKind.NOTHING:
            scan.skip_statement(event_end, timestamp)
        case StatementKind.XA:
            _xa(scan, position, event_end, timestamp, query.sql)
        case StatementKind.ROW_CHANGE:
            if scan.apply:
                raise ChangeNotInLog(
                    str(scan.at(position)),
                    f"the change at {scan.at(position)} is logged as a statement, not as rows: "
                    f"{head_of_row_change(query.sql)}.",
                    "Set binlog_format=ROW for every session of the source; if the change affects a table of the task, "
                    f"make it by hand, and {CONTINUE_AFTER}.",
                )
            scan.skip_statement(event_end, timestamp)
        case StatementKind.DDL:
            _ddl(scan, position, event_end, timestamp, query)


def _xa(scan: ScanState, position: int, event_end: int, timestamp: int, sql: bytes) -> None:
    ended = read_end(sql)
    match xa_verb(sql):
        case "START" | "BEGIN":
            scan.open(position, BEGUN)
        case "END" if scan.state == BEGUN:
            pass  # XA_PREPARE follows
        case "COMMIT" | "ROLLBACK" if ended is not None and scan.state != BEGUN:
            if scan.state == OUTSIDE:
                scan.opened_at = position
            xid, committed = ended
            scan.end_xa(event_end, timestamp, xid, committed=committed)
        case verb if scan.apply:
            raise MalformedEvent(scan.at(position), f"XA {verb}, which no server logs at this point of a transaction")
        case _:
            scan.skip_statement(event_end, timestamp)


def _ddl(scan: ScanState, position: int, event_end: int, timestamp: int, query: QueryEvent) -> None:
    if scan.apply and not (scan.void and scan.state == OPENED):  # `void` is about the statement directly after the GTID
        if scan.scanned.transactions:
            scan.scanned.ended = ScanEnd.DDL
            return
        if scan.ddl is None or is_of_temporary_table(scan.ddl.sql):
            scan.ddl = query  # one statement represents the transaction: preferably one that changes tables
    if scan.state == OUTSIDE:
        scan.opened_at, scan.rows = position, False
    if scan.state != BEGUN:
        scan.close(event_end, timestamp)


def _handle_outside(scan: ScanState, position: int, event_end: int, code: int, body: bytes) -> None:
    if scan.state != OUTSIDE:
        raise MalformedEvent(scan.at(position), f"{codes.EVENTS[code].name} inside a transaction")
    if code == codes.PREVIOUS_GTIDS:
        scan.scanned.trail.add_set(previous_gtids(body, scan.at(position)))
    elif code == codes.MARIADB_GTID_LIST:
        scan.scanned.trail.add_set(gtid_list(body, scan.at(position)))
    elif code == codes.FORMAT_DESCRIPTION and position != BINLOG_HEADER_SIZE:
        raise MalformedEvent(scan.at(position), "a second FORMAT_DESCRIPTION event")
    scan.scanned.end = event_end
