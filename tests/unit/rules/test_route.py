"""The target of each table by the routes."""

import pickle

import pytest

from airflow_provider_dm.engine.config.rule_models import RouteRule
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.route import Router


def router(*rules: tuple[str, str, str, str], case_sensitive: bool = False) -> Router:
    keys = ("schema_pattern", "table_pattern", "target_schema", "target_table")
    made = [RouteRule.model_validate({k: v for k, v in zip(keys, rule, strict=True) if v}) for rule in rules]
    return Router.from_config(made, case_sensitive=case_sensitive)


SHARDS = router(("shop_*", "orders_*", "shop", "orders"), ("shop_*", "", "shop", ""))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("shop_01.orders_7", "shop.orders"),
        ("SHOP_01.Orders_7", "shop.orders"),
        ("shop_01.items", "shop.items"),
        ("other.orders_7", "other.orders_7"),
    ],
)
def test_table_rules_then_schema_rules_then_the_same_name(theirs: str, ours: str) -> None:
    assert str(SHARDS.route(TableName(*theirs.split(".")))) == ours


def test_a_rule_without_target_table_keeps_the_tables_name() -> None:
    assert router(("a", "t*", "b", "")).route(TableName("a", "t1")) == TableName("b", "t1")


def test_two_table_rules_for_one_table_are_an_error_that_names_them() -> None:
    both = router(("s*", "t*", "x", "y"), ("~^s1$", "t1", "x", "z"), ("s*", "", "w", ""))
    with pytest.raises(InvalidInput) as refusal:
        both.route(TableName("s1", "t1"))
    assert "by more than one route: s*.t* -> x.y, ~^s1$.t1 -> x.z." in str(refusal.value)
    assert both.route(TableName("s1", "t2")) == TableName("x", "y")


def test_two_schema_rules_only_matter_where_no_table_rule_does() -> None:
    both = router(("s*", "t", "x", "y"), ("s*", "", "v", ""), ("s1", "", "w", ""))
    assert both.route(TableName("s1", "t")) == TableName("x", "y")
    with pytest.raises(InvalidInput, match=r"s1\.other"):
        both.route(TableName("s1", "other"))


def test_case_counts_when_requested() -> None:
    strict = router(("A", "", "b", ""), case_sensitive=True)
    assert strict.route(TableName("a", "t")) == TableName("a", "t")


def test_a_router_is_picklable() -> None:
    assert pickle.loads(pickle.dumps(SHARDS)) == SHARDS


EXTRACTS = RouteRule.model_validate(
    {
        "schema-pattern": "extend_column*",
        "table-pattern": "t*",
        "target-schema": "extend_column",
        "target-table": "t",
        "extract-table": {"table-regexp": "t(.*)", "target-column": "c_table"},
        "extract-schema": {"schema-regexp": "(.*)", "target-column": "c_schema"},
        "extract-source": {"source-regexp": "mysql-(.*)-([0-9]+)", "target-column": "c_source"},
    }
)
"""DM's own test (dm/tests/extend_column)."""


def test_extracted_columns_are_filled_from_names() -> None:
    found = Router.from_config([EXTRACTS], case_sensitive=False, source_id="mysql-replica-01")
    assert found.extracted(TableName("extend_column1", "t2")) == {
        "c_table": "2",
        "c_schema": "extend_column1",
        "c_source": "replica01",
    }
    assert found.extracted(TableName("extend_column1", "y1")) == {}


def test_an_extract_that_does_not_match_is_empty() -> None:
    found = Router.from_config([EXTRACTS], case_sensitive=False, source_id="other")
    assert found.extracted(TableName("extend_column1", "t"))["c_source"] == ""
