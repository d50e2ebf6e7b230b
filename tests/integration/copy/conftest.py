"""Copies whose readers all take part; tasks whose tables are altered while they are copied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_dm.engine.copy import gather
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.copy.altering import Kit, kit_of


@pytest.fixture(autouse=True)
def all_readers_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is. A gather waits no longer than for the last one."""
    monkeypatch.setattr(gather, "READY_SECONDS", 120.0)
    monkeypatch.setattr(gather, "DONE_SECONDS", 20.0)


@pytest.fixture
def kit(
    source: Server, target: Server, fresh_schema: FreshSchema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Kit]:
    yield from kit_of(source, target, fresh_schema, tmp_path, monkeypatch)


@pytest.fixture
def one_kit(
    mysql_source: Server,
    mariadb_target: Server,
    fresh_schema: FreshSchema,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Kit]:
    yield from kit_of(mysql_source, mariadb_target, fresh_schema, tmp_path, monkeypatch)
