"""Which altered tables may be taken for what they were."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_dm.engine.copy import again
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.births import Birth, Births
from airflow_provider_dm.engine.reading.source_session import SchemaChangedDuringCopy
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
    monkeypatch.setattr(again, "connected", lambda _endpoint: nullcontext())
    monkeypatch.setattr(again, "read_tables", lambda _connection, names: dict.fromkeys(names, "its columns"))
    monkeypatch.setattr(again, "run_transaction", lambda _endpoint, body: body(None))
    monkeypatch.setattr(again, "put_copied_tables", lambda _tx, _ref, born: kept.append(born))
    nothing: Any = None
    source = SimpleNamespace(id="one", endpoint=None, fence=SimpleNamespace(check=lambda _tx: None, ref=None))
    loading: Any = SimpleNamespace(source=source)
    schema: Any = SimpleNamespace(table="its columns", target=MERGED)
    chunks: Any = [SimpleNamespace(table=LOG)] if copied else []
    stand = again._Stand({LOG: schema}, {LOG: CopiedTable(birth)}, chunks, [])

    try:
        again.Watch(nothing, loading, 1)._check_shared({LOG}, stand, NOW)
    except SchemaChangedDuringCopy:
        assert not adopted
    assert bool(kept) == adopted
