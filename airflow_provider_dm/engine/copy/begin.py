"""Beginning a copy, or going on with one: from configuration to chunks that stand in the target.

In this order, so that a refusal leaves the target as it was:
1. read what the sources have and what the target has (survey), decide (design);
2. create what the target lacks, look again;
3. for each source that has not begun: wait for its relay log, take P0, write the plan in one transaction: P0, the
   tables as they were at the survey, their births, chunks.
A source that has begun goes on with the plan that it finds. A table that was born since the survey and would share its
target with others, in front of P0, would be in no copy and no log: then the source is not begun, and all is looked at
anew. A table that was altered since the survey, be it in front of P0, which is in no log that we replay, is copied
again before its first page is read (again.py).

What is needed of the relay log is announced before it is taken, or a purge in between could take it: first the relay's
newest file, behind whose beginning P0 will lie, then P0 itself. A run that was replaced announces nothing any more."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.binlog.xa import oldest_place
from airflow_provider_dm.engine.config.task import TaskConfig, TaskMode
from airflow_provider_dm.engine.copy.creation import create, schemas_to_create, take_back
from airflow_provider_dm.engine.copy.design import Design, design
from airflow_provider_dm.engine.copy.loading import Loading, Source
from airflow_provider_dm.engine.copy.prepared import wait_for_prepared
from airflow_provider_dm.engine.copy.snapshot import ReadUnderLock
from airflow_provider_dm.engine.copy.watermark import low_watermark
from airflow_provider_dm.engine.errors import DmError, Reaction, Scope
from airflow_provider_dm.engine.merge.joining import Newcomer, check_none_in_doubt, enter_tables, read_others
from airflow_provider_dm.engine.merge.recorded_key import recorded_key
from airflow_provider_dm.engine.mysql.connection import Connection, connected, server_info
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.births import Births, read_births, settled_births
from airflow_provider_dm.engine.reading.chunks import plan_chunks
from airflow_provider_dm.engine.reading.ghosts import ghosts_there
from airflow_provider_dm.engine.reading.source_session import SchemaChangedDuringCopy
from airflow_provider_dm.engine.reading.survey import (
    SourceSurvey,
    SourceTable,
    measure,
    survey_source,
    survey_target,
)
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.rules.online_ddl.memory import OnlineDdls
from airflow_provider_dm.engine.rules.subtask import SubtaskRules
from airflow_provider_dm.engine.schema.catalogue import TableNotFound, list_views, read_tables, schema_collations
from airflow_provider_dm.engine.target.copied_tables import (
    BY_LOG,
    CopiedTable,
    begin_copied_tables,
    load_copied_tables,
    put_copied_tables,
)
from airflow_provider_dm.engine.target.copy_progress import insert_chunks, load_chunks
from airflow_provider_dm.engine.target.identity import SubtaskRef
from airflow_provider_dm.engine.target.online_ddl_memory import save as save_online_ddls
from airflow_provider_dm.engine.target.prepared_xa import read_prepared
from airflow_provider_dm.engine.target.session import run_transaction, target_connection
from airflow_provider_dm.engine.target.subtask import UNIT_LOAD, UNIT_SYNC, begin_subtask, read_subtask
from airflow_provider_dm.engine.target.table_definitions import (
    Definition,
    Definitions,
    begin_definitions,
    load_definitions,
)
from airflow_provider_dm.engine.target.table_schema import TableSchema, load_feeders, load_table_schemas

log = logging.getLogger(__name__)

RELAY_WAIT_SECONDS: Final = 60.0
RELAY_LOOK_SECONDS: Final = 0.5
SURVEY_ATTEMPTS: Final = 5


class RelayNotRunning(DmError):
    """Nothing keeps the binlog from P0 on."""

    source: str
    directory: str
    waited_seconds: float

    code = "DM-7014"
    scope = Scope.UPSTREAM
    reaction = Reaction.RETRY
    what = "{source}: no relay log of this server began in {directory} within {waited_seconds:.0f} s."
    hint = "Start the relay of this source first: what is written during the copy has to be kept."


def finished(target: Endpoint, source: Source) -> bool:
    """Tell whether this source's full load is complete already."""
    found = run_transaction(target, lambda tx: read_subtask(tx, source.fence.ref))
    return found is not None and found.unit == UNIT_SYNC


