"""Integration tests run against real servers of both flavours, in both roles.

The servers come from `tests/conftest.py`. Here is the rule that holds for this folder: a test that uses no server does
not belong in it, so that leaving it out never hides a unit test."""

import inspect
import os
from pathlib import Path

import pytest

from testbed import Server
from tests.conftest import FreshSchema

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{HERE}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):  # of ten thousand tests
            item.add_marker(pytest.mark.server)
            item.add_marker(pytest.mark.timeout(900))


def bound_on(server: Server) -> int:
    """Return how many prepared statements a server has executed; 0 for TiDB, which has none of ours."""
    if server.flavour == "tidb":
        return 0
    ((_, count),) = server.sql("SHOW GLOBAL STATUS LIKE 'Com_stmt_execute'")
    return int(count)


@pytest.fixture
def schema(request: pytest.FixtureRequest, fresh_schema: FreshSchema) -> str:
    """A schema of this test on its source, or on each of the sources that it has as arguments."""
    names = [name for name in inspect.signature(request.function).parameters if name.endswith("source")]
    return fresh_schema(*map(request.getfixturevalue, names))
