"""Which altered tables may be taken for what they were."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_dm.engine.copy import watch
from airflow_provider_dm.engine.copy.altered import has_more_columns
from airflow_provider_dm.engine.copy.watch import OthersToCopyAgain
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.births import Birth, Births
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.target.copied_tables import CopiedTable

LOG, MERGED = TableName("s", "log_1"), TableName("x", "log")
NOW = Births({LOG: Birth("as it is", 9, 99, "server")}, frozenset())


@pytest.mark.parametrize(
    ("birth", "copied", "adopted"),
    [("", False, False), ("", True, True), ("altered 6 8 server", True, True)],
    ids=["its second copy had begun", "it was young", "it was altered and altered back"],
)
def test_a_merged_table_is_adopted_if_it_is_being_copied(
    monkeypatch: pytest.MonkeyPatch, birth: str, copied: bool, adopted: bool
) -> None:
    kept: list[dict[TableName, CopiedTable]] = []
    monkeypatch.setattr(watch, "connected", lambda _endpoint: nullcontext())
    monkeypatch.setattr(watch, "read_tables", lambda _connection, names: dict.fromkeys(names, "its columns"))
    monkeypatch.setattr(watch, "run_transaction", lambda _endpoint, body: body(None))
    monkeypatch.setattr(watch, "put_copied_tables", lambda _tx, _ref, born: kept.append(born))
    nothing: Any = None
    rules = SimpleNamespace(router=SimpleNamespace(route=lambda _name: MERGED))
    fence = SimpleNamespace(check=lambda _tx: None, ref=None)
    source = SimpleNamespace(id="one", endpoint=None, fence=fence, rules=rules)
    loading: Any = SimpleNamespace(source=source)
    schema: Any = SimpleNamespace(table="its columns", target=MERGED)
    chunks: Any = [SimpleNamespace(table=LOG)] if copied else []
    stand = watch.Stand({LOG: schema}, {}, {LOG: CopiedTable(birth)}, chunks, [])
    seen = watch.Seen(nothing, stand, NOW, nothing)

    try:
        watch.Watch(nothing, loading, 1).check_strangers({LOG}, seen)
    except OthersToCopyAgain:
        assert not adopted
    assert bool(kept) == adopted


WAS = ("id int not null", "v int")


@pytest.mark.parametrize(
    ("now", "more"),
    [
        (WAS, True),
        (("w int", *WAS, "x text"), True),
        (("v int", "id int not null", "w int"), True),
        (("id int not null",), False),
        (("id int not null", "v bigint", "w int"), False),
        ((*WAS, "w int auto_increment"), False),
        ((*WAS, "w int as v + 1"), False),
    ],
)
def test_what_has_more_columns(now: tuple[str, ...], more: bool) -> None:
    def table(columns: tuple[str, ...]) -> Table:
        made = (
            Column(name, at, how.split()[0], how, "not null" not in how, counted="auto" in how, generated=" as " in how)
            for at, (name, how) in enumerate(one.split(" ", 1) for one in columns)
        )
        return Table(LOG, tuple(made), (Index("PRIMARY", ("id",)),))

    assert has_more_columns(table(now), table(WAS)) == more
    assert not has_more_columns(replace(table(now), unique_keys=()), table(WAS))
