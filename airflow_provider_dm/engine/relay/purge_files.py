"""Execution of a purge: its files are hidden, the needs are read again, and only then are the files deleted.

A task may start to need a file during the purge. So a file is first renamed to a dot name, which readers ignore; then
the metadata DB is read once more, and files that are now needed get their names back. Files are hidden from the oldest
on and restored from the newest on, so the visible files are always the newest part of the log, without gaps.

A purge may crash at any step. Files that it leaves hidden get their names back before the next purge, and when the
relay starts (`restore_hidden`): a file is only lost if two readings of the needs had released it.

A purge may run at the same time as the writer, in this or another process: the writer only appends to the newest file,
which a purge never removes. A separate lock excludes other purges. Links are never followed: a sub-directory is opened
as a folder that is no link, and its files are renamed and removed relative to it.

The needs are in the metadata DB. If a user names another metadata DB than relay and tasks use, it has no task, and
every file would seem removable; so a metadata DB without a report of this relay directory is refused.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.meta.records import RelayStatus
from airflow_provider_dm.engine.mysql.errors import InvalidLocation
from airflow_provider_dm.engine.mysql.location import BinlogFile
from airflow_provider_dm.engine.relay.directory import RelayDirectory, SubDir
from airflow_provider_dm.engine.relay.directory_lock import holder_in, sign, try_lock
from airflow_provider_dm.engine.relay.durable import opened
from airflow_provider_dm.engine.relay.errors import NoRelayLog, PurgeRefused, PurgeRuns, RelayDiskFailed
from airflow_provider_dm.engine.relay.meta import META
from airflow_provider_dm.engine.relay.purge import (
    HeldFile,
    LogNeed,
    PurgeReport,
    PurgeRequest,
    RelayLog,
    first_kept,
    plan_purge,
)

log = logging.getLogger(__name__)

PURGE_LOCK: Final = "purge.lock"
_HIDDEN: Final = ".purged"

ReadNeeds = Callable[[], Sequence[LogNeed]]
"""Returns the present needs of the source's tasks. May raise any DmError: then nothing is purged."""


def _relay_not_reported(source: str, directory: str, reported: str) -> PurgeRefused:
    return PurgeRefused(
        f"the relay log of {source} in {directory} has not been reported to this metadata DB, whose last "
        f"report is of {reported}.",
        "Name the metadata DB that the relay and its tasks use (--meta-url, DM_META_URL, dm_meta).",
    )


