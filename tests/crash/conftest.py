"""Disks in memory, and no clock."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_dm.engine.relay import writer


@pytest.fixture(autouse=True)
def _nothing_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer's thread forces data to disk every second; the worst case is a crash before it does."""
    monkeypatch.setattr(writer, "SYNC_SECONDS", 3600.0)


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder whose fsyncs cost nothing: these disks are made up, and what they forget is chosen by the test."""
    folder = Path(tempfile.mkdtemp(prefix="dm-crash-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)
