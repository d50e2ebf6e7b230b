"""Reading a log may take three seconds of CPU time and 512 MiB; what takes more is a failure, not a slow test.

CPU time of this process, user and system, is counted and not the clock's: on a busy machine a case may wait as long as
it must. `ITIMER_PROF` raises TooSlow in Python code. Code that never comes back to Python (a kernel's endless loop) is
ended by the system some seconds later: no code handles the SIGVTALRM of `ITIMER_VIRTUAL`, and who started the process
sees how it ended. (`RLIMIT_CPU` would not do: it counts from the process's start, and in ticks, of which a process can
get seconds too many in a few minutes.)

Memory is bounded as address space (`RLIMIT_AS`) over what the process has when the limit is set, so that modules,
compiled code and caches that are there by then do not count. An allocation beyond it is refused at once, as
MemoryError, whether or not its pages would ever be touched.
"""

import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

CPU_SECONDS: Final = 3.0
"""Five times what the longest case takes on a usual machine: others are slower."""
CPU_SECONDS_OF_COMPILED_CODE: Final = 6
MEMORY: Final = 512 << 20


class TooSlow(BaseException):
    """More CPU time than that. Not an Exception: nothing may swallow it."""


def _raise(signum: int, frame: FrameType | None) -> None:
    raise TooSlow(f"more than {CPU_SECONDS:g} s of CPU time")


def bound_memory(size: int = MEMORY) -> None:
    """Let this process have `size` bytes more from now on, and not a byte beyond."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + size, resource.RLIM_INFINITY))


@contextmanager
def cpu_bound() -> Iterator[Callable[[], None]]:
    """Raises TooSlow in the body when it takes too long; ends the process where that finds no Python code to stop.

    Gives a function that starts the clock anew: a case reads its log in several ways, and each has its seconds.
    """
    handler = signal.signal(signal.SIGPROF, _raise)
    ending = signal.signal(signal.SIGVTALRM, signal.SIG_DFL)

    def start() -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS_OF_COMPILED_CODE)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)

    start()
    try:
        yield start
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, ending)
        signal.signal(signal.SIGPROF, handler)
