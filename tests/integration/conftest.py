"""Integration tests run against real servers of both flavours, in both roles.

The servers come from `tests/conftest.py`. Here is the rule that holds for this folder: a test that uses no server does
not belong in it, so that leaving it out never hides a unit test."""

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{HERE}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):  # of ten thousand tests
            item.add_marker(pytest.mark.server)
            item.add_marker(pytest.mark.timeout(900))
