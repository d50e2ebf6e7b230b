"""Begins or resumes a load: from the configuration to chunks in the target, none of which is copied yet.

In this order, so that a refusal leaves the target unchanged:
1. for each source that has not started: wait for its relay log, read its tables, take the location F0 from which its
   log will be read, read its tables again: they must be unchanged, so that all DDL is either in the survey or in the
   log after F0;
2. read the target's tables, decide (design), create missing tables, postpone their indexes, read them again;
3. write the plan in one transaction: F0, the tables, chunks.
No row has to be exact at F0: none is covered (source_load.py). A started source continues with its stored plan.

Before F0 is determined, the beginning of the relay's newest file is recorded as needed, then F0: otherwise a purge in
between could remove the log after F0. A run that was replaced records nothing.

Creating tables uses no transaction, as DDL commits implicitly; after a failure the next run finds the created tables.

XA transactions that are prepared at F0 have their rows in the log before F0. A transaction that ends soon is harmless:
its commit is after F0, and the sync reads its rows from the relay log, which has the file of F0 from its beginning. The
rows of an older one may be in files that are not kept, so the load does not begin before it has ended:

    F0, XA RECOVER: a, b    …    XA RECOVER: b, c (later than F0)    …    XA RECOVER: c    begin
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pymysql
from pymysql.constants import ER

from airflow_provider_dm.engine.binlog.xa import needed_location
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.copy.design import design, target_table_missing
from airflow_provider_dm.engine.ddl.create_like import NewSchema, NewTable, ServerPair, create_schema_like
from airflow_provider_dm.engine.ddl.statements import KeyDefinition
from airflow_provider_dm.engine.downstream.contested_row import withdraw_all
from airflow_provider_dm.engine.downstream.copy_progress import insert_chunks, load_chunks
from airflow_provider_dm.engine.downstream.errors import translate
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.online_ddl_memory import save as save_online_ddls
from airflow_provider_dm.engine.downstream.postponed_indexes import postpone
from airflow_provider_dm.engine.downstream.prepared_xa import read_prepared
from airflow_provider_dm.engine.downstream.required_keys import check_keyless, key_demanded
from airflow_provider_dm.engine.downstream.session import fresh_target, run_transaction, target_connection
from airflow_provider_dm.engine.downstream.subtask import UNIT_LOAD, UNIT_SYNC, begin_subtask, read_subtask
from airflow_provider_dm.engine.downstream.table_definitions import Definitions, begin_definitions
from airflow_provider_dm.engine.downstream.table_schema import (
    TableSchema,
    load_feeders,
    load_table_schemas,
    save_table_schemas,
)
from airflow_provider_dm.engine.mysql.binlog_status import current_location, location_if_shown
from airflow_provider_dm.engine.mysql.connection import Connection, connected, query, server_info, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Flavour
from airflow_provider_dm.engine.mysql.error_numbers import ACCESS_DENIED
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.births import read_births, settled_births
from airflow_provider_dm.engine.reading.chunks import plan_chunks
from airflow_provider_dm.engine.reading.errors import NotBegunYet, SchemaChangedDuringCopy
from airflow_provider_dm.engine.reading.survey import SourceSurvey, measure, survey_source, survey_target
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.rules.online_ddl.memory import OnlineDdls
from airflow_provider_dm.engine.schema.catalogue import existing_tables, list_views, schema_collations
from airflow_provider_dm.engine.schema.errors import TableNotFound
from airflow_provider_dm.engine.sync.sync_source import SyncSource

log = logging.getLogger(__name__)

RELAY_WAIT_SECONDS: Final = 60.0
RELAY_POLL_SECONDS: Final = 0.5
SURVEY_ATTEMPTS: Final = 10


def source_moved(source: str, before: str, now: str) -> NotBegunYet:
    return NotBegunYet(
        f"{source}: server {before} answered at the address first, then server {now}; nothing was started.",
        "Give the source an address at which only one server answers, and start again.",
    )


@dataclass(frozen=True)
class Loading:
    """A source whose load has started. `start`: the location from which its log is read; `notes`: for users."""

    source: SyncSource
    start: Location
    resumed: bool
    notes: tuple[str, ...] = ()


OnBegun = Callable[[str, Location], None]
"""Called with (source-id, location): the relay log is needed from there on. Called before the plan is committed, and
possibly several times: the log may be kept longer than needed, but never too short."""


def is_loaded(source: SyncSource) -> bool:
    """Return True if this source's full load is complete."""
    subtask = run_transaction(source.target, lambda tx: read_subtask(tx, source.fence.ref))
    return subtask is not None and subtask.unit == UNIT_SYNC