class SourceMoved(DmError):
    """The source's address led to another server while the copy began."""

    source: str
    before: str
    now: str

    code = "DM-7020"
    scope = Scope.UPSTREAM
    reaction = Reaction.RETRY
    what = "{source}: server {before} answered first, then server {now}; nothing was begun."
    hint = "Give the source an address that leads to one server, and begin again."


class SurveyOutdated(DmError):
    """A table was created or altered between the survey and the low watermark, which no copy and no log would have."""

    source: str
    table: str
    target: str

    code = "DM-7025"
    scope = Scope.UPSTREAM
    reaction = Reaction.RETRY
    what = "{source}: nothing was begun, as {table} was created or altered just then, whose rows go to {target}."
    hint = "Begin again; if it comes again, let DDL rest for a moment."


Begun = Callable[[str, Location], None]
"""(source-id, place): the relay log is needed from there on. Called before the plan is committed, and more than once:
too much is kept rather than too little."""


def begin(task: TaskConfig, sources: Sequence[Source], target: Endpoint, *, slots: int, begun: Begun) -> list[Loading]:
    """Return the sources with their plans in the target. Raises every reason not to begin; see the module docstring."""
    for _ in range(SURVEY_ATTEMPTS - 1):
        try:
            return _begin(task, sources, target, slots, begun)
        except SurveyOutdated as outdated:
            log.info("%s", outdated)
    return _begin(task, sources, target, slots, begun)


def _begin(task: TaskConfig, sources: Sequence[Source], target: Endpoint, slots: int, begun: Begun) -> list[Loading]:
    stored = {source.id: _stored_plan(target, source) for source in sources}
    surveyed = [_survey(source, stored[source.id]) for source in sources]
    surveys = [one.survey for one in surveyed]
    names = {one.target for survey in surveys for one in survey.tables}
    fresh = {source.id for source in sources if stored[source.id] is None}
    subtasks = {source.id: source.subtask for source in sources}
    there = survey_target(target, names)
    # Asked second: another run of this task plans its chunks before it writes the first row.
    copied_into = _copied_into(task, sources, target)
    planned = design(surveys, subtasks, there, fresh=fresh, copied_into=copied_into)
    for source, one in zip(sources, surveyed, strict=True):
        if source.id in fresh:
            _check_none_in_doubt(source, one.survey, subtasks, target)
    strict = any(subtask.strict_collations for subtask in subtasks.values())
    schemas = schemas_to_create(surveys, planned.creations, there.flavour, strict=strict)
    created = create(target, planned.creations, schemas)
    again = design(surveys, subtasks, survey_target(target, names), fresh=set(), copied_into=copied_into)
    notes = (*created, *(f"{one.name}: {note}" for one in planned.creations for note in one.notes))
    for note in notes:
        log.warning("created %s", note)
    made = Design(again.mappings, planned.creations, again.feeders)
    newcomers = {source.id: _newcomers(source, made) for source in sources if source.id in fresh}
    if len(fresh) > 1:  # before the first one begins, as what it begins with depends on the others
        beginning = [(source, one) for source, one in zip(sources, surveyed, strict=True) if source.id in fresh]
        _check_surveys(beginning, made, target)
    run = {source.id for source in sources}
    return [
        _go_on(source, found, made, target, notes, begun)
        if found
        else _begin_source(source, one, made, newcomers, run, target, slots, notes, begun)
        for source, one in zip(sources, surveyed, strict=True)
        for found in [stored[source.id]]
    ]


def _check_none_in_doubt(source: Source, survey: SourceSurvey, run: Collection[str], target: Endpoint) -> None:
    """Refuse, before anything is created, to make anew what another run has just removed. Raises OwnerCopiedAgain."""
    full = source.subtask.mode is TaskMode.FULL
    others = run_transaction(target, lambda tx: read_others(tx, source.fence.ref, full=full))
    check_none_in_doubt(source.id, {one.table.name: one.target for one in survey.tables}, others, run)


