"""Runs of plain events out of the receive buffer: by plain Python, or by a kernel once that is worth its memory.

A relay that keeps up with its source stays small. One that has a backlog to pull, or spends seconds on small events,
loads the compiled kernel (a second, some 120 MB) and takes them with it from then on, about thirty times as fast. What
the kernel does not take, the plain way looks at; both give the same bytes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.relay.gtid_tracker import HEAD_SIZE
from airflow_provider_dm.engine.relay.kinds import ACTIONS
from airflow_provider_dm.engine.relay.packets import PacketRun, ReceiveBuffer

log = logging.getLogger(__name__)

BACKLOG_BYTES: Final = 64 << 20
"""With so much to pull the kernel is loaded before it begins."""
BUSY_SECONDS: Final = 3.0
"""So much time spent on taking events plainly makes a busy relay."""
_MARKS: Final = 1 << 16

Take = Callable[[ReceiveBuffer, int, bool], PacketRun]
"""(buffer, the upstream's position of the next event, whether events have checksums)."""


def take_plainly(buffer: ReceiveBuffer, cursor: int, checksums: bool) -> PacketRun:
    """Take a run without a kernel: always there, and what the kernel has to equal."""
    return buffer.take_run(cursor, ACTIONS, checksums=checksums)


def compiled_take() -> Take | None:
    """Return the kernel's way, None where kernels are not compiled or not wanted. Takes a second the first time."""
    if not build.ready():
        return None
    import numpy as np

    from airflow_provider_dm.engine.binlog.kernels.packets import take

    actions = np.frombuffer(ACTIONS, np.uint8)
    marks = np.empty(_MARKS, np.int64)
    out: Any = np.empty(0, np.uint8)

    def take_compiled(buffer: ReceiveBuffer, cursor: int, checksums: bool) -> PacketRun:
        nonlocal out
        if len(out) < buffer.end - buffer.start:
            out = np.empty(len(buffer.view), np.uint8)
        data = np.frombuffer(buffer.view, np.uint8)
        position, size, marked = take(data, buffer.start, buffer.end, cursor, actions, checksums, out, marks)
        buffer.start = position
        taken = out[:size].data
        starts = marks[:marked].tolist()
        heads = [_head(taken, start) for start in starts]
        begun = cursor + starts[-1] if starts else -1
        return PacketRun([taken] if size else [], cursor + size, heads, begun)

    return take_compiled


def _head(events: memoryview, start: int) -> bytes:
    """Return the first bytes of the event that begins there."""
    size = int.from_bytes(events[start + 9 : start + 13], "little")
    return bytes(events[start : start + min(size, HEAD_SIZE)])


@dataclass
class RunTaker:
    """A taker of runs, which turns to the compiled kernels when it is busy."""

    busy_seconds: float = BUSY_SECONDS
    _take: Take = field(default=take_plainly)
    _spent: float = 0.0
    _asked: bool = False

    def __call__(self, buffer: ReceiveBuffer, cursor: int, checksums: bool) -> PacketRun:
        if self._asked:
            return self._take(buffer, cursor, checksums)
        began = time.perf_counter()
        run = self._take(buffer, cursor, checksums)
        self._spent += time.perf_counter() - began
        if self._spent > self.busy_seconds:
            self._asked = True
            threading.Thread(target=self._become_fast, name="relay-kernels", daemon=True).start()
        return run

    def expect(self, backlog: int) -> None:
        """Get ready for so many bytes."""
        if backlog >= BACKLOG_BYTES and not self._asked:
            self._asked = True
            self._become_fast()

    def _become_fast(self) -> None:
        compiled = compiled_take()
        if compiled is None:
            build.warm_in_background()
        else:
            log.info("this relay is busy: the compiled kernels take its events from now on")
            self._take = compiled
