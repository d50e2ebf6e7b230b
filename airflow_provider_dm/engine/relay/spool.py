"""A task's private relay log, and the limit on its size.

A relay that serves one task only (`RelaySpec.spool`) pulls while less than a limit is held ahead of the task. The
task's reader writes its progress to a small file in the same directory, the mark; no other information is used, so the
limit also holds without the metadata DB. The relay's housekeeping removes files that the task has passed.

    ahead = all bytes held, except those already read of the mark's file
    pull      while ahead < limit; after reaching it, again below half of the limit
    always    while the mark is at or after the start of the last transaction
    never     if all transactions are held up to the location at which the run ends (`--until FILE:POSITION`)

The rule "always" prevents a transaction larger than the limit from blocking: its reader has scanned all bytes and found
no complete transaction, so only more bytes can help. For the same reason the mark names the end of the *scanned* bytes
if they are incomplete, not of the applied ones.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from airflow_provider_dm.engine.mysql.location import BinlogFile, Location
from airflow_provider_dm.engine.relay.directory import RelayDirectory
from airflow_provider_dm.engine.relay.spec import SpoolSpec

READER_MARK: Final = "reader.mark"
SPOOL_POLL_SECONDS: Final = 0.5

_MARK: Final = re.compile(r"(\d{1,9}) (\d{1,18}) (\d{1,19})\n", re.ASCII)


class LogPosition(NamedTuple):
    """A position in one source's log as numbers; the smaller of two precedes the other."""

    suffix: int
    number: int
    position: int

    @classmethod
    def of(cls, location: Location) -> LogPosition:
        return cls(location.suffix, BinlogFile.parse(location.file).number, location.position)


# The mark


def read_mark(root: Path) -> LogPosition | None:
    """Return the reader's progress; None if there is no valid mark yet."""
    try:
        match = _MARK.fullmatch((root / READER_MARK).read_text(encoding="ascii"))
    except (OSError, UnicodeDecodeError):
        return None
    return LogPosition(*map(int, match.groups())) if match else None


def write_mark(root: Path, place: LogPosition) -> None:
    """Replace the mark. Not forced to disk: an old mark only delays the relay. Raises OSError."""
    temporary = root / f".{READER_MARK}.{os.getpid()}"
    temporary.write_text("{} {} {}\n".format(*place), encoding="ascii")
    temporary.replace(root / READER_MARK)


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


# The rule


def bytes_ahead(ends: Iterable[LogPosition], mark: LogPosition | None) -> int:
    """Return the number of bytes held ahead of the task. `ends`: the ends of all held files, in any order.

    A file is removed as a whole: of the task's current file only the unread bytes count, but a file that the task has
    passed counts until it is removed.
    """
    return sum(
        max(0, end.position - mark.position) if mark is not None and end[:2] == mark[:2] else end.position
        for end in ends
    )


def may_pull(*, pulling: bool, ahead: int, limit: int, mark: LogPosition | None, begun: LogPosition) -> bool:
    """Decide whether to pull.

    `pulling`: the last decision; `begun`: the beginning of the last transaction of the log, complete or not.
    """
    if mark is not None and mark >= begun:
        return True
    return ahead < (limit if pulling else max(limit // 2, 1))


# Repeated decisions


@dataclass
class SpoolBound:
    """The rule for one relay directory, for the relay that writes it: cheap enough for a call after every receive."""

    root: Path
    limit_bytes: int
    until: tuple[int, int] | None = None
    """File number and position, in the newest sub-directory, at which the run ends; None: no end."""
    pulling: bool = field(default=True, init=False)
    _ahead: int = field(default=0, init=False)
    _mark: LogPosition | None = field(default=None, init=False)
    _seen_end: LogPosition | None = field(default=None, init=False)
    _next_check: float = field(default=0.0, init=False)

    @classmethod
    def of(cls, root: Path, spec: SpoolSpec) -> SpoolBound:
        """Return the limit with which a relay was started."""
        until = LogPosition.of(spec.until)[1:] if spec.until is not None else None
        return cls(root, spec.limit_bytes, until)

    def decide(self, end: LogPosition, begun: LogPosition) -> bool:
        """Decide whether pulling continues, with the log ending at `end`; `pulling` has the decision.

        The directory is read at most twice a second; in between, only newly pulled bytes are counted.
        """
        if self.until is not None and begun[1:] >= self.until:
            return False  # a transaction begins at or after the end, so all earlier ones are complete
        now = time.monotonic()
        seen, grown = self._seen_end, 0
        if seen is not None and seen[:2] == end[:2]:
            grown = end.position - seen.position
        if now >= self._next_check or seen is None or seen[:2] != end[:2]:
            self._check(end)
            grown, self._next_check = 0, now + SPOOL_POLL_SECONDS
        self.pulling = may_pull(
            pulling=self.pulling, ahead=self._ahead + grown, limit=self.limit_bytes, mark=self._mark, begun=begun
        )
        return self.pulling

    def _check(self, end: LogPosition) -> None:
        directory = RelayDirectory(self.root)
        ends = {
            LogPosition(sub_dir.suffix, file.file.number, file.size)
            for sub_dir in directory.sub_dirs()
            for file in directory.files(sub_dir)
        }
        self._mark, self._seen_end = read_mark(self.root), end
        self._ahead = bytes_ahead(ends, self._mark)
