"""What the target has to run for a statement of the source: nothing, or one or several statements about its own tables.

    DROP TABLE a, x.b             ─▶ DROP TABLE IF EXISTS one.a · DROP TABLE IF EXISTS one.b
    RENAME TABLE a TO b, b TO c   ─▶ as it is: what hangs together changes at once; other pairs each on their own
    RENAME TABLE a TO x, b TO a, x TO b
                                  ─▶ RENAME TABLE one.a TO one.x · RENAME TABLE one.b TO one.a, one.x TO one.b
    ALTER TABLE a ADD c text, ALGORITHM=INSTANT
                                  ─▶ ALTER TABLE one.a ADD COLUMN c text CHARACTER SET … COLLATE …
    ALTER TABLE a ENGINE=InnoDB   ─▶ nothing: neither rows nor definitions change

Pure: nothing is asked of a server, so what only a server or the tracker knows comes in as functions. The statements are
meant for a session that has the statement's sql_mode, foreign_key_checks=0, explicit_defaults_for_timestamp=1 and the
clock, time zone and auto_increment_increment/offset of the source's session; `statement_sql` writes them.

Who runs them decides about merged tables: to a shard's DROP, TRUNCATE or RENAME of a table that others write to as well
this answers as if it were alone. Where the target has no IF EXISTS in ALTER TABLE, each part of a conditional one is a
statement of its own, of which the target's "exists already" or "is missing" is an answer, and no error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from airflow_provider_dm.engine.ddl.copyable import NotCopyable
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
    PassedOver,
    RenameTables,
    Statement,
    TruncateTable,
)
from airflow_provider_dm.engine.ddl.target_alter import altered, one_by_one, unconditional
from airflow_provider_dm.engine.ddl.target_definitions import Carrier, Way
from airflow_provider_dm.engine.mysql.capabilities import Capabilities
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName


@dataclass(frozen=True)
class ForTarget:
    """Statements for the target, in order. `notes`: differences from the source that a person may want to know."""

    statements: tuple[Statement, ...] = ()
    notes: tuple[str, ...] = ()


def for_target(
    statement: Statement,
    *,
    sql_mode: int,
    source: Flavour,
    target: Capabilities,
    route: Callable[[TableName], TableName],
    route_schema: Callable[[str], str | None],
    allows: Callable[[TableName], bool],
    resolve: Callable[[TableName, str], ColumnDefinition | None],
    collation: Callable[[TableName], str | None] = lambda _: None,
    has_primary_key: Callable[[TableName], bool] = lambda _: False,
    tables: Collection[TableName] = (),
    cascades_are_logged: bool = False,
    strict_collations: bool = False,
) -> ForTarget:
    """Return what the target has to run. Raises NotCopyable, whose text names what cannot be carried over.

    `route_schema`: None for a schema that the rules exclude. `resolve`: a column as the source has it behind the
    statement, by the table's name before it; `collation`: that table's default. `has_primary_key`: before the
    statement. `tables`: those that the source has, for DROP DATABASE. `cascades_are_logged`: the source's log has the
    rows that its foreign keys change. `strict_collations`: none is replaced by its nearest.
    """
    way = Way(
        sql_mode, source, target.flavour, route, allows, resolve, collation, cascades_are_logged, strict_collations
    )
    notes: list[str] = []
    maker = _Maker(way, target, notes, route_schema, has_primary_key, tuple(tables))
    return ForTarget(tuple(maker.of(statement)), tuple(notes))


@dataclass(frozen=True)
class _Maker:
    way: Way
    target: Capabilities
    notes: list[str]
    route_schema: Callable[[str], str | None]
    has_primary_key: Callable[[TableName], bool]
    tables: tuple[TableName, ...]

    def of(self, statement: Statement) -> Iterable[Statement]:
        match statement:
            case PassedOver():
                return []
            case DropTables():
                return self._drops(statement)
            case RenameTables():
                return self._renames(statement)
            case CreateDatabase() | AlterDatabase() | DropDatabase():
                return self._of_schema(statement)
            case AlterTable():
                return self._alters(statement)
            case _ if not self.way.allows(statement.table):
                return []
            case CreateTable(table, definition):
                made = CreateTable(self.way.route(table), self._carrier(table).definition(definition))
                return self._created(made, or_replace=statement.or_replace)
            case CreateTableLike():
                return self._like(statement)
            case CreateIndex():
                return self._index(statement)
            case DropIndex(table, name, if_exists):
                return [DropIndex(self.way.route(table), name, if_exists and self.target.conditional_alters)]
            case TruncateTable(table):
                return [TruncateTable(self.way.route(table))]
            case CreateTableSelect(table):
                raise NotCopyable(f"the table {table} by a query, which only the source can answer")
            case CreateSequence(table) | AlterSequence(table):
                raise NotCopyable(f"the sequence {table}")

    def _carrier(self, table: TableName) -> Carrier:
        return Carrier(self.way, table, self.notes)

    # Schemas

    def _of_schema(self, statement: CreateDatabase | AlterDatabase | DropDatabase) -> list[Statement]:
        schema = self.route_schema(statement.name)
        if schema is None:
            return []
        carrier = self._carrier(TableName(statement.name, ""))
        match statement:
            case CreateDatabase(name, options, _, or_replace):
                dropped = self._emptied(name) if or_replace else []
                return [*dropped, CreateDatabase(schema, carrier.database_options(options), if_not_exists=True)]
            case AlterDatabase(_, options):
                kept = carrier.database_options(options)
                return [AlterDatabase(schema, kept)] if kept else []
            case DropDatabase(name):
                self.notes.append(f"the schema {schema} stays, without the tables that came from {name}")
                return self._emptied(name)

    def _emptied(self, schema: str) -> list[Statement]:
        """Drop the schema's tables and not the schema: what others keep in the target's is not ours to drop."""
        within = [table for table in self.tables if table.schema.casefold() == schema.casefold()]
        return self._drops(DropTables(tuple(within)))

    # Tables as a whole

    def _created(self, made: CreateTable, *, or_replace: bool) -> list[Statement]:
        if not or_replace:
            return [replace(made, if_not_exists=True)]
        if self.way.target is Flavour.MARIADB:
            return [replace(made, or_replace=True)]
        return [DropTables((made.table,), if_exists=True), made]

    def _like(self, statement: CreateTableLike) -> list[Statement]:
        table, like = self.way.route(statement.table), statement.like
        if not self.way.allows(like):
            raise NotCopyable(f"LIKE {like}, which the rules exclude")
        like = self.way.route(like)
        if like == table:
            self.notes.append(f"{statement.table} is merged into {table}, which is there")
            return []
        if not statement.or_replace:
            return [CreateTableLike(table, like, if_not_exists=True)]
        if self.way.target is Flavour.MARIADB:
            return [CreateTableLike(table, like, or_replace=True)]
        return [DropTables((table,), if_exists=True), CreateTableLike(table, like)]

    def _drops(self, statement: DropTables) -> list[Statement]:
        allowed = [table for table in statement.tables if self.way.allows(table)]
        if allowed and statement.sequences:
            raise NotCopyable(f"the sequence {allowed[0]}")
        return [DropTables((table,), if_exists=True) for table in dict.fromkeys(map(self.way.route, allowed))]

    def _renames(self, statement: RenameTables) -> list[Statement]:
        found = [self._carrier(old).renamed(new) for old, new in statement.pairs]
        ours = [pair for pair in found if pair is not None]
        if statement.if_exists:  # a pair that is missing takes no other with it
            return [RenameTables((pair,), self.target.conditional_alters) for pair in ours]
        return [RenameTables(some) for group in _that_hang_together(ours) for some in _in_steps_that_show(group)]

    # What is in a table

    def _index(self, statement: CreateIndex) -> list[Statement]:
        key = self._carrier(statement.table).key(statement.key)
        if statement.or_replace and not self.target.conditional_alters:
            raise NotCopyable(f"CREATE OR REPLACE of the key {key.name}")
        made = CreateIndex(self.way.route(statement.table), key, statement.if_not_exists, statement.or_replace)
        return [made if self.target.conditional_alters else replace(made, if_not_exists=False)]

    def _alters(self, statement: AlterTable) -> list[Statement]:
        if not self.way.allows(statement.table):
            self._stop_if_it_comes_to_us(statement)
            return []
        table = self.way.route(statement.table)
        specs = altered(statement, self._carrier(statement.table), has_primary_key=self.has_primary_key)
        conditional = statement.if_exists and self.target.conditional_alters
        said = specs if self.target.conditional_alters else tuple(map(unconditional, specs))
        if self.target.alters_one_change_at_a_time or said != specs:
            return [AlterTable(table, (spec,), conditional) for spec in one_by_one(said)]
        return [AlterTable(table, specs, conditional)] if specs else []

    def _stop_if_it_comes_to_us(self, statement: AlterTable) -> None:
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
