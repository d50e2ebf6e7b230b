"""Following the DDL in the log of one source: interpret the statement, change the target's tables, make a new plan.

    schema_change.change_of     interpret the statement                              (pure)
    ddl_execution.execute_ddl   execute each statement in the target exactly once    (journaled)
    commit                      one fenced transaction: move the frontier past the statement, save the subtask's new
                                tables and the fingerprint of its new plan, empty the journal

After a crash before the commit, the frontier is before the statement and the journal has what was executed. If the
statement's transaction has rows as well (CREATE TABLE … SELECT), the rows move the frontier; the commit then records in
the journal that it was made (COMMITTED).

The tables are read from the target at the first DDL, as most runs have none.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import assert_never

from airflow_provider_dm.engine.binlog.planned import DdlStatement
from airflow_provider_dm.engine.binlog.xa import needed_location
from airflow_provider_dm.engine.ddl.conversions import unlike
from airflow_provider_dm.engine.ddl.errors import NotRead, Unreadable
from airflow_provider_dm.engine.ddl.partitions import partitions_shown, removes_partitions
from airflow_provider_dm.engine.ddl.server import Server, SessionDefaults
from airflow_provider_dm.engine.ddl.statements import (
    AlterDatabase,
    CreateDatabase,
    CreateTable,
    CreateTableLike,
    Statement,
)
from airflow_provider_dm.engine.ddl.tracker import difference_of_copy
from airflow_provider_dm.engine.ddl.zones import ANY_RULES, AT_ITS_SECOND
from airflow_provider_dm.engine.downstream.contested_row import assign_to_dropped
from airflow_provider_dm.engine.downstream.copy_progress import add_chunks, forget_chunks, load_chunks
from airflow_provider_dm.engine.downstream.ddl_execution import TargetDdl, execute_ddl
from airflow_provider_dm.engine.downstream.ddl_journal import (
    COMMITTED,
    IN_FRONT,
    INJECTED,
    JournalEntry,
    forget_entries,
    note_intent,
    read_entries,
)
from airflow_provider_dm.engine.downstream.frontier import FrontierMove, fenced_transaction
from airflow_provider_dm.engine.downstream.left_behind import left_behind, tables_with_rows
from airflow_provider_dm.engine.downstream.online_ddl_memory import load as load_online_ddls
from airflow_provider_dm.engine.downstream.online_ddl_memory import save as save_online_ddls
from airflow_provider_dm.engine.downstream.postponed_indexes import build_postponed
from airflow_provider_dm.engine.downstream.session import run_transaction, target_connection
from airflow_provider_dm.engine.downstream.shard_groups import merged_targets, unfinished_targets
from airflow_provider_dm.engine.downstream.subtask import note_plan
from airflow_provider_dm.engine.downstream.table_definitions import (
    delete_definitions,
    save_definitions,
    save_schema_collations,
    save_views,
)
from airflow_provider_dm.engine.downstream.table_schema import (
    TableSchema,
    forget_table_schemas,
    load_feeders,
    load_table_schemas,
    put_table_schemas,
    rename_tables,
)
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind
from airflow_provider_dm.engine.mysql.connection import Connection, connected, query, server_info, text
from airflow_provider_dm.engine.mysql.errors import SessionRefused
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.mysql.pinned import Setting
from airflow_provider_dm.engine.reading.logged_ddl import explicit_timestamps, read_ddl
from airflow_provider_dm.engine.rules.errors import TargetTableMismatch
from airflow_provider_dm.engine.rules.online_ddl import outcomes
from airflow_provider_dm.engine.rules.online_ddl.memory import LoggedText, OnlineDdls
from airflow_provider_dm.engine.rules.online_ddl.outcomes import ApplyDdl, SkipDdl
from airflow_provider_dm.engine.rules.online_ddl.step import step as online_step
from airflow_provider_dm.engine.schema.catalogue import create_statement_if_exists
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.shard.group import Group, after_resync
from airflow_provider_dm.engine.sync.ddl.by_hand import statements_of
from airflow_provider_dm.engine.sync.ddl.chunks_after import ChunksAfter, chunks_after
from airflow_provider_dm.engine.sync.ddl.schema_change import change_by_hand, change_of, repeated
from airflow_provider_dm.engine.sync.ddl.source_definitions import definitions_of, load_tables
from airflow_provider_dm.engine.sync.ddl.statement_session import session_of
from airflow_provider_dm.engine.sync.ddl.subtask_tables import DdlContext, SchemaChange, SubtaskTables
from airflow_provider_dm.engine.sync.ddl.verdict import RelevantDdl, is_ignored_by_filter, judge_ddl
from airflow_provider_dm.engine.sync.errors import CannotFollow, NeededByRows, ValuesDiffer
from airflow_provider_dm.engine.sync.loop_state import LoopState
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.shard_ddl.shard_locks import unbegun_routers
from airflow_provider_dm.engine.sync.shard_ddl.source_shards import Shards
from airflow_provider_dm.engine.sync.start.opening import plan_for, with_safe_mode
from airflow_provider_dm.engine.sync.sync_source import SyncSource

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DdlMeaning:
    """The meaning of one statement of the log for the task."""

    ddl: DdlStatement
    outcome: SkipDdl | RelevantDdl | ApplyDdl
    before: OnlineDdls
    """The state of online DDL before the statement."""
    after: OnlineDdls
    """The state of online DDL after the statement."""


@dataclass
class Following:
    """A follower of the DDL of one source, for the thread of its sync."""

    source: SyncSource
    shards: Shards
    """The groups of merged tables."""
    _collation_names: Mapping[int, str] = field(default_factory=dict, init=False)

    def meaning(self, ddl: DdlStatement, state: LoopState) -> DdlMeaning:
        """Return the meaning of a statement for the task. Changes nothing."""
        parsed, memory = read_ddl(ddl), state.online_ddl
        if memory is None:
            memory = load_online_ddls(target_connection(self.source.target), self.source.fence.ref)
            memory = memory.under_rules(self.source.rules.block_allow)
        after, action = self._meaning(parsed, ddl, state, memory)
        not_understood = isinstance(action, RelevantDdl) and action.statement is None
        if not_understood and is_ignored_by_filter(parsed, ddl, self.source.rules.events):
            log.warning("DDL at %s cannot be parsed, and a filter rule skips it", ddl.at)
            action = SkipDdl("a filter rule skips it")
        return DdlMeaning(ddl, action, memory, after)

    def _meaning(
        self, parsed: Statement | NotRead | Unreadable, ddl: DdlStatement, state: LoopState, memory: OnlineDdls
    ) -> tuple[OnlineDdls, SkipDdl | RelevantDdl | ApplyDdl]:
        rules = self.source.rules.block_allow
        tables = {table.name: table for table in state.plan.tables()}

        def difference(real: TableName, created: CreateTable) -> str | None:
            tracker = (state.tables or load_tables(self.source)).tracker
            return difference_of_copy(tracker, real, created, self._defaults(ddl, created, tracker.server))

        if isinstance(parsed, Unreadable) and not isinstance(parsed, NotRead):
            return memory, judge_ddl(parsed, ddl, rules, tables)
        after, outcome = online_step(
            memory,
            parsed,
            LoggedText(ddl.sql, ddl.sql_mode, ddl.schema),
            rules=rules,
            tables=tables,
            difference=difference,
            applied=state.plan.applied_up_to(ddl.end.sort_key),
        )
        match outcome:
            case SkipDdl() | ApplyDdl():
                return after, outcome
            case outcomes.StopAtDdl(why):
                return after, RelevantDdl(why)
            case outcomes.OrdinaryDdl(rest):
                return after, judge_ddl(rest, ddl, rules, tables)
            case _:
                assert_never(outcome)

    def pass_over(self, meaning: DdlMeaning, state: LoopState) -> LoopState:
        """Save the state of online DDL after a skipped statement, and move the frontier past it if it has no rows.

        Raises Fenced, TargetWentBack.
        """
        ddl = meaning.ddl
        if meaning.after == meaning.before:
            return replace(state, online_ddl=meaning.before)

        def body(connection: Connection) -> None:
            save_online_ddls(connection, self.source.fence.ref, meaning.after)

        self._write(ddl, state, body)
        after = replace(state, online_ddl=meaning.after)
        return after.at(ddl.end) if ddl.rows is None else after

    def noted(self, ddl: DdlStatement) -> Collection[int]:
        """Return the numbers of the statement's entries in the DDL journal. Raises IncompleteResult."""
        connection = target_connection(self.source.target)
        return read_entries(connection, self.source.fence.ref, ddl.end.sort_key).keys()

    def follow(
        self, meaning: DdlMeaning, statement: Statement | ApplyDdl | None, state: LoopState, operator: Operator | None
    ) -> LoopState:
        """Execute the effect of a statement in the target; return the state with the plan that is valid after it.

        The rows of the statement's transaction, if any, are not applied yet. Without rows, the frontier has moved to
        the end of the statement.

        `statement`: None if it is not understood; then an operator must replace or skip it.
        `operator`: a user's decision: other statements instead of it, or before it.

        Raises CannotFollow, ShardDdlOutOfSequence (nothing of the statement was executed), and the errors of executing
        and planning.
        """
        ddl, fence, plan = meaning.ddl, self.source.fence, state.plan
        position = ddl.end.sort_key
        build_postponed(self.source.target, fence)
        connection = target_connection(self.source.target)
        entries = read_entries(connection, fence.ref, position)
        if ddl.rows is not None and COMMITTED in entries:
            return state
        tables = state.tables or load_tables(self.source)
        context = self._surroundings(ddl, statement, tables)
        if not entries:  # else the statement may have changed the key already
            context = replace(context, ordered_differently=plan.ordered_differently, json_columns=plan.json_columns)
            if removes_partitions(statement):
                shown = create_statement_if_exists(connection, context.route(statement.table))
                context = replace(context, partitions=partitions_shown(shown))
        change = self._change(statement, operator, tables, context)
        session = self._session(ddl, change, operator)
        injected = _injected(operator, tables, context)
        for note in change.notes:
            log.warning("DDL at %s: %s", ddl.at, note)
        needs = needed_location(ddl.at, state.prepared)
        skipped = operator is not None and operator.kind is OperatorKind.SKIP
        if change.agreed is not None and ddl.rows is not None:
            raise CannotFollow("it alters a merged table, and its transaction has rows as well")
        like = statement.like if isinstance(statement, CreateTableLike) else None
        places = ddl.at, ddl.end
        groups = self.shards.groups_after(change, tables, places, needs, session, counts_as_made=skipped, like=like)
        groups += self.shards.newly_merged(change, tables)
        chunks = chunks_after(load_chunks(connection, fence.ref), tables, change, _shared(tables, context))
        emptied = [TargetDdl(f"TRUNCATE TABLE {name.quoted()}", (name,)) for name in chunks.emptied]
        statements = (*change.statements, *emptied) if change.agreed is None else ()
        target = self.source.target
        executed = execute_ddl(target, fence, position, injected, session, first=IN_FRONT)
        if operator is None or operator.kind is OperatorKind.INJECT:
            self._check_left_behind(position, statements)
        executed += execute_ddl(target, fence, position, statements, session)
        try:
            after = plan_for(
                self.source,
                change.tables.schemas,
                plan.buckets,
                held=self.shards.held_after(groups),
                # The effect of an operator's statements is unknown, so all tables are read again.
                read=untouched(plan, change.altered(tables), statements, entries) if operator is None else None,
                chunks=chunks.chunks,
            )
        except TargetTableMismatch as error:
            if not skipped:
                raise
            raise NeededByRows(f"it is skipped, and {error.happened()}") from error
        after = with_safe_mode(self.source, after, overwrites=plan.safe)
        self._commit(meaning, tables, change, replace(state, plan=after), groups, chunks)
        self.shards.take(groups)
        log.debug("DDL at %s is done: executed %d of %d statements", ddl.at, executed, len(injected) + len(statements))
        return replace(state, plan=after, tables=change.tables, online_ddl=meaning.after)

    def plan_without(self, group: Group, plan: SyncPlan) -> SyncPlan:
        """Return the plan that is valid once the group's held-back rows are applied. `plan`: the current plan.

        Raises the errors of planning.
        """
        known = load_table_schemas(target_connection(self.source.target), self.source.fence.ref)
        schemas = [schema for schema in known if self.source.rules.block_allow.allows(schema.table.name)]
        return self._replanned(plan, schemas, self.shards.held_after([after_resync(group)]))

    def _replanned(self, plan: SyncPlan, schemas: Sequence[TableSchema], held: Collection[TableName]) -> SyncPlan:
        """Return the plan for these tables, with the buckets and the safe mode of the current `plan`."""
        after = plan_for(self.source, schemas, plan.buckets, held=held)
        return with_safe_mode(self.source, after, overwrites=plan.safe)

    def inject(self, operator: Operator, here: Location, state: LoopState) -> LoopState:
        """Execute an operator's statements before the rows that begin at `here`; return the state with the plan that is
        valid after them. Raises the errors of `follow`.
        """
        fence, plan = self.source.fence, state.plan
        build_postponed(self.source.target, fence)
        tables = state.tables or load_tables(self.source)
        # One byte after `here`, because a table definition that was copied at `here` does not have the change yet.
        nothing = DdlStatement(here, here.at(here.position + 1), "", "", 0)
        change = change_by_hand(None, statements_of(operator), tables, self._surroundings(nothing, None, tables))
        if not execute_ddl(self.source.target, fence, here.sort_key, change.statements, [], first=INJECTED):
            return replace(state, tables=tables)
        after = self._replanned(plan, tables.schemas, self.shards.held)
        run_transaction(self.source.target, lambda tx: note_plan(tx, fence, after.fingerprint()))
        return replace(state, plan=after, tables=tables)

    def _change(
        self,
        statement: Statement | ApplyDdl | None,
        operator: Operator | None,
        tables: SubtaskTables,
        context: DdlContext,
    ) -> SchemaChange:
        if (instead := _instead(operator)) is not None:
            return change_by_hand(statement, statements_of(instead), tables, context)
        if isinstance(statement, ApplyDdl):
            change = repeated(statement.changes, tables, context)
            if change.zone:
                raise ValuesDiffer("rows depend on the session time zone of an online DDL tool, which is unknown")
            return change
        if statement is None:
            raise CannotFollow("it is not understood")
        return change_of(statement, tables, context)

    def _commit(
        self,
        meaning: DdlMeaning,
        before: SubtaskTables,
        change: SchemaChange,
        state: LoopState,
        groups: Sequence[Group],
        chunks: ChunksAfter,
    ) -> None:
        """Save the subtask's state after the statement. `state`: the state before it, with the plan after it."""
        fence = self.source.fence

        def write(connection: Connection) -> None:
            ref = fence.ref
            save_views(connection, ref, ())  # first: a table may take the name of a view, and a view that of a table
            for name, known_as in self.shards.dropped(change, meaning.ddl.at):
                assign_to_dropped(connection, ref, name, known_as)
            forget_table_schemas(connection, ref, change.ended)
            for name in change.ended:
                forget_chunks(connection, ref, name)
            rename_tables(connection, ref, change.renamed)
            for name in chunks.reset:
                forget_chunks(connection, ref, name)
            add_chunks(connection, fence, [chunk for chunk in chunks.chunks if chunk.table in chunks.reset])
            renamed = {new for _, new in change.renamed}  # their stored definitions still contain the old names
            altered = {schema.table.name for schema in change.altered(before)} | renamed
            put_table_schemas(connection, ref, [one for one in change.tables.schemas if one.table.name in altered])
            delete_definitions(connection, ref, before.tracker.names() - change.tables.tracker.names())
            save_definitions(connection, ref, definitions_of(before.tracker, change.tables.tracker, renamed))
            save_schema_collations(connection, ref, change.tables.tracker.collations())
            save_views(connection, ref, change.tables.tracker.views())
            save_online_ddls(connection, ref, meaning.after)
            self.shards.save(connection, groups)
            note_plan(connection, fence, state.plan.fingerprint())

        self._write(meaning.ddl, state, write)

    def _write(self, ddl: DdlStatement, state: LoopState, body: Callable[[Connection], None]) -> None:
        """Run `body` in the transaction that moves the frontier past the statement or, if the statement has rows, in a
        transaction before them."""
        step = state.step(ddl.end)

        def with_frontier(connection: Connection, _buckets: object) -> None:
            body(connection)
            forget_entries(connection, step.fence.ref, step.hi)

        def before_rows(connection: Connection) -> None:
            note_intent(connection, step.fence, step.hi, COMMITTED, "", {})
            body(connection)

        if ddl.rows is None:
            everywhere = partial(run_transaction, self.source.target)
            fenced_transaction(everywhere, step, FrontierMove.ADVANCE, range(state.plan.buckets), with_frontier)
        else:
            run_transaction(self.source.target, before_rows)

    # The facts for the decision

    def _surroundings(
        self, ddl: DdlStatement, statement: Statement | ApplyDdl | None, tables: SubtaskTables
    ) -> DdlContext:
        target, server = server_info(target_connection(self.source.target)), tables.tracker.server
        mine = self.source.fence.ref.source
        feeders = load_feeders(target_connection(self.source.target), self.source.fence.ref)
        elsewhere = frozenset(feeder.target for feeder in feeders if feeder.source != mine)
        if self.shards.agreeing:
            late, mine_go_to = unbegun_routers(self.source), {schema.target for schema in tables.schemas}
            elsewhere |= {target for target in mine_go_to if any(one.routes_to(target) for one in late)}
            elsewhere |= unfinished_targets(target_connection(self.source.target), self.source.fence.ref, elsewhere)
        defaults = self._defaults(ddl, statement, server)
        return DdlContext(
            self.source.rules,
            target.capabilities,
            defaults,
            ddl.end.sort_key,
            elsewhere,
            merged_targets(target_connection(self.source.target), self.source.fence.ref),
            sql=ddl.sql,
            agreeing=self.shards.agreeing,
            strict_collations=self.source.config.strict_collations,
            overwrites=self.source.config.overwrites,
            unlike=unlike((server.flavour, server.version), (target.flavour, target.version_number)),
        )

    def _defaults(
        self, ddl: DdlStatement, statement: Statement | ApplyDdl | None, server_of_log: Server
    ) -> SessionDefaults:
        session = ddl.session
        server = None
        chosen: list[tuple[str, str]] = []
        if isinstance(statement, CreateDatabase | AlterDatabase) and session.charsets is not None:
            server = self._collation(session.charsets[2])
        for charset, collation in session.default_collations or ():
            chosen.append((self._collation(charset).partition("_")[0], self._collation(collation)))
        if session.utf8mb4_collation is not None:
            chosen.append(("utf8mb4", self._collation(session.utf8mb4_collation)))
        return SessionDefaults(ddl.sql_mode, server, explicit_timestamps(session, server_of_log), tuple(chosen))

    def _collation(self, number: int) -> str:
        if not self._collation_names:
            with connected(self.source.upstream) as connection:
                self._collation_names = _collation_names(connection)
        if number not in self._collation_names:
            raise CannotFollow(f"the source has no collation with the number {number}")
        return self._collation_names[number]

    def _session(self, ddl: DdlStatement, change: SchemaChange, operator: Operator | None) -> list[Setting]:
        """Return the session variables for the target's statements. Raises CannotFollow, ValuesDiffer.

        The statements of a `binlog replace` never raise ValuesDiffer.
        """
        source, target, server = self.source.upstream, self.source.target, change.tables.tracker.server
        if _instead(operator) is None:
            return session_of(ddl, change.zone, source, target, server)
        # If the target has no zone of that name or with these rules, the offset at the statement's second is enough: a
        # user has decided on the values.
        with suppress(ValuesDiffer, SessionRefused):
            return session_of(ddl, ANY_RULES, source, target, server)
        return session_of(ddl, AT_ITS_SECOND, source, target, server)

    def _check_left_behind(self, position: str, statements: Sequence[TargetDdl]) -> None:
        """Raise CannotFollow if the target already has an object that the statement creates and that may differ.

        A filter may have skipped the DROP of the old object, or it is a table with rows of another origin.
        """
        connection, ref = target_connection(self.source.target), self.source.fence.ref
        filled = tables_with_rows(connection, ref, position, statements)
        if filled:
            raise CannotFollow(
                f"the target already has the table {', '.join(map(str, filled))}, with rows that are not of the new "
                "table. Drop or rename it in the target, or adopt it with its rows by `dmctl binlog skip`"
            )
        if not self.source.rules.events.may_keep_names():
            return
        left = left_behind(connection, ref, position, statements)
        if left:
            raise CannotFollow(
                f"the target already has it: {left}. A filter rule may have skipped the statement that dropped it, so "
                "its rows may have old values. Drop or rename it in the target, or adopt it by `dmctl binlog skip`"
            )


