"""Compiled kernels for the tests of this room: compiled once for each version of their source, then only loaded."""

import pytest

from airflow_provider_dm.engine.binlog.kernels import build


@pytest.fixture(scope="session", autouse=True)
def kernels() -> None:
    build.warm()
    assert build.ready()