def begin(
    task: TaskConfig, sources: Sequence[SyncSource], target: Endpoint, *, slots: int, begun: OnBegun
) -> list[Loading]:
    """Return the sources with their plans in the target. Raises all reasons for a refusal; see the module docstring."""
    stored = {source.id: _stored_start(source) for source in sources}
    fresh = {source.id: _survey(source, begun) for source in sources if stored[source.id] is None}
    subtasks = {source.id: source.config for source in sources}
    surveys = [one.survey for one in fresh.values()]
    names = {table.target for survey in surveys for table in survey.tables}
    there = survey_target(target, names)
    # Read second: another run of this task writes its plan before its first row.
    copied_into = _copied_into(task, target)
    creations = design(surveys, subtasks, there, fresh=fresh.keys(), copied_into=copied_into)
    strict = any(subtask.strict_collations for subtask in subtasks.values())
    schemas = schemas_to_create(surveys, creations, there.flavour, strict=strict)
    schema_notes, created = create(target, creations, schemas)
    for source in sources:
        if source.id in fresh:
            postpone(target, source.fence, _postponed(created, fresh[source.id].survey))
    design(surveys, subtasks, survey_target(target, names), fresh=set(), copied_into=copied_into)
    notes = (*schema_notes, *(f"{creation.name}: {note}" for creation in creations for note in creation.notes))
    for note in notes:
        log.warning("created %s", note)
    loadings = []
    for source in sources:
        start = stored[source.id]
        if start is None:
            loadings.append(_begin_source(source, fresh[source.id], slots, notes))
        else:
            loadings.append(_resume(source, start, begun))
    return loadings


def _postponed(created: Sequence[NewTable], survey: SourceSurvey) -> dict[TableName, tuple[KeyDefinition, ...]]:
    """Return the postponed indexes of created tables into which a source's rows go."""
    targets = {table.target for table in survey.tables}
    return {one.name: one.postponed for one in created if one.postponed and one.name in targets}


def _stored_start(source: SyncSource) -> Location | None:
    subtask = run_transaction(source.target, lambda tx: read_subtask(tx, source.fence.ref))
    return None if subtask is None or subtask.unit != UNIT_LOAD else subtask.start


def _copied_into(task: TaskConfig, target: Endpoint) -> frozenset[TableName]:
    """Return the target tables that some source of this task feeds."""
    connection = target_connection(target)
    ref = SubtaskRef(task.meta_schema, task.name, "")
    return frozenset(feeder.target for feeder in load_feeders(connection, ref))


def _announce(source: SyncSource, place: Location, begun: OnBegun) -> None:
    """Record the need as the holder of the generation, which no other run can claim meanwhile."""

    def body(connection: Connection) -> None:
        source.fence.check(connection)
        begun(source.id, place)

    run_transaction(source.target, body)


def log_needed(source: SyncSource) -> Location:
    """Return the location from which the log of a started source is needed."""

    def body(connection: Connection) -> Location:
        subtask = read_subtask(connection, source.fence.ref)
        assert subtask is not None
        assert subtask.location is not None
        return needed_location(subtask.location, read_prepared(connection, source.fence.ref))

    return run_transaction(source.target, body)


def _resume(source: SyncSource, start: Location, begun: OnBegun) -> Loading:
    """Check that the rules and the target's tables are still those by which rows were copied.

    Raises SchemaChangedDuringCopy, RulesChanged, NoTargetTable.
    """
    _announce(source, log_needed(source), begun)
    connection, ref = target_connection(source.target), source.fence.ref
    copied = {chunk.table for chunk in load_chunks(connection, ref)}
    schemas = [one for one in load_table_schemas(connection, ref) if one.table.name in copied]
    for schema in schemas:
        name = schema.table.name
        if not source.rules.block_allow.allows(name):
            raise SchemaChangedDuringCopy(source.id, str(name), "the block-allow-list excludes it now")
        schema.check_route(source.rules.router)
    there = existing_tables(connection, {one.target for one in schemas})
    for schema in schemas:
        if schema.target not in there:
            raise target_table_missing(str(schema.target), f"{source.id}:{schema.table.name}")
    log.info("%s: the load continues; it began at %s", source.id, start)
    return Loading(source, start, resumed=True)


@dataclass(frozen=True)
class _Surveyed:
    """A source as of `start`."""

    survey: SourceSurvey
    start: Location
    collations: Mapping[str, str]
    """The default collations of its schemas."""
    views: frozenset[TableName]


