"""The relay log for its readers: which files, in which order, and how many bytes of each are published.

The writer writes complete, verified events only, so all bytes of a file may be read. A file with a successor is
finished. A reader gives a location and gets all files from that location on; a missing file is a typed error, never a
shorter list. A location whose file was removed needs no earlier log if its GTID set has every transaction that was
committed before the first file of a later sub-directory. Reading needs no lock and has no side effects.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from airflow_provider_dm.engine.binlog.boundary import opened_log
from airflow_provider_dm.engine.binlog.errors import LocationNotInLog
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, EpochLimits, UpToDate
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.repetitions import Repetitions, held_before, named_before
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile, Location, Order, compare, reached
from airflow_provider_dm.engine.relay.directory import RelayDirectory, RelayFile, SubDir
from airflow_provider_dm.engine.relay.errors import RelayFileGone, RelayOfAnotherServer, RelayStartsTooLate


@dataclass(frozen=True)
class RelayReader:
    root: Path

    @property
    def _directory(self) -> RelayDirectory:
        return RelayDirectory(Path(self.root))

    def suffix_now(self, server_uuid: str) -> int | None:
        """Return the number of the sub-directory for the present log of this server, which may not exist yet.

        A server that becomes the upstream again gets a new sub-directory. None if the relay directory is empty.
        """
        latest = self._directory.latest()
        if latest is None:
            return None
        return latest.suffix if latest.server_uuid == server_uuid else latest.suffix + 1

    def newest_suffix(self) -> int | None:
        """Return the newest sub-directory's number; None if the relay directory is empty."""
        latest = self._directory.latest()
        return latest.suffix if latest is not None else None

    def newest_file(self) -> Location | None:
        """Return the beginning of the file that is being written; None if the newest sub-directory has none yet."""
        latest = self._directory.latest()
        held = self._directory.files(latest) if latest is not None else ()
        if latest is None or not held:
            return None
        return Location(str(held[-1].file), BINLOG_HEADER_SIZE, "", latest.suffix, latest.server_uuid)

    def base_of(self, suffix: int) -> str | None:
        """Return the base name, without number, of a sub-directory's binlog files; None without files."""
        sub_dir = self._directory.by_suffix(suffix)
        held = self._directory.files(sub_dir) if sub_dir is not None else ()
        return held[0].file.base if held else None

    def files(self, start: Location) -> list[LogFile]:
        """List the files from `start`'s to the newest, or from the first of a later sub-directory if nothing is
        missing.

        Empty if the relay has not reached `start` yet. Raises RelayStartsTooLate, RelayFileGone, RelayOfAnotherServer,
        and errors in the head of a later sub-directory's first file.
        """
        found: list[tuple[SubDir, RelayFile]] = []
        for sub_dir in self._directory.sub_dirs():
            if sub_dir.suffix < start.suffix:
                continue
            held = self._directory.files(sub_dir)
            if sub_dir.suffix == start.suffix:
                if start.server_uuid and start.server_uuid != sub_dir.server_uuid:
                    raise RelayOfAnotherServer(str(start), start.server_uuid, str(sub_dir), str(self.root))
                held = self._from(start, held)
            self._without_gaps(sub_dir, held)
            found += [(sub_dir, file) for file in held]
        files = [_log_file(sub_dir, file, last=file is found[-1][1]) for sub_dir, file in found]
        if not files or files[0].suffix == start.suffix or self._covers(start, files[0]):
            return files
        return []

    def held(self) -> list[LogFile]:
        """List all files, older sub-directories first; there may be gaps."""
        files = [(sub_dir, file) for sub_dir in self._directory.sub_dirs() for file in self._directory.files(sub_dir)]
        return [_log_file(sub_dir, file, last=file is files[-1][1]) for sub_dir, file in files]

    def gtid_set_after(self, known: Location, place: Location) -> str | None:
        """Return the GTID set of a boundary: that of the earlier location `known`, and what was committed in between.

        None if the relay has not reached it. Raises the errors of `files` and of the planner.
        """
        here, files, repetitions = known, self.files(known), Repetitions()
        while files and not reached(here, place):
            match plan_epoch(files, here, EpochLimits(goal=place), repetitions=repetitions, bounds_only=True):
                case Epoch(hi=hi):
                    here = hi
                case DdlStatement(end=end):
                    here = end
                case UpToDate(at):
                    return at.gtid_set if compare(at, place) is Order.SAME else None
        return here.gtid_set if compare(here, place) is Order.SAME else None

    def own_gtid_set_at(self, place: Location) -> str | None:
        """Return all that was committed before a boundary according to this server's log. None if the relay has not
        reached it. Raises LocationNotInLog if it is not a boundary, MalformedEvent, and the errors of `files`.
        """
        files = self.files(replace(place, position=BINLOG_HEADER_SIZE, gtid_set=""))
        if files and files[0].size < place.position and not files[0].last:
            raise LocationNotInLog(str(place), f"{files[0].name} ends at {files[0].size}")
        if not files or files[0].size < place.position:
            return None
        with opened_log(files[0].path, files[0].size, files[0].name) as log:
            return None if log is None else str(held_before(log, place.position))

    def created(self, place: Location) -> int:
        """Return `Location.created` for the file of a location; 0 if the log does not have that file, or its first
        event is incomplete or damaged."""
        try:
            file = next(one for one in self.files(place) if (one.suffix, one.name) == (place.suffix, place.file))
            with opened_log(file.path, file.size, file.name) as log:
                return 0 if log is None else log.created
        except (StopIteration, DmError, OSError):
            return 0

    def _covers(self, start: Location, first: LogFile) -> bool:
        """Return True if nothing is missing between `start` and a file; False if the file does not show it yet."""
        before = named_before(first)
        if before is None:
            return False
        if not start.gtid_set or not before.parse_text(start.gtid_set).contains(before):
            raise RelayStartsTooLate(str(start), str(first), str(self.root))
        return True

    def _from(self, start: Location, held: Sequence[RelayFile]) -> tuple[RelayFile, ...]:
        file = BinlogFile.parse(start.file)
        if not held:
            return ()
        if held[0].file.base != file.base:
            raise RelayFileGone(start.file, str(held[0].path.parent))
        if file.number < held[0].file.number:
            raise RelayStartsTooLate(str(start), str(held[0].file), str(self.root))
        return tuple(one for one in held if one.file.number >= file.number)

    def _without_gaps(self, sub_dir: SubDir, held: Sequence[RelayFile]) -> None:
        for file, other in itertools.pairwise(held):
            if file.file.next() != other.file:
                raise RelayFileGone(str(file.file.next()), str(self._directory.folder(sub_dir)))


def _log_file(sub_dir: SubDir, file: RelayFile, *, last: bool) -> LogFile:
    return LogFile(str(file.path), sub_dir.suffix, str(file.file), file.size, last, sub_dir.server_uuid)