def _shared(tables: SubtaskTables, context: DdlContext) -> frozenset[TableName]:
    """Return the target tables that receive, or have received, rows of several source tables."""
    counted = Counter(schema.target for schema in tables.schemas)
    several = {target for target, number in counted.items() if number > 1}
    return context.fed_elsewhere | context.once_merged | several


def _instead(operator: Operator | None) -> Operator | None:
    """Return the operator if it replaces or skips a statement, else None."""
    return None if operator is None or operator.kind is OperatorKind.INJECT else operator


def _injected(operator: Operator | None, tables: SubtaskTables, context: DdlContext) -> Sequence[TargetDdl]:
    """Return the statements that an operator injects before a statement. Raises CannotFollow."""
    if operator is None or operator.kind is not OperatorKind.INJECT:
        return ()
    return change_by_hand(None, statements_of(operator), tables, context).statements


def untouched(
    plan: SyncPlan, altered: Iterable[TableSchema], statements: Iterable[TargetDdl], entries: Mapping[int, JournalEntry]
) -> dict[TableName, Table]:
    """Return the target tables of the plan that a statement does not affect."""
    touched = {table.target for table in altered} | {name for statement in statements for name in statement.tables}
    touched |= {name for entry in entries.values() for name in entry.before}  # of an operator that was withdrawn since
    return {target.name: target.mapping.target for target in plan.targets if target.name not in touched}


def _collation_names(connection: Connection) -> dict[int, str]:
    """Return the names of a server's collations by number."""
    tables = [("collation_name", "collations")]
    applicability = "collation_character_set_applicability"
    has_full_names = (
        "SELECT 1 FROM information_schema.columns WHERE table_schema = 'information_schema' "
        f"AND LOWER(table_name) = '{applicability}' AND LOWER(column_name) = 'full_collation_name'"
    )
    if query(connection, has_full_names):  # MariaDB's UCA 14 collations have a number for each charset
        tables.append(("full_collation_name", applicability))
    asked = [f"SELECT id, {name} FROM information_schema.{table} WHERE id IS NOT NULL" for name, table in tables]
    return {int(number): text(name) for sql in asked for number, name in query(connection, sql)}