def _newcomers(source: Source, made: Design) -> list[Newcomer]:
    """Return the tables of a source that is about to begin, as far as they can be merged."""
    if source.subtask.overwrites:
        return []
    return [
        Newcomer(mapping.source.name, mapping.target.name, recorded_key(mapping.target))
        for mapping in made.mappings[source.id]
        if mapping.target.identity is not None
    ]


@dataclass(frozen=True)
class _Stored:
    start: Location
    schemas: tuple[TableSchema, ...]
    definitions: Mapping[TableName, Definition]
    known: Mapping[TableName, CopiedTable]
    copied: Collection[TableName]
    """The tables that have chunks. A doubt takes them away; one whose birth was never known has them."""

    @property
    def to_copy(self) -> list[TableSchema]:
        """The tables that have chunks; what became of the others is for again.py."""
        return [one for one in self.schemas if one.table.name in self.copied]


def _stored_plan(target: Endpoint, source: Source) -> _Stored | None:
    ref = source.fence.ref

    def body(connection: Connection) -> _Stored | None:
        found = read_subtask(connection, ref)
        if found is None or found.unit != UNIT_LOAD or found.start is None:
            return None
        schemas, known = load_table_schemas(connection, ref), load_copied_tables(connection, ref)
        copied = {chunk.table for chunk in load_chunks(connection, ref)}
        return _Stored(found.start, tuple(schemas), load_definitions(connection, ref), known, copied)

    return run_transaction(target, body)


@dataclass(frozen=True)
class _Surveyed:
    """The tables of a source that are to be copied, and how they were told from what they were before."""

    survey: SourceSurvey
    births: Births


def _survey(source: Source, stored: _Stored | None) -> _Surveyed:
    """Return what is there now; of a source that has begun, the tables that it began with."""
    if stored is not None:
        return _Surveyed(_as_begun(source, stored), Births({}, frozenset()))
    for attempt in range(SURVEY_ATTEMPTS):
        births = settled_births(source.endpoint, source.rules.block_allow)
        try:
            return _Surveyed(survey_source(source.endpoint, source.rules), births)
        except TableNotFound as gone:
            if attempt == SURVEY_ATTEMPTS - 1:
                raise
            log.info("%s: %s is gone, looking again", source.id, gone.table)
    raise AssertionError("unreachable")


def _as_begun(source: Source, stored: _Stored) -> SourceSurvey:
    for schema in stored.schemas:
        name = schema.table.name
        if not source.rules.block_allow.allows(name):
            raise SchemaChangedDuringCopy(source.id, str(name), "the block-allow-list leaves it out now")
        schema.check_route(source.rules.router.route(name))
    with connected(source.endpoint) as connection:
        info, collations = server_info(connection), schema_collations(connection)
    tables = [
        SourceTable(schema.table, schema.target, 0, "", known.create_sql if known else "")
        for schema in stored.to_copy
        for known in [stored.definitions.get(schema.table.name)]
    ]
    return SourceSurvey(source.id, info.flavour, info.server_uuid, tuple(tables), collations)


def _copied_into(task: TaskConfig, sources: Sequence[Source], target: Endpoint) -> frozenset[TableName]:
    """Return the target tables that some source of this task has begun to copy into, or is about to copy into again."""
    connection = target_connection(target)
    feeders = load_feeders(connection, SubtaskRef(task.meta_schema, task.name, sources[0].id))
    found: set[TableName] = set()
    of_run = {source.id: source.rules for source in sources}
    for source_id in task.source_ids:
        router = (of_run.get(source_id) or SubtaskRules.of(task.subtask(source_id))).router
        ref = SubtaskRef(task.meta_schema, task.name, source_id)
        known = load_copied_tables(connection, ref)
        found |= {router.route(chunk.table) for chunk in load_chunks(connection, ref)}
        found |= {one.target for one in feeders if one.source == source_id and one.table in known}
    return frozenset(found)


