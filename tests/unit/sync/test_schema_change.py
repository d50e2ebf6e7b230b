"""The effect of one statement on a subtask: its tables afterwards, and the statements for the target."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from airflow_provider_dm.engine.config.rule_models import BlockAllowConfig, FilterRule, RouteRule
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import Server, SessionDefaults
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.downstream.table_schema import TableSchema
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.event_filter import EventFilter
from airflow_provider_dm.engine.rules.online_ddl.memory import LoggedText
from airflow_provider_dm.engine.rules.online_ddl.outcomes import RealChange
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules
from airflow_provider_dm.engine.sync.ddl.schema_change import change_by_hand, change_of, repeated
from airflow_provider_dm.engine.sync.ddl.subtask_tables import DdlContext, SchemaChange, SubtaskTables
from airflow_provider_dm.engine.sync.errors import (
    CannotFollow,
    DefinitionDiffers,
    NeedsAgreement,
    RefusedByFilter,
    RoutedElsewhere,
    ValuesDiffer,
)

MYSQL = Server(Flavour.MYSQL, (9, 7, 0))
MARIADB = Server(Flavour.MARIADB, (10, 11, 0))
DEFINITIONS = {
    "a": "CREATE TABLE a (id int PRIMARY KEY, v varchar(20)) DEFAULT CHARSET=latin1",
    "b": "CREATE TABLE b (id int PRIMARY KEY) DEFAULT CHARSET=latin1",
    "part_1": "CREATE TABLE part_1 (id int PRIMARY KEY) DEFAULT CHARSET=latin1",
    "part_2": "CREATE TABLE part_2 (id int PRIMARY KEY) DEFAULT CHARSET=latin1",
}
ROUTES = (
    RouteRule.model_validate({"schema-pattern": "shop", "target-schema": "one"}),
    RouteRule.model_validate(
        {"schema-pattern": "shop", "table-pattern": "part_*", "target-schema": "one", "target-table": "parts"}
    ),
)
RULES = SubtaskRules(
    BlockAllowRules.from_config(
        BlockAllowConfig(do_dbs=("shop",), ignore_tables=({"db-name": "shop", "tbl-name": "ex_*"},)),  # type: ignore[arg-type]
        case_sensitive=False,
        meta_schema="dm_meta",
    ),
    Router.from_config(ROUTES, case_sensitive=False),
)
HERE = "here"


def named(table: str) -> TableName:
    return TableName("shop", table)


def tables(*names: str, server: Server = MYSQL, skip_until: str = "") -> SubtaskTables:
    definitions = {named(name): DEFINITIONS[name] for name in names}
    tracker = Tracker.of(server, definitions, {"shop": "latin1_swedish_ci"})
    schemas = (TableSchema(tracker.table(one), RULES.router.route(one), skip_until) for one in definitions)
    return SubtaskTables(tuple(sorted(schemas, key=lambda one: one.table.name)), tracker)


AROUND = DdlContext(RULES, CAPABILITIES[Flavour.MYSQL], SessionDefaults(), HERE)


def change(sql: str, known: SubtaskTables, around: DdlContext = AROUND) -> SchemaChange:
    return change_of(parse(sql, 0, "shop"), known, around)


def sql_of(found: SchemaChange) -> list[str]:
    return [one.sql.replace("`", "") for one in found.statements]


def names_of(found: SchemaChange) -> list[str]:
    return [one.table.name.table for one in found.tables.schemas]


def test_clauses_that_if_exists_skips_at_the_source_are_not_executed() -> None:
    """MariaDB evaluates IF EXISTS for a column and its inline key separately; MySQL has no IF EXISTS."""
    known = tables("a", server=Server(Flavour.MARIADB, (11, 8, 0)))

    found = change("ALTER TABLE a ADD UNIQUE KEY v (v)", known)
    found = change("ALTER TABLE a ADD COLUMN IF NOT EXISTS v int, MODIFY IF EXISTS v int UNIQUE", found.tables)

    assert sql_of(found) == ["ALTER TABLE one.a MODIFY COLUMN v int ( 11 ) NULL"]


def test_rows_are_renumbered_only_if_the_target_has_exactly_these_rows() -> None:
    sql = "ALTER TABLE a ADD n int AUTO_INCREMENT UNIQUE"

    assert sql_of(change(sql, tables("a")))
    with pytest.raises(CannotFollow, match="whose order only the source knows"):
        change(sql, tables("a"), replace(AROUND, overwrites=True))


def test_a_default_set_by_the_new_name_of_a_column_is_applied() -> None:
    known = tables("a", server=Server(Flavour.MARIADB, (11, 8, 0)))

    found = change("ALTER TABLE a CHANGE v w int FIRST, ALTER w SET DEFAULT 7", known)

    assert sql_of(found) == ["ALTER TABLE one.a CHANGE COLUMN v w int ( 11 ) NULL DEFAULT 7 FIRST"]
    assert found.tables.tracker.definition(named("a")).columns[0].default == "7"


def test_a_new_table_joins_the_task() -> None:
    found = change("CREATE TABLE c (id int PRIMARY KEY)", tables("a"))

    assert names_of(found) == ["a", "c"]
    assert [sql.split("(")[0] for sql in sql_of(found)] == [
        "CREATE DATABASE IF NOT EXISTS one CHARACTER SET latin1 COLLATE latin1_swedish_ci",
        "CREATE TABLE IF NOT EXISTS one.c ",
    ]


def test_renaming_an_unknown_table_is_ignored_as_it_may_be_temporary() -> None:
    """MariaDB logs that; its IF EXISTS may be about nothing. An excluded table has rows that would be missing."""
    for sql in ("RENAME TABLE x TO y, a TO c", "RENAME TABLE IF EXISTS x TO y, y TO z, a TO c"):
        found = change(sql, tables("a", server=MARIADB))
        assert (sql_of(found), names_of(found)) == (["RENAME TABLE one.a TO one.c"], ["c"])
    with pytest.raises(CannotFollow, match="its rows are missing"):
        change("RENAME TABLE ex_a TO y", tables("a", server=MARIADB))
    with pytest.raises(CannotFollow, match="its rows are missing"):
        change("RENAME TABLE x TO y", tables("a"))


def test_tables_change_places_in_two_steps_each_of_which_shows() -> None:
    found = change("RENAME TABLE a TO x, b TO a, x TO b", tables("a", "b"))

    assert sql_of(found) == ["RENAME TABLE one.a TO one.x", "RENAME TABLE one.b TO one.a, one.x TO one.b"]
    assert found.renamed == ((named("a"), named("x")), (named("b"), named("a")), (named("x"), named("b")))
    assert [len(one.table.columns) for one in found.tables.schemas] == [1, 2]


def test_a_dropped_table_ends_and_others_of_the_statement_do_not_matter() -> None:
    found = change("DROP TABLE a, ex_1, other.t", tables("a", "b"))

    assert (sql_of(found), names_of(found), found.ended) == (["DROP TABLE IF EXISTS one.a"], ["b"], (named("a"),))


def test_ddl_before_the_location_of_a_copied_table_is_ignored() -> None:
    copied = tables("a", skip_until="later")

    for sql in ("ALTER TABLE a ADD c int", "TRUNCATE a", "DROP TABLE a", "CREATE TABLE a (id int)"):
        assert change(sql, copied) == SchemaChange(copied)


@pytest.mark.parametrize(
    "sql",
    ["ALTER TABLE part_1 ADD c int", "TRUNCATE part_1", "RENAME TABLE part_1 TO p", "CREATE INDEX i ON part_1 (id)"],
)
def test_a_shard_does_not_alter_the_merged_table_alone(sql: str) -> None:
    refusal = RoutedElsewhere if sql.startswith("RENAME") else NeedsAgreement
    with pytest.raises(refusal):
        change(sql, tables("part_1", "part_2"))
    with pytest.raises(refusal):
        change(sql, tables("part_1"), replace(AROUND, fed_elsewhere=frozenset({TableName("one", "parts")})))


def test_shards_are_added_removed_and_renamed() -> None:
    known = tables("part_1", "part_2")

    assert sql_of(change("DROP TABLE part_1", known)) == []
    assert sql_of(change("RENAME TABLE part_1 TO part_3", known)) == []
    created = change("CREATE TABLE part_9 (id int PRIMARY KEY)", known)
    assert names_of(created) == ["part_1", "part_2", "part_9"]
    assert not any("part" in sql for sql in sql_of(created))


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("ALTER TABLE ex_1 RENAME TO c", "unknown"),
        ("RENAME TABLE ex_1 TO c", "its rows are missing"),
        ("RENAME TABLE a TO ex_1", "not a table of the task"),
        ("ALTER TABLE c ADD d int", "unknown"),
        ("CREATE TABLE a (id int)", "already exists"),
        ("CREATE TABLE c LIKE ex_1", "unknown"),
        ("ALTER TABLE a ENGINE=MyISAM", "MyISAM"),
        ("ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b", "rows move"),
        ("ALTER TABLE a IMPORT TABLESPACE", "tablespace"),
        ("ALTER TABLE a DROP COLUMN nothing", "nothing"),
    ],
)
def test_ddl_that_cannot_be_followed_has_a_reason(sql: str, why: str) -> None:
    with pytest.raises(CannotFollow, match=why):
        change(sql, tables("a", "b"))


def test_names_are_those_that_the_server_keeps() -> None:
    known = tables("a", server=replace(MYSQL, lower_case_table_names=1))

    found = change("ALTER TABLE SHOP.A ADD c int, RENAME TO Shop.C", known)

    assert (names_of(found), found.renamed) == (["c"], ((named("a"), named("c")),))


def test_rows_after_a_skipped_statement_are_read_by_its_definition() -> None:
    original = parse("ALTER TABLE a ADD c int", 0, "shop")

    skipped = change_by_hand(original, (), tables("a"), AROUND)
    assert sql_of(skipped) == []
    assert len(skipped.tables.schemas[0].table.columns) == 3

    instead = (parse("ALTER TABLE shop.a ADD c bigint", 0, ""),)
    assert sql_of(change_by_hand(original, instead, tables("a"), AROUND)) == [
        "ALTER TABLE one.a ADD COLUMN c bigint NULL"
    ]


def test_ddl_that_the_target_cannot_have_is_followed_if_a_user_skips_it() -> None:
    original = parse("ALTER TABLE a ADD c int, ENGINE=MyISAM", 0, "shop")
    skipped = change_by_hand(original, (), tables("a"), AROUND)
    assert len(skipped.tables.schemas[0].table.columns) == 3
    assert sql_of(change("ALTER TABLE a DROP COLUMN c", skipped.tables)) == ["ALTER TABLE one.a DROP COLUMN c"]


def test_replacing_statements_see_the_results_of_earlier_ones() -> None:
    instead = [
        parse(sql, 0, "shop")
        for sql in ("CREATE TABLE c (id int)", "ALTER TABLE c ADD k int", "CREATE INDEX k ON c (k)", "DROP TABLE a")
    ]
    found = change_by_hand(parse("ALTER TABLE a ADD c int", 0, "shop"), instead, tables("a"), AROUND)
    assert [one.split(" ", 2)[0] for one in sql_of(found)][1:] == ["CREATE", "ALTER", "CREATE", "DROP"]
    assert names_of(found) == ["a"]  # the source's are those of its own statement


def test_a_skipped_unreadable_statement_removes_the_tables_model() -> None:
    skipped = change_by_hand(parse("ALTER TABLE a DROP COLUMN nothing", 0, "shop"), (), tables("a"), AROUND)

    assert skipped.tables.tracker.names() == frozenset()
    assert names_of(skipped) == ["a"]
    with pytest.raises(DefinitionDiffers):
        change("ALTER TABLE a ADD d int", skipped.tables)
    with pytest.raises(CannotFollow) as raised:  # of a table that the task does not have, a definition is not enough
        change("ALTER TABLE c ADD d int", skipped.tables)
    assert not isinstance(raised.value, DefinitionDiffers)


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("ALTER TABLE a ADD KEY kc (c), ADD c int", ["ADD COLUMN", "ADD KEY"]),
        ("ALTER TABLE a ADD PRIMARY KEY (v), DROP PRIMARY KEY", ["DROP PRIMARY", "ADD PRIMARY"]),
        ("ALTER TABLE a RENAME COLUMN id TO v, RENAME COLUMN v TO id", []),
    ],
    ids=["keys behind columns", "drops first", "a swap"],
)
def test_parts_are_in_an_executable_order_or_there_are_none(sql: str, parts: list[str]) -> None:
    (one,) = change(sql, tables("a")).statements

    actions = [" ".join(part.replace("`", "").removeprefix("ALTER TABLE one.a ").split()[:2]) for part in one.parts]
    assert (actions, one.divisible) == (parts, bool(parts))


@pytest.mark.parametrize("sql", ["RENAME TABLE a TO c", "ALTER TABLE a RENAME TO c, ADD d int"])
def test_a_statement_lists_its_renames(sql: str) -> None:
    (one,) = change(sql, tables("a")).statements

    assert one.renames == ((TableName("one", "a"), TableName("one", "c")),)


# The binlog event filter


def filtered(*rules: dict[str, object], sql: str = "") -> DdlContext:
    events = EventFilter.from_config(map(FilterRule.model_validate, rules), case_sensitive=False)
    return replace(AROUND, rules=replace(RULES, events=events), sql=sql)


def ignoring(*events: str, **more: object) -> DdlContext:
    return filtered({"schema-pattern": "shop", "events": events, "action": "Ignore", **more})


def test_a_filtered_clause_changes_only_the_model_of_the_source() -> None:
    found = change("ALTER TABLE a ADD c int, DROP COLUMN v", tables("a"), ignoring("drop column"))

    assert sql_of(found) == ["ALTER TABLE one.a ADD COLUMN c int NULL"]
    assert [column.name for column in found.tables.schemas[0].table.columns] == ["id", "c"]
    assert found.notes == ("a filter rule skips: drop column of shop.a",)


def test_a_filtered_statement_is_still_followed_by_the_model() -> None:
    found = change("ALTER TABLE a MODIFY v varchar(9)", tables("a"), ignoring("value range decrease"))

    assert sql_of(found) == []
    assert found.tables.schemas[0].table.columns[1].column_type == "varchar(9)"


@pytest.mark.parametrize(
    "sql", ["DROP TABLE a", "TRUNCATE TABLE a", "DROP DATABASE shop", "CREATE OR REPLACE TABLE a (id int)"]
)
def test_ddl_that_would_remove_rows_can_be_excluded(sql: str) -> None:
    around = ignoring("drop table", "truncate table", "drop database", "create table")
    found = change(sql, tables("a", server=MARIADB), around)

    assert sql_of(found) == []


def test_each_table_of_a_statement_is_filtered_separately() -> None:
    around = filtered({"schema-pattern": "shop", "table-pattern": "b", "events": ["drop table"], "action": "Ignore"})
    found = change("DROP TABLE a, b", tables("a", "b"), around)

    assert (sql_of(found), names_of(found)) == (["DROP TABLE IF EXISTS one.a"], [])


def test_dropping_a_schema_is_not_dropping_tables() -> None:
    assert sql_of(change("DROP DATABASE shop", tables("a"), ignoring("drop table"))) == ["DROP TABLE IF EXISTS one.a"]


def test_a_merged_table_needs_no_agreement_about_what_is_left_out() -> None:
    """DM's own advice for archives of shards: no DROP, no TRUNCATE, no DELETE."""
    known = tables("part_1", "part_2")
    with pytest.raises(NeedsAgreement):
        change("TRUNCATE TABLE part_1", known)
    assert sql_of(change("TRUNCATE TABLE part_1", known, ignoring("truncate table"))) == []
    assert sql_of(change("ALTER TABLE part_1 ADD c int", known, ignoring("all ddl"))) == []


