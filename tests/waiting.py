"""Waiting for a condition that another thread, process or server makes true."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(
    condition: Callable[[], T], *, seconds: float = 240, every: float = 0.05, shows: Callable[[], object] = str
) -> T:
    """Return the first true value of a condition. After `seconds`, fail with the value of `shows`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, shows()
        time.sleep(every)
    return found
