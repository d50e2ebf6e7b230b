"""How the sync of one source follows the DDL of its log: the statement's meaning, the target's tables, a new plan.

    schema_change.change_of     what it means                       (pure)
    ddl_execution.execute_ddl   the target's tables, each once      (journaled)
    commit                      one fenced transaction: the frontier moves over the statement, the subtask's tables and
                                the fingerprint of its plan become the new ones, the journal is emptied

A crash in front of the commit leaves the frontier before the statement, and what it executed in the journal. Where the
statement's transaction has rows as well (CREATE TABLE … SELECT) they move the frontier; then the commit leaves a note
that says it has been made.

The tables are read from the target when the first DDL comes, as most runs meet none.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import assert_never

from airflow_provider_dm.engine.binlog.planned import DdlStatement
from airflow_provider_dm.engine.ddl.conversions import unlike
from airflow_provider_dm.engine.ddl.lexer import Unreadable
from airflow_provider_dm.engine.ddl.parse import NotRead
from airflow_provider_dm.engine.ddl.server import SessionDefaults
from airflow_provider_dm.engine.ddl.statements import AlterDatabase, CreateDatabase, Statement
from airflow_provider_dm.engine.ddl.zones import AT_ITS_SECOND
from airflow_provider_dm.engine.meta.model import Operator, OperatorKind
from airflow_provider_dm.engine.mysql.connection import Connection, connected, query, server_info, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.mysql.pinned import Setting
from airflow_provider_dm.engine.reading.logged_ddl import explicit_timestamps, read_ddl
from airflow_provider_dm.engine.rules.online_ddl import outcomes
from airflow_provider_dm.engine.rules.online_ddl.memory import LoggedText, OnlineDdls
from airflow_provider_dm.engine.rules.online_ddl.outcomes import Apply, PassOver
from airflow_provider_dm.engine.rules.online_ddl.step import step as online_step
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.shard.group import Group, finished
from airflow_provider_dm.engine.sync.ddl.by_hand import statements_of
from airflow_provider_dm.engine.sync.ddl.chunks_behind import ChunksBehind, chunks_behind
from airflow_provider_dm.engine.sync.ddl.definitions import definitions_of, load_tables
from airflow_provider_dm.engine.sync.ddl.schema_change import change_by_hand, change_of, repeated
from airflow_provider_dm.engine.sync.ddl.session import session_of
from airflow_provider_dm.engine.sync.ddl.subtask_tables import (
    CannotFollow,
    SchemaChange,
    SubtaskTables,
    Surroundings,
    ValuesDiffer,
)
from airflow_provider_dm.engine.sync.ddl.verdict import Concerns, is_left_out, judge_ddl
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.shard_ddl.shard_locks import to_begin
from airflow_provider_dm.engine.sync.shard_ddl.shards import Shards
from airflow_provider_dm.engine.sync.source import SyncSource
from airflow_provider_dm.engine.sync.start.opening import plan_for, written_by
from airflow_provider_dm.engine.target.contested_row import give_to_dropped
from airflow_provider_dm.engine.target.copy_progress import add_chunks, forget_chunks, load_chunks
from airflow_provider_dm.engine.target.ddl_execution import TargetDdl, execute_ddl
from airflow_provider_dm.engine.target.ddl_journal import (
    COMMITTED,
    IN_FRONT,
    INJECTED,
    Entry,
    forget_entries,
    note_intent,
    read_entries,
)
from airflow_provider_dm.engine.target.frontier import Act, Step, fenced_transaction
from airflow_provider_dm.engine.target.left_behind import left_behind, tables_with_rows
from airflow_provider_dm.engine.target.online_ddl_memory import load as load_online_ddls
from airflow_provider_dm.engine.target.online_ddl_memory import save as save_online_ddls
from airflow_provider_dm.engine.target.session import run_transaction, target_connection
from airflow_provider_dm.engine.target.shard_groups import merged_targets, unfinished_targets
from airflow_provider_dm.engine.target.subtask import note_plan
from airflow_provider_dm.engine.target.table_definitions import (
    delete_definitions,
    save_definitions,
    save_schema_collations,
    save_views,
)
from airflow_provider_dm.engine.target.table_schema import (
    TableSchema,
    forget_table_schemas,
    load_feeders,
    load_table_schemas,
    put_table_schemas,
    rename_tables,
)

log = logging.getLogger(__name__)


@dataclass
class Following:
    """The tables of one source's sync, for the thread of that sync."""

    source: SyncSource
    tables: SubtaskTables | None = None
    collation_names: Mapping[int, str] = field(default_factory=dict)
    shards: Shards | None = None
    """The groups of merged tables. None: none of them can change."""
    memory: OnlineDdls | None = None
    becomes: OnlineDdls = field(default_factory=OnlineDdls)
    """What is remembered of online DDL where the frontier stands, and behind the statement that is looked at."""

    def meaning(self, ddl: DdlStatement, plan: SyncPlan) -> PassOver | Concerns | Apply:
        """Return what a statement is to the task, with what is remembered of online DDL. Nothing is changed yet."""
        said = read_ddl(ddl)
        found = self._meaning(said, ddl, plan)
        not_understood = isinstance(found, Concerns) and found.statement is None
        if not_understood and is_left_out(said, ddl, self.source.rules.events):
            log.warning("DDL at %s is not understood, and a filter rule leaves it out", ddl.at)
            return PassOver("a filter rule leaves it out")
        return found

    def _meaning(
        self, said: Statement | NotRead | Unreadable, ddl: DdlStatement, plan: SyncPlan
    ) -> PassOver | Concerns | Apply:
        rules = self.source.rules.block_allow
        tables = {table.name: table for table in plan.tables()}
        self.becomes = self._memory()
        if isinstance(said, Unreadable) and not isinstance(said, NotRead):
            return judge_ddl(said, ddl, rules, tables)
        self.becomes, outcome = online_step(
            self.becomes,
            said,
            LoggedText(ddl.sql, ddl.sql_mode, ddl.schema),
            rules=rules,
            tables=tables,
            applied=plan.applied_behind(ddl.end.sort_key),
        )
        match outcome:
            case PassOver() | Apply():
                return outcome
            case outcomes.Remember(ghost):
                return PassOver(f"it is remembered with {ghost}")
            case outcomes.Stop(why):
                return Concerns(why)
            case outcomes.Ordinary(rest):
                return judge_ddl(rest, ddl, rules, tables)
            case _:
                assert_never(outcome)

    def pass_over(self, ddl: DdlStatement, step: Step, buckets: int) -> bool:
        """Remember what a statement is to online DDL; tell whether the frontier was moved over it. Raises Fenced, …"""
        if self.becomes == self._memory():
            return False

        def body(connection: Connection) -> None:
            save_online_ddls(connection, step.fence.ref, self.becomes)

        self._write(ddl, step, buckets, body)
        self.memory = self.becomes
        return ddl.rows is None

    def _tables(self) -> SubtaskTables:
        if self.tables is None:
            self.tables = load_tables(self.source)
        return self.tables

    def _memory(self) -> OnlineDdls:
        if self.memory is None:
            known = load_online_ddls(target_connection(self.source.target), self.source.fence.ref)
            self.memory = known.known_to(self.source.rules.block_allow)
        return self.memory

    def noted(self, ddl: DdlStatement) -> Collection[int]:
        """Return the numbers under which something is noted of the statement (ddl_journal.py). Raises AnswerCut."""
        connection = target_connection(self.source.target)
        return read_entries(connection, self.source.fence.ref, ddl.end.sort_key).keys()

    def follow(
        self,
        ddl: DdlStatement,
        statement: Statement | Apply | None,
        step: Step,
        plan: SyncPlan,
        operator: Operator | None,
        *,
        needs: Location,
    ) -> SyncPlan:
        """Follow a statement up to its rows, if it has any; return the plan that holds behind it.

        `step`: from where all buckets stand to the statement's end. Where it has no rows the frontier is there then.
        `operator`: what a person wants done instead, or before it; without one the statement must be understood.
        `needs`: from where on the log is needed for what lies behind the statement.
        Raises CannotFollow, NeedsAgreement, RefusedByFilter, ShardDdlOutOfSequence (nothing of the statement was
        executed), and what executing and planning raise.
        """
        position = ddl.end.sort_key
        connection = target_connection(self.source.target)
        entries = read_entries(connection, step.fence.ref, position)
        if ddl.rows is not None and COMMITTED in entries:
            return plan
        tables = self._tables()
        around = self._surroundings(ddl, statement)
        change = self._change(statement, operator, tables, around)
        session = self._session(ddl, change, operator)
        in_front = _injected(operator, tables, around)
        for note in change.notes:
            log.warning("DDL at %s: %s", ddl.at, note)
        groups = self._meet(ddl, change, operator, needs, session)
        chunks = chunks_behind(load_chunks(connection, step.fence.ref), tables, change, _shared(tables, around))
        emptied = [TargetDdl(f"TRUNCATE TABLE {name.quoted()}", (name,)) for name in chunks.emptied]
        statements = (*change.statements, *emptied) if change.agreed is None else ()
        target = self.source.target
        executed = execute_ddl(target, step.fence, position, in_front, session, first=IN_FRONT)
        if operator is None or operator.kind is OperatorKind.INJECT:
            self._check_left_behind(step, statements)
        executed += execute_ddl(target, step.fence, position, statements, session)
        became = plan_for(
            target_connection(self.source.target),
            self.source,
            change.tables.schemas,
            plan.buckets,
            held=self.shards.held_behind(groups) if self.shards is not None else frozenset(),
            # What a person has done, nobody knows.
            read=untouched(plan, change.altered(tables), statements, entries) if operator is None else None,
            chunks=chunks.chunks,
        )
        # The connection from in front of the statements may have been lost in them.
        became = written_by(target_connection(target), self.source, became, overwrites=plan.safe)
        self._commit(ddl, change, became, step, groups, chunks)
        self.tables = change.tables
        if self.shards is not None:
            self.shards.take(groups)
        log.info("DDL at %s is done, by %d of %d statements", ddl.at, executed, len(in_front) + len(statements))
        return became

    def _meet(
        self,
        ddl: DdlStatement,
        change: SchemaChange,
        operator: Operator | None,
        needs: Location,
        session: Sequence[Setting],
    ) -> list[Group]:
        """Return the groups of merged tables as they are behind the statement. Raises CannotFollow, …"""
        if self.shards is None:
            return []
        if change.agreed is not None and ddl.rows is not None:
            raise CannotFollow("its table is merged, and its transaction has rows as well")
        skipped = operator is not None and operator.kind is OperatorKind.SKIP
        assert self.tables is not None
        met = self.shards.meet(change, self.tables, (ddl.at, ddl.end), needs, session, taken_for_made=skipped)
        return [*met, *self.shards.newly_merged(change, self.tables)]

    def plan_without(self, group: Group, plan: SyncPlan) -> SyncPlan:
        """Return the plan that holds when the group's rows are applied. `plan`: until then. Raises what planning
        raises."""
        assert self.shards is not None
        connection, rules = target_connection(self.source.target), self.source.rules
        ref = self.source.fence.ref
        known = load_table_schemas(connection, ref)
        schemas = [one for one in known if rules.block_allow.allows(one.table.name)]
        held = self.shards.held_behind([finished(group)])
        became = plan_for(connection, self.source, schemas, plan.buckets, held=held)
        return written_by(connection, self.source, became, overwrites=plan.safe)

    def inject(self, operator: Operator, here: Location, plan: SyncPlan) -> SyncPlan:
        """Execute a person's statements in front of the rows that begin here; return the plan that holds behind them.

        Raises as `follow` does.
        """
        fence = self.source.fence
        tables = self._tables()
        # A copy that shows a table as it is here does not have it: it comes behind all that ends here.
        nothing = DdlStatement(here, here.at(here.position + 1), "", "", 0)
        change = change_by_hand(None, statements_of(operator), tables, self._surroundings(nothing, None))
        if not execute_ddl(self.source.target, fence, here.sort_key, change.statements, [], first=INJECTED):
            return plan
        held = self.shards.held if self.shards is not None else frozenset[TableName]()
        connection = target_connection(self.source.target)
        became = plan_for(connection, self.source, tables.schemas, plan.buckets, held=held)
        became = written_by(connection, self.source, became, overwrites=plan.safe)
        run_transaction(self.source.target, lambda tx: note_plan(tx, fence, became.fingerprint()))
        return became

    def _change(
        self,
        statement: Statement | Apply | None,
        operator: Operator | None,
        tables: SubtaskTables,
        around: Surroundings,
    ) -> SchemaChange:
        if (instead := _instead(operator)) is not None:
            return change_by_hand(statement, statements_of(instead), tables, around)
        if isinstance(statement, Apply):
            change = repeated(statement.changes, tables, around)
            if change.zone:
                raise ValuesDiffer("rows depend on the time zone of an online DDL tool's sessions, which is not known")
            return change
        if statement is None:
            raise CannotFollow("it is not understood")
        return change_of(statement, tables, around)

    def _commit(
        self,
        ddl: DdlStatement,
        change: SchemaChange,
        plan: SyncPlan,
        step: Step,
        groups: Sequence[Group],
        chunks: ChunksBehind,
    ) -> None:
        fence, before = step.fence, self.tables
        assert before is not None

        def write(connection: Connection) -> None:
            ref = fence.ref
            save_views(connection, ref, ())  # a table may get the name of one, and one that of a table
            for name, known_as in self.shards.dropped(change, ddl.at) if self.shards is not None else ():
                give_to_dropped(connection, ref, name, known_as)
            forget_table_schemas(connection, ref, change.ended)
            for name in change.ended:
                forget_chunks(connection, ref, name)
            rename_tables(connection, ref, change.renamed)
            for name in chunks.reset:
                forget_chunks(connection, ref, name)
            add_chunks(connection, fence, [one for one in chunks.chunks if one.table in chunks.reset])
            renamed = {new for _, new in change.renamed}  # what has moved with a name still says the old one
            altered = {one.table.name for one in change.altered(before)} | renamed
            put_table_schemas(connection, ref, [one for one in change.tables.schemas if one.table.name in altered])
            delete_definitions(connection, ref, before.tracker.names() - change.tables.tracker.names())
            save_definitions(connection, ref, definitions_of(before.tracker, change.tables.tracker, renamed))
            save_schema_collations(connection, ref, change.tables.tracker.collations())
            save_views(connection, ref, change.tables.tracker.views())
            save_online_ddls(connection, ref, self.becomes)
            if self.shards is not None:
                self.shards.save(connection, groups)
            note_plan(connection, fence, plan.fingerprint())

        self._write(ddl, step, plan.buckets, write)
        self.memory = self.becomes

    def _write(self, ddl: DdlStatement, step: Step, buckets: int, body: Callable[[Connection], None]) -> None:
        """Run `body` in the transaction that moves the frontier over the statement, or in front of its rows."""

        def behind(connection: Connection, _buckets: object) -> None:
            body(connection)
            forget_entries(connection, step.fence.ref, step.hi)

        def in_front(connection: Connection) -> None:
            note_intent(connection, step.fence, step.hi, COMMITTED, "", {})
            body(connection)

        if ddl.rows is None:
            everywhere = partial(run_transaction, self.source.target)
            fenced_transaction(everywhere, step, Act.ADVANCE, range(buckets), behind)
        else:
            run_transaction(self.source.target, in_front)

    # What decides

    def _surroundings(self, ddl: DdlStatement, statement: Statement | Apply | None) -> Surroundings:
        target, server = server_info(target_connection(self.source.target)), self._tables().tracker.server
        mine = self.source.fence.ref.source
        feeders = load_feeders(target_connection(self.source.target), self.source.fence.ref)
        elsewhere = frozenset(one.target for one in feeders if one.source != mine)
        if self.shards is not None and self.shards.agreeing:
            late, mine_go_to = to_begin(self.source), {one.target for one in self._tables().schemas}
            elsewhere |= {target for target in mine_go_to if any(one.leads_to(target) for one in late)}
            elsewhere |= unfinished_targets(target_connection(self.source.target), self.source.fence.ref, elsewhere)
        defaults = self._defaults(ddl, statement)
        return Surroundings(
            self.source.rules,
            target.capabilities,
            defaults,
            ddl.end.sort_key,
            elsewhere,
            merged_targets(target_connection(self.source.target), self.source.fence.ref),
            sql=ddl.sql,
            agreeing=self.shards is not None and self.shards.agreeing,
            strict_collations=self.source.config.strict_collations,
            overwrites=self.source.config.overwrites,
            unlike=unlike((server.flavour, server.version), (target.flavour, target.version_number)),
        )

    def _defaults(self, ddl: DdlStatement, statement: Statement | Apply | None) -> SessionDefaults:
        said = ddl.session
        server_of_log = self.tables.tracker.server if self.tables is not None else None
        server = None
        chosen: list[tuple[str, str]] = []
        if isinstance(statement, CreateDatabase | AlterDatabase) and said.charsets is not None:
            server = self._collation(said.charsets[2])
        for charset, collation in said.default_collations or ():
            chosen.append((self._collation(charset).partition("_")[0], self._collation(collation)))
        if said.utf8mb4_collation is not None:
            chosen.append(("utf8mb4", self._collation(said.utf8mb4_collation)))
        return SessionDefaults(ddl.sql_mode, server, explicit_timestamps(said, server_of_log), tuple(chosen))

    def _collation(self, number: int) -> str:
        if not self.collation_names:
            with connected(self.source.spec.endpoint.resolve()) as connection:
                self.collation_names = _collation_names(connection)
        if number not in self.collation_names:
            raise CannotFollow(f"the source knows no collation with the number {number}")
        return self.collation_names[number]

    def _session(self, ddl: DdlStatement, change: SchemaChange, operator: Operator | None) -> list[Setting]:
        """Return the session for the target's statements. Raises CannotFollow, ValuesDiffer."""
        assert self.tables is not None
        need = change.zone if _instead(operator) is None else AT_ITS_SECOND
        target = server_info(target_connection(self.source.target)).flavour
        flavours = (self.tables.tracker.server.flavour, target)
        return session_of(ddl, need, self.source.spec.endpoint.resolve(), flavours)

    def _check_left_behind(self, step: Step, statements: Sequence[TargetDdl]) -> None:
        """Refuse to take what the target has already for what a statement makes, if it may differ. Raises CannotFollow.

        It may have been kept by a filter; or it is a table with rows of somebody else's.
        """
        connection = target_connection(self.source.target)
        filled = tables_with_rows(connection, step.fence.ref, step.hi, statements)
        if filled:
            raise CannotFollow(
                f"the target has the table {', '.join(map(str, filled))} already, and it has rows, which are not the "
                "new table's. Drop or rename it in the target, or adopt it with its rows by `dmctl binlog skip`"
            )
        if not self.source.rules.events.may_keep_names():
            return
        found = left_behind(connection, step.fence.ref, step.hi, statements)
        if found:
            raise CannotFollow(
                f"the target has it already: {found}. A filter rule may have left out what took it away, and rows that "
                "are there would keep old values. Drop or rename it in the target, or let it stand for the new one by "
                "`dmctl binlog skip`"
            )


