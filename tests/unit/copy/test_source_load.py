"""The tables that a round reads once the log is applied up to its location."""

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_dm.engine.copy import source_load
from airflow_provider_dm.engine.copy.source_load import SourceLoad
from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress
from airflow_provider_dm.engine.downstream.table_schema import TableSchema
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Column, Index, Table

COLUMNS = (Column("id", 0, "bigint", "bigint", nullable=False),)
TABLES = [Table(TableName("shop", f"o_{number}"), COLUMNS, (Index("PRIMARY", ("id",)),)) for number in (1, 2)]


def test_a_table_with_a_pending_shard_ddl_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was to be read when the snapshots were opened; its rows have another form than the target by now."""
    (one, other), held = TABLES, set[TableName]()
    loading: Any = SimpleNamespace(source=SimpleNamespace(id="one", target=None, fence=SimpleNamespace(ref=None)))
    anything: Any = None
    load = SourceLoad(loading, anything, anything, anything, anything, anything, 1)
    chunks = [ChunkProgress(number, table.name) for number, table in enumerate(TABLES)]
    schemas = [TableSchema(table, TableName("shop", "o")) for table in TABLES]
    monkeypatch.setattr(source_load, "run_transaction", lambda _target, body: body(None))
    monkeypatch.setattr(source_load, "load_chunks", lambda *_asked: chunks)
    monkeypatch.setattr(source_load, "load_table_schemas", lambda *_asked: schemas)
    monkeypatch.setattr(source_load, "held_tables", lambda *_asked: frozenset(held))
    names, definitions = [one.name, other.name], {table.name: table for table in TABLES}

    assert load._tables_as_logged(names, definitions) == names
    held.add(one.name)
    assert load._tables_as_logged(names, definitions) == [other.name]
