"""Beginning a copy, or going on with one: from configuration to chunks that stand in the target.

In this order, so that a refusal leaves the target as it was:
1. read what the sources have and what the target has (survey), decide (design);
2. create what the target lacks, look again;
3. for each source that has not begun: wait for its relay log, take P0, look whether the tables are still the same (a
   DDL before P0 is in no log that we replay), write the plan in one transaction: P0, the tables as they are, chunks.
A source that has begun goes on with the plan that it finds."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final

import pymysql
from pymysql.constants import ER

from airflow_provider_dm.engine.config.job import SourceSpec
from airflow_provider_dm.engine.config.task import SubtaskConfig, TaskConfig, TaskMode
from airflow_provider_dm.engine.copy.design import Design, design
from airflow_provider_dm.engine.copy.watermark import low_watermark
from airflow_provider_dm.engine.errors import DmError, Reaction, Scope
from airflow_provider_dm.engine.mysql.connection import Connection, connected, query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.chunks import plan_chunks
from airflow_provider_dm.engine.reading.source_session import SchemaChangedDuringCopy
from airflow_provider_dm.engine.reading.survey import SourceSurvey, measure, survey_source, survey_target
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.target.copy_progress import ChunkOwner, insert_chunks, load_chunks
from airflow_provider_dm.engine.target.errors import translate
from airflow_provider_dm.engine.target.session import run_transaction, target_connection
from airflow_provider_dm.engine.target.subtask import UNIT_LOAD, UNIT_SYNC, begin_subtask, read_subtask
from airflow_provider_dm.engine.target.table_schema import TableSchema, load_table_schemas, save_table_schemas

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
    """One source of this run. `generation` is what its claim gave."""

    spec: SourceSpec
    subtask: SubtaskConfig
    endpoint: Endpoint
    generation: int

    @property
    def id(self) -> str:
        return self.subtask.source_id

    @property
    def owner(self) -> ChunkOwner:
        return ChunkOwner(self.subtask.meta_schema, self.subtask.task, self.id, self.generation)


@dataclass(frozen=True)
class Loading:
    """A source whose plan stands in the target and whose chunks can be copied."""

    source: Source
    design: Design
    start: Location
    resumed: bool
    notes: tuple[str, ...] = ()


def finished(target: Endpoint, source: Source) -> bool:
    """Whether this source's full load is complete already."""
    owner = source.owner
    found = run_transaction(target, lambda tx: read_subtask(tx, owner.meta_schema, owner.task, owner.source))
    return found is not None and found.unit == UNIT_SYNC


Begun = Callable[[str, Location], None]
"""(source-id, P0): the relay log is needed from there on. Called before the plan is committed, maybe more than once:
should one of the two fail, too much is kept and not too little."""


def begin(task: TaskConfig, sources: Sequence[Source], target: Endpoint, *, slots: int, begun: Begun) -> list[Loading]:
    """The sources with their plans in the target. Raises every reason not to begin; see the module docstring."""
    stored = {source.id: _stored_plan(target, source) for source in sources}
    surveys = [_survey(source, stored[source.id]) for source in sources]
    names = {one.target for survey in surveys for one in survey.tables}
    fresh = {source.id for source in sources if stored[source.id] is None}
    subtasks = {source.id: source.subtask for source in sources}
    there = survey_target(target, names)
    # Asked second: another run of this task plans its chunks before it writes the first row.
    copied_into = _copied_into(task, target)
    planned = design(surveys, subtasks, there, fresh=fresh, copied_into=copied_into)
    _create(target, planned)
    again = design(surveys, subtasks, survey_target(target, names), fresh=set(), copied_into=copied_into)
    notes = tuple(f"{one.name}: {note}" for one in planned.creations for note in one.notes)
    for note in notes:
        log.warning("created %s", note)
    made = Design(again.mappings, planned.creations, again.feeders)
    return [
        _go_on(source, found, made, notes, begun)
        if found
        else _begin_source(source, survey, made, target, slots, notes, begun)
        for source, survey in zip(sources, surveys, strict=True)
        for found in [stored[source.id]]
    ]


@dataclass(frozen=True)
class _Stored:
    start: Location
    schemas: tuple[TableSchema, ...]


def _stored_plan(target: Endpoint, source: Source) -> _Stored | None:
    owner = source.owner
    key = (owner.meta_schema, owner.task, owner.source)

    def body(connection: Connection) -> _Stored | None:
        found = read_subtask(connection, *key)
        if found is None or found.unit != UNIT_LOAD or found.start is None:
            return None
        return _Stored(found.start, tuple(load_table_schemas(connection, *key)))

    return run_transaction(target, body)


