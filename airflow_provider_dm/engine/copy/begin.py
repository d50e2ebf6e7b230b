"""Beginning a copy, or going on with one: from configuration to chunks that stand in the target.

In this order, so that a refusal leaves the target as it was:
1. read what the sources have and what the target has (survey), decide (design);
2. create what the target lacks, look again;
3. for each source that has not begun: wait for its relay log, take P0, look whether the tables are still the same (a
   DDL before P0 is in no log that we replay), write the plan in one transaction: P0, the tables as they are, chunks.
A source that has begun goes on with the plan that it finds.

What is needed of the relay log is announced before it is taken, or a purge in between could take it: first the relay's
newest file, behind whose beginning P0 will lie, then P0 itself. A run that was replaced announces nothing any more."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final

from airflow_provider_dm.engine.config.job import SourceSpec
from airflow_provider_dm.engine.config.task import SubtaskConfig, TaskConfig, TaskMode
from airflow_provider_dm.engine.copy.creation import create, schemas_to_create
from airflow_provider_dm.engine.copy.design import Design, design
from airflow_provider_dm.engine.copy.prepared import wait_for_prepared
from airflow_provider_dm.engine.copy.watermark import low_watermark
from airflow_provider_dm.engine.errors import DmError, Reaction, Scope
from airflow_provider_dm.engine.merge.joining import Newcomer, enter_tables
from airflow_provider_dm.engine.mysql.connection import Connection, connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.chunks import plan_chunks
from airflow_provider_dm.engine.reading.source_session import SchemaChangedDuringCopy
from airflow_provider_dm.engine.reading.survey import SourceSurvey, measure, survey_source, survey_target
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.rules.online_memory import OnlineDdls
from airflow_provider_dm.engine.rules.subtask import SubtaskRules
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.target.copy_progress import insert_chunks, load_chunks
from airflow_provider_dm.engine.target.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.target.online_ddl_memory import save as save_online_ddls
from airflow_provider_dm.engine.target.session import run_transaction, target_connection
from airflow_provider_dm.engine.target.subtask import UNIT_LOAD, UNIT_SYNC, begin_subtask, read_subtask
from airflow_provider_dm.engine.target.table_definitions import Definitions, begin_definitions
from airflow_provider_dm.engine.target.table_schema import TableSchema, load_table_schemas

log = logging.getLogger(__name__)

RELAY_WAIT_SECONDS: Final = 60.0
RELAY_LOOK_SECONDS: Final = 0.5


@dataclass(eq=False)
class RelayNotRunning(DmError):
    """Nothing keeps the binlog from P0 on."""

    source: str
    directory: str
    waited_seconds: float

    code: ClassVar[str] = "DM-7014"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    reaction: ClassVar[Reaction] = Reaction.RETRY
    what: ClassVar[str] = "{source}: no relay log of this server began in {directory} within {waited_seconds:.0f} s."
    hint: ClassVar[str] = "Start the relay of this source first: what is written during the copy has to be kept."


@dataclass(frozen=True)
class Source:
    """One source of this run. `fence` is what its claim gave."""

    spec: SourceSpec
    subtask: SubtaskConfig
    endpoint: Endpoint
    fence: Fence

    @property
    def id(self) -> str:
        return self.subtask.source_id

    @cached_property
    def rules(self) -> SubtaskRules:
        return SubtaskRules.of(self.subtask)


@dataclass(frozen=True)
class Loading:
    """A source whose plan stands in the target and whose chunks can be copied."""

    source: Source
    design: Design
    start: Location
    resumed: bool
    numbers: Mapping[TableName, int]
    """Of each table, in dm_row_owner; 0 where no rows are recorded."""
    notes: tuple[str, ...] = ()


def finished(target: Endpoint, source: Source) -> bool:
    """Tell whether this source's full load is complete already."""
    found = run_transaction(target, lambda tx: read_subtask(tx, source.fence.ref))
    return found is not None and found.unit == UNIT_SYNC


