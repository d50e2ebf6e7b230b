"""Work in a thread for the length of a block."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def beside(*works: Callable[[threading.Event], object]) -> Iterator[None]:
    """Call each of `works` in a thread, with an event that is set when the block ends. Raises the first error of a
    thread, also where it is the reason for a failure of the block."""
    ended = threading.Event()
    with ThreadPoolExecutor(len(works)) as pool:
        working = [pool.submit(work, ended) for work in works]
        try:
            yield
        finally:
            ended.set()
            for one in working:
                one.result()
