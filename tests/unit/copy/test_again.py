"""Which altered tables may be taken for what they were."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_dm.engine.config.task import ShardMode, TaskMode
from airflow_provider_dm.engine.copy import watch
from airflow_provider_dm.engine.copy.altered import Altered
from airflow_provider_dm.engine.copy.design import Design
from airflow_provider_dm.engine.copy.loading import Loading, Source
from airflow_provider_dm.engine.copy.watch import OthersToCopyAgain
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.births import Birth, Births
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
    fence: Any = SimpleNamespace(check=lambda _tx: None, ref=None)
    subtask: Any = SimpleNamespace(mode=TaskMode.ALL, shard_mode=ShardMode.NONE, overwrites=False, source_id="one")
    source: Any = Source(nothing, subtask, nothing, fence)
    monkeypatch.setattr(Source, "rules", rules)
    loading = Loading(source, Design({"one": ()}, (), {}), nothing, resumed=False, numbers={})
    schema: Any = SimpleNamespace(table="its columns", target=MERGED)
    chunks: Any = [SimpleNamespace(table=LOG)] if copied else []
    stand = watch.Stand({LOG: schema}, {}, {LOG: CopiedTable(birth)}, chunks, [])
    names = frozenset({LOG})
    found = Altered(names, frozenset(), frozenset())
    side: Any = SimpleNamespace(found=found, names=names, route=rules.router.route)
    seen = watch.Seen(nothing, stand, NOW, side)

    try:
        watch.Watch(nothing, loading, 1).check_strangers({LOG}, seen)
    except OthersToCopyAgain:
        assert not adopted
    assert bool(kept) == adopted
    watch.Watch(nothing, loading, 1, sealed=names).check_strangers({LOG}, seen)  # the sync's, as it is alone
    assert bool(kept) == adopted
