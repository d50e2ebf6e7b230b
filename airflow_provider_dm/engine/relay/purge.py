"""The files of a relay log that may be removed, by request: pure decisions; purge_files.py executes them.

A log is a sequence of files, oldest first, sub-directory after sub-directory. A purge only removes from its old end, so
the rest has no gap. Two numbers decide: how many of the oldest files are requested (by name, time, space, or all),
and the first file that must be kept (the oldest that any task needs, at the latest the newest file, which is still
growing). The smaller number of files is removed; further requested files are kept, with the reason.

    requested   ├───────────────────────┤                files[:wanted]
    must stay               ├───────────────────────┤    files[floor:]
    removed     ├───────────┤
    kept, why               ├───────────┤

Every subtask that is not Finished counts as needing something, in any state: running, stopped, dumping, loading. A
subtask that has not reported its need may need everything, so a purge that finds one removes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Final, NamedTuple, assert_never

from pydantic import ConfigDict

from airflow_provider_dm.engine.config.source import PurgeConfig
from airflow_provider_dm.engine.meta.records import Stage, SubtaskStatus
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile, Location, same_log
from airflow_provider_dm.engine.relay.directory import SubDir
from airflow_provider_dm.engine.relay.errors import NeedUnknown, PurgeRefused

# Needs of tasks


def _need_unrelated(task: str, needed: str, held: str) -> PurgeRefused:
    return PurgeRefused(
        f"task {task} needs {needed}, which cannot be compared with {held} of the relay log.",
        "The task belongs to another log of the source: finish it, or release what it needs by `dmctl stop-task`.",
    )


class LogNeed(NamedTuple):
    """A task's need of the log from `at` on, including the file of `at`."""

    task: str
    at: Location
    stage: Stage

    @property
    def order(self) -> tuple[int, int]:
        """Sub-directory and file, as numbers."""
        return self.at.suffix, BinlogFile.parse(self.at.file).number

    def __str__(self) -> str:
        return f"task {self.task} ({self.stage}) needs {self.at}"


def needs_of(statuses: Iterable[SubtaskStatus], *, only_task: str | None = None) -> tuple[LogNeed, ...]:
    """List the needs of one source's subtasks, oldest first; `only_task`: of a task with a directory of its own.

    Raises NeedUnknown.
    """
    needs = []
    for status in statuses:
        if status.stage is Stage.FINISHED or only_task not in (None, status.task):
            continue
        if status.needed is None:
            raise NeedUnknown(status.task, status.source, status.stage.value)
        needs.append(LogNeed(status.task, status.needed, status.stage))
    return tuple(sorted(needs, key=lambda need: (need.order, need.task)))


def check_related(needs: Sequence[LogNeed], held: Iterable[tuple[SubDir, BinlogFile]]) -> None:
    """Check that the needs belong to this log. `held`: sub-directory and file, oldest first.

    Raises PurgeRefused for a need in another server's log, with another base name, or in a sub-directory that does not
    exist yet: then the task has read another relay directory.
    """
    places = {
        sub_dir.suffix: Location(str(file), BINLOG_HEADER_SIZE, "", sub_dir.suffix, sub_dir.server_uuid)
        for sub_dir, file in held
    }
    newest = max(places, default=None)
    for need in needs:
        if newest is not None and need.at.suffix > newest:
            raise _need_unrelated(need.task, f"sub-directory {need.at.suffix:06d}", f"sub-directory {newest:06d}")
        place = places.setdefault(need.at.suffix, need.at)
        if not same_log(need.at, place):
            raise _need_unrelated(need.task, _whose(need.at), _whose(place))


def _whose(place: Location) -> str:
    return f"{place.file} of server {place.server_uuid}" if place.server_uuid else place.file


# Requests

GIGABYTE: Final = 1 << 30
HOUR: Final = 3600.0


class HeldFile(NamedTuple):
    """A binlog file of the relay log. `ended_at`: time of the last write, in seconds since 1970."""

    sub_dir: SubDir
    file: BinlogFile
    size: int
    ended_at: float

    @property
    def order(self) -> tuple[int, int]:
        return self.sub_dir.suffix, self.file.number

    def __str__(self) -> str:
        return f"{self.sub_dir}/{self.file}"


class RelayLog(NamedTuple):
    """The relay log of a source at the time of reading: all files, oldest first."""

    source: str
    root: Path
    files: tuple[HeldFile, ...]


# Reasons for removal

ONLY_ITS_FIELDS: Final = ConfigDict(extra="forbid")
"""A stored request of another kind, as a newer release may write one, is not read as `Inactive`."""


@dataclass(frozen=True)
class BeforeFile:
    """Everything before a file: in its sub-directory (default: the newest) and in all older ones."""

    __pydantic_config__ = ONLY_ITS_FIELDS

    filename: str
    sub_dir: str | None = None


@dataclass(frozen=True)
class BeforeTime:
    """Files that ended before `moment` (seconds since 1970), up to the first that did not."""

    __pydantic_config__ = ONLY_ITS_FIELDS

    moment: float