@dataclass(eq=False)
class SourceMoved(DmError):
    """The source's address led to another server while the copy began."""

    source: str
    before: str
    now: str

    code: ClassVar[str] = "DM-7020"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    reaction: ClassVar[Reaction] = Reaction.RETRY
    what: ClassVar[str] = "{source}: server {before} answered first, then server {now}; nothing was begun."
    hint: ClassVar[str] = "Give the source an address that leads to one server, and begin again."


Begun = Callable[[str, Location], None]
"""(source-id, place): the relay log is needed from there on. Called before the plan is committed, and more than once:
too much is kept rather than too little."""


def begin(task: TaskConfig, sources: Sequence[Source], target: Endpoint, *, slots: int, begun: Begun) -> list[Loading]:
    """Return the sources with their plans in the target. Raises every reason not to begin; see the module docstring."""
    stored = {source.id: _stored_plan(target, source) for source in sources}
    surveys = [_survey(source, stored[source.id]) for source in sources]
    names = {one.target for survey in surveys for one in survey.tables}
    fresh = {source.id for source in sources if stored[source.id] is None}
    subtasks = {source.id: source.subtask for source in sources}
    there = survey_target(target, names)
    # Asked second: another run of this task plans its chunks before it writes the first row.
    copied_into = _copied_into(task, sources, target)
    planned = design(surveys, subtasks, there, fresh=fresh, copied_into=copied_into)
    created = create(target, planned.creations, schemas_to_create(surveys, planned.creations, there.flavour))
    again = design(surveys, subtasks, survey_target(target, names), fresh=set(), copied_into=copied_into)
    notes = (*created, *(f"{one.name}: {note}" for one in planned.creations for note in one.notes))
    for note in notes:
        log.warning("created %s", note)
    made = Design(again.mappings, planned.creations, again.feeders)
    newcomers = {source.id: _newcomers(source, made) for source in sources if source.id in fresh}
    return [
        _go_on(source, found, made, target, notes, begun)
        if found
        else _begin_source(source, survey, made, newcomers, target, slots, notes, begun)
        for source, survey in zip(sources, surveys, strict=True)
        for found in [stored[source.id]]
    ]


def _newcomers(source: Source, made: Design) -> list[Newcomer]:
    """Return the tables of a source that is about to begin, as far as they can be merged."""
    if source.subtask.overwrites:
        return []
    return [
        Newcomer(mapping.source.name, mapping.target.name)
        for mapping in made.mappings[source.id]
        if mapping.target.identity is not None
    ]


@dataclass(frozen=True)
class _Stored:
    start: Location
    schemas: tuple[TableSchema, ...]


def _stored_plan(target: Endpoint, source: Source) -> _Stored | None:
    ref = source.fence.ref

    def body(connection: Connection) -> _Stored | None:
        found = read_subtask(connection, ref)
        if found is None or found.unit != UNIT_LOAD or found.start is None:
            return None
        return _Stored(found.start, tuple(load_table_schemas(connection, ref)))

    return run_transaction(target, body)


def _survey(source: Source, stored: _Stored | None) -> SourceSurvey:
    """Return what is there now; of a source that has begun, the tables that it began with, unchanged."""
    survey = survey_source(source.endpoint, source.rules)
    if stored is None:
        return survey
    check_unchanged(source, [schema.table for schema in stored.schemas])
    now = {one.table.name: one for one in survey.tables}
    for schema in stored.schemas:
        if schema.table.name not in now:
            raise SchemaChangedDuringCopy(source.id, str(schema.table.name), "the block-allow-list leaves it out now")
        schema.check_route(now[schema.table.name].target)
    return replace(survey, tables=tuple(now[schema.table.name] for schema in stored.schemas))


def check_unchanged(source: Source, tables: Sequence[Table]) -> None:
    """Check that the tables of the source still have these definitions. Raises SchemaChangedDuringCopy, or
    TableNotFound.
    """
    with connected(source.endpoint) as connection:
        now = read_tables(connection, [table.name for table in tables])
    for table in tables:
        if now[table.name] != table:
            raise SchemaChangedDuringCopy(source.id, str(table.name), "its columns or keys are not those it began with")