def _survey(source: SyncSource, begun: OnBegun) -> _Surveyed:
    """Return the source as of a location of its log. Raises NotBegunYet, …"""
    outdated = ""
    for _ in range(SURVEY_ATTEMPTS):
        before, beside = settled_births(source.upstream, source.rules.block_allow), _beside(source)
        try:
            survey = survey_source(source.upstream, source.rules)
        except TableNotFound as dropped:
            log.info("%s: %s was dropped, reading again", source.id, dropped.table)
            outdated = dropped.table
            continue
        start = _start(source, survey.server_uuid, begun)
        after = read_births(source.upstream, source.rules.block_allow)
        names = {*before.tables, *after.tables, *(table.table.name for table in survey.tables)}
        altered = sorted(name for name in names if name in before.young or not before.same(after, [name]))
        if not altered and _beside(source) == beside:
            return _Surveyed(survey, start, *beside)
        outdated = str(altered[0]) if altered else "a schema or a view"
        log.info("%s: %s was altered, reading again", source.id, outdated)
    raise NotBegunYet(
        f"{source.id}: nothing was started, as {outdated} was created or altered at every attempt.",
        "Start again; if it fails again, pause DDL for a moment.",
    )


def _beside(source: SyncSource) -> tuple[Mapping[str, str], frozenset[TableName]]:
    """Return the state of the source besides its tables: default collations of schemas, and views."""
    with connected(source.upstream) as connection:
        return schema_collations(connection), list_views(connection, source.rules.block_allow.allows_schema)


def _start(source: SyncSource, server_uuid: str, begun: OnBegun) -> Location:
    """Return the current end of the source's log, recorded as needed. Raises NotBegunYet."""
    suffix = 1
    if source.reads_log:
        newest = wait_for_relay(source, server_uuid)
        _announce(source, newest, begun)
        suffix = newest.suffix
    with connected(source.upstream) as connection:
        here = current_location(connection) if source.reads_log else location_if_shown(connection)
        start = replace(here, suffix=suffix)
    if start.server_uuid != server_uuid:
        raise source_moved(source.id, server_uuid, start.server_uuid)
    _announce(source, start, begun)
    return start


def _begin_source(source: SyncSource, facts: _Surveyed, slots: int, notes: tuple[str, ...]) -> Loading:
    survey, fence = facts.survey, source.fence
    if source.reads_log:
        wait_for_prepared(source.upstream)
    definitions = Definitions({one.table.name: one.create for one in survey.tables}, facts.collations, facts.views)
    sizes = measure(source.upstream, [(table.table, table.rows) for table in survey.tables])
    chunks = plan_chunks(sizes, slots=slots, chunk_rows=source.config.mydumper.rows)

    def body(connection: Connection) -> None:
        begin_subtask(connection, fence, unit=UNIT_LOAD, start=facts.start)
        withdraw_all(connection, fence.ref)  # of an earlier task of this name whose other state was removed
        routed = [TableSchema.routed(table.table, source.rules.router) for table in survey.tables]
        save_table_schemas(connection, fence.ref, routed)
        begin_definitions(connection, fence.ref, definitions, {})
        save_online_ddls(connection, fence.ref, OnlineDdls())
        insert_chunks(connection, fence, chunks)

    run_transaction(source.target, body)
    tables = len(survey.tables)
    log.info("%s: the load begins at %s; tables: %d, chunks: %d", source.id, facts.start, tables, len(chunks))
    return Loading(source, facts.start, resumed=False, notes=notes)


def wait_for_relay(source: SyncSource, server_uuid: str) -> Location:
    """Return the beginning of the file that this server's relay is writing. Raises NotBegunYet.

    A relay begins at the start of the server's current file, or earlier; so a location that is taken afterwards is
    after it.
    """
    deadline, reader = time.monotonic() + RELAY_WAIT_SECONDS, RelayReader(Path(source.spec.relay_dir))
    while True:
        newest = reader.newest_file()
        if newest is not None and newest.server_uuid == server_uuid:  # otherwise it is another server's
            return newest
        if time.monotonic() >= deadline:
            raise NotBegunYet(
                f"{source.id}: no relay log of this server began in {source.spec.relay_dir} within "
                f"{RELAY_WAIT_SECONDS:.0f} s.",
                "Start the relay of this source first: a load needs the log from its start on.",
            )
        time.sleep(RELAY_POLL_SECONDS)


# Missing tables of the target


_NO_COLLATION: Final = frozenset({ER.UNKNOWN_COLLATION, ER.UNKNOWN_CHARACTER_SET})


