"""The relay directory of one source: `server-uuid.index`, sub-directories, files.

    <root>/server-uuid.index                       one sub-directory per line, oldest first
    <root>/<server-uuid>.<000001>/mysql-bin.000001 bytes as in the upstream's file
    <root>/<server-uuid>.<000001>/relay.meta

The files are the truth; `relay.meta` is a hint that can be rebuilt, and the index is written for users only. The suffix
of the sub-directory is incremented whenever the upstream changes. Names from outside are compared with existing names,
never joined to a path. This module names and orders files; it opens no file body (reader, recovery), deletes nothing
(purge), and uses no connection (writer).
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from airflow_provider_dm.engine.mysql.errors import InvalidLocation
from airflow_provider_dm.engine.mysql.location import BinlogFile
from airflow_provider_dm.engine.relay.directory_lock import index_lock
from airflow_provider_dm.engine.relay.durable import disk_errors, sync_folder, write_durably
from airflow_provider_dm.engine.relay.errors import InvalidSubDir, RelayDirectoryUnusable
from airflow_provider_dm.engine.relay.meta import META

INDEX: Final = "server-uuid.index"

_LINE: Final = re.compile(r"([0-9A-Za-z][0-9A-Za-z-]{0,63})\.(\d{6,9})", re.ASCII)


class SubDir(NamedTuple):
    """A line of server-uuid.index: `9f2c….000002`."""

    server_uuid: str
    suffix: int

    @classmethod
    def parse(cls, text: str) -> SubDir:
        """Parse a sub-directory's name. Raises InvalidSubDir; a path never parses."""
        match = _LINE.fullmatch(text)
        if match is None or int(match[2]) < 1:
            raise InvalidSubDir(text)
        return cls(match[1], int(match[2]))

    def __str__(self) -> str:
        return f"{self.server_uuid}.{self.suffix:06d}"


class RelayFile(NamedTuple):
    """A binlog file in a sub-directory, with its present size in bytes."""

    path: Path
    file: BinlogFile
    size: int


@dataclass(frozen=True)
class RelayDirectory:
    """A relay directory. `root` may not exist yet. Methods that read do not create anything."""

    root: Path

    def sub_dirs(self) -> tuple[SubDir, ...]:
        """List the folders with the name of a sub-directory, no links, oldest first.

        The newest may be empty, and an older one of which a purge has hidden or deleted all files. Raises
        RelayDirectoryUnusable.
        """
        sub_dirs = []
        for entry in self._entries(self.root):
            with suppress(InvalidSubDir):
                sub_dir = SubDir.parse(entry.name)
                if entry.is_dir(follow_symlinks=False):
                    sub_dirs.append(sub_dir)
        if len({sub_dir.suffix for sub_dir in sub_dirs}) != len(sub_dirs):
            raise RelayDirectoryUnusable(str(self.root), f"two sub-directories have the same number: {sub_dirs}")
        return tuple(sorted(sub_dirs, key=lambda sub_dir: sub_dir.suffix))

    def latest(self) -> SubDir | None:
        sub_dirs = self.sub_dirs()
        return sub_dirs[-1] if sub_dirs else None

    def by_suffix(self, suffix: int) -> SubDir | None:
        return next((sub_dir for sub_dir in self.sub_dirs() if sub_dir.suffix == suffix), None)

    def folder(self, sub_dir: SubDir) -> Path:
        return self.root / str(sub_dir)

    def files(self, sub_dir: SubDir) -> tuple[RelayFile, ...]:
        """List a sub-directory's binlog files ordered by number; links and other names are ignored."""
        files: list[RelayFile] = []
        for entry in self._entries(self.folder(sub_dir)):
            try:
                file = BinlogFile.parse(entry.name)
                status = entry.stat(follow_symlinks=False)
            except (InvalidLocation, FileNotFoundError):
                continue
            if stat.S_ISREG(status.st_mode) and not entry.name.startswith("."):
                files.append(RelayFile(Path(entry.path), file, status.st_size))
        return tuple(sorted(files, key=lambda held: held.file.number))

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return list(entries)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RelayDirectoryUnusable(str(folder), str(error)) from error

    def prepare(self) -> None:
        """Create the root durably: a power failure must not remove it together with the data in it.

        Raises RelayDirectoryUnusable.
        """
        try:
            missing = [folder for folder in self.root.parents if not folder.exists()]
            self.root.mkdir(mode=0o750, parents=True, exist_ok=True)
            # Sync the root's parent each time: the process that created the root may have died before it did so.
            for folder in (self.root, *missing):
                with suppress(PermissionError):  # a parent that we may not read
                    sync_folder(folder.parent)
        except OSError as error:
            raise RelayDirectoryUnusable(str(self.root), str(error)) from error

    def add(self, server_uuid: str, *, at_least: int = 1) -> SubDir:
        """Add a sub-directory for this upstream after all others, with number `at_least` or higher."""
        with index_lock(self.root):
            known = self.sub_dirs()
            suffix = max(at_least, known[-1].suffix + 1) if known else at_least
            sub_dir = SubDir.parse(str(SubDir(server_uuid, suffix)))
            with disk_errors(self.folder(sub_dir)):
                self.folder(sub_dir).mkdir(mode=0o750)
                sync_folder(self.root)
            self._write_index()
            return sub_dir

    def remove_empty(self, sub_dir: SubDir) -> None:
        """Remove the folder of a sub-directory without binlog files. `repair_index` updates the index later."""
        folder = self.folder(sub_dir)
        try:
            for leftover in (folder / META, *folder.glob(".*.new")):
                leftover.unlink(missing_ok=True)
            folder.rmdir()
            sync_folder(self.root)
        except OSError as error:
            raise RelayDirectoryUnusable(str(folder), f"it should be empty ({error})") from error

    def repair_index(self) -> None:
        """Rewrite the index if it does not match the folders. For the writer only, under its lock."""
        with index_lock(self.root):
            self._write_index()

    def _write_index(self) -> None:
        path, wanted = self.root / INDEX, "".join(f"{sub_dir}\n" for sub_dir in self.sub_dirs()).encode("ascii")
        if wanted and (not path.exists() or path.read_bytes() != wanted):
            write_durably(path, wanted)