def _copied_into(task: TaskConfig, sources: Sequence[Source], target: Endpoint) -> frozenset[TableName]:
    """Return the target tables that some source of this task has begun to copy into."""
    connection = target_connection(target)
    found: set[TableName] = set()
    of_run = {source.id: source.rules for source in sources}
    for source_id in task.source_ids:
        router = (of_run.get(source_id) or SubtaskRules.of(task.subtask(source_id))).router
        chunks = load_chunks(connection, SubtaskRef(task.meta_schema, task.name, source_id))
        found |= {router.route(chunk.table) for chunk in chunks}
    return frozenset(found)


def _announce(target: Endpoint, source: Source, place: Location, begun: Begun) -> None:
    """Announce it as the holder of the generation, which nobody else can claim meanwhile.

    Raises Fenced or TargetWentBack.
    """

    def body(connection: Connection) -> None:
        source.fence.check(connection)
        begun(source.id, place)

    run_transaction(target, body)


def _go_on(
    source: Source, stored: _Stored, made: Design, target: Endpoint, notes: tuple[str, ...], begun: Begun
) -> Loading:
    _announce(target, source, stored.start, begun)
    log.info("%s: the copy goes on; it began at %s", source.id, stored.start)
    numbers = {schema.table.name: max(0, schema.owner) for schema in stored.schemas}
    return Loading(source, made, stored.start, resumed=True, numbers=numbers, notes=notes)


def _begin_source(
    source: Source,
    survey: SourceSurvey,
    made: Design,
    newcomers: Mapping[str, Sequence[Newcomer]],
    target: Endpoint,
    slots: int,
    notes: tuple[str, ...],
    begun: Begun,
) -> Loading:
    suffix, full = 1, source.subtask.mode is TaskMode.FULL
    if not full:
        newest = wait_for_relay(source, survey.server_uuid)
        _announce(target, source, newest, begun)
        suffix = newest.suffix
    start = replace(low_watermark(source.endpoint), suffix=suffix)
    if start.server_uuid != survey.server_uuid:
        raise SourceMoved(source.id, survey.server_uuid, start.server_uuid)
    _announce(target, source, start, begun)
    if not full:
        wait_for_prepared(source.endpoint)
    tables = [one.table for one in survey.tables]
    check_unchanged(source, tables)
    with connected(source.endpoint) as connection:
        definitions = Definitions.read(connection, [table.name for table in tables])
    sizes = measure(source.endpoint, [(one.table, one.rows) for one in survey.tables])
    chunks = plan_chunks(sizes, slots=slots, chunk_rows=source.subtask.mydumper.rows)
    fence = source.fence
    fellows = [one for other, names in newcomers.items() if other != source.id for one in names]

    def body(connection: Connection) -> dict[TableName, int]:
        begin_subtask(connection, fence, unit=UNIT_LOAD, start=start)
        schemas = [TableSchema(one.table, one.target) for one in survey.tables]
        numbers = enter_tables(connection, fence.ref, schemas, newcomers[source.id], fellows, loading=True, full=full)
        begin_definitions(connection, fence.ref, definitions)
        save_online_ddls(connection, fence.ref, OnlineDdls())
        insert_chunks(connection, fence, chunks)
        return numbers

    numbers = run_transaction(target, body)
    log.info("%s: %d tables in %d chunks, from %s on", source.id, len(tables), len(chunks), start)
    return Loading(source, made, start, resumed=False, numbers=numbers, notes=notes)


def wait_for_relay(
    source: Source,
    server_uuid: str,
    *,
    seconds: float = RELAY_WAIT_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> Location:
    """Return the beginning of the file that the relay of this server writes now. Raises RelayNotRunning.

    A relay begins at the start of the server's current file, or earlier; so a location that is taken afterwards lies
    behind that.
    """
    deadline, reader = time.monotonic() + seconds, RelayReader(Path(source.spec.relay_dir))
    while True:
        newest = reader.newest_file()
        if newest is not None and newest.server_uuid == server_uuid:  # else it is still that of another server
            return newest
        if time.monotonic() >= deadline:
            raise RelayNotRunning(source.id, source.spec.relay_dir, seconds)
        sleep(RELAY_LOOK_SECONDS)
