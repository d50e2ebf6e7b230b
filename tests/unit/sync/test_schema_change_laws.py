"""Laws of `change_of` for any DDL: what the target executes makes it what the source is, and shows or may be repeated.

    source tables ──statement──▶ source tables
         │ route                      │ route
    target tables ──change_of──▶ target tables

The statements are those that real servers are asked about in tests/integration/ddl; both sides are the engine's model
of tables.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest

from airflow_provider_dm.engine.config.rule_models import BlockAllowConfig, RouteRule
from airflow_provider_dm.engine.ddl.errors import CannotTrack, Unreadable
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import STRICT_ALL_TABLES, Server, SessionDefaults
from airflow_provider_dm.engine.ddl.statements import (
    AlterTable,
    ChangeColumn,
    CreateDatabase,
    RenameColumn,
    RenameTables,
)
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.downstream.ddl_execution import TargetDdl
from airflow_provider_dm.engine.downstream.table_schema import TableSchema
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules
from airflow_provider_dm.engine.sync.ddl.schema_change import change_of
from airflow_provider_dm.engine.sync.ddl.subtask_tables import DdlContext, SchemaChange, SubtaskTables
from airflow_provider_dm.engine.sync.errors import CannotFollow
from tests.integration.ddl.random_ddl import RandomDdl

SERVERS = {Flavour.MYSQL: Server(Flavour.MYSQL, (9, 7, 0)), Flavour.MARIADB: Server(Flavour.MARIADB, (11, 8, 0))}
PAIRS = [(source, target) for source in SERVERS for target in SERVERS]
"""Pairs of a source's and a target's flavour."""
RULES = SubtaskRules(
    BlockAllowRules.from_config(BlockAllowConfig(do_dbs=("shop",)), case_sensitive=True, meta_schema="dm_meta"),
    Router.from_config(
        (RouteRule.model_validate({"schema-pattern": "shop", "target-schema": "one"}),), case_sensitive=True
    ),
)
SESSION = SessionDefaults(sql_mode=STRICT_ALL_TABLES, server_collation="utf8mb4_bin", explicit_timestamp_defaults=True)
STORIES, STATEMENTS = 8, 40


def _changes(source: Flavour, target: Flavour, story: int) -> Iterator[tuple[str, SubtaskTables, SchemaChange]]:
    """Statements that can be followed, each with the tables before it and what it means."""
    tables = SubtaskTables((), Tracker.of(SERVERS[source], {}, {"shop": "utf8mb4_bin"}))
    around = DdlContext(RULES, CAPABILITIES[target], SESSION, "here")
    statements = RandomDdl(story, SERVERS[source], "shop", foreign_keys=False)
    for _ in range(STATEMENTS):
        sql = statements.statement(tables.tracker)
        try:
            change = change_of(parse(sql, STRICT_ALL_TABLES, "shop"), tables, around)
        except (CannotFollow, Unreadable):
            continue
        if not all(map(_is_possible, change.tables.schemas)):
            continue
        yield sql, tables, change
        tables = change.tables


@dataclass(frozen=True)
class Played:
    """A statement that was followed. `steps`: each of the target's, its tables before it, and after it."""

    sql: str
    change: SchemaChange
    steps: tuple[tuple[TargetDdl, Tracker, Tracker], ...]
    there: Tracker
    """The target's tables after it."""


@cache
def _played(source: Flavour, target: Flavour) -> list[Played]:
    return list(_playing(source, target))


def _playing(source: Flavour, target: Flavour) -> Iterator[Played]:
    for story in range(STORIES):
        there = Tracker.of(SERVERS[target], {}, {"one": "utf8mb4_bin"})
        for sql, _, change in _changes(source, target, story):
            steps = []
            try:
                for one in change.statements:
                    before, there = there, _after(there, one)
                    steps.append((one, before, there))
            except CannotTrack as error:
                if "geometry" not in str(error):  # of which no server makes a unique key
                    raise
                break
            yield Played(sql, change, tuple(steps), there)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_the_target_becomes_what_the_source_is(ours: Flavour, theirs: Flavour) -> None:
    followed: Counter[str] = Counter()
    for one in _played(ours, theirs):
        followed[one.sql.split()[0]] += 1
        tracker = one.change.tables.tracker
        names = {TableName("one", name.table): name for name in tracker.names()}
        assert one.there.names() == names.keys(), one.sql
        for routed, name in names.items():
            assert _form(one.there, routed) == _form(tracker, name), one.sql

    assert followed["ALTER"] > 5 * STORIES
    assert followed["CREATE"] > 2 * STORIES


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_a_statement_is_visible_in_the_tables_or_may_be_repeated(ours: Flavour, theirs: Flavour) -> None:
    """A run that resumes after a crash decides by the tables whether to execute it again."""
    for played in _played(ours, theirs):
        for one, before, there in played.steps:
            shows = any(_look(before, name) != _look(there, name) for name in one.tables)
            assert shows or not _moves_values(one.sql), played.sql


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_a_statement_names_every_table_that_it_changes(ours: Flavour, theirs: Flavour) -> None:
    """The journal notes how the tables of a statement looked, and a run that begins after it believes that."""
    for played in _played(ours, theirs):
        for one, before, there in played.steps:
            changed = {name for name in before.names() | there.names() if _look(before, name) != _look(there, name)}
            assert changed <= set(one.tables), played.sql


