"""What a relay directory holds, as a purge has to see it: every file with its size and when it ended.

Files that a purge has hidden and not deleted count as there. Links are not seen. Changes nothing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.binlog.format import MAGIC
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.location import BinlogFile, InvalidLocation
from airflow_provider_dm.engine.relay.directory import RelayDirectory, SubDir
from airflow_provider_dm.engine.relay.durable import opened
from airflow_provider_dm.engine.relay.purge import HeldFile, RelayLog

_HIDDEN: Final = ".purged"


class NoRelayLog(DmError):
    source: str
    directory: str

    code = "DM-4055"
    what = "there is no relay log of {source} in {directory}."
    hint = "Look on the machine of the relay; name its source.yaml if that has a `relay-dir`."


def survey(source: str, root: Path) -> RelayLog:
    """Return every file that a purge may consider; what a crashed purge left hidden counts as there.

    Raises NoRelayLog, RelayDirectoryUnusable.
    """
    directory = RelayDirectory(root)
    directory.sub_dirs()  # refuses two sub-directories of one number, whose files have no order
    found: dict[tuple[SubDir, BinlogFile], Path] = {}
    for sub_dir in directory.folders():
        found |= {(sub_dir, file): path for file, path in hidden_files(directory.folder(sub_dir))}
        found |= {(sub_dir, held.file): held.path for held in directory.files(sub_dir)}
    if not found:
        raise NoRelayLog(source, str(root))
    order = sorted(found, key=lambda one: (one[0].suffix, one[1].number))
    successors = [found[key] for key in order[1:]]
    moments = [_first_moment(path) for path in successors] + [0.0]
    files = [_held(*key, found[key], moment) for key, moment in zip(order, moments, strict=True)]
    return RelayLog(source, root, tuple(file for file in files if file is not None))


def _held(sub_dir: SubDir, file: BinlogFile, path: Path, successor_begins: float) -> HeldFile | None:
    """Describe a file; None when it vanished. A copied or restored one may have any mtime; the log knows better."""
    try:
        status = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return HeldFile(sub_dir, file, status.st_size, max(status.st_mtime, successor_begins))


def _first_moment(path: Path) -> float:
    """Read the timestamp of a file's first event, which was written when its predecessor ended; 0 when unreadable."""
    try:
        with opened(path, os.O_RDONLY | os.O_NOFOLLOW) as descriptor:
            head = os.pread(descriptor, len(MAGIC) + 4, 0)
    except OSError:
        return 0.0
    return float(int.from_bytes(head[len(MAGIC) :], "little")) if head.startswith(MAGIC) else 0.0


def hidden_files(folder: Path) -> list[tuple[BinlogFile, Path]]:
    """List what a purge has hidden here and not deleted yet, oldest first."""
    found = []
    for path in folder.glob(f".*{_HIDDEN}"):
        with suppress(InvalidLocation):
            file = BinlogFile.parse(path.name.removeprefix(".").removesuffix(_HIDDEN))
            if path.is_file() and not path.is_symlink():
                found.append((file, path))
    return sorted(found, key=lambda one: one[0].number)


def hidden_name(name: str) -> str:
    """Return the name of a hidden file: no reader, writer or recovery looks at a dot name that ends so."""
    return f".{name}{_HIDDEN}"
