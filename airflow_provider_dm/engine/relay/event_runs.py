"""Takes runs of plain events from the receive buffer: in plain Python, or by a kernel if the load justifies its memory.

A relay that keeps up with its source stays small. A relay with a backlog, or one that spends seconds on small events,
loads the compiled kernel (one second, some 120 MB) and uses it from then on. The kernel is about thirty times as fast.
Events that it does not support are taken in plain Python; both return the same bytes.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.relay.gtid_tracker import HEAD_SIZE
from airflow_provider_dm.engine.relay.kinds import ACTIONS
from airflow_provider_dm.engine.relay.packets import PacketRun, ReceiveBuffer

log = logging.getLogger(__name__)

BACKLOG_BYTES: Final = 64 << 20
"""With at least this backlog the kernel is loaded before the first event."""
BUSY_SECONDS: Final = 3.0
"""A relay counts as busy after it has spent this time on taking events in plain Python."""
_MARKS: Final = 1 << 16


class TakeRun(Protocol):
    """Takes a run. `cursor`: the upstream's position of the next event."""

    def __call__(self, buffer: ReceiveBuffer, cursor: int, *, checksums: bool) -> PacketRun: ...


def take_plainly(buffer: ReceiveBuffer, cursor: int, *, checksums: bool) -> PacketRun:
    """Take a run without a kernel: always available, and the specification of the kernel."""
    return buffer.take_run(cursor, ACTIONS, checksums=checksums)


def compiled_take() -> TakeRun | None:
    """Return the kernel's implementation; None without compiled kernels. The first call takes a second."""
    if not build.ready():
        return None
    import numpy as np

    from airflow_provider_dm.engine.binlog.kernels.packets import take

    actions = np.frombuffer(ACTIONS, np.uint8)
    marks = np.empty(_MARKS, np.int64)
    out: Any = np.empty(0, np.uint8)

    def take_compiled(buffer: ReceiveBuffer, cursor: int, *, checksums: bool) -> PacketRun:
        nonlocal out
        if len(out) < buffer.end - buffer.start:
            out = np.empty(len(buffer.view), np.uint8)
        data = np.frombuffer(buffer.view, np.uint8)
        position, size, marked = take(data, buffer.start, buffer.end, cursor, actions, checksums, out, marks)
        buffer.taken(position)
        taken = out[:size].data
        starts = marks[:marked].tolist()
        heads = [_head(taken, start) for start in starts]
        begun = cursor + starts[-1] if starts else -1
        return PacketRun([taken] if size else [], cursor + size, heads, begun)

    return take_compiled


def _head(events: memoryview, start: int) -> bytes:
    """Return the first bytes of the event at `start`."""
    size = int.from_bytes(events[start + 9 : start + 13], "little")
    return bytes(events[start : start + min(size, HEAD_SIZE)])


@dataclass
class RunTaker:
    """Takes runs, and switches to the compiled kernel when the relay is busy."""

    busy_seconds: float = BUSY_SECONDS
    _take: TakeRun = field(default=take_plainly)
    _spent: float = 0.0
    _kernel_requested: bool = False

    def __call__(self, buffer: ReceiveBuffer, cursor: int, *, checksums: bool) -> PacketRun:
        if self._kernel_requested:
            return self._take(buffer, cursor, checksums=checksums)
        began = time.perf_counter()
        run = self._take(buffer, cursor, checksums=checksums)
        self._spent += time.perf_counter() - began
        if self._spent > self.busy_seconds:
            self._kernel_requested = True
            threading.Thread(target=self._load_kernel, name="relay-kernels", daemon=True).start()
        return run

    def expect(self, backlog: int) -> None:
        """Prepare for a backlog of this many bytes."""
        if backlog >= BACKLOG_BYTES and not self._kernel_requested:
            self._kernel_requested = True
            self._load_kernel()

    def _load_kernel(self) -> None:
        compiled = compiled_take()
        if compiled is None:
            build.warm_in_background()
            self.busy_seconds *= 2  # the next attempt is after this time
            self._spent, self._kernel_requested = 0.0, False
        else:
            log.info("this relay is busy, and processes events with the compiled kernel from now on")
            self._take = compiled