def test_an_error_stops_with_its_name() -> None:
    around = filtered({"schema-pattern": "*", "events": ["incompatible ddl changes"], "action": "Error"})
    with pytest.raises(RefusedByFilter, match=r"drop column of shop\.a"):
        change("ALTER TABLE a ADD c int, DROP COLUMN v", tables("a"), around)


def test_a_text_decides_about_the_whole_statement() -> None:
    around = filtered({"schema-pattern": "*", "sql-pattern": ["add .* `?c`? int"], "action": "Ignore"},
                      sql=" ALTER TABLE a ADD COLUMN `c` int, DROP COLUMN v")  # fmt: skip
    found = change(around.sql, tables("a"), around)

    assert sql_of(found) == []


def test_a_users_decision_overrides_the_filter() -> None:
    around = filtered({"schema-pattern": "*", "events": ["all ddl"], "action": "Error"})
    statement = parse("ALTER TABLE a ADD c int", 0, "shop")
    found = change_by_hand(statement, (parse("ALTER TABLE a ADD d int", 0, "shop"),), tables("a"), around)

    assert sql_of(found) == ["ALTER TABLE one.a ADD COLUMN d int NULL"]
    assert [column.name for column in found.tables.schemas[0].table.columns] == ["id", "v", "c"]


def test_filters_apply_to_the_changes_of_an_online_ddl_tool() -> None:
    texts = ("ALTER TABLE a ADD c int", "ALTER TABLE a DROP COLUMN v")
    changes = [RealChange(parse(one, 0, "shop"), LoggedText(one, 0, "shop")) for one in texts]  # type: ignore[arg-type]
    found = repeated(changes, tables("a"), ignoring("drop column"))

    assert sql_of(found) == ["ALTER TABLE one.a ADD COLUMN c int NULL"]


