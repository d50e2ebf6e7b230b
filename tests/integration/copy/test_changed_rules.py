"""Rules that change while a task is under way, and bad input before anything is claimed."""

from typing import Any

import pytest

from airflow_provider_dm.engine.copy.preconditions import check_before_claim
from airflow_provider_dm.engine.rules.errors import RulesChanged, TargetTableMismatch
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.copy.migrations import Migration
from tests.jobs import endpoint


def routed(source: Server, target: Server, schema: str, to: str) -> Migration:
    """The tables of `schema` to the schema `to`."""
    routes: dict[str, Any] = {"routes": {"r": {"schema-pattern": schema, "target-schema": to}}}
    rules = {"route-rules": ["r"]}
    return Migration.of(target, source, schema, task=routes, instance=rules)


def test_routes_that_change_in_the_middle_of_a_copy_are_refused(source: Server, target: Server, schema: str) -> None:
    source.sql("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)", database=schema)
    routed(source, target, schema, f"{schema}_a").go(stop=lambda: True)

    routed(source, target, schema, f"{schema}_b").stops(
        RulesChanged, match=rf"{schema}_a.t so far, and the routes now name {schema}_b.t"
    )


def test_a_table_that_a_finished_load_did_not_have_is_reported(source: Server, target: Server, schema: str) -> None:
    source.sql("CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE later (id INT PRIMARY KEY)", database=schema)
    only_t = {"block-allow-list": {"one": {"do-tables": [{"db-name": schema, "tbl-name": "t"}]}}}
    Migration.of(target, source, schema, task=only_t).finish()

    grown = Migration.of(target, source, schema)

    grown.stops(RulesChanged, match=f"{schema}.later")


def test_bad_input_is_refused_before_the_target_is_claimed(
    source: Server, target: Server, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(source, target)
    source.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", database=schema)
    target.sql("CREATE TABLE t (id INT PRIMARY KEY, other INT)", database=schema)
    spec = Migration.of(target, source, schema).spec

    with pytest.raises(TargetTableMismatch):
        check_before_claim(spec, {"one": endpoint("one", source)}, endpoint("target", target))

    assert not target.sql("SHOW DATABASES LIKE %s", [f"{schema}_meta"])