def _shared(tables: SubtaskTables, around: Surroundings) -> frozenset[TableName]:
    """Return the target tables that take, or have taken, the rows of several source tables."""
    counted = Counter(one.target for one in tables.schemas)
    several = {target for target, number in counted.items() if number > 1}
    return around.fed_elsewhere | around.once_merged | several


def _instead(operator: Operator | None) -> Operator | None:
    """Return the operator if a person wants something done in the place of a statement."""
    return None if operator is None or operator.kind is OperatorKind.INJECT else operator


def _injected(operator: Operator | None, tables: SubtaskTables, around: Surroundings) -> Sequence[TargetDdl]:
    """Return what a person has executed in front of a statement. Raises CannotFollow, NeedsAgreement."""
    if operator is None or operator.kind is not OperatorKind.INJECT:
        return ()
    return change_by_hand(None, statements_of(operator), tables, around).statements


def untouched(
    plan: SyncPlan, altered: Iterable[TableSchema], statements: Iterable[TargetDdl], entries: Mapping[int, Entry]
) -> dict[TableName, Table]:
    """Return the target's tables, as the plan has them, that a statement has nothing to do with."""
    touched = {one.target for one in altered} | {name for one in statements for name in one.tables}
    touched |= {name for entry in entries.values() for name in entry.before}  # a person's, taken back since
    return {one.name: one.mapping.target for one in plan.targets if one.name not in touched}


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
