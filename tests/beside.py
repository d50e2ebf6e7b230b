"""Work in a thread for the length of a block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def beside(work: Callable[[threading.Event], object]) -> Iterator[None]:
    """Call `work` in a thread, with an event that is set when the block ends. Raises what the thread has raised, also
    where that is why the block has waited in vain."""
    ended = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work, ended)
        try:
            yield
        finally:
            ended.set()
            working.result()
