"""The relay log as its readers see it: which files, in which order, and how many bytes of each are published.

The writer writes whole, checked events only, so the size of a file is what may be read of it. A file with a successor
is finished. Readers come with a location and get everything from that file on; what is missing is an error with a name,
never a shorter list. Reading needs no lock and changes nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from airflow_provider_dm.engine.binlog.planner import LogFile
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.location import BinlogFile, Location
from airflow_provider_dm.engine.relay.directory import RelayDirectory, RelayFile, SubDir


@dataclass(eq=False)
class RelayFileGone(DmError):
    """A file that is needed was in the relay log and is no longer."""

    file: str
    directory: str

    code: ClassVar[str] = "DM-4040"
    what: ClassVar[str] = "{file} is missing in {directory}."
    hint: ClassVar[str] = "It was purged or removed by hand. If the upstream still has it, use a new relay-dir."


@dataclass(eq=False)
class RelayStartsTooLate(DmError):
    """The relay log begins behind what is needed."""

    needed: str
    first: str
    directory: str

    code: ClassVar[str] = "DM-4041"
    what: ClassVar[str] = "{needed} is needed, but the relay log in {directory} begins with {first}."
    hint: ClassVar[str] = "Set relay-binlog-name to the file that is needed and use a new relay-dir."


@dataclass(frozen=True)
class RelayReader:
    """Of one source's relay directory."""

    root: Path

    @property
    def _directory(self) -> RelayDirectory:
        return RelayDirectory(Path(self.root))

    def suffix_of(self, server_uuid: str) -> int | None:
        """The newest sub-directory of that server; None without one."""
        suffixes = [sub_dir.suffix for sub_dir in self._directory.sub_dirs() if sub_dir.server_uuid == server_uuid]
        return max(suffixes, default=None)

    def files(self, start: Location) -> list[LogFile]:
        """From `start`'s file to the newest one; empty when the relay has not come to that file yet.

        Raises RelayStartsTooLate or RelayFileGone.
        """
        sub_dirs = self._directory.sub_dirs()
        wanted = [sub_dir for sub_dir in sub_dirs if sub_dir.suffix >= start.suffix]
        if sub_dirs and start.suffix < sub_dirs[0].suffix:
            raise RelayStartsTooLate(str(start), str(sub_dirs[0]), str(self.root))
        found: list[tuple[SubDir, RelayFile]] = []
        for sub_dir in wanted:
            held = self._directory.files(sub_dir)
            if sub_dir.suffix == start.suffix:
                held = self._from(start, held)
            self._without_gaps(sub_dir, held)
            found += [(sub_dir, one) for one in held]
        return [_log_file(sub_dir, one, last=one is found[-1][1]) for sub_dir, one in found]

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
        for one, other in itertools.pairwise(held):
            if one.file.next() != other.file:
                raise RelayFileGone(str(one.file.next()), str(self._directory.folder(sub_dir)))


def _log_file(sub_dir: SubDir, one: RelayFile, *, last: bool) -> LogFile:
    return LogFile(path=str(one.path), suffix=sub_dir.suffix, name=str(one.file), size=one.size, last=last)
