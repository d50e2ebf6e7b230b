"""DM's checkpoint table, written during a sync for users, for tools, and for a return to DM.

The sync itself restarts from dm_frontier and never reads this table. It is written every `checkpoint-flush-interval`,
at stops and after DDL, in its own transaction. Each write checks the generation and reads the position of the lowest
bucket again, so that no checkpoint is ahead of its rows after a run was replaced or a target was restored.

    global point    everything before it is applied. It is before shard DDL that is not agreed yet and before prepared
                    XA transactions, so a sync that starts from it reads these again
    exit point      changes up to it may be applied. NULL while a sync runs; written when it ends
    table point     the location at which the table's definition was written; unchanged for tables with held-back rows

A location that DM's columns cannot store (a position beyond 4 GiB, an id of more than 32 characters) is not written;
the previous point stays, which is older but correct.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import pymysql

from airflow_provider_dm.engine.ddl.errors import CannotTrack
from airflow_provider_dm.engine.ddl.server import Server, server_of
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.ddl.write_table_info import table_info
from airflow_provider_dm.engine.downstream.claim import check_still_has
from airflow_provider_dm.engine.downstream.dm_checkpoint import (
    LAST_POSITION,
    create_checkpoint_table,
    delete_table_points,
    forget_exit_point,
    move_table_points,
    put_global_point,
    put_table_points,
    why_not_writable,
)
from airflow_provider_dm.engine.downstream.errors import TargetWentBack
from airflow_provider_dm.engine.downstream.frontier import Transactions
from airflow_provider_dm.engine.downstream.session import target_connection
from airflow_provider_dm.engine.downstream.subtask import read_subtask
from airflow_provider_dm.engine.downstream.table_definitions import (
    explicit_sql,
    load_definitions,
    load_schema_collations,
)
from airflow_provider_dm.engine.downstream.table_schema import load_table_schemas
from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.mysql.connection import Connection, connected
from airflow_provider_dm.engine.mysql.errors import ServerUnreachable
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location, reached
from airflow_provider_dm.engine.shard.group import Group
from airflow_provider_dm.engine.sync.sync_source import SyncSource

log = logging.getLogger(__name__)

NEVER: Final = float("-inf")


@dataclass(frozen=True)
class CheckpointPoints:
    """The locations that a checkpoint records for a subtask, whose changes are applied up to `at`.

    `again`: the location from which the log must be read again for rows that are held back or prepared.
    `held`: the tables that have held-back rows. `moves_tables`: all other tables have all rows up to `at`.
    `uncertain`: the location up to which rows may collide after an inexact start; None: they cannot collide.
    """

    at: Location
    again: Location
    held: frozenset[TableName] = frozenset()
    moves_tables: bool = True
    uncertain: Location | None = None

    @classmethod
    def of(
        cls, at: Location, prepared: Location, groups: Iterable[Group], *, uncertain: Location | None = None
    ) -> CheckpointPoints:
        """Return the points of a sync at `at`. `prepared`: the location of the oldest XA transaction that is prepared
        there, or `at`."""
        groups = list(groups)
        places, held = [at, prepared], set[TableName]()
        for group in groups:
            for member in group.members:
                held.add(member.table)
                places += [place for item in member.items for place in (item.at, item.needs)]
            for piece in group.resync.pieces if group.resync is not None else ():
                held.add(piece.table.name)
                places += [piece.after, piece.needs]
        again = min(places, key=lambda place: place.sort_key)
        return cls(at, again, frozenset(held), moves_tables=reached(prepared, at), uncertain=uncertain)

    def exit_point(self, furthest: Location | None) -> Location | None:
        """Return the location up to which changes after the global point may be applied; None: no change is.

        `furthest`: the end of the log that the ending sync has begun to apply; None: the sync continues.
        """
        places = [place for place in (furthest, self.uncertain) if place is not None]
        if places or self.again.sort_key < self.at.sort_key:
            places.append(self.at)
        return max(places, key=lambda place: place.sort_key, default=None)


@lru_cache(maxsize=4096)
def table_info_of(server: Server, name: TableName, sql: str, collation: str | None) -> str | None:
    """Return a table's TableInfo as JSON; None: TiDB cannot represent the table.

    `sql`: its CREATE TABLE. `collation`: the default of its schema, if known.
    """
    try:
        tracker = Tracker.of(server, {name: sql}, {} if collation is None else {name.schema: collation})
        return json.dumps(table_info(name, tracker.definition(name)), ensure_ascii=False)
    except CannotTrack as error:
        log.debug("DM's checkpoint has no definition of %s: %s", name, error)
        return None


@dataclass
class DmPoints:
    """The writer of one source's rows in DM's checkpoint table, for the thread of its sync."""

    source: SyncSource
    transactions: Transactions
    _written_at: float = field(default=NEVER, init=False)
    _tables_due: bool = field(default=True, init=False)
    _begun: bool = field(default=False, init=False)
    """True if this run may have applied changes."""
    _why_not: str | None = field(default=None, init=False)
    """Why the table cannot be written; "": it can; None: not checked yet."""
    _server: Server | None = field(default=None, init=False)

    def tables_changed(self) -> None:
        """Make a write due now, with the table definitions."""
        self._tables_due, self._written_at = True, NEVER

    def is_due(self) -> bool:
        """Return True if the flush interval has elapsed."""
        return time.monotonic() - self._written_at >= self.source.config.syncer.checkpoint_flush_interval

    def begins(self) -> None:
        """Delete the exit point of the last clean stop: changes are about to be applied. Raises Fenced,
        TargetWentBack."""
        if not self._begun and self._check_writable():
            self._try(self._forget_exit)
        self._begun = True

    def write(self, applied: CheckpointPoints, furthest: Location | None = None) -> None:
        """Write the sync's position. `furthest`: see `CheckpointPoints.exit_point`. Raises Fenced, TargetWentBack."""
        self._written_at = time.monotonic()
        exit_point = applied.exit_point(furthest)
        places = (applied.at, applied.again, *([exit_point] if exit_point is not None else []))
        if not self._check_writable() or any(place.position > LAST_POSITION for place in places):
            return
        try:
            written = self._try(lambda connection: self._write(connection, applied, exit_point))
        except ServerUnreachable as error:  # the source is down, while its relay log is still applied
            log.info("DM's checkpoint of %s waits until the source answers: %s", self.source.fence.ref.source, error)
            written = False
        self._tables_due = self._tables_due and not written

    def _try(self, write: Callable[[Connection], bool]) -> bool:
        """Run `write` in a transaction. Return its result, or False after an error of the target, which is logged.

        Raises Fenced, TargetWentBack.
        """
        try:
            return self.transactions(write)
        except DmError as error:
            if error.reaction is not Reaction.STOP or isinstance(error, TargetWentBack):
                raise
            # The table was dropped or altered, or a GTID set is too long for it. That must not stop the sync.
            log.warning("DM's checkpoint of %s is not written: %s", self.source.fence.ref.source, error)
            self._why_not = None
            return False

    def _forget_exit(self, connection: Connection) -> bool:
        self.source.fence.check(connection)
        forget_exit_point(connection, self.source.fence.ref)
        return True

    def _write(self, connection: Connection, applied: CheckpointPoints, exit_point: Location | None) -> bool:
        """Write the points. Return True if the table points were written or are not due.

        Until changes are applied, DM's own global point stays (the task began there); only the exit point is written.
        """
        fence = self.source.fence
        fence.check(connection)
        subtask = read_subtask(connection, fence.ref)
        if subtask is None or subtask.start is None:
            return False
        begins_here = subtask.start.sort_key == applied.at.sort_key
        if begins_here and not (self._begun and exit_point is not None):
            return False
        check_still_has(connection, fence.ref, subtask, applied.at)
        if begins_here:
            put_global_point(connection, fence.ref, applied.again, exit_point)
            return False
        if self._tables_due:
            tables = [schema.table.name for schema in load_table_schemas(connection, fence.ref)]
            delete_table_points(connection, fence.ref, tables)
            infos = self._table_infos(connection, set(tables) - applied.held)
            put_table_points(connection, fence.ref, applied.at, infos)
        elif applied.again.sort_key < applied.at.sort_key and applied.moves_tables:
            move_table_points(connection, fence.ref, applied.at, applied.held)
        put_global_point(connection, fence.ref, applied.again, exit_point)
        return True

    def _table_infos(self, connection: Connection, tables: Collection[TableName]) -> dict[TableName, str | None]:
        """Return the TableInfo of each table at the frontier; None: TiDB cannot represent the table."""
        ref = self.source.fence.ref
        known, collations = load_definitions(connection, ref), load_schema_collations(connection, ref)
        if self._server is None:
            with connected(self.source.upstream) as upstream:
                self._server = server_of(upstream)
        server = self._server
        return {
            name: table_info_of(server, name, explicit_sql(known[name]), collations.get(name.schema))
            if name in known
            else None
            for name in sorted(tables)
        }

    def _check_writable(self) -> bool:
        """Check once that the table exists or can be created, and that it can store this subtask's ids. Return True if
        so."""
        if self._why_not is None:
            connection, ref = target_connection(self.source.target), self.source.fence.ref
            self._why_not = why_not_writable(connection, ref)
            if not self._why_not:
                try:
                    create_checkpoint_table(connection, ref)
                except pymysql.err.MySQLError as error:  # for example, the table name has invalid characters
                    self._why_not = str(error)
            if self._why_not:
                log.warning("DM's checkpoint of %s on %s is not written: %s", ref.task, ref.source, self._why_not)
        return not self._why_not
