"""The tables' types, keys and engines are supported, on both sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from airflow_provider_dm.engine.config.task import TaskMode
from airflow_provider_dm.engine.copy.design import target_table_missing
from airflow_provider_dm.engine.copy.errors import TargetNotEmpty
from airflow_provider_dm.engine.copy.preconditions import table_not_copied
from airflow_provider_dm.engine.ddl.create_like import ServerPair, create_table_like
from airflow_provider_dm.engine.ddl.errors import CannotCreateTarget
from airflow_provider_dm.engine.downstream.errors import KeyDemanded
from airflow_provider_dm.engine.downstream.required_keys import check_keyless
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.connection import query, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.precheck.facts import ServerFacts, SourceFacts, TargetFacts
from airflow_provider_dm.engine.precheck.result import Findings, State, message_and_remedy, short_list, verdict
from airflow_provider_dm.engine.reading.errors import SchemaChangedDuringCopy
from airflow_provider_dm.engine.reading.survey import TRANSACTIONAL, cascades_are_logged
from airflow_provider_dm.engine.rules.errors import TargetKeyNotKept, TargetTableMismatch
from airflow_provider_dm.engine.rules.kept_keys import check_filtered, check_keys_kept
from airflow_provider_dm.engine.rules.mapping import map_table
from airflow_provider_dm.engine.rules.online_ddl.tool_tables import TableKind
from airflow_provider_dm.engine.rules.row_filter import row_filter
from airflow_provider_dm.engine.schema.catalogue import create_statement, list_tables, names_fold, stored_names
from airflow_provider_dm.engine.schema.codec import check_source_column
from airflow_provider_dm.engine.schema.errors import UnsupportedColumnType
from airflow_provider_dm.engine.schema.model import Table

_ALTERED_SINCE: Final = (
    "If the source's table was altered since the start (`meta`), leave the target's table as it was at the start: the "
    "sync executes the DDL. Otherwise alter the target's table."
)


def check_routes(facts: SourceFacts) -> Findings:
    """Check that each table has one target table; two routes for a table are an error, which is raised."""
    return [(State.OK, f"{len(facts.routed)} tables are routed to {len(set(facts.routed.values()))} target tables", "")]


def check_types(facts: SourceFacts) -> Findings:
    unsupported: list[UnsupportedColumnType] = []
    for table in facts.tables:
        for column in table.columns:
            try:
                check_source_column(table.name, column)
            except UnsupportedColumnType as error:
                unsupported.append(error)
    columns = short_list([f"{error.table}.{error.column} {error.type}" for error in unsupported])
    remedy = unsupported[0].remedy if unsupported else ""
    fine = f"all columns of {len(facts.tables)} tables have supported types"
    return verdict(unsupported, State.FAIL, f"column types that are not supported yet: {columns}", remedy, fine=fine)


def check_keys(facts: SourceFacts) -> Findings:
    keyless = [str(table.name) for table in facts.tables if table.identity is None]
    what = f"tables without a primary or not-null unique key: {short_list(keyless)}"
    remedy = "Each is copied in one transaction and its changes match whole rows, which is slow; add a primary key."
    return verdict(keyless, State.WARN, what, remedy, fine="every table has a key")


def check_foreign_keys(facts: SourceFacts) -> Findings:
    tables = [str(table.name) for table in facts.tables if table.has_foreign_keys]
    remedy = (
        "Rows are written with foreign_key_checks=0: without the parents' rows the target's constraint does not hold."
    )
    return verdict(
        tables, State.WARN, f"tables with foreign keys: {short_list(tables)}", remedy, fine="no foreign keys"
    )


def check_online_ddl(facts: SourceFacts) -> Findings:
    """Check that no online DDL is running at the start, and report the tables that count as an online DDL tool's."""
    kinds = {name: facts.rules.block_allow.kind_of(name) for name in list_tables(facts.connection)}
    ghosts = [str(name) for name, kind in kinds.items() if kind is TableKind.GHOST]
    trash = [str(name) for name, kind in kinds.items() if kind is TableKind.TRASH]
    if ghosts:
        stops = facts.follows and facts.known is None  # their DDL is before the log that the task will read
        what = f"an online DDL is running, or has left these tables behind: {short_list(ghosts)}"
        remedy = "Wait for its end, or drop leftover tables. Otherwise the sync stops when one replaces its table."
        yield State.FAIL if stops else State.WARN, what, remedy if stops else "Drop leftover tables."
    if trash:
        remedy = "If they are not, set shadow-table-rules and trash-table-rules, or online-ddl: false."
        yield State.WARN, f"not migrated, as tables of an online DDL tool: {short_list(trash)}", remedy
    if not ghosts and not trash:
        yield State.OK, "no online DDL is running", ""


