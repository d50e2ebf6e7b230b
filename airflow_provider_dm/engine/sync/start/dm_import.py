"""Taking over a task of DM: the start of a subtask by DM's checkpoint (downstream/dm_checkpoint.py).

    global point          the location from which the log is read. Position and GTID set have to agree; with
                          `enable-gtid` the set counts, and is used to find the location in another server's files
    later table point     the table's rows (and its DDL) up to there are in the target, so they are skipped
    exit_safe             changes up to there may be in the target already; none: up to the current end of the log
    table_info            the table at its point, if DDL follows it; otherwise the source's current table

Changes between these points and that end overwrite existing rows (sync/safe_mode). A table without a key cannot be
overwritten: it is taken over only if DM was stopped cleanly, and everything is applied up to one location.

DM's points are in its own notation, possibly of its own relay log (`mysql-bin|000002.000003`), which counts
sub-directories from its own beginning. They are compared with each other as in DM, and then located in this log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_dm.engine.ddl.errors import CannotTrack
from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.ddl.statements import ColumnDefinition, TableDefinition
from airflow_provider_dm.engine.ddl.table_info import definition_of
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.ddl.write import definition_sql
from airflow_provider_dm.engine.downstream.dm_checkpoint import (
    DmCheckpoint,
    DmPoint,
    read_checkpoint,
    seconds_since_written,
)
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.table_schema import TableSchema
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.mysql.location import Location, reached
from airflow_provider_dm.engine.relay.places import find_place
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.sync.errors import CheckpointMoves, DefinitionNeeded, KeylessUncertain
from airflow_provider_dm.engine.sync.start.before_ddl import LoggedStatement
from airflow_provider_dm.engine.sync.start.dm_points import is_after, place_to_begin, same_suffix
from airflow_provider_dm.engine.sync.start.past import KnownTable, TablesToday, are_alike, first_statements

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DmStart:
    """A checkpoint of DM at which a subtask begins. `seen`: the checkpoint as it was read."""

    checkpoint: DmCheckpoint
    seen: DmCheckpoint
    endpoint: Endpoint
    by_gtid: bool

    @classmethod
    def of(cls, checkpoint: DmCheckpoint, endpoint: Endpoint, *, by_gtid: bool) -> DmStart:
        return cls(checkpoint, checkpoint, endpoint, by_gtid)

    def for_tables(self, tables: Collection[TableName], allows: Callable[[TableName], bool]) -> DmStart:
        """Return a copy with the source's table names, without tables that the rules exclude."""
        # Exact names last, so that they replace names in lower case.
        rows = sorted(self.seen.tables.items(), key=lambda row: row[0] in tables)
        named = {source_name(written, tables): one for written, one in rows}
        left_out = [str(name) for name in named if not allows(name)]
        if left_out:
            log.info("the rules exclude tables that DM's checkpoint has: %s", ", ".join(left_out))
        kept = {name: one for name, one in named.items() if allows(name)}
        return replace(self, checkpoint=replace(self.seen, tables=kept))

    def check_still(self, connection: Connection, ref: SubtaskRef, flush_interval: int) -> None:
        """Check, in the transaction of the start, that DM has not written its checkpoint since. Raises CheckpointMoves.

        If the checkpoint has no exit point, DM may still be running; it writes every `flush_interval` seconds.
        """
        if read_checkpoint(connection, ref) != self.seen:
            raise CheckpointMoves(self.seen.table, self.seen.source, "changed during the takeover")
        age = seconds_since_written(connection, ref) if self.seen.exit_safe is None else None
        if age is not None and age <= 2 * flush_interval:
            how = f"was written {age} seconds ago and has no exit point, so DM may be running"
            raise CheckpointMoves(self.seen.table, self.seen.source, how)

    def configured(self) -> Location:
        """Return the location to be verified first: DM's position, if any. Raises the errors of `place_to_begin`."""
        if self.checkpoint.point.place is not None:
            return replace(self.checkpoint.point.place, suffix=1)
        return place_to_begin(self.checkpoint, self.endpoint, by_gtid=self.by_gtid)

    def is_at_checkpoint(self, start: Location) -> bool:
        """Return True if a verified location is that of DM's checkpoint. False: it must be found by its GTID set.

        Raises CheckpointUnusable if position and GTID set do not agree.
        """
        gtid_set = self.checkpoint.point.gtid_set
        if not gtid_set:
            return True
        wanted, reached = GtidSet.of_text(gtid_set), GtidSet.of_text(start.gtid_set) if start.gtid_set else None
        if self.by_gtid:
            return reached is not None and reached.contains(wanted) and wanted.contains(reached)
        if reached is None or not reached.contains(wanted):
            raise self.checkpoint.unusable(
                f"its position and its GTID set do not agree: before {start} the source has "
                f"{start.gtid_set or 'none'}, but DM's is {gtid_set}"
            )
        return True

    def extent(self, start: Location, today: Location) -> DmExtent:
        """Return which changes after `start` are, or may be, in the target. `today`: the end of the source's log.

        Raises CheckpointUnusable, PlaceNotFound.
        """
        points = {
            name: self._table_place(one.point, start, today, f"the point of {name}")
            for name, one in self.checkpoint.tables.items()
            if self._is_ahead(one.point, f"the point of {name}")
        }
        leaving = self.checkpoint.exit_safe
        if leaving is None:
            ends = [today]
        elif self._is_ahead(leaving, "the exit point"):
            exit_point = self._located(leaving, start, today, "the exit point")
            # A location found by its GTID set may be too early: the point may be inside the next transaction.
            ends = [exit_point if self._is_valid_in_log_of(leaving, start) else today]
        else:
            ends = []
        ends += points.values()
        until = max(ends, key=lambda place: place.sort_key, default=None)
        until = until if until is not None and not reached(start, until) else None
        return DmExtent(points, until, exit_is_known=leaving is not None)

    def _is_ahead(self, point: DmPoint, what: str) -> bool:
        ahead = is_after(point, self.checkpoint.point, by_gtid=self.by_gtid)
        if ahead is None:
            raise self.checkpoint.unusable(
                f"{what} ({point}) cannot be compared with the global one ({self.checkpoint.point})"
            )
        return ahead

    def _is_valid_in_log_of(self, point: DmPoint, start: Location) -> bool:
        """Return True if a point's position is valid in the log in which `start` was verified."""
        begin, place = self.checkpoint.point.place, point.place
        if begin is None or place is None or (begin.file, begin.position) != (start.file, start.position):
            return False
        return same_suffix(place.suffix, begin.suffix)

    def _table_place(self, point: DmPoint, start: Location, today: Location, what: str) -> Location:
        """Return the exact location up to which a table has all rows. A GTID set is not enough: for a transaction in
        which DM stopped, older releases include its GTID, newer ones do not."""
        if not self._is_valid_in_log_of(point, start):
            raise self.checkpoint.unusable(
                f"{what} ({point}) is after the global one, in the log of another server: its GTID set does not show "
                "how much of its last transaction that table has"
            )
        return self._located(point, start, today, what)

    def _located(self, point: DmPoint, start: Location, today: Location, what: str) -> Location:
        """Return the location of a point of DM in the log in which `start` was verified."""
        place = point.place
        if place is not None and self._is_valid_in_log_of(point, start):
            at = replace(start, file=place.file, position=place.position, gtid_set=point.gtid_set or today.gtid_set)
            GtidSet.of_text(at.gtid_set)  # raise for an invalid set now, not only after a failover
        elif point.gtid_set:
            at = find_place(self.endpoint, after=point.gtid_set)
            at = replace(at, suffix=start.suffix, server_uuid=start.server_uuid)
        else:
            raise self.checkpoint.unusable(f"{what} ({point}) is in the log of another server, and has no GTID set")
        if not reached(today, at):
            raise self.checkpoint.unusable(f"{what} ({point}) is after the end of the source's log ({today})")
        return at


