"""Processes that are forked from a process with loaded kernels, or without."""

from pathlib import Path

import pytest

from airflow_provider_dm.engine.binlog.kernels import build


def test_a_damaged_cache_is_loaded_again_by_each_forked_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [ImportError("a file of the cache is cut short")]

    def import_all() -> None:
        if broken:
            raise broken.pop()

    (cache := tmp_path / "cache").mkdir()
    for name, value in {
        "_state": None,
        "_allowed": lambda: True,
        "directory": lambda: cache,
        "_is_whole": lambda _: True,
        "_import_all": import_all,
        "_keep_freed_memory": lambda: None,
    }.items():
        monkeypatch.setattr(build, name, value)

    build.preload()

    assert not broken
    assert not cache.exists()
    assert build.ready(), "it has been compiled again meanwhile"
