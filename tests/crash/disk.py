"""A disk as a list of operations, and what a crash may leave of them. No real file here.

Two kinds of death. A killed process leaves what it had written: every operation up to one, the last write cut
anywhere. A power cut leaves what was forced to disk, and of the rest anything: data of a file that was not fsynced may
be missing, torn, zeros or garbage where its size grew; names in a folder that was not fsynced may be old or new.
Only two promises of file systems are used: a rename is one step, and bytes before everything that was written
or cut since the file's last fsync stay as they were.
"""

import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, assert_never

TOP = 0
"""The inode of the folder that holds the relay directory; it has always been there."""
SECTOR = 512


@dataclass(frozen=True)
class Link:
    """A new file or folder."""

    folder: int
    name: str
    inode: int
    is_folder: bool


@dataclass(frozen=True)
class Rename:
    folder: int
    name: str
    to_folder: int
    to_name: str


@dataclass(frozen=True)
class Unlink:
    """A file or an empty folder goes."""

    folder: int
    name: str


@dataclass(frozen=True)
class Write:
    inode: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class Truncate:
    inode: int
    size: int


@dataclass(frozen=True)
class Sync:
    """fsync or fdatasync of a file, fsync of a folder."""

    inode: int


Naming: TypeAlias = Link | Rename | Unlink
Operation: TypeAlias = Naming | Write | Truncate | Sync
Instead: TypeAlias = Callable[[int], bytes]


@dataclass
class Tree:
    """Folders and files by inode."""

    folders: dict[int, dict[str, int]] = field(default_factory=lambda: {TOP: {}})
    files: dict[int, bytes] = field(default_factory=dict)

    def apply(self, operation: Operation) -> None:
        match operation:
            case Link(folder, name, inode, is_folder):
                self.folders[folder][name] = inode
                if is_folder:
                    self.folders.setdefault(inode, {})
                else:
                    self.files.setdefault(inode, b"")
            case Rename(folder, name, to_folder, to_name):
                self.folders[to_folder][to_name] = self.folders[folder].pop(name)
            case Unlink(folder, name):
                del self.folders[folder][name]
            case Write(inode, offset, data):
                held = self.files[inode].ljust(offset, b"\0")
                self.files[inode] = held[:offset] + data + held[offset + len(data) :]
            case Truncate(inode, size):
                self.files[inode] = self.files[inode][:size].ljust(size, b"\0")
            case Sync():
                pass
            case other:
                assert_never(other)

    def content(self, folder: int = TOP) -> dict[str, bytes | None]:
        """Relative path -> bytes, None for a folder."""
        found: dict[str, bytes | None] = {}
        for name, inode in self.folders[folder].items():
            if inode in self.folders:
                found[name] = None
                found |= {f"{name}/{below}": data for below, data in self.content(inode).items()}
            else:
                found[name] = self.files[inode]
        return found

    def inodes(self, folder: int = TOP) -> dict[str, int]:
        """Relative path -> inode, of files."""
        found: dict[str, int] = {}
        for name, inode in self.folders[folder].items():
            if inode in self.folders:
                found |= {f"{name}/{below}": one for below, one in self.inodes(inode).items()}
            else:
                found[name] = inode
        return found

    def write_to(self, top: Path) -> None:
        for path, data in self.content().items():
            if data is None:
                (top / path).mkdir()
            else:
                (top / path).write_bytes(data)


def content_of(top: Path) -> dict[str, bytes | None]:
    """The same of a real folder."""
    return {str(path.relative_to(top)): None if path.is_dir() else path.read_bytes() for path in sorted(top.rglob("*"))}


def after(operations: Sequence[Operation]) -> Tree:
    """Everything done."""
    tree = Tree()
    for operation in operations:
        tree.apply(operation)
    return tree


@dataclass
class State:
    """State that a crash may leave."""

    when: str
    tree: Tree
    promised: dict[str, int]
    """Path of a file -> so many of its first bytes were certain to survive this crash."""


