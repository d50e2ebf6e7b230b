"""CPU and memory of processes, read from /proc.

The memory of a tree is the sum of its processes' PSS: a page that several processes share is counted once. CPU is
read in ticks of 10 ms: nothing here is for work that takes less than some tenths of a second."""

import os
import resource
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

TICKS: Final = os.sysconf("SC_CLK_TCK")
SAMPLE_SECONDS: Final = 0.1
MEMORY_SECONDS: Final = 0.5
"""Between two looks at the memory: the kernel walks over all pages for one."""


@dataclass
class Tree:
    """The CPU and memory of some processes and of all their descendants, sampled."""

    cpu_seconds: float = 0.0
    peak_bytes: float = 0.0
    _cpu_of: dict[int, float] = field(default_factory=dict)
    _memory_at: float = 0.0

    def look(self, roots: Sequence[int]) -> None:
        """Take a sample."""
        found = set(roots)
        pending = list(roots)
        while pending:
            fresh = _children(pending.pop()) - found
            found |= fresh
            pending += fresh
        self._cpu_of |= {pid: cpu for pid in found if (cpu := cpu_of(pid)) is not None}
        self.cpu_seconds = sum(self._cpu_of.values())
        if time.monotonic() - self._memory_at >= MEMORY_SECONDS:
            self._memory_at = time.monotonic()
            self.peak_bytes = max(self.peak_bytes, sum(map(_pss_of, found)))


@contextmanager
def watched(*roots: int) -> Iterator[Tree]:
    """The tree of our child processes `roots` for the length of a block, in which they have to be waited for.

    A descendant that ended between two samples is counted by way of its parent, if that waited for it."""
    tree, ended, before = Tree(), threading.Event(), own_cpu(children_only=True)

    def sample() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            tree.look(roots)

    tree.look(roots)
    thread = threading.Thread(target=sample, name="watched", daemon=True)
    thread.start()
    try:
        yield tree
    finally:
        ended.set()
        thread.join()
        tree.cpu_seconds = max(tree.cpu_seconds, own_cpu(children_only=True) - before)


def cpu_of(pid: int) -> float | None:
    """CPU seconds of one process without its children, also if it has ended and was not waited for yet."""
    stat = _read(f"/proc/{pid}/stat")
    if not stat:
        return None
    fields = stat.rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_rss_of(pid: int) -> float:
    """The most resident memory that the process ever had, in bytes; 0 when it has ended."""
    return _kilobytes(f"/proc/{pid}/status", "VmHWM:")


def _pss_of(pid: int) -> float:
    return _kilobytes(f"/proc/{pid}/smaps_rollup", "Pss:")


def _kilobytes(path: str, name: str) -> float:
    """Return the value of that name in bytes; 0 when the process has ended."""
    return next((int(line.split()[1]) * 1024.0 for line in _read(path).splitlines() if line.startswith(name)), 0.0)


def processor() -> str:
    """Return the model of this machine's processors."""
    lines = _read("/proc/cpuinfo").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _children(pid: int) -> set[int]:
    """Return the processes that any of its threads started."""
    threads = Path(f"/proc/{pid}/task")
    try:
        return {int(child) for thread in threads.iterdir() for child in _read(thread / "children").split()}
    except OSError:
        return set()


def _read(path: str | Path) -> str:
    """Empty when the process is gone."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def own_cpu(*, children_only: bool = False) -> float:
    """CPU seconds of this process and of the children that it has waited for."""
    who = [resource.RUSAGE_CHILDREN] if children_only else [resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF]
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, who))


def busy_seconds() -> float:
    """CPU seconds that all of this machine has used, without idle, waiting and stolen time."""
    user, nice, system, _idle, _wait, irq, softirq = map(int, _read("/proc/stat").split("\n", 1)[0].split()[1:8])
    return (user + nice + system + irq + softirq) / TICKS
