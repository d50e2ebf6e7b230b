"""What dies here is forked from what has been imported already: `docker/local chaos` starts most of it anew."""

import pytest


@pytest.fixture(autouse=True)
def _relays_are_forked(forked_relays: None) -> None:
    """Each relay is a process, as ever."""
