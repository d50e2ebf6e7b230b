"""Integration tests run against real servers of both flavours, in both roles.

The servers come from `tests/conftest.py`. Here is the rule that holds for this folder: a test that uses no server does
not belong in it, so that leaving it out never hides a unit test."""

import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_dm.engine.downstream.session import close_target
from testbed import Server
from tests.conftest import FreshSchema
from tests.jobs import endpoint

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{HERE}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):  # of ten thousand tests
            item.add_marker(pytest.mark.server)
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture
def loading(target: Server) -> Iterator[Server]:
    """A target that allows LOADs, to connections that are opened from now on."""
    ((allowed,),) = target.sql("SELECT @@local_infile")
    target.sql("SET GLOBAL local_infile = ON")
    yield target
    target.sql(f"SET GLOBAL local_infile = {allowed}")
    close_target(endpoint("target", target))


def loads_of(server: Server) -> int:
    """Return how many LOADs a server has executed."""
    if server.flavour == "tidb":  # it is written by INSERTs, and does not count
        return 0
    ((_, count),) = server.sql("SHOW GLOBAL STATUS LIKE 'Com_load'")
    return int(count)


@pytest.fixture
def schema(request: pytest.FixtureRequest, fresh_schema: FreshSchema) -> str:
    """A schema of this test on its source, or on each of the sources that it has as arguments."""
    names = [name for name in inspect.signature(request.function).parameters if name.endswith("source")]
    return fresh_schema(*map(request.getfixturevalue, names))
