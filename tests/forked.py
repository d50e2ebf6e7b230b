"""Fixtures for processes of a test that need no time to start, which `conftest` has: relays, and drivers without Spark.

They are processes of their own as they are started elsewhere, forked instead of begun anew (`nursery`), so that they
can be killed. Where a relay's death is of no interest a `RelayThread` is cheaper still.
"""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import cast

import pytest

from airflow_provider_dm.engine.relay import process
from tests.chaos.forked import nursery_of_drivers
from tests.nursery import Nursery

RELAY = "airflow_provider_dm.engine.relay.child"


@pytest.fixture(scope="session")
def relay_nursery() -> Iterator[Nursery]:
    """Where relays are forked; it starts with the first."""
    with closing(Nursery((RELAY, "tests.warm_relay"))) as nursery:
        yield nursery


@pytest.fixture
def forked_relays(relay_nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `RelayProcess.start` fork."""

    def start_relay_interpreter(
        spec: str, env: Mapping[str, str], secrets: Mapping[str, str], output: int
    ) -> subprocess.Popen[bytes]:
        child = relay_nursery.start(f"{RELAY}:main", [spec], {**env, **secrets}, output)
        return cast("subprocess.Popen[bytes]", child)  # as much of one as a RelayProcess uses

    monkeypatch.setattr(process, "start_relay_interpreter", start_relay_interpreter)


@pytest.fixture(scope="session")
def driver_nursery() -> Iterator[Nursery]:
    """Where drivers without Spark are forked (`chaos.forked`); it starts with the first."""
    with closing(nursery_of_drivers()) as nursery:
        yield nursery