UNLIKE = replace(AROUND, unlike="MySQL 9.7 at the source and MariaDB 10.11 in the target", agreeing=True)


def test_a_merged_table_is_not_altered_where_servers_convert_rows_differently() -> None:
    shards = tables("part_1", "part_2")
    with pytest.raises(ValuesDiffer, match="`id` becomes date"):
        change("ALTER TABLE part_1 MODIFY id date", shards, UNLIKE)
    assert change("ALTER TABLE part_1 MODIFY id bigint", shards, UNLIKE).agreed == named("part_1")


def test_an_omitted_conversion_does_not_stop_the_sync() -> None:
    """The rows of a column that the filter keeps as it is are not converted."""
    filters = ignoring("value range decrease", "modify column")
    around = replace(UNLIKE, rules=filters.rules)
    assert sql_of(change("ALTER TABLE a MODIFY v int", tables("a"), around)) == []
    with pytest.raises(ValuesDiffer):
        change("ALTER TABLE a MODIFY v int", tables("a"), UNLIKE)


def test_a_generated_column_is_added_if_the_target_computes_equal_values() -> None:
    into_tidb = replace(UNLIKE, target=CAPABILITIES[Flavour.TIDB])
    with pytest.raises(ValuesDiffer, match="`c` is computed for existing rows"):
        change("ALTER TABLE a ADD c int AS (id / 3)", tables("a"), into_tidb)
    with pytest.raises(ValuesDiffer, match="of `c` has more decimals"):
        change("ALTER TABLE a ADD c datetime DEFAULT '2020-01-01 00:00:00.5'", tables("a"), into_tidb)
    for around, expression in ((into_tidb, "(`id` + 1) * id"), (UNLIKE, "id / 3")):
        assert len(sql_of(change(f"ALTER TABLE a ADD c int AS ({expression})", tables("a"), around))) == 1
    fits = "ALTER TABLE a ADD c datetime(3) DEFAULT '2020-01-01 00:00:00.500000'"
    assert len(sql_of(change(fits, tables("a"), into_tidb))) == 1