def _announce(target: Endpoint, source: Source, place: Location, begun: Begun) -> None:
    """Announce it as the holder of the generation, which nobody else can claim meanwhile.

    Raises Fenced or TargetWentBack.
    """

    def body(connection: Connection) -> None:
        source.fence.check(connection)
        begun(source.id, place)

    run_transaction(target, body)


def log_needed(target: Endpoint, source: Source) -> Location:
    """Return from where on the log of a source that has begun is needed: from its start, or from what is applied of it
    already (by_log.py).
    """

    def body(connection: Connection) -> Location:
        found = read_subtask(connection, source.fence.ref)
        assert found is not None
        assert found.location is not None
        return oldest_place(found.location, read_prepared(connection, source.fence.ref))

    return run_transaction(target, body)


def _go_on(
    source: Source, stored: _Stored, made: Design, target: Endpoint, notes: tuple[str, ...], begun: Begun
) -> Loading:
    _announce(target, source, log_needed(target, source), begun)
    log.info("%s: the copy goes on; it began at %s", source.id, stored.start)
    known = {**stored.known, **_adopt(source, stored, target)}
    numbers = {schema.table.name: max(0, schema.owner) for schema in stored.schemas}
    births = {name: one.birth for name, one in known.items()}
    return Loading(source, made, stored.start, resumed=True, numbers=numbers, notes=notes, births=births)


def _adopt(source: Source, stored: _Stored, target: Endpoint) -> Mapping[TableName, CopiedTable]:
    """Note of tables that are not what they were that the log is to be applied to them: they got their names by it."""
    if not (source.goes_by_log and stored.schemas):
        return {}
    births = settled_births(source.endpoint, source.rules.block_allow)
    there = [one for one in stored.schemas if one.table.name in births.tables]
    with connected(source.endpoint) as connection:
        now = read_tables(connection, [one.table.name for one in there])
    same = {one.table.name for one in there if now[one.table.name] == one.table}
    told = {name for name, one in stored.known.items() if not one.birth or name in same}
    known = {one.table.name: CopiedTable(BY_LOG) for one in stored.schemas if one.table.name not in told}

    def body(connection: Connection) -> None:
        source.fence.check(connection)
        put_copied_tables(connection, source.fence.ref, known)

    run_transaction(target, body)
    return known


def _begin_source(
    source: Source,
    surveyed: _Surveyed,
    made: Design,
    newcomers: Mapping[str, Sequence[Newcomer]],
    run: Collection[str],
    target: Endpoint,
    slots: int,
    notes: tuple[str, ...],
    begun: Begun,
) -> Loading:
    survey, suffix, full = surveyed.survey, 1, source.subtask.mode is TaskMode.FULL
    if not full:
        newest = wait_for_relay(source, survey.server_uuid)
        _announce(target, source, newest, begun)
        suffix = newest.suffix
    found, beside = _start(source, [one.table.name for one in survey.tables])
    start = replace(found.value, suffix=suffix)
    if start.server_uuid != survey.server_uuid:
        raise SourceMoved(source.id, survey.server_uuid, start.server_uuid)
    _announce(target, source, start, begun)
    behind = read_births(source.endpoint, source.rules.block_allow)
    _check_survey(source, surveyed, made, behind, target)
    if not full:
        wait_for_prepared(source.endpoint)
    definitions = Definitions({one.table.name: one.create for one in survey.tables}, beside.collations, beside.views)
    sizes = measure(source.endpoint, [(one.table, one.rows) for one in survey.tables])
    chunks = plan_chunks(sizes, slots=slots, chunk_rows=source.subtask.mydumper.rows)
    fence, births = source.fence, _births(surveyed, behind)
    fellows = [one for other, names in newcomers.items() if other != source.id for one in names]

    def body(connection: Connection) -> dict[TableName, int]:
        begin_subtask(connection, fence, unit=UNIT_LOAD, start=start)
        schemas = [TableSchema(one.table, one.target) for one in survey.tables]
        ours = newcomers[source.id]
        numbers = enter_tables(connection, fence.ref, schemas, ours, fellows, loading=True, full=full, run=run)
        begin_definitions(connection, fence.ref, definitions, {})
        begin_copied_tables(connection, fence.ref, births)
        save_online_ddls(connection, fence.ref, beside.ghosts)
        insert_chunks(connection, fence, chunks)
        return numbers

    numbers = run_transaction(target, body)
    log.info("%s: %d tables in %d chunks, from %s on", source.id, len(survey.tables), len(chunks), start)
    blocked = found.blocked_seconds
    return Loading(source, made, start, False, numbers, notes, births, blocked)