def check_engines(facts: ServerFacts, names: Iterable[TableName]) -> Findings:
    wanted = set(stored_names(facts.connection, names).values())
    rows = query(facts.connection, "SELECT table_schema, table_name, engine FROM information_schema.tables")
    other = [
        f"{name} ({text(engine or b'')})"
        for schema, table, engine in rows
        for name in [TableName(text(schema), text(table))]
        if name in wanted and text(engine or b"").lower() not in TRANSACTIONAL
    ]
    what = f"tables with an engine without transactions: {short_list(other)}"
    return verdict(other, State.FAIL, what, "ALTER TABLE … ENGINE = InnoDB.", fine="all tables are transactional")


def check_not_source(facts: TargetFacts) -> Findings:
    """Check that no source table is a target table. It is one if target-database has the source's address, and the copy
    would then refuse the table's own rows.
    """
    own = [f"{source.id}:{name}" for source, names in facts.own for name in names]
    what = f"source and target are the same server, {facts.endpoint}, and these source tables are target tables: "
    remedy = "Correct the target's host and port, or route the tables to other names. Do not empty the tables."
    return verdict(own, State.FAIL, what + short_list(own), remedy, fine="no source table is a target table")


def check_rows(facts: TargetFacts) -> Findings:
    """Check that the target tables of a source that has not started are empty, if its full load may not overwrite rows.

    Tables into which the task has copied other sources' rows are not checked, and no source's own tables.
    """
    passed = {name for _, names in facts.own for name in names}.union(facts.fed)
    foreign: dict[TableName, list[str]] = {}
    for source in facts.sources:
        if source.copies and source.id not in facts.begun and not source.subtask.overwrites:
            for name, target in source.routed.items():
                if target in facts.tables and target not in passed:
                    foreign.setdefault(target, []).append(f"{source.id}:{name}")
    filled = [name for name in foreign if query(facts.connection, f"SELECT 1 FROM {name.quoted()} LIMIT 1")]
    for name in filled:
        yield State.FAIL, *message_and_remedy(TargetNotEmpty(str(name), tuple(foreign[name])))
    if not filled:
        yield State.OK, "no target table of a full load has rows of others", ""


def check_columns(facts: TargetFacts) -> Findings:
    """Check that every source table, as the task reads and filters it, fits its target table; shards of a missing table
    are compared with the first shard. Tables with a pending DDL are not checked.
    """
    expected = dict(facts.tables)
    feeders = Counter(target for source in facts.sources for _, target in facts.of_task(source))
    misfits = 0
    for source in facts.sources:
        anew = source.copies and source.id not in facts.begun
        for table, target in facts.comparable(source):
            try:
                changes = None
                if source.follows:
                    changes = row_filter(source.rules.events, source.rules.expressions, table)
                extracted = source.rules.router.extracted(table.name)
                mapping = map_table(table, expected.setdefault(target, table), extracted, created_anew=anew)
                if not source.subtask.overwrites:
                    check_filtered(mapping, changes, merged=feeders[target] > 1)
                begins = target in facts.tables and source.id not in facts.begun
                overlaps = source.begins_in_past and mapping.target.identity is not None
                if begins and overlaps and not source.subtask.overwrites:
                    check_keys_kept(mapping)
            except DmError as error:
                misfits += 1
                may_have_been_altered = source.begins_in_past and source.id not in facts.begun
                if may_have_been_altered and isinstance(error, TargetTableMismatch | TargetKeyNotKept):
                    yield State.WARN, error.happened(), _ALTERED_SINCE
                else:
                    yield State.FAIL, *message_and_remedy(error)
    if not misfits:
        yield State.OK, f"{len(facts.tables)} target tables fit", ""