def schemas_to_create(
    surveys: Sequence[SourceSurvey], creations: Sequence[NewTable], target: Flavour, *, strict: bool = False
) -> tuple[NewSchema, ...]:
    """Return the schemas of these tables, each like the first source schema whose tables are routed to it."""
    wanted = {creation.name.schema for creation in creations}
    made: dict[str, NewSchema] = {}
    first: dict[str, str] = {}
    for survey in surveys:
        for table in survey.tables:
            name, collation = table.target.schema, survey.collations.get(table.table.name.schema)
            if name not in wanted or collation is None:  # None: a resumed copy whose schema was dropped since
                continue
            if name not in made:
                first[name] = collation
                made[name] = create_schema_like(name, collation, ServerPair(survey.flavour, target, strict=strict))
            elif collation != first[name]:
                note = f"default collations differ at the sources; {collation} is left out, tables have their own"
                made[name] = replace(made[name], notes=tuple(dict.fromkeys((*made[name].notes, note))))
    return tuple(made[name] for name in sorted(made))


def create(
    target: Endpoint, tables: Sequence[NewTable], schemas: Sequence[NewSchema]
) -> tuple[tuple[str, ...], list[NewTable]]:
    """Create missing schemas and tables. Return notes about the schemas, and the tables that were created now.

    Raises KeyDemanded, and the errors of `translate`.
    """
    with fresh_target(target) as connection:
        check_keyless(connection, [str(one.name) for one in tables if one.keyless], str(target))
        about, notes, created = "its schemas", [], []
        try:
            present = {bytes(row[0]).decode() for row in query(connection, "SHOW DATABASES")}
            for schema in schemas:
                if schema.name not in present:
                    about = schema.name
                    notes += _create_schema(connection, schema)
            for table in tables:
                about = str(table.name)
                log.info("creating %s", about)
                if _create_table(connection, table):
                    created.append(table)
        except pymysql.err.Error as error:
            raise translate(error, table=about) from error
    return tuple(notes), created


def _create_schema(connection: Connection, schema: NewSchema) -> list[str]:
    try:
        query(connection, schema.sql())
    except pymysql.err.MySQLError as error:
        if schema.strict or error.args[0] not in _NO_COLLATION:
            raise
        query(connection, replace(schema, collation=None).sql())
        return [f"{schema.name}: the target has no {schema.collation}; the schema has the target's default"]
    return [f"{schema.name}: {note}" for note in schema.notes]


def _create_table(connection: Connection, table: NewTable) -> bool:
    """Return False if the table exists, as another run of this task has created it; it is read again."""
    try:
        query(connection, table.sql)
    except pymysql.err.MySQLError as error:
        demanded = key_demanded(error, str(table.name))
        if demanded is not None:
            raise demanded from None
        if error.args[0] != ER.TABLE_EXISTS_ERROR:
            raise
        return False
    return True


# Prepared XA transactions


PREPARED_WAIT_SECONDS: Final = 20.0
PREPARED_POLL_SECONDS: Final = 0.5
_NOT_PERMITTED: Final = ACCESS_DENIED | {1401}  # MySQL's error without XA_RECOVER_ADMIN


def wait_for_prepared(
    endpoint: Endpoint, *, seconds: float = PREPARED_WAIT_SECONDS, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Wait until all transactions that are prepared now have ended. Raises NotBegunYet (retry)."""
    with connected(endpoint) as connection:
        waited_for, deadline = prepared_now(connection), time.monotonic() + seconds
        while waited_for:
            if time.monotonic() > deadline:
                raise NotBegunYet(
                    f"{endpoint.name}: nothing was started, as a copy cannot see the rows of XA transactions that stay "
                    f"prepared: {', '.join(sorted(waited_for))}.",
                    "End them at the source (XA COMMIT or XA ROLLBACK; `XA RECOVER` shows them), and start again.",
                )
            sleep(PREPARED_POLL_SECONDS)
            waited_for &= prepared_now(connection)


def prepared_now(connection: Connection) -> frozenset[str]:
    """Return the names of prepared transactions in the format of XA COMMIT; none if the account lacks the privilege."""
    recover = server_info(connection).capabilities.lists_prepared
    try:
        rows = query(connection, recover) if recover else []
    except pymysql.err.MySQLError as error:
        if error.args[0] not in _NOT_PERMITTED:
            raise
        log.info("this account cannot see prepared XA transactions (MySQL: grant XA_RECOVER_ADMIN)")
        return frozenset()
    return frozenset(_name(int(number), int(gtrid), text(data)) for number, gtrid, _bqual, data in rows)


def _name(number: int, gtrid_size: int, data: str) -> str:
    """Return the name as X'…',X'…',n, which MariaDB returns; MySQL returns all bytes as `0x…`.

    >>> _name(1, 1, "0x78ff"), _name(1, 1, "X'78',X'ff',1")
    ("X'78',X'ff',1", "X'78',X'ff',1")
    """
    if not data.startswith("0x"):
        return data
    digits = data[2:].lower()
    return f"X'{digits[: 2 * gtrid_size]}',X'{digits[2 * gtrid_size :]}',{number}"
