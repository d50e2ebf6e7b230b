"""How kernels are compiled, kept on disk and found again.

Compiling takes tens of seconds, loading what was compiled before a fraction of one. So no process that has work to do
compiles: it loads what is ready, or goes on with the plain twins and lets a process of its own compile meanwhile.

The cache is a directory named after everything that the machine code depends on: the sources of this package and of the
modules whose numbers it takes over, the versions of Python, numba and llvmlite, and the processor. numba's own cache
looks only at the file of the function itself and would go on with a stale helper. Machine code is only loaded from a
directory that nobody else can write.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import importlib
import json
import logging
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, TypeVar

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

BYTES: Final = "Array(uint8, 1, 'C', readonly=True)"
LIST, TABLE = "int64[::1]", "int64[:, ::1]"
"""Kinds of arrays, as signatures of entry points name them."""

ENTRIES: Final = ("headers", "literals", "packets", "rows", "split")
"""Modules with entry points: importing all of them compiles or loads everything."""

SWITCH: Final = "DM_KERNELS"
"""Environment: `off` uses the plain twins, whatever is ready."""
DIRECTORY: Final = "DM_KERNEL_CACHE"
"""Environment: where the compiled code is kept, instead of the user's cache directory."""

CONSTANTS: Final = (
    "binlog.cells",
    "binlog.events",
    "binlog.gtid_events",
    "binlog.header",
    "binlog.layout",
    "binlog.splitting",
    "schema.codec",
    "schema.numbers",
    "schema.strings",
)
"""Rooms' modules whose numbers are compiled into the kernels."""

_MALLOC: Final = {-3: 32 << 20, -1: 128 << 20, -2: 8 << 20}
"""glibc's M_MMAP_THRESHOLD, M_TRIM_THRESHOLD and M_TOP_PAD, in bytes."""

_MARKER: Final = "ready"
_PACKAGE: Final = __name__.rpartition(".")[0]
_ENGINE: Final = _PACKAGE.rpartition(".binlog")[0]


def entry(signature: str) -> Callable[[F], F]:
    """Compile a function that Python calls, for exactly this signature, or load it from the cache.

    Functions that only kernels call are decorated with numba's own `njit` and compiled as part of their callers.
    """
    import numba

    from airflow_provider_dm.engine.binlog.kernels.cache import cache_of

    def decorate(function: F) -> F:
        compiled = numba.njit(nogil=True, error_model="numpy")(function)
        compiled._cache = cache_of(function, directory())
        compiled.compile(signature)
        compiled.disable_compile()
        return compiled

    return decorate


@functools.cache
def directory() -> Path:
    """Return the cache directory of exactly this code on exactly this machine; it need not exist.

    Nobody else can write into it.
    """
    return _root() / _fingerprint()


def ready() -> bool:
    """Tell whether the kernels are there to be called; loads them the first time, and never compiles."""
    return _allowed() and _loaded()


def preload() -> None:
    """Load the kernels for processes that are forked from this one. What it cannot load, each of them tries itself."""
    global _state  # noqa: PLW0603 (what this process has loaded)
    if not ready():
        _state = None


def warm(*, wait: bool = True) -> None:
    """Compile what is not in the cache yet; if another process is at it, wait for it, or (`wait=False`) leave it alone.

    Raises ImportError without numba, and PermissionError where others could write into the cache.
    """
    target = directory()
    if target.parent != _REFUSED:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
    if target.parent == _REFUSED or not _is_ours_alone(target):
        raise PermissionError(f"{target} belongs to somebody else, or others can write into it")
    with open(target / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if not _is_whole(target):
            _import_all()
            (target / _MARKER).write_text(json.dumps(_sizes(target)))


def _loaded() -> bool:
    """Load the kernels if the cache is whole, and tell whether they are there.

    What a damaged cache cannot give is made again; until then there are the plain twins.
    """
    global _state  # noqa: PLW0603 (what this process has loaded)
    if _state is None and _is_whole(directory()):
        try:
            _import_all()
            _keep_freed_memory()
            _state = True
        except Exception:
            log.exception("the compiled kernels in %s cannot be loaded; they are thrown away", directory())
            shutil.rmtree(directory(), ignore_errors=True)
            _state = False
    return bool(_state)


_state: bool | None = None
"""None: not tried yet. False: tried in vain, which importing modules again would not change."""


def _keep_freed_memory() -> None:
    """Let glibc give the same megabyte again for the next buffer instead of fresh pages, whose faults cost more than
    decoding into them. Elsewhere nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, size in _MALLOC.items():
            mallopt(option, size)


def _import_all() -> None:
    for name in ENTRIES:
        importlib.import_module(f"{_PACKAGE}.{name}")


def _is_whole(target: Path) -> bool:
    """Tell whether every file is there that was there when all was compiled, with its size."""
    try:
        return _is_ours_alone(target) and json.loads((target / _MARKER).read_text()) == _sizes(target)
    except (OSError, ValueError):
        return False


def _sizes(target: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in target.glob("*.nb?")}


@functools.cache
def warm_in_background() -> None:
    """Start a process that compiles the kernels, with low priority, if they are not ready. Once for this process."""
    if not _allowed() or ready():
        return
    code = f"import os; os.nice(10); from {_PACKAGE} import build; build.warm(wait=False)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    log.info("compiling the binlog kernels in the background; rows are decoded by plain Python until then")


def _allowed() -> bool:
    switched_off = os.environ.get(SWITCH, "").lower() == "off" or os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
    return not switched_off and _installed()


@functools.cache
def _installed() -> bool:
    try:
        version("numba")
    except PackageNotFoundError:
        log.warning("numba is not installed: binlogs are decoded by plain Python, which is many times slower")
        return False
    return True


def _fingerprint() -> str:
    digest = hashlib.sha256()
    # Not the file system: on a cluster the engine may lie in a zip archive.
    kernels = [source for source in resources.files(_PACKAGE).iterdir() if source.name.endswith(".py")]
    rooms = [resources.files(f"{_ENGINE}.{room}") / f"{name}.py" for room, name in (c.split(".") for c in CONSTANTS)]
    for source in (*sorted(kernels, key=lambda source: source.name), *rooms):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    parts = (sys.version, version("numba"), version("llvmlite"), platform.machine(), _processor())
    digest.update("\0".join(parts).encode())
    return digest.hexdigest()[:16]


def _processor() -> str:
    import llvmlite.binding as llvm

    return f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def _root() -> Path:
    given = os.environ.get(DIRECTORY)
    if given:
        return _ours(Path(given)) or _REFUSED
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "airflow-provider-dm" / "kernels"
    shared = Path(tempfile.gettempdir()) / f"airflow-provider-dm-kernels-{os.getuid()}"
    return _ours(home) or _ours(shared) or _REFUSED


_REFUSED: Final = Path("/nonexistent/airflow-provider-dm-kernels")
"""Where no directory will do: nothing is ever ready there."""


def _ours(path: Path) -> Path | None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    if _is_ours_alone(path):
        return path
    log.warning("%s belongs to somebody else, or others can write into it: no machine code is kept there", path)
    return None


def _is_ours_alone(path: Path) -> bool:
    """Tell whether a path is a directory, no link to one, that is ours and that nobody else can write into."""
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
