"""What dies here is forked from what has been imported already: `docker/local chaos` starts most of it anew."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.chaos.forked import nursery_of_drivers
from tests.nursery import Nursery


@pytest.fixture(autouse=True)
def _relays_are_forked(forked_relays: None) -> None:
    """Each relay is a process, as ever."""


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Where drivers without Spark are forked."""
    with closing(nursery_of_drivers()) as one:
        yield one
