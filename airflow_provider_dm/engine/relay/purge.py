"""Which files of a relay log may go: decided here, from values only; purge_files.py does it.

A log is a row of files, oldest first, sub-directory after sub-directory. A purge takes from its old end only, so what
is left never has a hole. Two numbers decide: how many of the oldest files somebody wants to be rid of (by name, time,
space, or all), and the first file that has to stay (the oldest that any task needs, at the latest the newest one, which
grows). The smaller number goes; a request that reaches further is kept with the reason.

    wanted      ├───────────────────────┤                files[:wanted]
    has to stay             ├───────────────────────┤    files[floor:]
    goes        ├───────────┤
    kept, why               ├───────────┤
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, takewhile
from pathlib import Path
from typing import NamedTuple, assert_never

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.location import BinlogFile
from airflow_provider_dm.engine.relay.directory import SubDir
from airflow_provider_dm.engine.relay.purge_needs import Need, check_related


class NoSuchRelayFile(DmError):
    name: str
    sub_dir: str
    held: str

    code = "DM-4050"
    what = "nothing is purged: {name!r} is no file of {sub_dir}, which holds {held}."
    hint = "Name a binlog file that is there, without a path: everything before it is purged."


class NoSuchRelaySubDir(DmError):
    name: str
    known: tuple[str, ...]

    code = "DM-4051"
    what = "nothing is purged: {name!r} is no sub-directory of the relay log, which has: {known}."
    hint = "Write it as in server-uuid.index, or leave it out for the newest one."


class PurgeUnclear(DmError):
    """A request that says not at all, twice, or by halves what is to be purged."""

    found: str

    code = "DM-4057"
    what = "nothing is purged: {found}."
    hint = "Name one source with a file (and its sub-directory), or a time, or ask for what is inactive."


class HeldFile(NamedTuple):
    """A binlog file of the relay log. `ended_at`: when it was last written, in seconds since 1970."""

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
    """The relay log of a source, as it was found: all files, oldest first."""

    source: str
    root: Path
    files: tuple[HeldFile, ...]


# Why files should go


@dataclass(frozen=True)
class BeforeFile:
    """Everything in front of a file: in its sub-directory (default: the newest) and in all older ones."""

    filename: str
    sub_dir: str | None = None


@dataclass(frozen=True)
class BeforeTime:
    """Files that ended before `moment` (seconds since 1970), up to the first that did not."""

    moment: float


@dataclass(frozen=True)
class FreeSpace:
    """The oldest files, until they add up to `size` bytes."""

    size: int


@dataclass(frozen=True)
class Inactive:
    """Everything that nobody needs."""


PurgeRequest = BeforeFile | BeforeTime | FreeSpace | Inactive


def request_of(filename: str | None, sub_dir: str | None, before: datetime | None, *, inactive: bool) -> PurgeRequest:
    """Return the request that somebody means who has said one of these. Raises PurgeUnclear."""
    if [filename is not None, before is not None, inactive].count(True) != 1:
        raise PurgeUnclear("say one of file, time and inactive")
    if filename is not None:
        return BeforeFile(filename, sub_dir)
    if sub_dir is not None:
        raise PurgeUnclear("the sub-directory is that of a file, and none is named")
    return BeforeTime(before.timestamp()) if before is not None else Inactive()


# What may go


@dataclass(frozen=True)
class Kept:
    """A file that was asked to go and stays: `needs` are the tasks that hold it; without any it is the newest file."""

    file: HeldFile
    needs: tuple[Need, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.needs)) if self.needs else f"{self.file} is the newest file"


@dataclass(frozen=True)
class PurgePlan:
    """A plan: `delete` goes, oldest first; `kept` was asked to go too. Both hold in the moment of planning only."""

    source: str
    root: Path
    delete: tuple[HeldFile, ...]
    kept: tuple[Kept, ...] = ()

    @property
    def size(self) -> int:
        """Bytes that would be free."""
        return sum(file.size for file in self.delete)

    @property
    def held_by(self) -> str:
        """The reason why the first kept file stays; empty when nothing was kept."""
        return f"{self.kept[0].file} stays: {self.kept[0]}" if self.kept else ""


def plan_purge(log: RelayLog, needs: Sequence[Need], *requests: PurgeRequest) -> PurgePlan:
    """Plan what goes to fulfil all of `requests`. Raises NoSuchRelayFile, NoSuchRelaySubDir, NeedUnrelated."""
    wanted = max((_wanted(log.files, request) for request in requests), default=0)
    floor = first_kept(log.files, needs)
    kept = tuple(_kept(file, needs) for file in log.files[floor:wanted])
    return PurgePlan(log.source, log.root, log.files[: min(wanted, floor)], kept)


def first_kept(files: Sequence[HeldFile], needs: Sequence[Need]) -> int:
    """Return the index of the first file that has to stay. Raises NeedUnrelated."""
    check_related(needs, ((one.sub_dir, one.file) for one in files))
    oldest = min((need.order for need in needs), default=None)
    droppable = takewhile(lambda one: oldest is None or one.order < oldest, files[:-1])
    return sum(1 for _ in droppable)


def _kept(file: HeldFile, needs: Sequence[Need]) -> Kept:
    return Kept(file, tuple(need for need in needs if need.order <= file.order))


def _wanted(files: Sequence[HeldFile], request: PurgeRequest) -> int:
    """Return how many of the oldest files the request wants to go."""
    match request:
        case BeforeFile(filename, sub_dir):
            return _index_of(files, filename, sub_dir)
        case BeforeTime(moment):
            return sum(1 for _ in takewhile(lambda one: one.ended_at < moment, files))
        case FreeSpace(size):
            freed_before = accumulate((one.size for one in files), initial=0)
            return min(sum(1 for _ in takewhile(lambda freed: freed < size, freed_before)), len(files))
        case Inactive():
            return len(files)
        case unknown:
            assert_never(unknown)


def _index_of(files: Sequence[HeldFile], filename: str, sub_dir: str | None) -> int:
    """Find a file by its name, which is compared with what is there, never joined to a path."""
    known = tuple(dict.fromkeys(str(one.sub_dir) for one in files))
    where = sub_dir if sub_dir is not None else (known[-1] if known else "")
    if where not in known:
        raise NoSuchRelaySubDir(where, known or ("nothing",))
    for index, one in enumerate(files):
        if (str(one.sub_dir), str(one.file)) == (where, filename):
            return index
    here = [str(one.file) for one in files if str(one.sub_dir) == where]
    raise NoSuchRelayFile(filename, where, f"{here[0]} to {here[-1]}")
