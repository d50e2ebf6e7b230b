"""What may come into being while a copy begins."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_dm.engine.copy import begin
from airflow_provider_dm.engine.copy.begin import SurveyOutdated
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.births import Birth, Births
from airflow_provider_dm.engine.target.copied_tables import CopiedTable


@pytest.mark.parametrize(
    ("born", "overwrites", "is_refused"),
    [
        ((), False, False),
        (("other",), False, False),
        (("log_2",), False, True),
        (("new_1", "new_2"), False, True),
        (("other",), True, True),
    ],
    ids=["nothing", "by itself", "merged with a known one", "two that are merged", "over rows of others"],
)
def test_a_table_that_is_born_as_the_copy_begins(born: tuple[str, ...], overwrites: bool, is_refused: bool) -> None:
    def routed(name: TableName) -> TableName:
        return TableName("x", name.table.split("_")[0])

    def births(*names: str) -> Births:
        return Births({TableName("s", name): Birth("so", 9, 99, "server") for name in names}, frozenset())

    known = SimpleNamespace(table=SimpleNamespace(name=TableName("s", "log_1")))
    surveyed: Any = SimpleNamespace(survey=SimpleNamespace(tables=[known]), births=births("log_1"))
    rules = SimpleNamespace(router=SimpleNamespace(route=routed))
    source: Any = SimpleNamespace(id="one", rules=rules, subtask=SimpleNamespace(overwrites=overwrites))
    made: Any = SimpleNamespace(feeders={TableName("x", "log"): ("one",)})

    with pytest.raises(SurveyOutdated) if is_refused else nullcontext():
        begin.check_survey(source, surveyed, made, births("log_1", *born))


@pytest.mark.parametrize(
    ("birth", "copied"),
    [("", True), ("so 9 99 server", True), ("", False)],
    ids=["it was young", "as it was", "in doubt"],
)
def test_a_run_that_goes_on_has_a_plan_for_every_table_with_pages(birth: str, copied: bool) -> None:
    name = TableName("s", "log_1")
    schema: Any = SimpleNamespace(table=SimpleNamespace(name=name))
    start: Any = None
    stored = begin._Stored(start, (schema,), {}, {name: CopiedTable(birth)}, {name} if copied else set())
    assert stored.to_copy == [schema] * copied
