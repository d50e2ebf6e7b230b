"""A file that is missing in the middle of the log is pulled again, as long as the upstream still has it.

A hole is left by whoever moves a damaged file away. It is filled by a dump of that file alone, through the same pull
loop as everything else, under a hidden name; the file gets its own name when it is whole, proven and on disk:

    it ends where the upstream goes on with the next file, every event before has followed the one before it
    every checksum is right, where the file has them
    it is as long as the upstream lists it
    what the upstream sends next is the first event of the file that is held behind it: it is still the same log

Only the newest sub-directory is looked at, the only one whose server answers. Files that are there are never touched,
nor is relay.meta. Of several files the newest comes first, so that each has one behind it to be proven by. What dies
here leaves a hidden file, which the next start removes (`recovery`).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from airflow_provider_dm.engine.binlog.errors import ChecksumMismatch, UnsupportedFormat
from airflow_provider_dm.engine.binlog.format import MAGIC
from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile, Location
from airflow_provider_dm.engine.relay.decide import FileSequenceBroken, StreamHasHole
from airflow_provider_dm.engine.relay.directory import RelayDirectory, SubDir
from airflow_provider_dm.engine.relay.durable import disk_errors, sync_folder
from airflow_provider_dm.engine.relay.protocol import (
    BinlogPurged,
    DumpRefused,
    DumpStream,
    UpstreamFileTorn,
    UpstreamLostTail,
)
from airflow_provider_dm.engine.relay.pull import Puller
from airflow_provider_dm.engine.relay.purge_files import sole_purger
from airflow_provider_dm.engine.relay.runs import RunTaker
from airflow_provider_dm.engine.relay.writer import RelayWriter

log = logging.getLogger(__name__)

_ENCRYPTION_HEADER: Final = 512
"""Bytes that MySQL lists of an encrypted file and never sends."""

Dump: TypeAlias = Callable[[BinlogFile], AbstractContextManager[DumpStream]]
"""The upstream's events from that file's start on, over a connection of its own."""

_OF_THE_FILE: Final = (
    BinlogPurged,
    ChecksumMismatch,
    DumpRefused,
    FileSequenceBroken,
    StreamHasHole,
    UnsupportedFormat,
    UpstreamFileTorn,
    UpstreamLostTail,
)
"""What is wrong with the upstream's file, and says nothing about the newest one: the relay goes on without it."""


# Which files


@dataclass(frozen=True)
class Hole:
    """Files that are missing between two that are held: `first`, `last`, and all between them."""

    first: BinlogFile
    last: BinlogFile

    def __contains__(self, file: BinlogFile) -> bool:
        return file.base == self.first.base and self.first.number <= file.number <= self.last.number

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first} to {self.last}"


def holes(held: Sequence[BinlogFile]) -> tuple[Hole, ...]:
    """Find the holes in files, ordered by number. Between two base names is no hole: no number could fill it."""
    return tuple(
        Hole(one.next(), replace(other, number=other.number - 1))
        for one, other in itertools.pairwise(held)
        if one.base == other.base and one.number + 1 < other.number
    )


def pullable(hole: Hole, binlogs: Sequence[BinlogSize]) -> tuple[BinlogSize, ...]:
    """Return the files of a hole that the upstream lists as finished, with a next one behind them. Newest first."""
    return tuple(
        one
        for one, following in reversed([*itertools.pairwise(binlogs)])
        if (file := BinlogFile.parse(one.name)) in hole and BinlogFile.parse(following.name) == file.next()
    )


def purged(hole: Hole, binlogs: Sequence[BinlogSize]) -> Hole | None:
    """Return the part of a hole that the upstream has no longer; None: it has all of it."""
    oldest = BinlogFile.parse(binlogs[0].name) if binlogs else None
    if oldest is None or oldest.base != hole.first.base or oldest.number > hole.last.number:
        return hole
    if oldest.number <= hole.first.number:
        return None
    return Hole(hole.first, replace(oldest, number=oldest.number - 1))


# Pulling them