def _survey(source: Source, stored: _Stored | None) -> SourceSurvey:
    """What is there now; of a source that has begun, the tables that it began with, unchanged."""
    survey = survey_source(source.endpoint, source.subtask)
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
    """Raises SchemaChangedDuringCopy, or TableNotFound."""
    with connected(source.endpoint) as connection:
        now = read_tables(connection, [table.name for table in tables])
    for table in tables:
        if now[table.name] != table:
            raise SchemaChangedDuringCopy(source.id, str(table.name), "its columns or keys are not those it began with")


def _copied_into(task: TaskConfig, target: Endpoint) -> frozenset[TableName]:
    """Target tables that some source of this task has begun to copy into."""
    connection = target_connection(target)
    found: set[TableName] = set()
    for source_id in task.source_ids:
        subtask = task.subtask(source_id)
        router = Router.from_config(subtask.routes, case_sensitive=subtask.case_sensitive)
        chunks = load_chunks(connection, subtask.meta_schema, subtask.task, source_id)
        found |= {router.route(chunk.table) for chunk in chunks}
    return frozenset(found)


def _create(target: Endpoint, planned: Design) -> None:
    """Outside of a transaction, as DDL commits by itself; whatever was made before a failure is found next time."""
    connection = target_connection(target)
    try:
        schemas = {one.name.schema for one in planned.creations}
        present = {bytes(row[0]).decode() for row in query(connection, "SHOW DATABASES")}
        for schema in sorted(schemas - present):
            query(connection, f"CREATE DATABASE IF NOT EXISTS {quote(schema)}")
        for one in planned.creations:
            log.info("creating %s", one.name)
            _create_table(connection, one.sql)
    except pymysql.err.Error as error:
        raise translate(error, table=", ".join(str(one.name) for one in planned.creations[:5])) from error


def _create_table(connection: Connection, sql: str) -> None:
    try:
        query(connection, sql)
    except pymysql.err.OperationalError as error:
        if error.args[0] != ER.TABLE_EXISTS_ERROR:  # another run of this task was faster; it is looked at again
            raise


def _go_on(source: Source, stored: _Stored, made: Design, notes: tuple[str, ...], begun: Begun) -> Loading:
    begun(source.id, stored.start)
    log.info("%s: the copy goes on; it began at %s", source.id, stored.start)
    return Loading(source, made, stored.start, resumed=True, notes=notes)


def _begin_source(
    source: Source,
    survey: SourceSurvey,
    made: Design,
    target: Endpoint,
    slots: int,
    notes: tuple[str, ...],
    begun: Begun,
) -> Loading:
    suffix = 1
    if source.subtask.mode is not TaskMode.FULL:
        suffix = wait_for_relay(source, survey.server_uuid)
    start = replace(low_watermark(source.endpoint), suffix=suffix)
    tables = [one.table for one in survey.tables]
    check_unchanged(source, tables)
    sizes = measure(source.endpoint, [(one.table, one.rows) for one in survey.tables])
    chunks = plan_chunks(sizes, slots=slots, chunk_rows=source.subtask.mydumper.rows)
    owner = source.owner
    key = (owner.meta_schema, owner.task, owner.source)

    def body(connection: Connection) -> None:
        begin_subtask(connection, *key, generation=owner.generation, unit=UNIT_LOAD, start=start)
        begun(source.id, start)  # by nobody but who holds the generation, and before all this counts
        save_table_schemas(connection, *key, [TableSchema(one.table, one.target) for one in survey.tables])
        insert_chunks(connection, owner, chunks)

    run_transaction(target, body)
    log.info("%s: %d tables in %d chunks, from %s on", source.id, len(tables), len(chunks), start)
    return Loading(source, made, start, resumed=False, notes=notes)


def wait_for_relay(
    source: Source,
    server_uuid: str,
    *,
    seconds: float = RELAY_WAIT_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """The suffix of the sub-directory that keeps this server's binlog now. Raises RelayNotRunning.

    A relay begins at the start of the server's current file, or earlier; so P0, taken afterwards, lies in it.
    """
    deadline, reader = time.monotonic() + seconds, RelayReader(Path(source.spec.relay_dir))
    while True:
        suffix = reader.suffix_now(server_uuid)
        if suffix is not None and suffix == reader.newest_suffix():  # else it is still that of another server
            return suffix
        if time.monotonic() >= deadline:
            raise RelayNotRunning(source.id, source.spec.relay_dir, seconds)
        sleep(RELAY_LOOK_SECONDS)
