"""The target's statements for a statement of the source: none, one or several, about the target's tables.

    DROP TABLE a, x.b             ─▶ DROP TABLE IF EXISTS one.a · DROP TABLE IF EXISTS one.b
    RENAME TABLE a TO b, b TO c   ─▶ unchanged: dependent pairs change at once; other pairs run one by one
    RENAME TABLE a TO x, b TO a, x TO b
                                  ─▶ RENAME TABLE one.a TO one.x · RENAME TABLE one.b TO one.a, one.x TO one.b
    ALTER TABLE a ADD c text, ALGORITHM=INSTANT
                                  ─▶ ALTER TABLE one.a ADD COLUMN c text CHARACTER SET … COLLATE …
    ALTER TABLE a ENGINE=InnoDB   ─▶ none: neither rows nor definitions change

Pure: no server is queried; `ConversionContext` has functions for facts that only a server or the tracker knows. The
statements are for a session that has the statement's sql_mode, foreign_key_checks=0, explicit_defaults_for_timestamp=1,
and the clock, time zone and auto_increment_increment/offset of the source's session; `statement_sql` renders them.

The input is the part of a statement that affects migrated tables: a created table is given as the tracker has it,
however it was created, and DROP DATABASE as the tables that it drops.

The caller decides about merged tables: for a shard's DROP, TRUNCATE or RENAME of a shared table the result is the same
as for an unshared table. If the target has no IF EXISTS in ALTER TABLE, each clause of a conditional one becomes a
statement, for which the target's errors "exists already" and "is missing" mean success.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.errors import NotCopyable
from airflow_provider_dm.engine.ddl.expressions import definition_in_mode
from airflow_provider_dm.engine.ddl.if_exists import split_inline_key
from airflow_provider_dm.engine.ddl.target_alter import one_by_one, target_clauses, unconditional
from airflow_provider_dm.engine.ddl.target_definitions import ConversionContext, TableConverter
from airflow_provider_dm.engine.mysql.identifiers import TableName


@dataclass(frozen=True)
class TargetStatements:
    """Statements for the target, in order. `notes`: differences from the source that a user may want to know."""

    statements: tuple[ddl.Statement, ...] = ()
    notes: tuple[str, ...] = ()


def for_target(statement: ddl.Statement, way: ConversionContext) -> TargetStatements:
    """Return the statements that the target has to run. Raises NotCopyable, which names what cannot be converted."""
    notes: list[str] = []
    return TargetStatements(tuple(_Maker(way, notes).of(statement)), tuple(notes))


@dataclass(frozen=True)
class _Maker:
    way: ConversionContext
    notes: list[str]

    def of(self, statement: ddl.Statement) -> list[ddl.Statement]:
        match statement:
            case ddl.DropTables(tables):
                allowed = filter(self.way.allows, tables)
                return [
                    ddl.DropTables((table,), if_exists=True) for table in dict.fromkeys(map(self.way.route, allowed))
                ]
            case ddl.RenameTables():
                return self._renames(statement)
            case ddl.AlterTable():
                return self._alters(statement)
            case ddl.CreateIndex(table):
                return self._index(statement, self.way.route(table)) if self.way.allows(table) else []
            case ddl.CreateTable(table) | ddl.DropIndex(table) | ddl.TruncateTable(table):
                return [self._of_one(statement)] if self.way.allows(table) else []
            case _:
                raise NotCopyable(f"a statement of the kind {type(statement).__name__}")

    def _of_one(self, statement: ddl.CreateTable | ddl.DropIndex | ddl.TruncateTable) -> ddl.Statement:
        table = self.way.route(statement.table)
        match statement:
            case ddl.CreateTable(source, definition):
                definition = definition_in_mode(definition, self.way.sql_mode)
                return ddl.CreateTable(table, self._carrier(source).definition(definition), if_not_exists=True)
            case ddl.DropIndex(_, name, if_exists):
                return ddl.DropIndex(table, name, if_exists and self.way.target_can.conditional_alters)
            case ddl.TruncateTable():
                return ddl.TruncateTable(table)

    def _carrier(self, table: TableName) -> TableConverter:
        return TableConverter(self.way, table, self.notes)

    def _renames(self, statement: ddl.RenameTables) -> list[ddl.Statement]:
        found = [self._carrier(old).renamed(new) for old, new in statement.pairs]
        ours = [pair for pair in found if pair is not None]
        return [ddl.RenameTables(some) for group in _dependent_pairs(ours) for some in _in_visible_steps(group)]

    def _index(self, statement: ddl.CreateIndex, table: TableName) -> list[ddl.Statement]:
        key = self._carrier(statement.table).key(statement.key)
        conditional = self.way.target_can.conditional_alters
        replaces = statement.or_replace and conditional
        made = [ddl.CreateIndex(table, key, statement.if_not_exists and conditional, replaces)] if key else []
        if statement.or_replace and not replaces:
            assert statement.key.name is not None
            return [ddl.DropIndex(table, statement.key.name), *made]
        return list(made)

    def _alters(self, statement: ddl.AlterTable) -> list[ddl.Statement]:
        if not self.way.allows(statement.table):
            self._refuse_if_it_fills_a_migrated_table(statement)
            return []
        table = self.way.route(statement.table)
        specs = target_clauses(statement, self._carrier(statement.table))
        conditional = statement.if_exists and self.way.target_can.conditional_alters
        written = specs if self.way.target_can.conditional_alters else tuple(map(unconditional, specs))
        if self.way.target_can.alters_one_change_at_a_time:
            written = tuple(part for spec in written for part in _single_changes(spec))
        if self.way.target_can.alters_one_change_at_a_time or written != specs:
            return [ddl.AlterTable(table, (spec,), conditional) for spec in one_by_one(written)]
        return [ddl.AlterTable(table, specs, conditional)] if specs else []

    def _refuse_if_it_fills_a_migrated_table(self, statement: ddl.AlterTable) -> None:
        migrated = next((table for table in statement.tables[1:] if self.way.allows(table)), None)
        if migrated is not None:
            raise NotCopyable(f"{statement.table}, which the rules exclude, and which becomes or fills {migrated}")


def _single_changes(spec: ddl.Spec) -> tuple[ddl.Spec, ...]:
    """Split a UNIQUE key from its column. A primary key stays: TiDB could refuse it after it has added the column."""
    inline = isinstance(spec, ddl.AddColumn | ddl.ChangeColumn) and spec.column.key is ddl.KeyKind.UNIQUE
    return split_inline_key(spec) if inline else (spec,)


def _dependent_pairs(pairs: Iterable[tuple[TableName, TableName]]) -> list[tuple[tuple[TableName, TableName], ...]]:
    """Group pairs that share a name, each group in its order: a swap of names has to change at once.

    >>> a, b, c, d, e = (TableName("s", name) for name in "abcde")
    >>> [len(group) for group in _dependent_pairs([(a, b), (d, e), (c, a)])]
    [2, 1]
    """
    groups: list[list[tuple[int, tuple[TableName, TableName]]]] = []
    for at, pair in enumerate(pairs):
        near = [group for group in groups if any(set(pair) & set(other) for _, other in group)]
        joined = sorted([*(one for group in near for one in group), (at, pair)])
        groups = [group for group in groups if group not in near]
        groups.append(joined)
    return [tuple(pair for _, pair in group) for group in sorted(groups)]


def _in_visible_steps(pairs: tuple[tuple[TableName, TableName], ...]) -> list[tuple[tuple[TableName, TableName], ...]]:
    """Split the pairs into statements that each change the set of existing names.

    After a crash, the names and the tables' definitions show whether a statement was executed. A swap of two identical
    tables would leave no trace, and repeating it would undo it. So its first pair is a statement of its own, and for a
    moment a table is missing for readers of the target.

    >>> a, b, c = (TableName("s", name) for name in "abc")
    >>> [len(some) for some in _in_visible_steps(((a, c), (b, a), (c, b)))]
    [1, 2]
    >>> [len(some) for some in _in_visible_steps(((a, c), (b, a)))]
    [2]
    """
    before: set[TableName] = set()
    after: set[TableName] = set()
    for old, new in pairs:
        if old not in after:
            before.add(old)
        after.discard(old)
        after.add(new)
    return [pairs[:1], pairs[1:]] if before == after else [pairs]
