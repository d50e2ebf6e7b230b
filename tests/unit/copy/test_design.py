"""Decisions of a copy before it begins: the target of each table, the tables to create, and reasons to refuse."""

from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import replace

import pytest

from airflow_provider_dm.engine.config.task import SubtaskConfig, TaskConfig
from airflow_provider_dm.engine.copy.design import LARGE_ROWS, MOST_ROWS, MOST_SCANNED, design
from airflow_provider_dm.engine.copy.errors import TargetNotEmpty
from airflow_provider_dm.engine.ddl.create_like import NewTable
from airflow_provider_dm.engine.downstream.errors import NoTargetTable
from airflow_provider_dm.engine.errors import DmError, NotSupportedYet
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.survey import SourceSurvey, SourceTable, TargetSurvey
from airflow_provider_dm.engine.rules.errors import TargetKeyNotKept, TargetTableMismatch
from airflow_provider_dm.engine.rules.kept_keys import check_keys_kept
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.errors import UnsupportedColumnType
from airflow_provider_dm.engine.schema.model import Column, Index, Table

ALL = TableName("all", "orders")
PRIMARY = Index("PRIMARY", ("id",))
EMAIL = Index("email", ("email",))


def table(name: TableName, *keys: Index, columns: str = "id email") -> Table:
    """A table of BIGINT columns, none of which is NULL."""
    described = (Column(one, at, "bigint", "bigint", nullable=False) for at, one in enumerate(columns.split()))
    return Table(name, tuple(described), keys)


def source_table(schema: str = "shop", *keys: Index, target: TableName = ALL, rows: int = 10) -> SourceTable:
    keys = keys or (PRIMARY,)
    key_lines = "".join(f", {'PRIMARY KEY' if key.primary else f'UNIQUE KEY {key.name}'} (id)" for key in keys)
    create = f"CREATE TABLE `orders` (`id` bigint NOT NULL, `email` bigint NOT NULL{key_lines}) ENGINE=InnoDB"
    return SourceTable(table(TableName(schema, "orders"), *keys), target, rows, "utf8mb4_bin", create)


def survey(source_id: str, *tables: SourceTable) -> SourceSurvey:
    return SourceSurvey(source_id, Flavour.MARIADB, "9f2c", tables, {})


def there(*tables: Table, filled: Collection[TableName] = ()) -> TargetSurvey:
    return TargetSurvey(Flavour.MARIADB, {one.name: one for one in tables}, frozenset(filled), {})


def subtask(source_id: str, mode: str = "all", **loader: str) -> SubtaskConfig:
    instance = {"source-id": source_id, "loader": loader}
    task = {"name": "shop", "task-mode": mode, "mysql-instances": [instance]}
    return TaskConfig.model_validate(task).subtask(source_id)


def designed(
    *surveys: SourceSurvey,
    target: TargetSurvey,
    fresh: Collection[str] | None = None,
    copied_into: Collection[TableName] = (),
    on_duplicate: str = "error",
    mode: str = "all",
) -> tuple[NewTable, ...]:
    """Return the design; by default no source's copy has begun."""
    subtasks = {
        one.source_id: subtask(one.source_id, mode, **{"on-duplicate-logical": on_duplicate}) for one in surveys
    }
    anew = [one.source_id for one in surveys] if fresh is None else fresh
    return design(surveys, subtasks, target, fresh=anew, copied_into=copied_into)


def refusal(*surveys: SourceSurvey, target: TargetSurvey, on_duplicate: str = "error") -> DmError:
    with pytest.raises(DmError) as found:
        designed(*surveys, target=target, on_duplicate=on_duplicate)
    return found.value


def refused(one: SourceSurvey, *, target: TargetSurvey, mode: str = "all") -> type[DmError] | None:
    """Return why not; None: nothing is in the way."""
    try:
        designed(one, target=target, mode=mode)
    except DmError as error:
        return type(error)
    return None


ONE = survey("one", source_table())
SHARDS = (survey("one", source_table("a")), survey("two", source_table("b")))


def test_a_missing_target_table_is_created_once_for_all_shards() -> None:
    plan = designed(*SHARDS, target=there())

    assert [creation.name for creation in plan] == [ALL]
    assert plan[0].sql.startswith("CREATE TABLE `all`.`orders`")


def test_an_existing_table_is_not_created() -> None:
    plan = designed(ONE, target=there(table(ALL, PRIMARY)))

    assert plan == ()


def test_a_second_shard_has_to_fit_what_is_created_after_the_first() -> None:
    other = replace(source_table("b"), table=table(TableName("b", "orders"), PRIMARY, columns="id email phone"))

    error = refusal(SHARDS[0], survey("two", other), target=there())

    assert isinstance(error, TargetTableMismatch)
    assert error.missing == ("phone bigint",)


