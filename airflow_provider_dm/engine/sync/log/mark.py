"""How far a private log is read: a file beside the log that its relay reads (relay/spool.py)."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.relay.spool import Place, write_mark

log = logging.getLogger(__name__)

MARK_SECONDS: Final = 0.5


@dataclass
class Marks:
    """The marks that one sync has written. For one thread at a time."""

    _written: tuple[Path, Place] | None = None
    _written_at: float = 0.0

    def write(self, root: Path, seen: Place, *, enough: bool) -> None:
        """Write how far the log below `root` is read. `enough`: its reader has something to apply, and does not wait
        for the relay to go on."""
        now = time.monotonic()
        if (root, seen) == self._written or (enough and now - self._written_at < MARK_SECONDS):
            return
        try:
            write_mark(root, seen)
        except OSError as error:
            log.warning("the read position of the sync could not be written for the relay: %s", error)
        self._written, self._written_at = (root, seen), now
