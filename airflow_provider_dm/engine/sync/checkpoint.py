"""DM's checkpoint table, written beside a sync: for people, for tools, and for the way back to DM.

Every `checkpoint-flush-interval`, at stops and behind DDL, in a transaction of its own, and never for an epoch: what
decides is dm_frontier, and this says no more than that. Each write checks the generation, and reads the position of
the lowest bucket again, so that no checkpoint is ahead of its rows after a run was replaced or a target was restored.

    global point    all is applied up to there. In front of DDL that shards have yet to agree on, and of XA transactions
                    that are prepared: a sync that starts from there reads it again
    exit point      up to there some of it may be applied. None while a sync runs; at its end, where it came to
    table point     where the table's definition was written; of tables whose shards wait, what it was before

What DM's form has no room for (positions beyond 4 GiB, ids of more than 32 characters) is not written, and the point
before stays: it is behind, and never wrong.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import pymysql

from airflow_provider_dm.engine.ddl.server import CannotTrack, Server, server_of
from airflow_provider_dm.engine.ddl.table_info import NotMapped
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
from airflow_provider_dm.engine.downstream.frontier import Transactions
from airflow_provider_dm.engine.downstream.identity import TargetWentBack
from airflow_provider_dm.engine.downstream.session import target_connection
from airflow_provider_dm.engine.downstream.subtask import read_subtask
from airflow_provider_dm.engine.downstream.table_definitions import (
    explicit_sql,
    load_definitions,
    load_schema_collations,
)
from airflow_provider_dm.engine.downstream.table_schema import load_table_schemas
from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.mysql.connection import Connection, ServerUnreachable, connected
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location, reached
from airflow_provider_dm.engine.shard.group import Group
from airflow_provider_dm.engine.sync.source import SyncSource

log = logging.getLogger(__name__)

NEVER: Final = float("-inf")


@dataclass(frozen=True)
class Points:
    """The places that a checkpoint has of a subtask. `again`: from where on the log has to be read again, for rows
    that are held back or prepared; `held`: tables of which rows are held back. `moves_tables`: all other tables have
    all rows up to `at`. `uncertain`: up to there rows may collide, as the past is not exact; None: they may not."""

    at: Location
    again: Location
    held: frozenset[TableName] = frozenset()
    moves_tables: bool = True
    uncertain: Location | None = None

    @classmethod
    def of(
        cls, at: Location, prepared: Location, groups: Iterable[Group], *, uncertain: Location | None = None
    ) -> Points:
        """Return it for a sync at position `at`. `prepared`: the place of the oldest XA transaction prepared there,
        or `at`."""
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
        """Return up to where changes behind the global point may be applied. `furthest`: where the sync ends, having
        begun all before it; None: it goes on."""
        places = [place for place in (furthest, self.uncertain) if place is not None]
        if places or self.again.sort_key < self.at.sort_key:
            places.append(self.at)
        return max(places, key=lambda place: place.sort_key, default=None)


@dataclass
class TableInfos:
    """What DM's checkpoint says of tables' definitions, with the CREATE TABLE that each was made of.

    It is kept from one DDL statement to the next: most are the same then.
    """

    _collations: Mapping[str, str] = field(default_factory=dict, init=False)
    _known: Mapping[TableName, tuple[str, str | None]] = field(default_factory=dict, init=False)

    def of(
        self, server: Server, definitions: Mapping[TableName, str], collations: Mapping[str, str]
    ) -> dict[TableName, str | None]:
        """Return the TableInfo of each of these tables as JSON; None: TiDB has no such.

        `collations`: the default of each schema. `server`: always the same.
        """
        known = self._known if collations == self._collations else {}
        found: dict[TableName, tuple[str, str | None]] = {}
        for name, sql in definitions.items():
            before = known.get(name)
            found[name] = before if before and before[0] == sql else (sql, _table_info(server, name, sql, collations))
        self._collations, self._known = dict(collations), found
        return {name: info for name, (_, info) in found.items()}


def _table_info(server: Server, name: TableName, sql: str, collations: Mapping[str, str]) -> str | None:
    try:
        tracker = Tracker.of(server, {name: sql}, collations)
        return json.dumps(table_info(name, tracker.definition(name)), ensure_ascii=False)
    except (CannotTrack, NotMapped) as error:
        log.debug("DM's checkpoint does not say what %s is: %s", name, error)
        return None


@dataclass
class DmPoints:
    """The writer of one source's rows in DM's checkpoint table, for the thread of its sync."""

    source: SyncSource
    transactions: Transactions
    _written_at: float = field(default=NEVER, init=False)
    _tables_due: bool = field(default=True, init=False)
    _begun: bool = field(default=False, init=False)
    """Whether anything may have been applied by this run."""
    _why_not: str | None = field(default=None, init=False)
    """Why nothing can be written; "": it can; None: not checked yet."""
    _server: Server | None = field(default=None, init=False)
    _infos: TableInfos = field(default_factory=TableInfos, init=False)

    def tables_changed(self) -> None:
        """Write definitions with the next point, which is due now."""
        self._tables_due, self._written_at = True, NEVER

    def is_due(self) -> bool:
        """Tell whether the flush interval is over."""
        return time.monotonic() - self._written_at >= self.source.config.syncer.checkpoint_flush_interval

    def begins(self) -> None:
        """Take back what the table says of a stop in peace: changes are about to be applied. Raises Fenced,
        TargetWentBack."""
        if not self._begun and self._is_writable():
            self._try(self._forget_exit)
        self._begun = True

    def write(self, applied: Points, furthest: Location | None = None) -> None:
        """Write the position of the sync. `furthest`: see `Points.exit_point`. Raises Fenced, TargetWentBack."""
        self._written_at = time.monotonic()
        exit_point = applied.exit_point(furthest)
        places = (applied.at, applied.again, *([exit_point] if exit_point is not None else []))
        if not self._is_writable() or any(place.position > LAST_POSITION for place in places):
            return
        try:
            written = self._try(lambda connection: self._write(connection, applied, exit_point))
        except ServerUnreachable as error:  # the source: what is held of its log is applied without it
            log.info("DM's checkpoint waits for the definitions of %s: %s", self.source.fence.ref.source, error)
            written = False
        self._tables_due = self._tables_due and not written

    def _try(self, write: Callable[[Connection], bool]) -> bool:
        """Write in a transaction, if the target takes it. Tell whether it did. Raises Fenced, TargetWentBack."""
        try:
            return self.transactions(write)
        except DmError as error:
            if error.reaction is not Reaction.STOP or isinstance(error, TargetWentBack):
                raise
            # The table was dropped or changed, or a GTID set is too long for it: rows are applied without it.
            log.warning("DM's checkpoint of %s is not written: %s", self.source.fence.ref.source, error)
            self._why_not = None
            return False

    def _forget_exit(self, connection: Connection) -> bool:
        self.source.fence.check(connection)
        forget_exit_point(connection, self.source.fence.ref)
        return True

    def _write(self, connection: Connection, applied: Points, exit_point: Location | None) -> bool:
        """Write it. While nothing is applied, the position that DM has left says where the task begins, and only the
        exit point is written. Return True if the table points were written, if they were due."""
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
            tables = [one.table.name for one in load_table_schemas(connection, fence.ref)]
            delete_table_points(connection, fence.ref, tables)
            put_table_points(connection, fence.ref, applied.at, self._told(connection, set(tables) - applied.held))
        elif applied.again.sort_key < applied.at.sort_key and applied.moves_tables:
            move_table_points(connection, fence.ref, applied.at, applied.held)
        put_global_point(connection, fence.ref, applied.again, exit_point)
        return True

    def _told(self, connection: Connection, tables: Collection[TableName]) -> dict[TableName, str | None]:
        """Return the TableInfo of each of the tables, as they are at the frontier; None: TiDB has no such table."""
        ref = self.source.fence.ref
        known, collations = load_definitions(connection, ref), load_schema_collations(connection, ref)
        if self._server is None:
            with connected(self.source.spec.endpoint.resolve()) as upstream:
                self._server = server_of(upstream)
        infos = self._infos.of(
            self._server, {name: explicit_sql(known[name]) for name in tables if name in known}, collations
        )
        return {name: infos.get(name) for name in sorted(tables)}

    def _is_writable(self) -> bool:
        """Look once whether the table is there, or can be made, and has room for this subtask."""
        if self._why_not is None:
            connection, ref = target_connection(self.source.target), self.source.fence.ref
            self._why_not = why_not_writable(connection, ref)
            if not self._why_not:
                try:
                    create_checkpoint_table(connection, ref)
                except pymysql.err.MySQLError as error:  # such as a name with characters that no table's may have
                    self._why_not = str(error)
            if self._why_not:
                log.warning("DM's checkpoint of %s on %s is not written: %s", ref.task, ref.source, self._why_not)
        return not self._why_not