@pytest.mark.parametrize("mode", ["all", "full"])
def test_shards_with_other_columns_are_refused_before_a_copy_that_a_sync_follows(mode: str) -> None:
    wide = table(ALL, PRIMARY, columns="id email phone")
    wide = replace(wide, columns=(*wide.columns[:2], replace(wide.columns[2], nullable=True)))
    other = replace(source_table("b"), table=replace(wide, name=TableName("b", "orders")))
    found = refused(survey("one", source_table("a"), other), target=there(wide), mode=mode)

    assert found is (NotSupportedYet if mode == "all" else None)


@pytest.mark.parametrize("fresh", [True, False], ids=["not begun", "begun"])
def test_only_a_source_that_has_not_begun_may_recreate_the_table(*, fresh: bool) -> None:
    with pytest.raises(TargetTableMismatch) as found:
        designed(ONE, target=there(table(ALL, PRIMARY, columns="id")), fresh=["one"] if fresh else [])

    assert ("created again" in str(found.value)) == fresh


def test_a_target_table_that_was_dropped_during_the_copy_is_not_recreated() -> None:
    """Its rows were in it: chunks that are done would not be copied again."""
    with pytest.raises(NoTargetTable) as gone:
        designed(ONE, target=there(), fresh=[])

    assert "the target table all.orders, into which one:shop.orders has begun to write" in str(gone.value)


def test_foreign_rows_are_not_mixed_with_a_copy() -> None:
    error = refusal(*SHARDS, target=there(table(ALL, PRIMARY), filled={ALL}))

    assert isinstance(error, TargetNotEmpty)
    assert error.sources == ("one:a.orders", "two:b.orders")


@pytest.mark.parametrize(
    "leave",
    [{"copied_into": {ALL}}, {"on_duplicate": "replace"}, {"fresh": ()}],
    ids=["another source of the task has copied them", "they are to be overwritten", "the copy continues"],
)
def test_a_target_with_rows_is_accepted_if_configured(leave: dict[str, object]) -> None:
    designed(ONE, target=there(table(ALL, PRIMARY), filled={ALL}), **leave)  # type: ignore[arg-type]


def test_rows_may_replace_each_other_if_configured() -> None:
    assert designed(ONE, target=there(table(ALL, PRIMARY, EMAIL)), on_duplicate="replace") == ()


def key(*columns: str, prefixes: tuple[int | None, ...] = (), expression: bool = False) -> Index:
    return Index("k", columns, prefixes=prefixes, expression=expression)


@pytest.mark.parametrize(
    ("ours", "theirs", "kept"),
    [
        (key("email"), key("email"), True),
        (key("email"), key("EMAIL"), True),
        (key("EMAIL"), key("email"), True),
        (key("email"), key("email", "id"), True),
        (key("email", "id"), key("email"), False),
        (key("email", prefixes=(5,)), key("email"), True),
        (key("email", prefixes=(5,)), key("email", prefixes=(9,)), True),
        (key("email", prefixes=(5,)), key("email", prefixes=(5,)), True),
        (key("email", prefixes=(9,)), key("email", prefixes=(5,)), False),
        (key("email"), key("email", prefixes=(5,)), False),
        (key("email", prefixes=(None,)), key("email", prefixes=(5,)), False),
        (key(expression=True), key(expression=True), True),
        (key("email"), key(expression=True), False),
        (key("email", expression=True), key("email"), False),
    ],
)
def test_a_key_is_kept_if_different_source_rows_differ_in_the_target(ours: Index, theirs: Index, *, kept: bool) -> None:
    mapping = TableMapping(table(TableName("shop", "orders"), PRIMARY, ours), table(ALL, PRIMARY, theirs))

    with nullcontext() if kept else pytest.raises(TargetKeyNotKept):
        check_keys_kept(mapping)


@pytest.mark.parametrize(("event", "shards", "kept"), [("delete", 1, False), ("delete", 2, True), ("insert", 2, False)])
def test_with_filters_the_targets_identity_key_must_follow_from_a_source_key(
    event: str, shards: int, *, kept: bool
) -> None:
    """Of a merged table whose deletes are skipped, rows wait for their keys and replace none."""
    rule = {"schema-pattern": "*", "events": [event], "action": "Ignore"}
    instances = [{"source-id": name, "filter-rules": ["some"]} for name in ("one", "two")]
    task = {"name": "shop", "task-mode": "all", "mysql-instances": instances, "filters": {"some": rule}}
    config = TaskConfig.model_validate(task)
    surveys = [survey(name, source_table(name, EMAIL)) for name in ("one", "two")[:shards]]
    subtasks = {one.source_id: config.subtask(one.source_id) for one in surveys}

    with nullcontext() if kept else pytest.raises(TargetKeyNotKept):
        design(surveys, subtasks, there(table(ALL, PRIMARY)), fresh=list(subtasks), copied_into=())


