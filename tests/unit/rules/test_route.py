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
    ("of", "theirs", "ours"),
    [
        (SHARDS, "shop_01.orders_7", "shop.orders"),
        (SHARDS, "SHOP_01.Orders_7", "shop.orders"),
        (SHARDS, "shop_01.items", "shop.items"),
        (SHARDS, "other.orders_7", "other.orders_7"),
        (router(("a", "t*", "b", "")), "a.t1", "b.t1"),
        (router(("A", "", "b", ""), case_sensitive=True), "a.t", "a.t"),
    ],
)
def test_table_rules_then_schema_rules_then_the_same_name(of: Router, theirs: str, ours: str) -> None:
    assert str(of.route(TableName(*theirs.split(".")))) == ours


def test_two_rules_for_one_table_are_an_error_that_names_them() -> None:
    """Two of a schema matter only where no table rule does."""
    both = router(("s*", "t*", "x", "y"), ("~^s1$", "t1", "x", "z"), ("s*", "", "w", ""), ("s1", "", "v", ""))
    with pytest.raises(InvalidInput) as refusal:
        both.route(TableName("s1", "t1"))
    assert "by more than one route: s*.t* -> x.y, ~^s1$.t1 -> x.z." in str(refusal.value)
    assert both.route(TableName("s1", "t2")) == TableName("x", "y")
    with pytest.raises(InvalidInput, match=r"s1\.other"):
        both.route(TableName("s1", "other"))


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
    """Those that do not match are empty."""
    of_01, of_other = (
        Router.from_config([EXTRACTS], case_sensitive=False, source_id=source)
        for source in ("mysql-replica-01", "other")
    )
    filled = {"c_table": "2", "c_schema": "extend_column1", "c_source": "replica01"}
    assert of_01.extracted(TableName("extend_column1", "t2")) == filled
    assert of_01.extracted(TableName("extend_column1", "y1")) == {}
    assert of_other.extracted(TableName("extend_column1", "t"))["c_source"] == ""
