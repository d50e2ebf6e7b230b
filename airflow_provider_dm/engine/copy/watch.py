"""One source whose tables are being copied, and what of it is not what it was at the last look."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_dm.engine.config.task import ShardMode
from airflow_provider_dm.engine.copy.altered import Altered, altered
from airflow_provider_dm.engine.copy.begin import wait_for_relay
from airflow_provider_dm.engine.copy.design import Design
from airflow_provider_dm.engine.copy.groups import Groups, Side, plainly_altered, unread_newcomers
from airflow_provider_dm.engine.copy.loading import Loading, Source
from airflow_provider_dm.engine.copy.made_anew import made_anew
from airflow_provider_dm.engine.copy.watermark import high_watermark, low_watermark
from airflow_provider_dm.engine.copy.whole import copied_whole, was_copied_whole, without_rows
from airflow_provider_dm.engine.errors import MIGRATE_AGAIN, DmError, Reaction, Scope
from airflow_provider_dm.engine.mysql.connection import Connection, connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.births import Births, read_births
from airflow_provider_dm.engine.reading.source_session import SchemaChangedDuringCopy
from airflow_provider_dm.engine.reading.survey import SourceSurvey, survey_tables
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.target.copied_tables import CopiedTable, load_copied_tables, put_copied_tables
from airflow_provider_dm.engine.target.copy_progress import ChunkProgress, load_chunks
from airflow_provider_dm.engine.target.session import run_transaction
from airflow_provider_dm.engine.target.table_definitions import Definition, load_definitions
from airflow_provider_dm.engine.target.table_schema import Feeder, TableSchema, load_feeders, load_table_schemas


class OthersToCopyAgain(DmError):
    """A merged table that was to be copied again for all its sources, of which this run has only some."""

    source: str
    table: str
    target: str

    code = "DM-7024"
    scope = Scope.UPSTREAM
    reaction = Reaction.RETRY
    what = (
        "{source}: {table} was altered while it was copied, and {target} is to be copied again with the rows of all "
        "its sources. Some of them are no part of this run."
    )
    hint = f"Run the task with all sources of the merged table. If they cannot be, {MIGRATE_AGAIN}."


@dataclass(frozen=True)
class Stand:
    """State of the copy as the target knows it."""

    schemas: Mapping[TableName, TableSchema]
    definitions: Mapping[TableName, Definition]
    known: Mapping[TableName, CopiedTable]
    chunks: list[ChunkProgress]
    feeders: list[Feeder]

    @property
    def recorded(self) -> frozenset[TableName]:
        """Return the tables whose rows are recorded, or that have left their merged table. Not those that are to be
        copied again together with all that feed it: their records may be gone before their rows.
        """
        copied = {chunk.table for chunk in self.chunks}
        found = ((name, one.owner, self.known.get(name)) for name, one in self.schemas.items())
        return frozenset(
            name
            for name, owner, known in found
            if (known is not None and known.leave is not None)
            or (owner > 0 and (name in copied or known is None or known.birth))
        )

    def old(self, name: TableName) -> tuple[Any, str] | None:
        """Return a table as it was planned, with its text; "" where that is not known. None: it was not planned."""
        if name not in self.schemas:
            return None
        known = self.definitions.get(name)
        return self.schemas[name].table, known.create_sql if known is not None else ""


@dataclass(frozen=True)
class Seen:
    """One source at one look."""

    watch: Watch
    stand: Stand
    births: Births
    side: Side


@dataclass(frozen=True)
class Settled:
    """The tables to be copied again as they are at `place`, and those of them that are gone there."""

    seen: Seen
    place: Location
    survey: SourceSurvey
    births: Births
    gone: tuple[TableName, ...]

    @property
    def watch(self) -> Watch:
        return self.seen.watch

    @property
    def names(self) -> list[TableName]:
        return [*(one.table.name for one in self.survey.tables), *self.gone]

    @property
    def left(self) -> frozenset[TableName]:
        """Return those that had left a merged table by then, or were about to (visiting.py)."""
        known = self.seen.stand.known
        return frozenset(name for name in self.names if name in known and known[name].leave is not None)

    @property
    def away(self) -> list[TableName]:
        return [name for name in self.left if (known := self.seen.stand.known[name].leave) is not None and known.away]

    def without(self, targets: Collection[TableName]) -> Settled:
        """Return the same without the source tables of some target tables."""
        route = self.watch.source.rules.router.route
        tables = tuple(one for one in self.survey.tables if one.target not in targets)
        gone = tuple(name for name in self.gone if route(name) not in targets)
        return replace(self, survey=replace(self.survey, tables=tables), gone=gone)


@dataclass
class Watch:
    """One source. For the thread of the driver."""

    target: Endpoint
    loading: Loading
    slots: int
    again: list[TableName] = field(default_factory=list)
    """The tables that were copied again, in the order of the events, one as often as it was."""
    sealed: frozenset[TableName] = frozenset()
    """The tables whose DDL is the sync's from here on (altered.py)."""
    last_chunk: int = -1
    looked_before: bool = False
    """Somebody has looked since the run began."""
    blocked_seconds: float = 0.0
    """The longest time that a lock of the copy blocked writers, after that of the start."""

    @property
    def source(self) -> Source:
        return self.loading.source

    @property
    def reads_log(self) -> bool:
        return self.source.reads_log

    @property
    def keeps_rows(self) -> bool:
        """Tell whether rows in the target may be others', so that none is removed."""
        return self.source.subtask.overwrites

    @property
    def agrees(self) -> bool:
        """Tell whether the sync makes DDL of merged tables, when all their shards have made it."""
        return self.reads_log and self.source.subtask.shard_mode is ShardMode.PESSIMISTIC

    def see(self, births: Births) -> Seen:
        """Return how the source stands by these births."""
        stand, rules = self.stand(), self.source.rules
        planned = frozenset(name for name in stand.schemas if rules.block_allow.allows(name))
        found = altered(planned, stand.known, births)
        if self.source.goes_by_log and self.looked_before:  # each page was of the table that was known (copier.py)
            self.sealed |= planned - {chunk.table for chunk in stand.chunks if not chunk.done}
        elif self.keeps_rows and not self.reads_log:
            found = found.without(copied_whole(stand.chunks))
        side = Side(
            self.source.id,
            planned,
            found,
            self.sealed,
            also_fresh=not self.looked_before,
            overwrites=self.source.goes_by_log,
            route=rules.router.route,
            recorded=stand.recorded | without_rows(self.loading.design.mappings[self.source.id], stand.chunks),
            reads_log=self.reads_log,
        )
        return Seen(self, stand, births, side)

    def looked(self) -> None:
        """Note that somebody has looked: from here on new tables come by the log."""
        self.looked_before = True

    def seal(self, seen: Seen, merged: Collection[TableName]) -> None:
        """Leave to the sync what comes behind the last page of tables that are what they were.

        But for merged ones, of which it follows no DDL before the loads are over.
        """
        if self.reads_log:
            unfinished = {chunk.table for chunk in seen.stand.chunks if not chunk.done}
            self.sealed |= seen.stand.schemas.keys() - seen.side.found.names - unfinished - set(merged)

    def stand(self) -> Stand:
        """Return the state of the copy as the target knows it now."""
        ref = self.source.fence.ref

        def body(connection: Connection) -> Stand:
            return Stand(
                {one.table.name: one for one in load_table_schemas(connection, ref)},
                load_definitions(connection, ref),
                load_copied_tables(connection, ref),
                load_chunks(connection, ref),
                load_feeders(connection, ref),
            )

        stand = run_transaction(self.target, body)
        self.last_chunk = max((self.last_chunk, *(chunk.number for chunk in stand.chunks)))
        return stand

    def settle(self, seen: Seen, found: Altered) -> Settled | None:
        """Return the tables as they are at a place of the log; None: one was altered meanwhile.

        Raises TableNotFound, WatermarkBlocked, and what connecting raises.
        """
        source, before = self.source, seen.births
        place = self.watermark(found.there)
        survey = survey_tables(source.endpoint, sorted(found.there), source.rules)
        behind = read_births(source.endpoint, source.rules.block_allow, also=found.names)
        if before.same(behind, found.names) and not (before.young & found.names):
            return Settled(seen, place, survey, behind, tuple(sorted(found.vanished)))
        return None

    def watermark(self, tables: Collection[TableName]) -> Location:
        """Return a low watermark of these tables in the log that the load reads.

        Raises WatermarkBlocked, RelayNotRunning, …
        """
        source, start = self.source, self.loading.start
        found = low_watermark(source.endpoint, tables)
        self.blocked_seconds, place = max(self.blocked_seconds, found.blocked_seconds), found.value
        if not self.reads_log or place.server_uuid == start.server_uuid:
            return replace(place, suffix=start.suffix)
        return replace(place, suffix=wait_for_relay(source, place.server_uuid).suffix)  # it failed over meanwhile

    def check_newcomers(self, seen: Seen, groups: Groups) -> None:
        """Check that new tables which nobody copies come by the log, as it shows that they are new.

        Raises SchemaChangedDuringCopy, and what reading the log raises.
        """
        found = unread_newcomers(seen.side, groups)
        if not found:
            return
        anew, altered = frozenset[TableName](), plainly_altered(seen.side, groups).names
        if self.reads_log:
            anew = made_anew(self.source, found, altered, self.loading.start, self.end())
        for name in sorted(found - anew):
            why = "it is new, others fill its target, and it is or was made like a table that is to be copied again"
            raise SchemaChangedDuringCopy(self.source.id, str(name), why)

    def check_strangers(self, names: Collection[TableName], seen: Seen) -> None:
        """Take altered tables that cannot be copied again for what they were, if their rows still are. Those whose log
        is applied are for by_log.py. Raises SchemaChangedDuringCopy, OthersToCopyAgain.
        """
        stand, now, source = seen.stand, seen.births, self.source
        planned = [name for name in names if name in stand.schemas and not self._is_followed(name, seen)]
        if not planned:
            return
        copied = {chunk.table for chunk in stand.chunks}  # a doubt takes birth and chunks of what is to be copied again
        for name in planned:
            if name not in now.tables and not self._comes_by_log(name, stand):
                raise SchemaChangedDuringCopy(source.id, str(name), "it is gone")
            if name not in copied and name in stand.known and not stand.known[name].birth:
                raise OthersToCopyAgain(source.id, str(name), str(source.rules.router.route(name)))
        there = [name for name in planned if name in now.tables]
        with connected(source.endpoint) as connection:
            tables = read_tables(connection, there)
        for name in there:
            same = tables[name] == stand.schemas[name].table or self._comes_by_log(name, stand)
            if not same:
                raise SchemaChangedDuringCopy(source.id, str(name), "its columns or keys are not those it began with")
        fence = source.fence
        born = {name: CopiedTable(str(now.tables[name])) for name in there}

        def body(connection: Connection) -> None:
            fence.check(connection)
            put_copied_tables(connection, fence.ref, born)

        run_transaction(self.target, body)
        births = {name: one.birth for name, one in born.items()}
        self.loading = replace(self.loading, births={**self.loading.births, **births})

    def _is_followed(self, name: TableName, seen: Seen) -> bool:
        """Tell whether the sync follows DDL of a table, now or behind the load."""
        return (name in self.sealed and self.is_alone(name, seen)) or name in self.altered_by_log(seen)

    def altered_by_log(self, seen: Seen) -> frozenset[TableName]:
        """Return the altered tables whose log is to be applied before they are copied on (by_log.py).

        Not merged ones, nor such as were altered in front of P0: nobody knows what they were there.
        """
        if not self.source.goes_by_log:
            return frozenset()
        known, found = seen.stand.known, seen.side.found
        names = ((found.changed | found.vanished) & seen.stand.schemas.keys()) - self.sealed
        told = (name for name in names if name not in known or known[name].birth)
        return frozenset(name for name in told if self.is_alone(name, seen))

    def _comes_by_log(self, name: TableName, stand: Stand) -> bool:
        """Tell whether a table is behind its copy with all that altered it, whatever the sync makes of that."""
        mappings = self.loading.design.mappings[self.source.id]
        keyless = any(one.source.name == name and one.target.identity is None for one in mappings)
        return keyless and was_copied_whole(name, stand.chunks)

    def is_alone(self, name: TableName, seen: Seen) -> bool:
        """Tell whether no other source table goes, or may be about to go, where this one goes."""
        target, mine = seen.side.route(name), (self.source.id, name)
        fed = {(one.source, one.table) for one in seen.stand.feeders if one.target == target}
        fed |= {(self.source.id, one) for one in seen.side.names if seen.side.route(one) == target}
        return fed <= {mine}

    def end(self) -> Location:
        """Return where the source's log ends. Raises RelayNotRunning, and what connecting raises."""
        source, start = self.source, self.loading.start
        until = replace(high_watermark(source.endpoint), suffix=start.suffix)
        if until.server_uuid != start.server_uuid and self.reads_log:
            until = replace(until, suffix=wait_for_relay(source, until.server_uuid).suffix)  # it failed over meanwhile
        return until

    def read_on(self, made: Design, births: Mapping[TableName, str]) -> None:
        """Take the tables as they are read from here on, and the births that they have."""
        before, ours = self.loading.design, self.source.id
        new = {one.source.name for one in made.mappings[ours]}
        kept = [one for one in before.mappings[ours] if one.source.name in births.keys() - new]
        mappings = {**before.mappings, ours: (*kept, *made.mappings[ours])}
        design = Design(mappings, before.creations, {**before.feeders, **made.feeders})
        self.sealed = frozenset()
        self.loading = replace(self.loading, design=design, births=births)

    def go_on_with(self, settled: Settled, made: Design, numbers: Mapping[TableName, int]) -> None:
        """Take the tables as they are copied from here on. `numbers`: under which their rows are recorded."""
        before, ours = self.loading.design, self.source.id
        names = {*settled.gone, *(one.table.name for one in settled.survey.tables)}
        kept = [one for one in before.mappings[ours] if one.source.name not in names]
        mappings = {**before.mappings, ours: (*kept, *made.mappings[ours])}
        self.sealed -= names
        self.again += [one.table.name for one in settled.survey.tables]
        self.loading = replace(
            self.loading,
            design=Design(mappings, before.creations, {**before.feeders, **made.feeders}),
            numbers={**self.loading.numbers, **numbers},
        )
