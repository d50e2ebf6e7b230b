"""Copying tables again that were altered while they were copied: each from its own low watermark P0' in the same log.

    look     whose birth is another one now                                          altered.py
    settle   P0', and the tables as they are there: born the same before and behind it, and their definitions in between
    doubt    one transaction: their chunks go, so no late page of the first copy is written any more; they count as
             tables to be copied again until the last step, whoever dies in between
    remove   the target's tables: those that the task has made go, others are emptied  renewal.py
    expect   one transaction: definitions as they are now. Until here what the target has was made after the old ones,
             from here on after these: a table that is altered once more, and whoever dies, it is known for the task's
    create   what was removed, and what is new
    begin    one transaction: births, `skip_until` = P0', new chunks

    P0 ─── ALTER t ─── RENAME a TO b ─── P0' ──────────── Pend
    rows and DDL of t, a and b up to P0' are in their second copies; a is gone there; the sync replays what comes behind

Rows of merged tables are not one table's to remove, and those that a copy is meant to overwrite (on-duplicate-logical
replace) are not the task's. Such a table may be altered as long as its columns and unique keys are what they were at
the next look; else SchemaChangedDuringCopy.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_provider_dm.engine.config.task import TaskMode
from airflow_provider_dm.engine.copy.altered import Altered, altered
from airflow_provider_dm.engine.copy.begin import Loading, Source, wait_for_relay
from airflow_provider_dm.engine.copy.design import Design, design
from airflow_provider_dm.engine.copy.renewal import Found, Renewal, Sides, dropped, renewed
from airflow_provider_dm.engine.copy.watermark import WatermarkBlocked, low_watermark
from airflow_provider_dm.engine.ddl.create_like import create_schema_like
from airflow_provider_dm.engine.ddl.server import server_of
from airflow_provider_dm.engine.mysql.connection import Connection, connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.births import Births, read_births, settled_births
from airflow_provider_dm.engine.reading.chunks import plan_chunks
from airflow_provider_dm.engine.reading.source_session import SchemaChangedDuringCopy
from airflow_provider_dm.engine.reading.survey import SourceSurvey, SourceTable, measure, survey_tables, survey_target
from airflow_provider_dm.engine.schema.catalogue import TableNotFound, create_statement, list_tables, read_tables
from airflow_provider_dm.engine.target.copied_tables import (
    CopiedTable,
    doubt_copied_tables,
    load_copied_tables,
    put_copied_tables,
)
from airflow_provider_dm.engine.target.copy_progress import ChunkProgress, add_chunks, forget_chunks, load_chunks
from airflow_provider_dm.engine.target.ddl_execution import TargetDdl, execute_ddl
from airflow_provider_dm.engine.target.ddl_journal import forget_entries
from airflow_provider_dm.engine.target.session import run_transaction
from airflow_provider_dm.engine.target.table_definitions import Definition, load_definitions, save_definitions
from airflow_provider_dm.engine.target.table_schema import (
    Feeder,
    TableSchema,
    forget_table_schemas,
    load_feeders,
    load_table_schemas,
    put_table_schemas,
)

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 20.0
"""Between two looks while pages are read: a look asks for every table of the source."""
LOOK_SHARE: Final = 20
"""Where there are many tables: so many times longer is copied than looked."""
SETTLE_ATTEMPTS: Final = 30


@dataclass(frozen=True)
class _Stand:
    """State of the copy as the target knows it."""

    schemas: dict[TableName, TableSchema]
    known: dict[TableName, CopiedTable]
    chunks: list[ChunkProgress]
    feeders: list[Feeder]


@dataclass(frozen=True)
class _Settled:
    """The tables to be copied again as they are at `place`, and those of them that are gone there."""

    place: Location
    survey: SourceSurvey
    births: Births
    gone: tuple[TableName, ...]


@dataclass
class Watch:
    """One source whose tables are being copied, and what was altered meanwhile. For the thread of the driver."""

    target: Endpoint
    loading: Loading
    slots: int
    again: list[TableName] = field(default_factory=list)
    """The tables that were copied again, in the order of the events, one as often as it was."""
    sealed: frozenset[TableName] = frozenset()
    """The tables whose DDL is the sync's from here on (altered.py)."""
    _looked: bool = False
    _looked_at: float = field(default_factory=time.monotonic)
    _pause: float = LOOK_SECONDS
    _last_chunk: int = -1

    @property
    def source(self) -> Source:
        return self.loading.source

    def look_now_and_then(self) -> None:
        """Look if the last look is long ago. Raises as `look`."""
        if time.monotonic() - self._looked_at >= self._pause:
            self.look()

    def look(self) -> bool:
        """Look what was altered, and begin to copy it again; tell whether there is anything.

        Raises SchemaChangedDuringCopy, WatermarkBlocked (retry), Fenced, and what planning and creating tables raises.
        """
        began, stand = time.monotonic(), self._stand()
        found = self._found(stand, read_births(self.source.endpoint, self.source.rules.block_allow))
        self._looked_at = time.monotonic()
        self._pause = max(LOOK_SECONDS, LOOK_SHARE * (self._looked_at - began))
        first, self._looked = not self._looked, True
        if found.matters(self.sealed, also_fresh=first):
            self._copy_again(stand)
            return True
        if self.source.subtask.mode is not TaskMode.FULL:
            unfinished = {chunk.table for chunk in stand.chunks if not chunk.done}
            self.sealed |= stand.schemas.keys() - found.names - unfinished
        return False

    def _stand(self) -> _Stand:
        ref = self.source.fence.ref

        def body(connection: Connection) -> _Stand:
            return _Stand(
                {one.table.name: one for one in load_table_schemas(connection, ref)},
                load_copied_tables(connection, ref),
                load_chunks(connection, ref),
                load_feeders(connection, ref),
            )

        stand = run_transaction(self.target, body)
        self._last_chunk = max((self._last_chunk, *(chunk.number for chunk in stand.chunks)))
        return stand

    # What is altered

    def _found(self, stand: _Stand, now: Births) -> Altered:
        """Return what has to be copied again if anything does."""
        rules = self.source.rules
        planned = [name for name in stand.schemas if rules.block_allow.allows(name)]
        found = altered(planned, stand.known, now)
        ours = Counter(rules.router.route(name) for name in {*planned, *found.fresh})
        shared = {name for name in found.names if self._is_shared(name, stand) or ours[rules.router.route(name)] > 1}
        self._check_shared(shared & (found.changed | found.vanished), stand, now)
        return found.without(shared)

    def _is_shared(self, name: TableName, stand: _Stand) -> bool:
        """Tell whether the rows of the table are, or would be, in one target table with others that stay."""
        if self.source.subtask.overwrites:
            return True
        target, mine = self.source.rules.router.route(name), (self.source.id, name)
        return any(one.target == target and (one.source, one.table) != mine for one in stand.feeders)

    def _check_shared(self, names: Collection[TableName], stand: _Stand, now: Births) -> None:
        """Take these for what they were if their rows still are. Raises SchemaChangedDuringCopy."""
        planned = [name for name in names if name in stand.schemas]
        if not planned:
            return
        copied = {
            chunk.table for chunk in stand.chunks
        }  # `_doubt` takes birth and chunks of what is to be copied again
        for name in planned:
            if name not in now.tables:
                raise SchemaChangedDuringCopy(self.source.id, str(name), "it is gone")
            if name not in copied and name in stand.known and not stand.known[name].birth:
                raise SchemaChangedDuringCopy(self.source.id, str(name), "its second copy had begun, and it is merged")
        with connected(self.source.endpoint) as connection:
            tables = read_tables(connection, planned)
        for name in planned:
            if tables[name] != stand.schemas[name].table:
                raise SchemaChangedDuringCopy(
                    self.source.id, str(name), "its columns or keys are not those it began with"
                )
        fence = self.source.fence
        born = {name: CopiedTable(str(now.tables[name])) for name in planned}

        def body(connection: Connection) -> None:
            fence.check(connection)
            put_copied_tables(connection, fence.ref, born)

        run_transaction(self.target, body)

    # Copying it again

    def _copy_again(self, stand: _Stand) -> None:
        settled = self._settle(stand)
        names = [*(one.table.name for one in settled.survey.tables), *settled.gone]
        log.warning(
            "%s: tables were altered while they were copied; from %s on they are copied again: %s; gone: %s",
            *(self.source.id, settled.place, _listed(names[: len(settled.survey.tables)]), _listed(settled.gone)),
        )
        self._doubt(names, settled.place.sort_key)
        self._renew(settled, stand)
        made = self._design(settled.survey)
        self._begin(settled)
        self.sealed -= set(names)
        self.again += [one.table.name for one in settled.survey.tables]
        self.loading = self._with(settled, made)

    def _settle(self, stand: _Stand) -> _Settled:
        source, rules = self.source, self.source.rules
        began = time.monotonic()
        for _ in range(SETTLE_ATTEMPTS):
            before = settled_births(source.endpoint, rules.block_allow)
            found = self._found(stand, before)
            place = self._watermark()
            try:
                survey = survey_tables(source.endpoint, sorted(found.there), rules)
            except TableNotFound:
                continue  # it is gone since
            behind = read_births(source.endpoint, rules.block_allow, also=found.names)
            if before.same(behind, found.names) and not (before.young & found.names):
                return _Settled(place, survey, behind, tuple(sorted(found.vanished)))
            log.info("%s: tables are being altered, looking again", source.id)
        raise WatermarkBlocked(source.id, "tables that are altered all the time", time.monotonic() - began)

    def _watermark(self) -> Location:
        source, start = self.source, self.loading.start
        place = low_watermark(source.endpoint)
        if source.subtask.mode is TaskMode.FULL or place.server_uuid == start.server_uuid:
            return replace(place, suffix=start.suffix)
        return replace(place, suffix=wait_for_relay(source, place.server_uuid).suffix)  # it failed over meanwhile

    def _doubt(self, names: Collection[TableName], place: str) -> None:
        """Count them as tables to be copied again, and forget what a run that died has noted of its DDL here."""
        fence = self.source.fence

        def body(connection: Connection) -> None:
            fence.check(connection)
            doubt_copied_tables(connection, fence.ref, names)
            for name in names:
                forget_chunks(connection, fence.ref, name)
            forget_entries(connection, fence.ref, place)

        run_transaction(self.target, body)

    def _renew(self, settled: _Settled, stand: _Stand) -> None:
        """Bring the target's tables into their new form, without rows."""
        plans, schemas = self._renewals(settled, stand)
        removals = [dropped(stand.schemas[name].target) for name in settled.gone]
        removals += [one.removal for one in plans if one.removal is not None]
        creations = schemas + [one.creation for one in plans if one.creation is not None]
        place = settled.place.sort_key
        execute_ddl(self.target, self.source.fence, place, removals, [])
        self._expect(settled)
        execute_ddl(self.target, self.source.fence, place, creations, [], first=len(removals))

    def _renewals(self, settled: _Settled, stand: _Stand) -> tuple[list[Renewal], list[TargetDdl]]:
        """Return what becomes of the target's tables, and the statements for schemas that new ones lie in."""
        tables = settled.survey.tables
        definitions = run_transaction(self.target, lambda tx: load_definitions(tx, self.source.fence.ref))
        with connected(self.target) as connection:
            there = {one.target for one in tables} & set(list_tables(connection))
            now = read_tables(connection, sorted(there))
            found = {name: Found(now[name], create_statement(connection, name)) for name in there}
            sides = Sides(settled.survey.flavour, server_of(connection))
        old = {
            name: (schema.table, definitions[name].create_sql if name in definitions else "")
            for name, schema in stand.schemas.items()
        }
        unfilled = tuple(one for one in tables if one.table.name not in old and one.target in there)
        if unfilled:
            self._design(replace(settled.survey, tables=unfilled))  # now, as they are the task's from `_expect` on
        plans = [renewed(one, old.get(one.table.name), found.get(one.target), sides) for one in tables]
        return plans, [self._schema(one, settled.survey, sides) for one in tables if one.target not in there]

    def _expect(self, settled: _Settled) -> None:
        """Write what the tables are now, as tables that are still to be copied again."""
        fence, place, tables = self.source.fence, settled.place.sort_key, settled.survey.tables

        def body(connection: Connection) -> None:
            fence.check(connection)
            put_table_schemas(connection, fence.ref, [TableSchema(one.table, one.target, place) for one in tables])
            save_definitions(connection, fence.ref, {one.table.name: Definition(one.create) for one in tables})
            put_copied_tables(connection, fence.ref, {one.table.name: CopiedTable("") for one in tables})

        run_transaction(self.target, body)

    def _schema(self, one: SourceTable, survey: SourceSurvey, sides: Sides) -> TargetDdl:
        collation = survey.collations[one.table.name.schema]
        flavour = sides.target.flavour
        made = create_schema_like(one.target.schema, collation, source_flavour=sides.source, target_flavour=flavour)
        return TargetDdl(made.sql(), ())

    def _design(self, survey: SourceSurvey) -> Design:
        """Look whether the target's tables, as they are now, take the rows. Raises what `design` does."""
        names = {one.target for one in survey.tables}
        subtasks = {self.source.id: self.source.subtask}
        there = survey_target(self.target, names)
        return design([survey], subtasks, there, fresh={self.source.id}, copied_into=frozenset())

    def _begin(self, settled: _Settled) -> None:
        """Write that they are copied from here on, and the chunks of that."""
        source, place, tables = self.source, settled.place.sort_key, settled.survey.tables
        fence, ref = source.fence, source.fence.ref
        sizes = measure(source.endpoint, [(one.table, one.rows) for one in tables])
        planned = plan_chunks(sizes, slots=self.slots, chunk_rows=source.subtask.mydumper.rows)
        chunks = [replace(one, number=self._last_chunk + 1 + one.number) for one in planned]
        known = {one.table.name: CopiedTable(str(settled.births.tables[one.table.name]), place) for one in tables}
        gone = {name: CopiedTable("", place) for name in settled.gone}

        def body(connection: Connection) -> None:
            fence.check(connection)
            forget_table_schemas(connection, ref, settled.gone)
            put_copied_tables(connection, ref, known | gone)
            for name in known:
                forget_chunks(connection, ref, name)
            add_chunks(connection, fence, chunks)
            forget_entries(connection, ref, place)

        run_transaction(self.target, body)
        self._last_chunk += len(chunks)

    def _with(self, settled: _Settled, made: Design) -> Loading:
        """Return the loading with these tables as they are copied now."""
        before, ours = self.loading.design, self.source.id
        names = {*settled.gone, *(one.table.name for one in settled.survey.tables)}
        kept = [one for one in before.mappings[ours] if one.source.name not in names]
        mappings = {**before.mappings, ours: (*kept, *made.mappings[ours])}
        return replace(self.loading, design=Design(mappings, before.creations, {**before.feeders, **made.feeders}))


def _listed(names: Collection[TableName]) -> str:
    return ", ".join(map(str, names)) or "none"
