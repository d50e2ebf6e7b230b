"""What the target has to run for a statement of the source: nothing, or one or several statements about its own tables.

    DROP TABLE a, x.b             ─▶ DROP TABLE IF EXISTS one.a · DROP TABLE IF EXISTS one.b
    RENAME TABLE a TO b, b TO c   ─▶ as it is: what hangs together changes at once; other pairs each on their own
    RENAME TABLE a TO x, b TO a, x TO b
                                  ─▶ RENAME TABLE one.a TO one.x · RENAME TABLE one.b TO one.a, one.x TO one.b
    ALTER TABLE a ADD c text, ALGORITHM=INSTANT
                                  ─▶ ALTER TABLE one.a ADD COLUMN c text CHARACTER SET … COLLATE …
    ALTER TABLE a ENGINE=InnoDB   ─▶ nothing: neither rows nor definitions change

Pure: nothing is asked of a server, so what only a server or the tracker knows comes in as functions (`Way`). The
statements are meant for a session that has the statement's sql_mode, foreign_key_checks=0,
explicit_defaults_for_timestamp=1 and the clock, time zone and auto_increment_increment/offset of the source's session;
`statement_sql` writes them.

What comes here is what is left of a statement for the tables that are migrated: a table that is created comes as the
tracker has it, however it was created, and DROP DATABASE as the tables that it drops.

Who runs them decides about merged tables: to a shard's DROP, TRUNCATE or RENAME of a table that others write to as well
this answers as if it were alone. Where the target has no IF EXISTS in ALTER TABLE, each part of a conditional one is a
statement of its own, of which the target's "exists already" or "is missing" is an answer, and no error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.copyable import NotCopyable
from airflow_provider_dm.engine.ddl.target_alter import altered, one_by_one, unconditional
from airflow_provider_dm.engine.ddl.target_definitions import Carrier, Way
from airflow_provider_dm.engine.mysql.identifiers import TableName


@dataclass(frozen=True)
class ForTarget:
    """Statements for the target, in order. `notes`: differences from the source that a person may want to know."""

    statements: tuple[ddl.Statement, ...] = ()
    notes: tuple[str, ...] = ()


def for_target(statement: ddl.Statement, way: Way) -> ForTarget:
    """Return what the target has to run. Raises NotCopyable, whose text names what cannot be carried over."""
    notes: list[str] = []
    return ForTarget(tuple(_Maker(way, notes).of(statement)), tuple(notes))


@dataclass(frozen=True)
class _Maker:
    way: Way
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
                return ddl.CreateTable(table, self._carrier(source).definition(definition), if_not_exists=True)
            case ddl.DropIndex(_, name, if_exists):
                return ddl.DropIndex(table, name, if_exists and self.way.target_can.conditional_alters)
            case ddl.TruncateTable():
                return ddl.TruncateTable(table)

    def _carrier(self, table: TableName) -> Carrier:
        return Carrier(self.way, table, self.notes)

    def _renames(self, statement: ddl.RenameTables) -> list[ddl.Statement]:
        found = [self._carrier(old).renamed(new) for old, new in statement.pairs]
        ours = [pair for pair in found if pair is not None]
        return [ddl.RenameTables(some) for group in _that_hang_together(ours) for some in _in_steps_that_show(group)]

    def _index(self, statement: ddl.CreateIndex, table: TableName) -> list[ddl.Statement]:
        key = self._carrier(statement.table).key(statement.key)
        if key is None:
            return []
        conditional = self.way.target_can.conditional_alters
        if statement.or_replace and not conditional:
            raise NotCopyable(f"CREATE OR REPLACE of the key {key.name}")
        return [ddl.CreateIndex(table, key, statement.if_not_exists and conditional, statement.or_replace)]

    def _alters(self, statement: ddl.AlterTable) -> list[ddl.Statement]:
        if not self.way.allows(statement.table):
            self._stop_if_it_comes_to_us(statement)
            return []
        table = self.way.route(statement.table)
        specs = altered(statement, self._carrier(statement.table))
        conditional = statement.if_exists and self.way.target_can.conditional_alters
        said = specs if self.way.target_can.conditional_alters else tuple(map(unconditional, specs))
        if self.way.target_can.alters_one_change_at_a_time or said != specs:
            return [ddl.AlterTable(table, (spec,), conditional) for spec in one_by_one(said)]
        return [ddl.AlterTable(table, specs, conditional)] if specs else []

    def _stop_if_it_comes_to_us(self, statement: ddl.AlterTable) -> None:
        comes = next((table for table in statement.tables[1:] if self.way.allows(table)), None)
        if comes is not None:
            raise NotCopyable(f"{statement.table}, which the rules exclude, and which is to become or fill {comes}")


def _that_hang_together(
    pairs: Iterable[tuple[TableName, TableName]],
) -> list[tuple[tuple[TableName, TableName], ...]]:
    """Return the pairs in groups that share no name, each in its order: a swap changes at once or not at all.

    >>> a, b, c, d, e = (TableName("s", name) for name in "abcde")
    >>> [len(group) for group in _that_hang_together([(a, b), (d, e), (c, a)])]
    [2, 1]
    """
    groups: list[list[tuple[int, tuple[TableName, TableName]]]] = []
    for at, pair in enumerate(pairs):
        near = [group for group in groups if any(set(pair) & set(other) for _, other in group)]
        joined = sorted([*(one for group in near for one in group), (at, pair)])
        groups = [group for group in groups if group not in near]
        groups.append(joined)
    return [tuple(pair for _, pair in group) for group in sorted(groups)]


def _in_steps_that_show(
    pairs: tuple[tuple[TableName, TableName], ...],
) -> list[tuple[tuple[TableName, TableName], ...]]:
    """Return the pairs as statements after each of which other names are there than before it.

    Whoever finds a statement begun tells by the names, and by how the tables look, whether it was executed. Of a swap
    of two tables alike nothing would tell, and to do it again is to undo it: so its first pair goes alone, and for a
    moment readers of the target miss a table.

    >>> a, b, c = (TableName("s", name) for name in "abc")
    >>> [len(some) for some in _in_steps_that_show(((a, c), (b, a), (c, b)))]
    [1, 2]
    >>> [len(some) for some in _in_steps_that_show(((a, c), (b, a)))]
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