@pytest.mark.parametrize(
    ("rows", "keys", "why"),
    [(MOST_ROWS, (), None), (MOST_ROWS + 1, (), NotSupportedYet), (MOST_ROWS + 1, (PRIMARY,), None)],
    ids=["small", "large", "large, with a key"],
)
def test_a_shard_without_a_key_is_copied_in_one_piece_if_it_is_small(
    rows: int, keys: tuple[Index, ...], why: type[DmError] | None
) -> None:
    """Whether the target has a key does not matter. A table with a target of its own is written in pages."""
    one = source_table(rows=rows)
    one = replace(one, table=table(one.table.name, *keys))
    assert refused(survey("one", one), target=there(table(ALL))) is None
    with nullcontext() if why is None else pytest.raises(why):
        designed(survey("one", one), survey("two", one), target=there(table(ALL)))


@pytest.mark.parametrize(
    ("rows", "keys", "why"),
    [(MOST_SCANNED, (), None), (MOST_SCANNED + 1, (), NotSupportedYet), (MOST_SCANNED + 1, (PRIMARY,), None)],
    ids=["few", "many", "many, but found by a key"],
)
def test_values_that_the_target_computes_by_itself_are_looked_for_among_few_rows(
    rows: int, keys: tuple[Index, ...], why: type[DmError] | None
) -> None:
    sides = []
    for side in (source_table().table, table(ALL)):
        computed = replace(side.columns[1], generated=True, expression="rand()")
        sides.append(replace(side, columns=(side.columns[0], computed), unique_keys=keys))
    one = survey("one", replace(source_table(rows=rows), table=sides[0]))

    assert refused(one, target=there(sides[1])) is why


def test_an_unreadable_type_is_refused() -> None:
    sides = []
    for side in (source_table().table, table(ALL, PRIMARY)):
        strange = replace(side.columns[1], data_type="hologram", column_type="hologram")
        sides.append(replace(side, columns=(side.columns[0], strange)))

    one = survey("one", replace(source_table(), table=sides[0]))

    assert refused(one, target=there(sides[1])) is UnsupportedColumnType


def test_an_error_of_the_last_source_is_found_before_any_change() -> None:
    bad = replace(source_table("b", target=TableName("all", "bad")), rows=MOST_ROWS + 1)
    bad = replace(bad, table=table(TableName("b", "orders")))

    assert isinstance(refusal(SHARDS[0], survey("two", bad), survey("three", bad), target=there()), NotSupportedYet)


BY_EMAIL = (
    "CREATE TABLE `orders` (`id` bigint NOT NULL, `email` bigint NOT NULL, PRIMARY KEY (`id`), KEY `e` (`email`))"
)


def indexed(*, schema: str = "a", rows: int = LARGE_ROWS, create: str = BY_EMAIL) -> SourceTable:
    return replace(source_table(schema, rows=rows), create=create)


@pytest.mark.parametrize(
    ("tables", "postpones"),
    [
        ([indexed()], True),
        ([indexed(rows=LARGE_ROWS - 1)], False),
        ([indexed(rows=LARGE_ROWS // 2), indexed(schema="b", rows=LARGE_ROWS // 2)], True),
        ([indexed(create=BY_EMAIL.replace("KEY `e`", "UNIQUE KEY `e`"))], False),
        (
            [indexed(create=BY_EMAIL.replace("`email` bigint NOT NULL", "`email` bigint NOT NULL AUTO_INCREMENT"))],
            False,
        ),
        ([indexed(create=BY_EMAIL[:-1] + ", FOREIGN KEY (`email`) REFERENCES `orders` (`id`))")], False),
    ],
    ids=["large", "small", "large together", "unique", "auto_increment", "foreign key"],
)
def test_plain_indexes_of_large_tables_are_postponed(tables: list[SourceTable], postpones: bool) -> None:
    (made,) = designed(survey("one", *tables), target=there())

    assert [key.name for key in made.postponed] == ["e"] * postpones
    assert "KEY `e`" in made.sql


def test_indexes_of_a_table_of_several_sources_stay() -> None:
    (made,) = designed(survey("one", indexed()), survey("two", indexed(schema="b")), target=there())

    assert not made.postponed


def test_tidb_gets_indexes_with_the_table() -> None:
    (made,) = designed(survey("one", indexed()), target=replace(there(), flavour=Flavour.TIDB))

    assert not made.postponed
