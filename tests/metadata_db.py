"""The metadata DB of a test: a migrated SQLite file in its `tmp_path`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.store import MetaStore


def new_meta_db(folder: Path) -> str:
    """Migrate a metadata DB in a folder; return its URL."""
    url = f"sqlite:///{folder / 'meta.db'}"
    migrate(url)
    return url


@pytest.fixture
def meta_url(tmp_path: Path) -> str:
    return new_meta_db(tmp_path)


@pytest.fixture
def store(meta_url: str) -> Iterator[MetaStore]:
    with MetaStore.open(meta_url) as opened:
        yield opened