def check_changes(facts: TargetFacts) -> Findings:
    """Check that the rules of a started task are unchanged; while it loads, its tables too."""
    findings = [finding for source in facts.sources if source.id in facts.begun for finding in _changes(facts, source)]
    return findings or [(State.OK, "the rules are unchanged since the start of the task", "")]


def _changes(facts: TargetFacts, source: SourceFacts) -> Findings:
    begun = facts.begun[source.id]
    now = {table.name: table for table in source.tables}
    for schema in begun.schemas:
        name = schema.table.name
        if not source.rules.block_allow.allows(name):
            continue
        try:
            schema.check_route(source.rules.router)
        except DmError as error:
            yield State.FAIL, *message_and_remedy(error)
        if begun.loading and now.get(name) != schema.table:
            reason = "its columns or keys differ from those at the start" if name in now else "it no longer exists"
            if source.subtask.mode is TaskMode.FULL:
                yield State.FAIL, *message_and_remedy(SchemaChangedDuringCopy(source.id, str(name), reason))
            else:
                what = f"{source.id}: {name} was changed since the load began ({reason})"
                yield State.WARN, f"{what}: the load executes its DDL", ""
    known = {schema.table.name for schema in begun.schemas}
    for name in sorted(now.keys() - known):
        yield State.WARN, *message_and_remedy(table_not_copied(source.id, str(name)))


def check_creation(facts: TargetFacts) -> Findings:
    """Check that missing target tables can be created like their source tables."""
    planned: set[TableName] = set()
    bad = 0
    taken = _other_relations(facts)
    for source in facts.sources:
        for table, target in facts.comparable(source):
            if target in facts.tables or target in planned:
                continue
            planned.add(target)
            for finding in _creation(facts, source, table, target, taken):
                bad += finding[0] is State.FAIL or not source.copies
                yield finding
    if not bad:
        yield State.OK, f"{len(planned)} target tables will be created", ""


def _other_relations(facts: TargetFacts) -> dict[TableName, str]:
    """Return the wanted target tables that exist as something else on the target: views, sequences."""
    rows = query(facts.connection, "SELECT table_schema, table_name, table_type FROM information_schema.tables")
    relations = {TableName(text(schema), text(name)): text(kind) for schema, name, kind in rows}
    fold = names_fold(facts.connection)
    others = {fold(name): kind.lower() for name, kind in relations.items() if "TABLE" not in kind.upper()}
    return {name: others[fold(name)] for name in facts.wanted if fold(name) in others}


def _creation(
    facts: TargetFacts, source: SourceFacts, table: Table, target: TableName, taken: Mapping[TableName, str]
) -> Findings:
    if target in taken:
        yield State.FAIL, f"{target} is a {taken[target]}, not a table", "Drop it, or route to another table."
        return
    if source.id in facts.begun:
        yield State.FAIL, *message_and_remedy(target_table_missing(str(target), f"{source.id}:{table.name}"))
        return
    if not source.copies and source.begins_in_past:
        what = f"{target} does not exist: the sync creates it if {table.name} was created since the start (`meta`)"
        yield State.WARN, what, "If the table is older, create it with its definition at the start."
        return
    if not source.copies:
        yield State.FAIL, f"{target} does not exist", "Create it, or start with a full migration (task-mode all)."
        return
    try:
        made = create_table_like(
            create_statement(source.connection, table.name),
            table,
            target,
            ServerPair(
                source.info.flavour,
                facts.info.flavour,
                source.subtask.strict_collations,
                cascades_are_logged(source.connection),
            ),
            collation="",
            parent=source.rules.target_of,
        )
        if made.keyless:
            check_keyless(facts.connection, [str(target)], str(facts.endpoint))
    except (CannotCreateTarget, KeyDemanded) as error:
        yield State.FAIL, *message_and_remedy(error)
        return
    for note in made.notes:
        yield (
            State.WARN,
            f"{target} will be created, and {note}",
            "If this does not suit you, create the table by hand.",
        )
