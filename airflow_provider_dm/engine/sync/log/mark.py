"""The read position in a private log, written to a file which the relay that pulls that log reads (relay/spool.py)."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.relay.spool import LogPosition, write_mark

log = logging.getLogger(__name__)

MARK_SECONDS: Final = 0.5


@dataclass
class ReadMarks:
    """The read positions that one sync has written. For one thread at a time."""

    _written: tuple[Path, LogPosition] | None = None
    _written_at: float = 0.0

    def write(self, root: Path, seen: LogPosition, *, enough: bool) -> None:
        """Write the read position `seen` of the log below `root`. `enough`: the reader has a piece to apply, so the
        relay need not pull more at once, and the write may be delayed by MARK_SECONDS."""
        now = time.monotonic()
        if (root, seen) == self._written or (enough and now - self._written_at < MARK_SECONDS):
            return
        try:
            write_mark(root, seen)
        except OSError as error:
            log.warning("the read position of the sync could not be written for the relay: %s", error)
        self._written, self._written_at = (root, seen), now
