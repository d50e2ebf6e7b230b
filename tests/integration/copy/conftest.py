"""Tasks whose tables are altered while they are copied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.copy.altering import Kit, kit_of


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
