"""The meaning of one DDL statement of the log for a subtask: its tables after it, and the statements for the target.

Pure: the statement (a value of `engine.ddl`), the current tables, the rules and both servers are the input; the result
is a SchemaChange, or an exception with the reason to stop. Nothing is executed, so the result is repeatable.

    tables  s.a -> t.a     ALTER TABLE s.a ADD c int        ─▶  ALTER TABLE t.a ADD c int; s.a has c
    tables  s.a -> t.a     RENAME TABLE s.a TO s.b          ─▶  RENAME TABLE t.a TO t.b; s.b -> t.b
    tables  s.a -> t.a     DROP TABLE s.a, other.x          ─▶  DROP TABLE t.a; s.a leaves the task
    no tables              CREATE TABLE s.a (…)             ─▶  CREATE TABLE t.a (…); s.a -> t.a

If DM has applied a table up to a later location (`skip_until`), its definition is the one at that location: DDL before
it is applied already, and the statement's effect on this table is ignored.

The binlog event filter decides which parts of a statement the target executes. The model of the source's tables follows
all parts, because rows are decoded with it; if the target then lacks a column, making the new plan stops the task.

DDL on a merged target table needs the agreement of all its shards. A shard alone may be created, be renamed to a name
that is routed to the same target, and be dropped, which keeps its rows. With `shard-mode: pessimistic` (engine.shard),
the statements for the target are those of an unmerged table, and `agreed` names the shard: they are executed when all
shards have executed the same DDL.

A statement that converts rows is followed only if the target computes the same values (ddl/conversions.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import assert_never

from airflow_provider_dm.engine.ddl.create_like import ServerPair, create_schema_like
from airflow_provider_dm.engine.ddl.dialects import collation_for
from airflow_provider_dm.engine.ddl.errors import CannotTrack, NotCopyable, NotKnown
from airflow_provider_dm.engine.ddl.explicit_keys import (
    with_cut_keys,
    with_recollated_keys,
    with_shrunk_keys,
    without_dropped_columns,
)
from airflow_provider_dm.engine.ddl.generated_key import behind_generated_key
from airflow_provider_dm.engine.ddl.if_exists import without_ineffective
from airflow_provider_dm.engine.ddl.partitions import differ
from airflow_provider_dm.engine.ddl.statements import (
    AlterDatabase,
    AlterSequence,
    AlterTable,
    ColumnDefinition,
    CreateDatabase,
    CreateIndex,
    CreateSequence,
    CreateTable,
    CreateTableLike,
    CreateTableSelect,
    DropDatabase,
    DropIndex,
    DropTables,
    ExchangePartition,
    IrrelevantStatement,
    PartitionToTable,
    RenameTables,
    Statement,
    SwapTablespace,
    TableDefinition,
    TableToPartition,
    TruncateTable,
    ViewStatement,
)
from airflow_provider_dm.engine.ddl.stored_names import as_stored
from airflow_provider_dm.engine.ddl.target_definitions import ConversionContext
from airflow_provider_dm.engine.ddl.target_statements import for_target
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.ddl.write import statement_sql
from airflow_provider_dm.engine.ddl.zones import NO_ZONE, ZoneNeed, need_of_create
from airflow_provider_dm.engine.downstream.ddl_execution import TargetDdl
from airflow_provider_dm.engine.downstream.table_schema import TableSchema
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.online_ddl.memory import LoggedText
from airflow_provider_dm.engine.rules.online_ddl.outcomes import ApplyDdl, RealChange
from airflow_provider_dm.engine.sync.ddl.statement_parts import (
    Named,
    check_same_everywhere,
    check_shows,
    left_by_filter,
    new_name,
    newly_made,
    renames,
    renames_columns,
    same_for_same_changes,
    single_changes,
    without_rename,
    zone_of_rows,
)
from airflow_provider_dm.engine.sync.ddl.subtask_tables import DdlContext, Execution, SchemaChange, SubtaskTables
from airflow_provider_dm.engine.sync.errors import (
    CannotFollow,
    DefinitionDiffers,
    ExtractedChange,
    NeedsAgreement,
    NotUnderstood,
    RoutedElsewhere,
)


def change_of(statement: Statement, tables: SubtaskTables, context: DdlContext) -> SchemaChange:
    """Return the meaning of the statement. Raises CannotFollow."""
    try:
        return _Change(tables, context).of(as_stored(statement, tables.tracker.server))
    except NotKnown as error:
        raise DefinitionDiffers(str(error)) from None
    except CannotTrack as error:
        raise NotUnderstood(str(error)) from None
    except NotCopyable as error:
        raise CannotFollow(str(error)) from None


def repeated(changes: Sequence[RealChange], tables: SubtaskTables, context: DdlContext) -> SchemaChange:
    """Return the meaning of the changes, in order, that an online DDL tool has made to the ghost table of one table.

    Raises the errors of `change_of`.
    """

    def under(text: LoggedText) -> DdlContext:
        return replace(context, session=replace(context.session, sql_mode=text.sql_mode), sql=text.sql)

    return _in_turn(((change.statement, under(change.text)) for change in changes), tables)


def _in_turn(statements: Iterable[tuple[Statement, DdlContext]], tables: SubtaskTables) -> SchemaChange:
    """Return the meaning of several statements, executed one after the other."""
    change = SchemaChange(tables)
    for statement, context in statements:
        one = change_of(statement, change.tables, context)
        notes, agreed, zone = change.notes + one.notes, one.agreed or change.agreed, change.zone | one.zone
        change = SchemaChange(one.tables, change.statements + one.statements, notes=notes, agreed=agreed, zone=zone)
    return change


def change_by_hand(
    original: Statement | ApplyDdl | None, instead: Sequence[Statement], tables: SubtaskTables, context: DdlContext
) -> SchemaChange:
    """Return the change for statements of a user (or none) that replace the source's statement `original`.

    The model of the source's tables follows `original`, because rows are decoded with it. If that is impossible, the
    model drops the statement's tables; the table maps of the log then show whether their columns have changed.
    Raises CannotFollow.
    """
    by_hand = context.by_hand(Execution.GIVEN)
    by_hand = replace(by_hand, session=replace(context.session, sql_mode=0))
    given = _in_turn(((statement, by_hand) for statement in instead), tables)
    if original is None:
        return SchemaChange(tables, given.statements, agreed=given.agreed)
    alone = context.by_hand(Execution.NOTHING)
    try:
        if isinstance(original, ApplyDdl):
            change = repeated(original.changes, tables, alone)
        else:
            change = change_of(original, tables, alone)
    except CannotFollow as error:
        about = (original.real,) if isinstance(original, ApplyDdl) else original.tables
        lost = replace(tables, tracker=tables.tracker.without(about))
        return SchemaChange(lost, given.statements, notes=(f"it is not followed: {error}",), agreed=given.agreed)
    return replace(change, statements=given.statements, agreed=change.agreed or given.agreed)


@dataclass
class _Change:
    """The builder of a SchemaChange: `tables` follows each part of the statement."""

    tables: SubtaskTables
    context: DdlContext
    statements: list[TargetDdl] = field(default_factory=list)
    renamed: list[tuple[TableName, TableName]] = field(default_factory=list)
    ended: list[TableName] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    agreed: TableName | None = None
    dropped: set[Named] = field(default_factory=set)
    """The tables and columns that the statements so far drop in the target."""
    zone: ZoneNeed = NO_ZONE

    def of(self, statement: Statement) -> SchemaChange:
        match statement:
            case CreateTable() | CreateTableLike() | CreateTableSelect():
                self._create(statement)
            case AlterTable() | CreateIndex() | DropIndex():
                self._alter(statement)
            case TruncateTable(table):
                self._truncate(table, statement)
            case DropTables(names):
                for name in names:
                    if self.tables.schema(name) is not None:
                        self._drop(name, wanted=self._wanted(DropTables((name,))) is not None)
            case RenameTables(pairs, if_exists):
                self._rename(pairs, if_exists=if_exists)
            case CreateDatabase() | AlterDatabase():
                self._track(statement)
            case DropDatabase(name):
                dropped = [schema.table.name for schema in self.tables.schemas if schema.table.name.schema == name]
                wanted = bool(dropped) and self._wanted(statement) is not None
                for one in dropped:
                    self._drop(one, wanted=wanted)
                self._forget_schema(statement)
            case CreateSequence() | AlterSequence():
                raise CannotFollow("sequences are not migrated")
            case ViewStatement():
                self._track(statement)
            case IrrelevantStatement():
                pass
            case _:
                assert_never(statement)
        return SchemaChange(
            self.tables,
            tuple(self.statements),
            tuple(self.renamed),
            tuple(self.ended),
            tuple(self.notes),
            self.agreed,
            self.zone,
        )

    # One kind of statement each

    def _create(self, statement: CreateTable | CreateTableLike | CreateTableSelect) -> None:
        name = statement.table
        if self._is_applied(name):
            return
        known = self.tables.schema(name)
        if known is None and statement.if_not_exists and self.tables.tracker.is_view(name):
            return
        if known is not None:
            if statement.if_not_exists:
                return
            if not statement.or_replace:
                raise CannotFollow(f"{name} already exists")
        wanted = self._wanted(statement) is not None
        if known is not None:
            self._drop(name, wanted=wanted)
        if isinstance(statement, CreateTableLike) and self.tables.schema(statement.like) is None:
            raise CannotFollow(f"the definition of {statement.like} is unknown, as it is not a table of the task")
        self._track(statement)
        self.tables = self.tables.put(TableSchema.routed(self.tables.tracker.table(name), self.context.rules.router))
        target = self.context.route(name)
        if wanted:
            self._create_schema(name.schema, target.schema)
        if wanted and not self._is_shared(target, name):
            tracker = self.tables.tracker
            created = CreateTable(name, tracker.definition(name))
            self.zone |= need_of_create(created.definition, self.context.session.sql_mode)
            self._emit(created, tracker, keyless=not any(key.primary for key in tracker.table(name).unique_keys))

    def _alter(self, statement: AlterTable | CreateIndex | DropIndex) -> None:
        name = statement.table
        new = new_name(statement)
        if_exists = isinstance(statement, AlterTable) and statement.if_exists
        if self._is_applied(name) or self._is_missing(name, if_exists=if_exists):
            return
        before, wanted = self.tables.tracker, self._wanted(statement)
        shared = wanted is not None and self._is_for_all(name)
        if isinstance(statement, AlterTable):
            for spec in statement.specs:
                if isinstance(spec, ExchangePartition | PartitionToTable | TableToPartition):
                    raise CannotFollow("rows move between a partition and another table")
                if isinstance(spec, SwapTablespace):
                    raise CannotFollow("rows are imported or discarded with a tablespace, which the log does not show")
        if not self.context.allows(new):
            raise CannotFollow(f"{name} is renamed to {new}, which is not a table of the task")
        if shared and new != name:
            self._check_stays(name, new)
            wanted = without_rename(wanted)
        self._track(statement)
        self._retype(name, new)
        if isinstance(wanted, AlterTable):  # without the parts that had no effect because of IF EXISTS
            specs = without_ineffective(before.server, before.definition(name), wanted.specs)
            wanted = replace(wanted, specs=specs)
            if name == new and renames_columns(wanted):
                check_shows(name, before.definition(name), self.tables.tracker.definition(name))
            if differ(before.definition(name).partitioning, self.context.partitions):
                raise CannotFollow("the target table may have other partitions, and would lose other rows")
        if shared and wanted is not None:
            if self.context.executed is Execution.ITSELF:
                definitions = before.definition(name), self.tables.tracker.definition(new)
                check_same_everywhere(statement, *definitions, self.context.session.sql_mode, before.server.can)
            self.agreed = new
        if wanted is not None:
            self.zone |= zone_of_rows(wanted, before, self.context)
            self._emit(wanted, before)

    def _truncate(self, name: TableName, statement: TruncateTable) -> None:
        if self._is_applied(name) or self._is_missing(name) or self._wanted(statement) is None:
            return
        target = self.context.route(name)
        if self._is_for_all(name) or (self.context.agreeing and target in self.context.once_merged):
            self.notes.append(f"{name} was truncated at its source; its rows in {target} are kept")
        elif target in self.context.once_merged:
            raise CannotFollow(
                f"{target} may have rows of other tables that were dropped, which it would remove as well"
            )
        else:
            self._emit(statement, self.tables.tracker)

    def _drop(self, name: TableName, *, wanted: bool) -> None:
        schema = self.tables.schema(name)
        assert schema is not None
        if self._is_applied(name):
            return
        if self._is_shared(schema.target, name) or schema.target in self.context.once_merged:
            self.notes.append(f"{name} was dropped at its source; its rows in {schema.target} are kept")
        elif wanted:
            self._emit(DropTables((name,), if_exists=True), self.tables.tracker)
        self.tables = self.tables.without(name)
        self.ended.append(name)

    def _rename(self, pairs: Iterable[tuple[TableName, TableName]], *, if_exists: bool = False) -> None:
        # MariaDB logs the renaming of a temporary table like that of an ordinary table.
        may_be_missing = if_exists or self.tables.tracker.server.mariadb
        kept = []
        for old, new in pairs:
            if self._is_applied(old):
                raise CannotFollow(f"{old} is renamed, but DM has applied it up to a later location")
            if self.tables.schema(old) is None:
                if self.tables.tracker.is_view(old):
                    self._track(RenameTables(((old, new),)))
                elif may_be_missing and self.context.allows(old):
                    self.notes.append(f"{old} is not a table of the task, so its renaming is ignored")
                elif self.context.allows(new) and not self.tables.tracker.is_view(new):
                    raise CannotFollow(
                        f"{new} becomes a table of the task, but {old} was not one: its rows are missing in the target"
                    )
                continue
            if not self.context.allows(new):
                raise CannotFollow(f"{old} is renamed to {new}, which is not a table of the task")
            kept.append((old, new))
            self._rename_one(old, new)
        self._emit_renames(kept)

    def _rename_one(self, old: TableName, new: TableName) -> None:
        schema = self.tables.schema(old)
        assert schema is not None
        if self.tables.schema(new) is not None:
            raise CannotFollow(f"{new} already exists")
        if self._is_shared(schema.target, old):
            self._check_stays(old, new)
        self._track(RenameTables(((old, new),)))
        self._retype(old, new)

    def _emit_renames(self, pairs: Sequence[tuple[TableName, TableName]]) -> None:
        moved = [(old, new) for old, new in pairs if self.context.route(old) != self.context.route(new)]
        wanted = self._wanted(RenameTables(tuple(moved))) if moved else None
        if wanted is not None:
            self._emit(wanted, self.tables.tracker)

    # Helpers

    def _is_missing(self, name: TableName, *, if_exists: bool = False) -> bool:
        """Return True if the task has no such table. Raises CannotFollow unless the statement allows that."""
        is_missing = self.tables.schema(name) is None
        if is_missing and not if_exists:
            raise CannotFollow(f"the definition of {name} at this location is unknown")
        return is_missing

    def _is_for_all(self, name: TableName) -> bool:
        """Return True if all shards of a merged table must execute the statement. Raises NeedsAgreement if the task has
        no shard mode."""
        schema = self.tables.schema(name)
        if schema is None or not self._is_shared(schema.target, name):
            return False
        if not self.context.agreeing:
            raise NeedsAgreement(f"{schema.target} also receives rows of other tables")
        return True

    def _check_stays(self, name: TableName, new: TableName) -> None:
        """Check that a shard's new name is routed to the same target. Raises RoutedElsewhere."""
        target, now = self.context.route(name), self.context.route(new)
        if now != target:
            raise RoutedElsewhere(
                f"{name} is renamed to {new}, which is routed to {now}, unlike the shards of {target}"
            )

    def _is_shared(self, target: TableName, name: TableName) -> bool:
        """Return True if another source table is routed to the same target, and a statement has to respect it."""
        if self.context.executed is Execution.NOTHING and not self.context.agreeing:
            return False
        mine = any(schema.target == target and schema.table.name != name for schema in self.tables.schemas)
        return mine or target in self.context.fed_elsewhere

    def _is_applied(self, name: TableName) -> bool:
        """Return True if DM has applied the table up to a location after the statement."""
        schema = self.tables.schema(name)
        return schema is not None and schema.skip_until >= self.context.position

    def _forget_schema(self, statement: DropDatabase) -> None:
        """Drop the tables of a schema, except those that DM has applied up to a location after the statement."""
        before = self.tables.tracker
        applied = [name for name in before.names() if name.schema == statement.name and self._is_applied(name)]
        self._track(statement)
        for name in applied:
            self.tables = replace(self.tables, tracker=self.tables.tracker.with_table(name, before.create_sql(name)))

    def _track(self, statement: Statement) -> None:
        self.tables = replace(self.tables, tracker=self.tables.tracker.after(statement, self.context.session))

    def _retype(self, old: TableName, new: TableName) -> None:
        """Replace a table by its definition in the tracker, under its new name if it is renamed."""
        schema = self.tables.schema(old)
        assert schema is not None
        retyped = TableSchema.routed(self.tables.tracker.table(new), self.context.rules.router, schema.skip_until)
        has, needs = dict(schema.extracted), dict(retyped.extracted)
        if has != needs and self.context.executed is not Execution.NOTHING:
            wrong = [name for name in has | needs if has.get(name) != needs.get(name)]
            values = ", ".join(f"{name} = '{needs.get(name)}' instead of '{has.get(name)}'" for name in wrong)
            raise ExtractedChange(f"its rows in {schema.target} would need {values}")
        self.tables = self.tables.put(retyped, instead_of=old)
        if old != new:
            self.renamed.append((old, new))

    def _wanted(self, statement: Statement) -> Statement | None:
        """Return the part of a statement that the event filter keeps; None: no part. Raises RefusedByFilter."""
        left, notes = left_by_filter(statement, self.tables.tracker, self.context)
        self.notes += notes
        return left

    def _create_schema(self, source: str, target: str) -> None:
        collation = self.tables.tracker.collations().get(source)
        if collation is None:
            return
        flavours = self.tables.tracker.server.flavour, self.context.target.flavour
        made = create_schema_like(target, collation, ServerPair(*flavours, strict=self.context.strict_collations))
        self.notes += made.notes
        self.statements.append(TargetDdl(made.sql(), ()))

    def _emit(self, statement: Statement, before: Tracker, *, keyless: bool = False) -> None:
        """Add the target's statements for a statement. `before`: the tables before it."""
        if self.context.executed is Execution.NOTHING:
            return
        context, mode, flavour = self.context, self.context.session.sql_mode, self.context.target.flavour

        def numbers_alike(name: TableName) -> bool:
            ordered = any(key.primary for key in before.table(name).unique_keys)
            return ordered and not context.overwrites and name not in context.ordered_differently

        way = ConversionContext(
            sql_mode=mode,
            source=before.server.flavour,
            target_can=context.target,
            route=context.route,
            allows=context.allows,
            resolve=self._resolve,
            collation=self._collation,
            was=lambda name: before.definition(name) if name in before.names() else None,
            numbers_alike=numbers_alike,
            is_json=lambda name, column: (name, column.lower()) in context.json_columns,
            cascades_are_logged=self.tables.cascades_are_logged,
            strict_collations=context.strict_collations,
        )
        emitted = for_target(self._with_implicit_changes(statement, before), way)
        self.notes += emitted.notes
        for one in emitted.statements:
            parts = tuple(statement_sql(part, mode, flavour) for part in single_changes(one))
            sql, alike = statement_sql(one, mode, flavour), same_for_same_changes(one, mode, flavour)
            new = newly_made(one, self.dropped)
            self.statements.append(TargetDdl(sql, one.tables, parts, keyless, alike, bool(parts), renames(one), new))

    def _with_implicit_changes(self, statement: Statement, before: Tracker) -> Statement:
        """Return the statement with changes that the source's server makes implicitly, and the target's does not."""
        if not (isinstance(statement, AlterTable) and statement.table in before.names()):
            return statement
        old, new = before.definition(statement.table), self._definition(statement.table)
        if new is None:
            return statement
        specs = behind_generated_key(before.server, old, statement.specs)
        statement = replace(statement, specs=specs)
        source, target = before.server.can, self.context.target
        if source.cuts_keys and not target.cuts_keys:
            statement = with_cut_keys(statement, old, new)
        if self.context.rules.router.extracted(statement.table):  # its keys would lose the extracted columns
            return statement
        if not target.alters_columns_of_keys:
            becomes = partial(collation_for, source=source.flavour, target=target.flavour)
            return with_recollated_keys(without_dropped_columns(statement, old, new), old, new, becomes)
        if source.shrinks_unique_keys and not target.shrinks_unique_keys:
            statement = with_shrunk_keys(statement, old, new)
        return statement

    def _resolve(self, table: TableName, column: str) -> ColumnDefinition | None:
        """Return a column's definition after the statement. `table`: the name before the statement."""
        definition = self._definition(table)
        if definition is None:
            return None
        return next((one for one in definition.columns if one.name.lower() == column.lower()), None)

    def _collation(self, table: TableName) -> str | None:
        definition = self._definition(table)
        return None if definition is None else dict(definition.options).get("COLLATE")

    def _definition(self, table: TableName) -> TableDefinition | None:
        name = dict(self.renamed).get(table, table)
        try:
            return self.tables.tracker.definition(name)
        except KeyError:
            return None