@dataclass(frozen=True)
class DmExtent:
    """The changes after a start that DM has applied. `points`: the location up to which it has applied all changes of a
    table. `until`: the location up to which it may have applied other changes; None: none."""

    points: Mapping[TableName, Location]
    until: Location | None
    exit_is_known: bool

    def check_keys(self, source: str, start: Location, keyless: Collection[TableName]) -> None:
        """Raise KeylessUncertain if changes may be applied already and tables have no key."""
        if self.until is not None and keyless:
            raise KeylessUncertain(source, tuple(map(str, sorted(keyless))), str(start), str(self.until))

    def skipping(self, checkpoint: DmCheckpoint, schemas: Sequence[TableSchema]) -> tuple[TableSchema, ...]:
        """Return the tables, each with the location up to which its changes are in the target.

        Raises CheckpointUnusable for a point of an unknown table.
        """
        for name in sorted(self.points.keys() - {schema.table.name for schema in schemas}):
            raise checkpoint.unusable(
                f"{name} has its own point, but neither the point nor a server has its definition"
            )
        return tuple(
            replace(one, skip_until=self.points[one.table.name].sort_key) if one.table.name in self.points else one
            for one in schemas
        )


# Tables


def keyless_of(schemas: Iterable[TableSchema], targets: Mapping[TableName, Table]) -> list[TableName]:
    """Return the tables without an identity key in the source or in the target."""
    return [
        schema.table.name
        for schema in schemas
        if schema.table.identity is None or (schema.target in targets and targets[schema.target].identity is None)
    ]