@pytest.mark.parametrize(
    ("partitions", "follows"),
    [("KEY (id) PARTITIONS 2", False), ("LIST COLUMNS (v) (PARTITION p VALUES IN ('a'))", False),
     ("RANGE (id) (PARTITION p VALUES LESS THAN (9))", True)],
)  # fmt: skip
def test_partitions_lose_their_rows_where_the_target_has_the_same_in_them(partitions: str, follows: bool) -> None:
    into_tidb = replace(UNLIKE, target=CAPABILITIES[Flavour.TIDB], agreeing=False)
    created = change(f"CREATE TABLE p (id int, v varchar(9)) PARTITION BY {partitions}", tables("a"), into_tidb)
    with nullcontext() if follows else pytest.raises(ValuesDiffer, match="lose their rows"):
        change("ALTER TABLE p TRUNCATE PARTITION p", created.tables, into_tidb)


def test_a_column_with_the_name_of_a_dropped_column_is_new() -> None:
    found = change("ALTER TABLE a DROP COLUMN v, ADD COLUMN v int", tables("a"), UNLIKE)
    assert len(sql_of(found)) == 1
    with pytest.raises(ValuesDiffer, match="`v` becomes int, and was varchar"):
        change("ALTER TABLE a RENAME COLUMN id TO i, CHANGE v v int", tables("a"), UNLIKE)


def test_a_users_decision_converts_rows() -> None:
    statement = parse("ALTER TABLE a MODIFY v int", 0, "shop")
    found = change_by_hand(statement, (statement,), tables("a"), UNLIKE)
    assert sql_of(found) == ["ALTER TABLE one.a MODIFY COLUMN v int NULL"]