@contextmanager
def sole_purger(root: Path) -> Iterator[None]:
    """Hold the purge lock. Raises PurgeRuns at once if another purge is running, in this process or another."""
    try:
        descriptor = os.open(root / PURGE_LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise RelayDiskFailed(str(root), error.strerror or str(error)) from error
    try:
        if not try_lock(descriptor):
            raise PurgeRuns(str(root), holder_in(descriptor))
        with suppress(OSError):  # the identity is only for a message, and a full disk may be the reason for the purge
            sign(descriptor)
        yield
    finally:
        os.close(descriptor)


def restore_hidden(root: Path) -> None:
    """Restore the names of files that a crashed purge left hidden. Does nothing while a purge is running.

    Raises RelayDiskFailed.
    """
    with suppress(PurgeRuns), sole_purger(root):
        _restore_leftovers(root)


def purge(source: str, root: Path, read_needs: ReadNeeds, *requests: PurgeRequest) -> PurgeReport:
    """Delete the files that are requested and that no task needs.

    Raises PurgeRuns, RelayDiskFailed, and the errors of `survey`, `plan_purge` and `read_needs`.
    """
    with sole_purger(root):
        _restore_leftovers(root)
        log = survey(source, root)
        plan = plan_purge(log, read_needs(), *requests)
        deleted, returned = _hide_check_delete(root, log.files, plan.delete, read_needs)
        _remove_empty_sub_dirs(root)
    if returned:
        return PurgeReport.of(deleted, returned[0], "a task has requested it since the purge began")
    return plan.report


def _hide_check_delete(
    root: Path, held: Sequence[HeldFile], chosen: tuple[HeldFile, ...], read_needs: ReadNeeds
) -> tuple[tuple[HeldFile, ...], tuple[HeldFile, ...]]:
    """Hide files, read the needs again, then delete or restore them. Return the deleted and the restored files."""
    try:
        _in_each_folder(root, chosen, _hide)
        free = chosen[: first_kept(held, read_needs())] if chosen else ()
        returned = chosen[len(free) :]
        _in_each_folder(root, returned[::-1], _restore)
        _in_each_folder(root, free, _delete)
    except BaseException:
        with suppress(RelayDiskFailed):  # the next start tries again
            _restore_leftovers(root)
        raise
    return free, returned


def _restore_leftovers(root: Path) -> None:
    directory = RelayDirectory(root)
    for sub_dir in reversed(directory.sub_dirs()):
        hidden = hidden_files(directory.folder(sub_dir))
        if hidden:
            log.warning("%s: a purge left %d files hidden; restoring them", sub_dir, len(hidden))
        _in_each_folder(root, [HeldFile(sub_dir, file, 0, 0.0) for file, _ in reversed(hidden)], _restore)


def _in_each_folder(root: Path, files: Sequence[HeldFile], act: Callable[[int, str], None]) -> None:
    """Call `act` for each file, folder by folder; each folder is forced to disk before the next is changed."""
    for sub_dir, group in groupby(files, key=lambda file: file.sub_dir):
        folder = root / str(sub_dir)
        try:
            with opened(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) as descriptor:
                for file in group:
                    act(descriptor, str(file.file))
                os.fsync(descriptor)
        except OSError as error:
            raise RelayDiskFailed(str(folder), error.strerror or str(error)) from error


def _hide(folder: int, name: str) -> None:
    os.rename(name, hidden_name(name), src_dir_fd=folder, dst_dir_fd=folder)


def _restore(folder: int, name: str) -> None:
    """Restore a hidden file's name; if another file has the name by now, delete the hidden one."""
    if _exists(folder, name):
        os.unlink(hidden_name(name), dir_fd=folder)
    else:
        os.rename(hidden_name(name), name, src_dir_fd=folder, dst_dir_fd=folder)


def _delete(folder: int, name: str) -> None:
    os.unlink(hidden_name(name), dir_fd=folder)
    os.fsync(folder)  # in this order: a power failure must not leave a gap


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _remove_empty_sub_dirs(root: Path) -> None:
    """Remove empty sub-directories: first the folders, then their lines in the index.

    A crash in between leaves a line without a folder, which is harmless. The newest sub-directory is kept, since its
    first file may be about to be created, and so is one with files that are not ours.
    """
    directory = RelayDirectory(root)
    for sub_dir in directory.sub_dirs()[:-1]:
        if not directory.files(sub_dir) and _only_ours(directory.folder(sub_dir)):
            log.info("removing %s, which is empty", sub_dir)
            directory.remove_empty(sub_dir)
    directory.repair_index()


def _only_ours(folder: Path) -> bool:
    names = [path.name for path in folder.iterdir()]
    return all(name == META or (name.startswith(".") and name.endswith(".new")) for name in names)


def check_reported(log: RelayLog, status: RelayStatus | None) -> None:
    """Raise PurgeRefused unless the last report of the relay names a sub-directory of this log."""
    if status is None:
        raise _relay_not_reported(log.source, str(log.root), "no relay of this source")
    if status.sub_dir and status.sub_dir not in {str(file.sub_dir) for file in log.files}:
        raise _relay_not_reported(log.source, str(log.root), f"sub-directory {status.sub_dir}")


# The directory's contents, including files that a purge has hidden and not deleted


def survey(source: str, root: Path) -> RelayLog:
    """Return every file that a purge may remove, including files that a crashed purge left hidden.

    Raises NoRelayLog, RelayDirectoryUnusable.
    """
    directory = RelayDirectory(root)
    paths: dict[tuple[SubDir, BinlogFile], Path] = {}
    for sub_dir in directory.sub_dirs():
        paths |= {(sub_dir, file): path for file, path in hidden_files(directory.folder(sub_dir))}
        paths |= {(sub_dir, held.file): held.path for held in directory.files(sub_dir)}
    if not paths:
        raise NoRelayLog(source, str(root))
    order = sorted(paths, key=lambda file: (file[0].suffix, file[1].number))
    files = [_held(*key, paths[key]) for key in order]
    return RelayLog(source, root, tuple(file for file in files if file is not None))


def _held(sub_dir: SubDir, file: BinlogFile, path: Path) -> HeldFile | None:
    """Describe a file; None if it has vanished."""
    try:
        status = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return HeldFile(sub_dir, file, status.st_size, status.st_mtime)


def hidden_files(folder: Path) -> list[tuple[BinlogFile, Path]]:
    """List the files that a purge has hidden here and not deleted yet, oldest first."""
    hidden = []
    for path in folder.glob(f".*{_HIDDEN}"):
        with suppress(InvalidLocation):
            file = BinlogFile.parse(path.name.removeprefix(".").removesuffix(_HIDDEN))
            if path.is_file() and not path.is_symlink():
                hidden.append((file, path))
    return sorted(hidden, key=lambda file: file[0].number)


def hidden_name(name: str) -> str:
    """Return the name of a hidden file, which readers, writer and recovery ignore."""
    return f".{name}{_HIDDEN}"