@dataclass(frozen=True)
class FreeSpace:
    """The oldest files, up to a total of `size` bytes."""

    __pydantic_config__ = ONLY_ITS_FIELDS

    size: int


@dataclass(frozen=True)
class Inactive:
    """Everything that no task needs."""

    __pydantic_config__ = ONLY_ITS_FIELDS


PurgeRequest = BeforeFile | BeforeTime | FreeSpace | Inactive


def requests_of(config: PurgeConfig, *, free_bytes: int, now: float) -> tuple[PurgeRequest, ...]:
    """Return the requests of `purge` of source.yaml at `now` (in seconds since 1970); none with `interval: 0`."""
    requests: list[PurgeRequest] = []
    missing = config.remain_space * GIGABYTE - free_bytes
    if config.interval and missing > 0:
        requests.append(FreeSpace(missing))
    if config.interval and config.expires:
        requests.append(BeforeTime(now - config.expires * HOUR))
    return tuple(requests)


# The plan


class NamedFile(NamedTuple):
    """A file of a relay log, as other machines know it."""

    sub_dir: str
    filename: str
    size: int

    def __str__(self) -> str:
        return f"{self.sub_dir}/{self.filename}"


@dataclass(frozen=True)
class PurgeReport:
    """The files that a purge has removed, or would remove, oldest first; and the first requested file that stays."""

    files: tuple[NamedFile, ...]
    stays: NamedFile | None = None
    kept: str = ""
    """The file that stays, and the reason."""

    @classmethod
    def of(cls, files: Sequence[HeldFile], stays: HeldFile | None, why: str) -> PurgeReport:
        names = [NamedFile(str(file.sub_dir), str(file.file), file.size) for file in (*files, *filter(None, [stays]))]
        if stays is None:
            return cls(tuple(names))
        return cls(tuple(names[:-1]), names[-1], f"{stays} stays: {why}")

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def __str__(self) -> str:
        """Return number, size and names of the files for users."""
        if not self.files:
            return "no file"
        first, last = self.files[0], self.files[-1]
        size = f"({self.size:,} bytes)"
        return f"{first} {size}" if first is last else f"{len(self.files)} files {size}, {first} to {last}"


@dataclass(frozen=True)
class PurgePlan:
    """A plan: `delete` is removed, oldest first. `report`: of a purge that has deleted all of them."""

    delete: tuple[HeldFile, ...]
    report: PurgeReport


def plan_purge(log: RelayLog, needs: Sequence[LogNeed], *requests: PurgeRequest) -> PurgePlan:
    """Plan the removal for all of `requests`. Raises PurgeRefused."""
    wanted = max((_wanted(log.files, request) for request in requests), default=0)
    floor = first_kept(log.files, needs)
    delete, stays = log.files[: min(wanted, floor)], next(iter(log.files[floor:wanted]), None)
    if stays is None:
        return PurgePlan(delete, PurgeReport.of(delete, None, ""))
    users = [need for need in needs if need.order <= stays.order]
    why = "; ".join(map(str, users or (f"{stays} is the newest file", *needs[:1])))  # needs after it: the oldest one
    return PurgePlan(delete, PurgeReport.of(delete, stays, why))


def first_kept(files: Sequence[HeldFile], needs: Sequence[LogNeed]) -> int:
    """Return the index of the first file that must be kept. Raises PurgeRefused."""
    check_related(needs, ((file.sub_dir, file.file) for file in files))
    oldest = min((need.order for need in needs), default=None)
    droppable = takewhile(lambda file: oldest is None or file.order < oldest, files[:-1])
    return sum(1 for _ in droppable)


def _wanted(files: Sequence[HeldFile], request: PurgeRequest) -> int:
    """Return the number of files, from the oldest on, that the request wants to remove."""
    match request:
        case BeforeFile(filename, sub_dir):
            return _index_of(files, filename, sub_dir)
        case BeforeTime(moment):
            return sum(1 for _ in takewhile(lambda file: file.ended_at < moment, files))
        case FreeSpace(size):
            freed_before = accumulate((file.size for file in files), initial=0)
            return min(sum(1 for _ in takewhile(lambda freed: freed < size, freed_before)), len(files))
        case Inactive():
            return len(files)
        case unknown:
            assert_never(unknown)


def _index_of(files: Sequence[HeldFile], filename: str, sub_dir: str | None) -> int:
    """Find a file by its name, which is compared with existing names, never joined to a path."""
    known = tuple(dict.fromkeys(str(file.sub_dir) for file in files))
    where = sub_dir if sub_dir is not None else (known[-1] if known else "")
    if where not in known:
        raise PurgeRefused(
            f"{where!r} is not a sub-directory of the relay log, which has: {', '.join(known or ('nothing',))}.",
            "Write it as in server-uuid.index, or omit it for the newest one.",
        )
    for index, one in enumerate(files):
        if (str(one.sub_dir), str(one.file)) == (where, filename):
            return index
    here = [str(file.file) for file in files if str(file.sub_dir) == where]
    raise PurgeRefused(
        f"{filename!r} is not a file of {where}, which contains {here[0]} to {here[-1]}.",
        "Name an existing binlog file, without a path: everything before it is purged.",
    )
