"""What tasks still need of a source's relay log, as far as a purge has to know it.

Every subtask that is not Finished counts, whatever it is doing: running, stopped, dumping, loading. One that has not
said what it needs may need everything, so a purge that meets one removes nothing. Pure; reading the metadata DB is the
caller's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.model import Stage, SubtaskStatus
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile, Location, same_log
from airflow_provider_dm.engine.relay.directory import SubDir


class NeedUnknown(DmError):
    task: str
    source: str
    stage: str

    code = "DM-4052"
    what = "nothing is purged: task {task} ({stage}) has not said what it needs of the relay log of {source}."
    hint = "Run it until it syncs, or, if it never will, release what it needs by `dmctl stop-task`."


class NeedUnrelated(DmError):
    """A task needs a place in a log that is not the one in the relay directory."""

    task: str
    needed: str
    held: str

    code = "DM-4053"
    what = "nothing is purged: task {task} needs {needed}, which has no order with {held} of the relay log."
    hint = "The task belongs to another log of the source: finish it, or release it by `dmctl stop-task`."


class Need(NamedTuple):
    """A task's need of the log from `at` on, the file of `at` included."""

    task: str
    at: Location
    stage: Stage

    @property
    def order(self) -> tuple[int, int]:
        """Sub-directory and file, as numbers."""
        return self.at.suffix, BinlogFile.parse(self.at.file).number

    def __str__(self) -> str:
        return f"task {self.task} ({self.stage}) needs {self.at}"


def needs_of(statuses: Iterable[SubtaskStatus], *, only_task: str | None = None) -> tuple[Need, ...]:
    """List what one source's subtasks need, oldest first; `only_task` alone where the directory is its own.

    Raises NeedUnknown.
    """
    needs = []
    for status in statuses:
        if status.stage is Stage.FINISHED or only_task not in (None, status.task):
            continue
        if status.needed is None:
            raise NeedUnknown(status.task, status.source, status.stage.value)
        needs.append(Need(status.task, status.needed, status.stage))
    return tuple(sorted(needs, key=lambda need: (need.order, need.task)))


def check_related(needs: Sequence[Need], held: Iterable[tuple[SubDir, BinlogFile]]) -> None:
    """Refuse needs of another log. `held`: sub-directory and file, oldest first.

    Raises NeedUnrelated for a need of another server's log, whose file has another base name, or whose sub-directory is
    yet to come: then the relay directory is not the one that the task has read.
    """
    places = {
        sub_dir.suffix: Location(str(file), BINLOG_HEADER_SIZE, "", sub_dir.suffix, sub_dir.server_uuid)
        for sub_dir, file in held
    }
    newest = max(places, default=None)
    for need in needs:
        if newest is not None and need.at.suffix > newest:
            raise NeedUnrelated(need.task, f"sub-directory {need.at.suffix:06d}", f"sub-directory {newest:06d}")
        place = places.setdefault(need.at.suffix, need.at)
        if not same_log(need.at, place):
            raise NeedUnrelated(need.task, _whose(need.at), _whose(place))


def _whose(place: Location) -> str:
    return f"{place.file} of server {place.server_uuid}" if place.server_uuid else place.file