def _check_surveys(beginning: Sequence[tuple[Source, _Surveyed]], made: Design, target: Endpoint) -> None:
    """Look once more at all sources that are about to begin, when there is nothing to wait for. Raises as the other."""
    for source, one in beginning:
        if source.subtask.mode is not TaskMode.FULL:
            wait_for_relay(source, one.survey.server_uuid)
    for source, one in beginning:
        _check_survey(source, one, made, read_births(source.endpoint, source.rules.block_allow), target)


def _check_survey(source: Source, surveyed: _Surveyed, made: Design, now: Births, target: Endpoint) -> None:
    """Check as `check_survey`. Where the next attempt may want them otherwise, tables that this one has created go."""
    fed = frozenset(one.target for one in load_feeders(target_connection(target), source.fence.ref))
    try:
        check_survey(source, surveyed, made, now, fed)
    except SurveyOutdated:
        take_back(target, [one.name for one in made.creations if made.feeds_alone(source.id, one.name)])
        raise


def check_survey(
    source: Source, surveyed: _Surveyed, made: Design, now: Births, fed: Collection[TableName] = ()
) -> None:
    """Refuse tables that were born since the survey if they cannot be copied by themselves (again.py), and those that
    were altered where none is removed to be copied again (by_log.py).

    `now`: the births behind the low watermark; `fed`: the target tables that others have begun to fill. Raises
    SurveyOutdated.
    """
    known = {one.table.name for one in surveyed.survey.tables}
    born = now.tables.keys() - surveyed.births.tables.keys() - known
    route = source.rules.router.route
    if source.subtask.overwrites:
        born |= {name for name, birth in _births(surveyed, now).items() if not birth}
    ours = Counter(route(name) for name in born)
    for name in sorted(born):
        target = route(name)
        if source.subtask.overwrites or target in made.feeders or target in fed or ours[target] > 1:
            raise SurveyOutdated(source.id, str(name), str(target))


@dataclass(frozen=True)
class _Beside:
    """What a source has beside its tables: the default collations of its schemas, views, and ghosts of online DDL."""

    collations: Mapping[str, str]
    views: frozenset[TableName]
    ghosts: OnlineDdls

    @classmethod
    def of(cls, source: Source) -> _Beside:
        with connected(source.endpoint) as connection:
            rules = source.rules.block_allow
            views = list_views(connection, rules.allows_schema)
            return cls(schema_collations(connection), views, ghosts_there(connection, rules))


def _start(source: Source, tables: Collection[TableName]) -> tuple[ReadUnderLock[Location], _Beside]:
    """Return a low watermark of these tables, and what is beside the tables there."""
    longest = 0.0
    while True:
        before = _Beside.of(source)
        found = low_watermark(source.endpoint, tables)
        longest = max(longest, found.blocked_seconds)
        if _Beside.of(source) == before:
            return replace(found, blocked_seconds=longest), before


def _births(surveyed: _Surveyed, behind: Births) -> dict[TableName, str]:
    """Return the births of the tables; "" of one that was altered since, or may have been without looking so.

    `behind`: the births behind P0.
    """
    births = surveyed.births
    told = births.tables.keys() - births.young
    names = (one.table.name for one in surveyed.survey.tables)
    return {name: str(births.tables[name]) if name in told and births.same(behind, [name]) else "" for name in names}


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
