"""The metadata DB of a test: a migrated SQLite file in its `tmp_path`."""

import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.store import MetaStore
from tests.jobs import META_VARIABLE


@cache
def _migrated() -> bytes:
    """Return a new metadata DB. A migration takes as long as a short test."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "meta.db"
        migrate(f"sqlite:///{path}")
        return path.read_bytes()


def new_meta_db(folder: Path) -> str:
    """Create a migrated metadata DB in a folder; return its URL."""
    path = folder / "meta.db"
    path.write_bytes(_migrated())
    return f"sqlite:///{path}"


@pytest.fixture
def meta_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The jobs of a test (`tests.jobs`) and its processes find it in the environment."""
    url = new_meta_db(tmp_path)
    monkeypatch.setenv(META_VARIABLE, url)
    return url


@pytest.fixture
def store(meta_url: str) -> Iterator[MetaStore]:
    with MetaStore.open(meta_url) as opened:
        yield opened
