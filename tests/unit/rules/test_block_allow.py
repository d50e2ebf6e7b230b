"""The tables that belong to a task."""

import pickle
from typing import Any

import pytest

from airflow_provider_dm.engine.config.rule_models import BlockAllowConfig
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules, select


def rules(*, case_sensitive: bool = False, meta_schema: str = "dm_meta", **lists: Any) -> BlockAllowRules:
    config = BlockAllowConfig.model_validate({key.replace("_", "-"): value for key, value in lists.items()})
    return BlockAllowRules.from_config(config, case_sensitive=case_sensitive, meta_schema=meta_schema)


def table(schema: str, name: str) -> dict[str, str]:
    return {"db-name": schema, "tbl-name": name}


@pytest.mark.parametrize(
    ("lists", "inside", "outside"),
    [
        ({}, ["a.t"], []),
        ({"do_dbs": ["shop*"]}, ["shop.t", "shop_1.t"], ["other.t"]),
        ({"ignore_dbs": ["tmp"]}, ["shop.t"], ["tmp.t"]),
        # Where both are given only do-dbs counts.
        ({"do_dbs": ["shop*"], "ignore_dbs": ["shop_2"]}, ["shop_1.t", "shop_2.t"], ["x.t"]),
        ({"do_tables": [table("s", "t?")]}, ["s.t1"], ["s.t", "s.t12", "x.t1"]),
        ({"ignore_tables": [table("s", "log*")]}, ["s.t", "x.log"], ["s.log", "s.log_2"]),
        # do-tables wins over ignore-tables.
        (
            {"do_tables": [table("s", "t1")], "ignore_tables": [table("s", "t*")]},
            ["s.t1"],
            ["s.t2", "s.other"],
        ),
        # A schema that is out cannot be brought in by a table.
        ({"do_dbs": ["shop"], "do_tables": [table("x", "t")]}, [], ["x.t", "shop.t"]),
        (
            {"do_dbs": ["~^test.*", "user"], "do_tables": [table("~^test.*", "~^t.*"), table("user", "information")]},
            ["test_1.t_1", "USER.Information"],
            ["test_1.x", "user.log", "prod.t"],
        ),
        # One half a regular expression, the other a wildcard.
        ({"do_tables": [table("~^s\\d$", "t*")]}, ["s1.t9"], ["s12.t9", "s1.x"]),
        ({"do_tables": [table("s*", "~^t\\d$")]}, ["s1.t9"], ["s1.t99", "x.t9"]),
    ],
)  # fmt: skip
def test_the_block_allow_list_selects_tables(lists: dict[str, Any], inside: list[str], outside: list[str]) -> None:
    names = [TableName(*name.split(".")) for name in inside + outside]
    assert [str(name) for name in select(names, rules(**lists))] == inside


@pytest.mark.parametrize("schema", ["mysql", "SYS", "information_schema", "performance_schema", "my_meta", "MY_META"])
def test_system_schemas_and_the_meta_schema_are_never_in(schema: str) -> None:
    everything = rules(meta_schema="My_Meta", do_dbs=["*"], do_tables=[table("*", "*")])
    assert not everything.allows(TableName(schema, "t"))
    assert not everything.allows_schema(schema)


def test_case_counts_when_requested() -> None:
    assert not rules(case_sensitive=True, do_dbs=["Shop"]).allows(TableName("shop", "t"))
    assert rules(do_dbs=["Shop"]).allows(TableName("sHOP", "t"))


def test_rules_are_picklable() -> None:
    some = rules(do_dbs=["~^a"], ignore_tables=[table("a", "b*")])
    assert pickle.loads(pickle.dumps(some)) == some