@dataclass
class Refiller:
    """The filler of a relay's holes, for session after session: what cannot be filled is told, and tried, once."""

    directory: RelayDirectory
    take: RunTaker = field(default_factory=RunTaker)
    pending: bool = False
    """Whether holes were found that are still to be filled."""
    _left: set[tuple[SubDir, BinlogFile]] = field(default_factory=set)
    """Files that stay missing; of a hole that is purged, the first one."""

    def holes(self, sub_dir: SubDir) -> tuple[Hole, ...]:
        """Find the holes of a sub-directory. Raises RelayDirectoryUnusable."""
        return holes([one.file for one in self.directory.files(sub_dir)])

    def fill(
        self, sub_dir: SubDir, flavour: Flavour, binlogs: Sequence[BinlogSize], dump: Dump, tick: Callable[[], bool]
    ) -> bool:
        """Fill the holes of a sub-directory as far as they can be; tell whether `tick` let it end.

        `binlogs`: what the upstream lists. Raises what `dump`, the stream or the disk say, and PurgeRuns.
        """
        found = self.holes(sub_dir)
        self.pending = bool(found)
        for hole in found:
            self._tell_purged(sub_dir, purged(hole, binlogs))
        for listed in (one for hole in reversed(found) for one in pullable(hole, binlogs)):
            file = BinlogFile.parse(listed.name)
            if (sub_dir, file) in self._left:
                continue
            if not self._pull(HiddenFile(self.directory, sub_dir, flavour, file), listed.size, dump, tick):
                return False
        self.pending = False
        return True

    def _tell_purged(self, sub_dir: SubDir, gone: Hole | None) -> None:
        if gone is not None and (sub_dir, gone.first) not in self._left:
            self._left.add((sub_dir, gone.first))
            log.warning(
                "%s: missing between files that are held, and the upstream has purged it: %s. The relay goes on; "
                "whoever needs it gets an error.",
                sub_dir,
                gone,
            )

    def _pull(self, hidden: HiddenFile, listed: int, dump: Dump, tick: Callable[[], bool]) -> bool:
        """Pull one file, which the upstream lists with so many bytes. The hidden file is closed then, and gone.

        Return whether it came to an end, be it one that leaves the hole. Raises as `fill` does.
        """
        sub_dir, file, path = hidden.sub_dir, hidden.file, hidden.path
        log.warning("%s/%s is missing between files that are held: pulled again, %d bytes", sub_dir, file, listed)
        try:
            with closing(hidden), dump(file) as stream, suppress(_Whole):
                Puller(stream, hidden, BINLOG_HEADER_SIZE, self.take).run(tick)
                return False  # `tick` said no before it came to its end
            check_whole(hidden, file, listed)
            self._publish(path, sub_dir, file)
        except _OF_THE_FILE as error:
            self._left.add((sub_dir, file))
            log.warning("%s/%s stays missing until the relay is started again: %s", sub_dir, file, error)
        finally:
            path.unlink(missing_ok=True)
        return True

    def _publish(self, hidden_path: Path, sub_dir: SubDir, file: BinlogFile) -> None:
        """Give the file its name, for good; unless it is no hole any more, as by a purge of what lay before it.

        Raises PurgeRuns, RelayDiskFull or RelayDiskFailed.
        """
        path = hidden_path.with_name(str(file))
        with sole_purger(self.directory.root), disk_errors(path):
            if not any(file in hole for hole in self.holes(sub_dir)):
                log.info("%s/%s is not missing any more", sub_dir, file)
                return
            hidden_path.rename(path)
            sync_folder(path.parent)
        log.warning("%s/%s is there again, whole and verified", sub_dir, file)


class _Whole(Exception):
    """The way out of the pull loop: the file has come to its end, and the next one begins."""


@dataclass
class HiddenFile(RelayWriter):
    """The writer of one file that nobody sees yet, to its end and no further. relay.meta speaks of another file."""

    came: int = 0
    """Its size, once it has come whole and is on disk."""
    next_begins: bytes = b""
    """The first event of the file behind it."""

    @property
    def path(self) -> Path:
        return self.folder / f".{self.file}.new"

    def create(self, event: bytes) -> None:
        """Create the file. Raises _Whole for the file behind it, which is not made."""
        if self.came:
            self.next_begins = event
            raise _Whole
        super().create(event)

    def turn_to(self, file: BinlogFile) -> None:
        came = self.size
        super().turn_to(file)
        self.came = came

    def save(self) -> Location:
        """Force it to disk, and say nothing of it in relay.meta. Raises RelayDiskFailed."""
        self._syncer.sync_now(self.path)
        return self.location(exact=True)

    def close(self) -> None:
        """Close without saving: what is whole is on disk already; what is not need not be."""
        self.size = 0
        super().close()


def check_whole(hidden: HiddenFile, file: BinlogFile, listed: int) -> None:
    """Check what the stream alone does not prove of a file that came whole. Raises UpstreamLostTail."""
    if listed - hidden.came not in (0, _ENCRYPTION_HEADER):
        raise UpstreamLostTail(f"{file}:{listed}", f"{hidden.came} bytes came")
    following, beginning = hidden.folder / str(file.next()), MAGIC + hidden.next_begins
    if _head(following, len(beginning)) != beginning:
        raise UpstreamLostTail(f"{following.name}:{BINLOG_HEADER_SIZE}", "what is held does not begin as it does")


def _head(path: Path, size: int) -> bytes | None:
    """Read the first bytes of a file; None where it is not there. Raises what the disk says, typed."""
    with disk_errors(path):
        try:
            with open(path, "rb") as file:
                return file.read(size)
        except FileNotFoundError:
            return None