@pytest.mark.parametrize("flavour", SERVERS)
def test_the_tables_are_those_that_the_statement_leaves(flavour: Flavour) -> None:
    """What rows are read by, where they go, and what DDL is applied to next, belong together."""
    for story in range(STORIES):
        for sql, before, change in _changes(flavour, flavour, story):
            schemas = {one.table.name: one for one in change.tables.schemas}
            assert schemas.keys() == change.tables.tracker.names(), sql
            for name, one in schemas.items():
                assert one.table == change.tables.tracker.table(name), sql
                assert one.target == TableName("one", name.table), sql
            came = {old for old, _ in change.renamed} | set(change.ended)
            assert {one.table.name for one in before.schemas} - schemas.keys() <= came, sql


@pytest.mark.parametrize(
    "sql",
    ["ALTER TABLE t CHANGE a b int, CHANGE b a int FIRST", "ALTER TABLE t RENAME COLUMN a TO b, CHANGE b a int FIRST"],
)
def test_columns_that_change_places_and_names_at_once_are_refused(sql: str) -> None:
    """The table looks as before, and to do it again is to undo it."""
    tracker = Tracker.of(SERVERS[Flavour.MYSQL], {}, {"shop": "utf8mb4_bin"})
    around = DdlContext(RULES, CAPABILITIES[Flavour.MYSQL], SESSION, "here")
    made = change_of(parse("CREATE TABLE t (a int, b int, c int)", 0, "shop"), SubtaskTables((), tracker), around)

    with pytest.raises(CannotFollow, match="swap names"):
        change_of(parse(sql, 0, "shop"), made.tables, around)
    swapped = parse("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a", 0, "shop")
    assert len(change_of(swapped, made.tables, around).statements) == 1


def _after(there: Tracker, one: TargetDdl) -> Tracker:
    """Return what a server makes of it. What was left out before is not there to be dropped: the rest counts."""
    try:
        return _after_sql(there, one.sql)
    except CannotTrack as error:
        if "is not known" not in str(error):
            raise
    for sql in one.parts:
        try:
            there = _after_sql(there, sql)
        except CannotTrack as error:
            if "is not known" not in str(error):
                raise
    return there


def _after_sql(there: Tracker, sql: str) -> Tracker:
    statement = parse(sql, STRICT_ALL_TABLES, "one")
    return there if isinstance(statement, CreateDatabase) else there.after(statement, SESSION)


def _is_possible(schema: TableSchema) -> bool:
    """Return True if a server would let the table be so; the model of tables does not look for what is never logged."""
    names = {column.name.lower() for column in schema.table.columns}
    return len(names) == len(schema.table.columns) > 0


def _look(there: Tracker, name: TableName) -> str | None:
    return there.create_sql(name) if name in there.names() else None


def _moves_values(sql: str) -> bool:
    """Return True if doing it twice is something else than doing it once."""
    match parse(sql, STRICT_ALL_TABLES, "one"):
        case RenameTables():
            return True
        case AlterTable(_, specs):
            return any(
                (isinstance(spec, RenameColumn) and spec.name != spec.to)
                or (isinstance(spec, ChangeColumn) and spec.name != spec.column.name)
                for spec in specs
            )
    return False


def _form(tracker: Tracker, name: TableName) -> tuple[object, ...]:
    """Return the properties that rows depend on, in a common notation: columns in their order, and unique keys."""
    table = tracker.table(name)
    keys = sorted((key.primary, tuple(key.columns)) for key in table.unique_keys)
    return [one.name for one in table.columns], keys
