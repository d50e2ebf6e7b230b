"""The file operations of a piece of code in a folder, recorded from the calls of `os`.

A change of a file by other calls is detected: `Recorder.check` compares the operations with the folder.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.crash.disk import TOP, Link, Operation, Rename, Sync, Tree, Truncate, Unlink, Write, content_of

CALLS = ("open", "write", "pwrite", "fsync", "fdatasync", "ftruncate", "rename", "replace", "unlink", "mkdir", "rmdir")


class Recorder:
    """Operations under `top`, in their order. `top` is empty at the beginning."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.operations: list[Operation] = []
        self._tree = Tree()
        self._next = TOP + 1
        self._real: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in CALLS}

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record until the block ends."""
        for name in CALLS:
            setattr(os, name, getattr(self, f"_{name}"))
        try:
            yield
        finally:
            for name, real in self._real.items():
                setattr(os, name, real)

    def check(self) -> None:
        """The operations and nothing else made what is there."""
        assert self._tree.content() == content_of(self.top)

    # Where something is

    def _place(self, path: Any, dir_fd: int | None = None) -> tuple[int, str] | None:
        """(folder, name) of a path under `top`."""
        absolute = (_path_of(dir_fd) if dir_fd is not None else Path.cwd()) / os.fspath(path)
        if self.top not in absolute.parents:
            return None
        folder = TOP
        for part in absolute.relative_to(self.top).parts[:-1]:
            folder = self._tree.folders[folder][part]
        return folder, absolute.name

    def _inode(self, descriptor: int) -> int | None:
        place = self._place(_path_of(descriptor))
        return self._tree.folders[place[0]].get(place[1]) if place is not None else None

    def _note(self, operation: Operation) -> None:
        self.operations.append(operation)
        self._tree.apply(operation)

    def _new(self) -> int:
        self._next += 1
        return self._next - 1

    # The calls

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        place = self._place(path, dir_fd) if not isinstance(path, int) else None
        known = self._tree.folders[place[0]].get(place[1]) if place is not None else None
        descriptor: int = self._real["open"](path, flags, mode, dir_fd=dir_fd)
        if place is not None and flags & os.O_CREAT and known is None:
            self._note(Link(*place, self._new(), is_folder=False))
        elif known is not None and flags & os.O_TRUNC:
            self._note(Truncate(known, 0))
        return descriptor

    def _write(self, descriptor: int, data: Any) -> int:
        inode, at = self._inode(descriptor), 0
        if inode is not None:
            at = os.lseek(descriptor, 0, os.SEEK_CUR)
            if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND:
                at = len(self._tree.files[inode])
        count: int = self._real["write"](descriptor, data)
        if inode is not None:
            self._note(Write(inode, at, bytes(memoryview(data)[:count])))
        return count

    def _pwrite(self, descriptor: int, data: Any, offset: int) -> int:
        inode = self._inode(descriptor)
        count: int = self._real["pwrite"](descriptor, data, offset)
        if inode is not None:
            self._note(Write(inode, offset, bytes(memoryview(data)[:count])))
        return count

    def _fsync(self, descriptor: int) -> None:
        inode = self._inode(descriptor)
        if _path_of(descriptor) == self.top:
            inode = TOP
        if inode is not None:  # the disk itself is not asked: what it would do is what is tried out here
            self._note(Sync(inode))

    _fdatasync = _fsync

    def _ftruncate(self, descriptor: int, size: int) -> None:
        inode = self._inode(descriptor)
        self._real["ftruncate"](descriptor, size)
        if inode is not None:
            self._note(Truncate(inode, size))

    def _rename(self, old: Any, new: Any, **where: Any) -> None:
        at, to = self._place(old, where.get("src_dir_fd")), self._place(new, where.get("dst_dir_fd"))
        self._real["rename"](old, new, **where)
        if at is not None and to is not None:
            self._note(Rename(*at, *to))

    _replace = _rename

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._gone("unlink", path, dir_fd)

    def _rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._gone("rmdir", path, dir_fd)

    def _gone(self, call: str, path: Any, dir_fd: int | None) -> None:
        place = self._place(path, dir_fd)
        self._real[call](path, dir_fd=dir_fd)
        if place is not None:
            self._note(Unlink(*place))

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        place = self._place(path, dir_fd)
        self._real["mkdir"](path, mode, dir_fd=dir_fd)
        if place is not None:
            self._note(Link(*place, self._new(), is_folder=True))


def _path_of(descriptor: int) -> Path:
    return Path(f"/proc/self/fd/{descriptor}").readlink()
