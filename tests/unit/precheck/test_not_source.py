"""The check that no source table is a target table."""

from types import SimpleNamespace
from typing import cast

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.precheck.checks.tables import check_not_source
from airflow_provider_dm.engine.precheck.facts import TargetFacts
from airflow_provider_dm.engine.precheck.result import State

T, U = TableName("shop", "t"), TableName("shop", "u")


def test_a_source_table_may_be_the_target_table_of_another_source() -> None:
    one = SimpleNamespace(id="one", routed={T: U})
    two = SimpleNamespace(id="two", routed={U: T})
    facts = SimpleNamespace(sources=(one, two), endpoint="target", is_server_of=lambda source: source is one)
    ((state, message, _),) = check_not_source(cast("TargetFacts", facts))
    assert (state, message.endswith("these source tables are target tables: one:shop.t")) == (State.FAIL, True)
