"""Whose DDL is followed before all loads of a merged table are over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.sync.ddl import copied_whole
from airflow_provider_dm.engine.sync.ddl.copied_whole import are_keyless, is_behind_its_copy
from airflow_provider_dm.engine.sync.ddl.subtask_tables import SchemaChange, SubtaskTables
from airflow_provider_dm.engine.target.table_schema import TableSchema

LOG, MERGED = TableName("s", "log_1"), TableName("x", "log")
WAS = Table(LOG, (Column("id", 0, "int", "int", False),), ())
KEY = (Index("PRIMARY", ("id",)),)


@pytest.mark.parametrize(
    ("place", "keys", "target_keys", "agreed", "expected"),
    [
        ("9", (), (), True, True),
        ("9", (), (), False, False),  # it is nobody's to agree on
        ("", (), (), True, False),  # it was not copied from one place
        ("9", KEY, (), True, True),  # the target gets it when all loads are over
        ("9", (), KEY, True, False),
    ],
)
def test_ddl_behind_a_copy_of_one_place_waits_for_no_load(
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    keys: tuple[Index, ...],
    target_keys: tuple[Index, ...],
    agreed: bool,
    expected: bool,
) -> None:
    there = {MERGED: replace(WAS, name=MERGED, unique_keys=target_keys)}
    monkeypatch.setattr(copied_whole, "existing", lambda _connection, names: there.keys() & names)
    monkeypatch.setattr(copied_whole, "read_tables", lambda _connection, names: {name: there[name] for name in names})
    target: Any = None
    before = SubtaskTables((TableSchema(WAS, MERGED, place),), Tracker.of(Server(Flavour.MYSQL, (9,)), {}, {}))
    after = before.put(TableSchema(replace(WAS, unique_keys=keys), MERGED, place))
    assert is_behind_its_copy(SchemaChange(after, agreed=LOG if agreed else None), before, target) == expected
    assert not are_keyless(target, {MERGED, LOG})  # one of them is gone
