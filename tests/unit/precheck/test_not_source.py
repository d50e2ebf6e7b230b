"""The check that no source table is a target table."""

from types import SimpleNamespace
from typing import Any, cast

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.precheck.checks.tables import check_not_source
from airflow_provider_dm.engine.precheck.facts import ServerFacts, TargetFacts
from airflow_provider_dm.engine.precheck.result import State

T, U = TableName("shop", "t"), TableName("shop", "u")


class FactsOfOnesServer(TargetFacts):
    def is_server_of(self, other: ServerFacts) -> bool:
        return cast("Any", other).id == "one"


def test_a_source_table_may_be_the_target_table_of_another_source() -> None:
    sources = SimpleNamespace(id="one", routed={T: U}), SimpleNamespace(id="two", routed={U: T})
    nothing: Any = None
    facts = FactsOfOnesServer(nothing, nothing, nothing, cast("Any", sources))
    ((state, message, _),) = check_not_source(facts)
    assert (state, message.endswith("these source tables are target tables: one:shop.t")) == (State.FAIL, True)