def kills(operations: Sequence[Operation]) -> list[State]:
    """Every moment at which a process may die: after each operation, and in the middle of each write."""
    states: list[State] = []
    tree = Tree()
    for count, operation in enumerate((*operations, None)):
        states.append(_killed(f"killed after {count} operations", tree))
        if isinstance(operation, Write):
            size = len(operation.data)
            cuts = {1, 4, 18, 19, size // 3, size // 2, size - 1, *range(4096, size, 4096)}
            for cut in sorted(cut for cut in cuts if 0 < cut < size):
                torn = deepcopy(tree)
                torn.apply(Write(operation.inode, operation.offset, operation.data[:cut]))
                states.append(_killed(f"killed in operation {count}, after {cut} bytes", torn))
        if operation is not None:
            tree.apply(operation)
    return states


def _killed(when: str, tree: Tree) -> State:
    left = deepcopy(tree)
    return State(when, left, {path: len(left.files[inode]) for path, inode in left.inodes().items()})


@dataclass
class PowerCut:
    """The durable state of the disk, and the writes that only the kernel has, after each operation."""

    kernel: Tree = field(default_factory=Tree)
    platter: Tree = field(default_factory=Tree)
    naming: dict[int, list[tuple[Naming, int]]] = field(default_factory=dict)
    """Per folder, since its last fsync: what happened to a name, and the inode that had it."""
    untouched: dict[int, int] = field(default_factory=dict)
    """Per file: bytes before everything that was written or cut off since its last fsync."""

    def apply(self, operation: Operation) -> None:
        match operation:
            case Link(folder, _, inode):
                self.naming.setdefault(folder, []).append((operation, inode))
            case Rename(folder, name) | Unlink(folder, name):
                self.naming.setdefault(folder, []).append((operation, self.kernel.folders[folder][name]))
            case Write(inode, position) | Truncate(inode, position):
                self._touch(inode, position)
            case Sync(inode):
                self._forced(inode)
            case other:
                assert_never(other)
        if isinstance(operation, Link):  # what is in a new file or folder is a matter of its own
            target = self.platter.folders if operation.is_folder else self.platter.files
            target.setdefault(operation.inode, {} if operation.is_folder else b"")  # type: ignore[arg-type]
        self.kernel.apply(operation)

    def _touch(self, inode: int, position: int) -> None:
        self.untouched[inode] = min(position, self.untouched.get(inode, len(self.platter.files.get(inode, b""))))

    def _forced(self, inode: int) -> None:
        if inode in self.kernel.files:
            self.platter.files[inode] = self.kernel.files[inode]
            self.untouched.pop(inode, None)
            return
        for naming in self.naming.pop(inode, []):
            _name(self.platter, *naming)

    def state(self, when: str, chance: random.Random) -> State:
        """One of the states that a power cut may leave now."""
        left = deepcopy(self.platter)
        ordered = chance.random() < 0.5  # a journal keeps the order of names; no standard guarantees it
        for namings in self.naming.values():
            count = chance.randint(0, len(namings))
            chosen = range(count) if ordered else sorted(chance.sample(range(len(namings)), count))
            for index in chosen:
                _name(left, *namings[index])
        for inode, untouched in self.untouched.items():
            left.files[inode] = _damaged(self.platter.files[inode], self.kernel.files[inode], untouched, chance)
        return State(when, left, self._promised())

    def _promised(self) -> dict[str, int]:
        there = self.kernel.inodes()
        return {
            path: self.untouched.get(inode, len(self.platter.files[inode]))
            for path, inode in self.platter.inodes().items()
            if there.get(path) == inode
        }


def _name(tree: Tree, naming: Naming, inode: int) -> None:
    """A change of names, also where the one before it got lost."""
    match naming:
        case Link(folder, name):
            tree.folders[folder][name] = inode
        case Rename(folder, name, to_folder, to_name):
            tree.folders[folder].pop(name, None)
            tree.folders[to_folder][to_name] = inode
        case Unlink(folder, name):
            tree.folders[folder].pop(name, None)
        case other:
            assert_never(other)


def _damaged(old: bytes, new: bytes, untouched: int, chance: random.Random) -> bytes:
    """One of the contents between two fsyncs."""
    match chance.randrange(6):
        case 0:
            return old
        case 1:
            return new
        case 2:  # torn
            return new[: chance.randint(untouched, max(untouched, len(new)))]
        case 3:  # the size came through, the bytes did not
            at = chance.randint(untouched, max(untouched, len(new)))
            return new[:at].ljust(len(new), b"\0")
        case 4:  # or did in places
            return _by_sector(new, untouched, chance, bytes)
        case _:
            return _by_sector(new, untouched, chance, chance.randbytes)


def _by_sector(new: bytes, untouched: int, chance: random.Random, instead: Instead) -> bytes:
    parts, at = [new[:untouched]], untouched
    while at < len(new):
        end = min((at // SECTOR + 1) * SECTOR, len(new))
        parts.append(new[at:end] if chance.random() < 0.5 else instead(end - at))
        at = end
    return b"".join(parts)


def power_cuts(operations: Sequence[Operation], chance: random.Random, *, each: int) -> list[State]:
    """`each` states for every moment of the sequence."""
    disk, states = PowerCut(), []
    for count, operation in enumerate(operations, 1):
        disk.apply(operation)
        states += [disk.state(f"power cut after {count} operations, state {one}", chance) for one in range(each)]
    return states