@dataclass(frozen=True)
class DmTables:
    """The table definitions in DM's checkpoint. `refused`: why a table's definition cannot be read."""

    known: Mapping[TableName, KnownTable]
    refused: Mapping[TableName, str]

    @classmethod
    def of(cls, checkpoint: DmCheckpoint, today: TablesToday) -> DmTables:
        """Read the TableInfo of each table."""
        known: dict[TableName, KnownTable] = {}
        refused: dict[TableName, str] = {}
        for name, one in checkpoint.tables.items():
            if one.table_info is None:
                continue
            try:
                known[name] = _known(name, definition_of(one.table_info), today.source.get(name), today.servers[0])
            except CannotTrack as error:
                refused[name] = str(error)
        return cls(known, refused)

    def tables_at(
        self, source: str, today: TablesToday, read_log: Callable[[], Sequence[LoggedStatement]]
    ) -> dict[TableName, KnownTable]:
        """Return the tables at DM's points. `read_log`: returns the DDL in the log since then; called only if needed.
        Raises DefinitionNeeded.
        """
        servers = (today.servers[0], today.servers[0])
        tables = {}
        for name, theirs in self.known.items():
            ours = today.source.get(name)
            tables[name] = ours if ours is not None and are_alike(ours, theirs, servers) else theirs
        rest = replace(
            today,
            source={name: one for name, one in today.source.items() if name not in tables},
            target={name: one for name, one in today.target.items() if name not in tables},
        )
        if not (rest.source or rest.target):
            return tables
        log_since = read_log()
        statements = first_statements(log_since)
        for name, why in self.refused.items():
            if name in statements and statements[name].existed and name not in today.by_hand:
                raise DefinitionNeeded(
                    f"{source}: {name} was altered after DM's checkpoint, at {statements[name].at}, and its table_info "
                    f"there cannot be read: {why}.",
                    "Give its definition at the checkpoint by `dmctl binlog-schema update TASK SCHEMA TABLE FILE`, and "
                    "run the task again; or let DM continue past that statement and stop it there.",
                )
        return tables | rest.at_start(source, log_since)


def source_name(written: TableName, tables: Collection[TableName]) -> TableName:
    """Return the source's name for a table of the checkpoint: older releases of DM wrote names in lower case."""
    if written in tables:
        return written
    lower = (written.schema, written.table)
    alike_names = [name for name in tables if (name.schema.lower(), name.table.lower()) == lower]
    return alike_names[0] if len(alike_names) == 1 else written


def _known(name: TableName, definition: TableDefinition, ours: KnownTable | None, server: Server) -> KnownTable:
    """Return a definition of TiDB's in the form of the source's server. Raises CannotTrack."""
    if ours is not None:
        definition = _under_collations_of(definition, ours, server)
    create = f"CREATE TABLE {quote(name.table)} {definition_sql(definition)}"
    tracker = Tracker.of(server, {name: create}, {})
    return KnownTable(tracker.table(name), tracker.create_sql(name))


def _under_collations_of(definition: TableDefinition, ours: KnownTable, server: Server) -> TableDefinition:
    """Return the definition with the source's collations if the charset is the same: TiDB uses its own default for a
    text without a collation."""
    columns = {one.name.lower(): one for one in ours.table.columns}
    try:
        default = dict(Tracker.of(server, {ours.table.name: ours.create}, {}).definition(ours.table.name).options)
    except CannotTrack:
        default = {}

    def column(one: ColumnDefinition) -> ColumnDefinition:
        same = columns.get(one.name.lower())
        if same is None or one.type.charset is None or same.charset != one.type.charset or same.collation is None:
            return one
        return replace(one, type=replace(one.type, collation=same.collation))

    options = dict(definition.options)
    if options.get("CHARSET") and options.get("CHARSET") == default.get("CHARSET") and default.get("COLLATE"):
        options["COLLATE"] = default["COLLATE"]
    return replace(definition, columns=tuple(map(column, definition.columns)), options=tuple(options.items()))
