"""A task's private relay log, and how much of it may be held.

A relay that serves one task only (`RelaySpec.spool`) pulls as long as less than a limit is there. How far the task is,
its reader says in a small file beside the log, the mark; nothing else is asked, so the bound holds without the metadata
DB as well. Files that the task is past are removed by the relay's housekeeping.

    ahead = all that is held, but for what is read already of the file that the mark is in
    pull on   while ahead < limit; once it is not, again below half of it
    always    while the mark lies behind the start of the last transaction
    never     when all transactions up to the place are here at which the run will end (`--until FILE:POSITION`)

The last rule is what keeps a transaction larger than the limit from standing still: its reader has looked at all that
there is and found nothing complete, so only more bytes can help. For the same reason a mark names what was *looked at*
when nothing could be made of it, and not what is applied.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from airflow_provider_dm.engine.errors import MIGRATE_AGAIN, DmError, Scope
from airflow_provider_dm.engine.mysql.location import BinlogFile, Location
from airflow_provider_dm.engine.relay.directory import RelayDirectory
from airflow_provider_dm.engine.relay.spec import SpoolSpec

MARK: Final = "reader.mark"
LOOK_SECONDS: Final = 0.5

_MARK: Final = re.compile(r"(\d{1,9}) (\d{1,18}) (\d{1,19})\n", re.ASCII)


class TaskFellBehind(DmError):
    task: str
    needed: str
    available: str

    code = "DM-4060"
    scope = Scope.UPSTREAM
    what = "task {task} needs the binlog from {needed} on, and the upstream has purged that; it still has {available}."
    hint = (
        "Without `enable-relay: true` the log is pulled only so far ahead of the task as `spool-limit-mb` of its "
        "source.yaml allows, during the full load as well. Let the upstream keep its binlogs longer, set "
        f"`enable-relay: true` or a higher limit, and {MIGRATE_AGAIN}."
    )


class Place(NamedTuple):
    """A position of one source's log as numbers; of two, the smaller one is before the other."""

    suffix: int
    number: int
    position: int

    @classmethod
    def of(cls, location: Location) -> Place:
        return cls(location.suffix, BinlogFile.parse(location.file).number, location.position)


# The mark


def read_mark(root: Path) -> Place | None:
    """Read how far the reader has looked; None: nobody has read yet, or what is there cannot be understood."""
    try:
        match = _MARK.fullmatch((root / MARK).read_text(encoding="ascii"))
    except (OSError, UnicodeDecodeError):
        return None
    return Place(*map(int, match.groups())) if match else None


def write_mark(root: Path, place: Place) -> None:
    """Replace the mark. Not forced to disk: an old one only makes the relay careful. Raises OSError."""
    beside = root / f".{MARK}.{os.getpid()}"
    beside.write_text("{} {} {}\n".format(*place), encoding="ascii")
    beside.replace(root / MARK)


# The rule


def bytes_ahead(ends: Iterable[Place], mark: Place | None) -> int:
    """Count the bytes held ahead of the task. `ends`: where each held file ends, in any order.

    A file can only go as a whole, so one that the task is in counts as far as it is unread, and one that it is past
    counts until it is gone.
    """
    return sum(
        max(0, end.position - mark.position) if mark is not None and end[:2] == mark[:2] else end.position
        for end in ends
    )


def may_pull(*, pulling: bool, ahead: int, limit: int, mark: Place | None, begun: Place) -> bool:
    """Decide whether to pull.

    `pulling`: what was decided last; `begun`: where the last transaction of the log begins, complete or not.
    """
    if mark is not None and mark >= begun:
        return True
    return ahead < (limit if pulling else max(limit // 2, 1))


# Asking again and again


@dataclass
class SpoolBound:
    """The rule over one relay directory, for the relay that writes it: cheap enough to be asked after every receive."""

    root: Path
    limit_bytes: int
    until: tuple[int, int] | None = None
    """The number of a file and a position, of the newest sub-directory, where the run will end; None: nowhere."""
    pulling: bool = field(default=True, init=False)
    _ahead: int = field(default=0, init=False)
    _mark: Place | None = field(default=None, init=False)
    _seen_end: Place | None = field(default=None, init=False)
    _look_at: float = field(default=0.0, init=False)

    @classmethod
    def of(cls, root: Path, spec: SpoolSpec) -> SpoolBound:
        """Return the bound that a relay was started with."""
        until = Place.of(spec.until)[1:] if spec.until is not None else None
        return cls(root, spec.limit_bytes, until)

    def may_pull(self, end: Place, begun: Place) -> bool:
        """Tell whether to pull on, with the log ending at `end`.

        The directory is looked at twice a second at most, and between two looks only what was pulled is counted.
        """
        if self.until is not None and begun[1:] >= self.until:
            return False  # one begins behind it, which may lie inside of a transaction, so all of them are here
        now = time.monotonic()
        seen, grown = self._seen_end, 0
        if seen is not None and seen[:2] == end[:2]:
            grown = end.position - seen.position
        if now >= self._look_at or seen is None or seen[:2] != end[:2]:
            self._look(end)
            grown, self._look_at = 0, now + LOOK_SECONDS
        self.pulling = may_pull(
            pulling=self.pulling, ahead=self._ahead + grown, limit=self.limit_bytes, mark=self._mark, begun=begun
        )
        return self.pulling

    def _look(self, end: Place) -> None:
        directory = RelayDirectory(self.root)
        ends = {
            Place(sub_dir.suffix, one.file.number, one.size)
            for sub_dir in directory.sub_dirs()
            for one in directory.files(sub_dir)
        }
        self._mark, self._seen_end = read_mark(self.root), end
        self._ahead = bytes_ahead(ends, self._mark)
