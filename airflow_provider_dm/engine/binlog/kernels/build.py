"""Compilation of the kernels, and their cache on disk.

Compiling takes tens of seconds, loading compiled code a fraction of one. So a process with work to do never compiles:
it loads the code that is ready, or uses the reference implementations while a separate process compiles.

The cache is a directory named by all that the machine code depends on: the sources of this package and of the modules
whose constants it uses, the versions of Python, numba and llvmlite, and the processor. numba's own cache only checks
the file of the function itself and would keep using a stale helper. Machine code is only loaded from a directory to
which no other user can write.
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
import sys
from collections.abc import Callable
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, TypeVar

from airflow_provider_dm.engine.user_cache import is_private, machine_code_directory, start_in_background, user_cache

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

BYTES: Final = "Array(uint8, 1, 'C', readonly=True)"
LIST, TABLE = "int64[::1]", "int64[:, ::1]"
"""Kinds of arrays, in the notation of entry points' signatures."""

ENTRIES: Final = ("chains", "headers", "literals", "packets", "parameters", "results", "rows", "split")
"""Modules with entry points: importing all of them compiles or loads all kernels."""

SWITCH: Final = "DM_KERNELS"
"""Environment variable: `off` forces the reference implementations."""
DIRECTORY: Final = "DM_KERNEL_CACHE"
"""Environment variable: directory for the compiled code, instead of the user's cache directory."""

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
"""Modules whose constants are compiled into the kernels."""

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
    """Return the cache directory for exactly this code and machine; it may not exist yet.

    No other user can write to it.
    """
    return _root() / _fingerprint()


def ready() -> bool:
    """Return True if the kernels can be called; loads them the first time, and never compiles."""
    return _allowed() and _loaded()


def preload() -> None:
    """Load the kernels for processes forked from this one. If that fails, each of them loads the kernels itself."""
    global _state  # noqa: PLW0603 (what this process has loaded)
    if not ready():
        _state = None


def warm(*, wait: bool = True) -> None:
    """Compile the kernels that are not in the cache; if another process does so, wait, or (`wait=False`) return.

    Raises ImportError without numba, and PermissionError if other users could write to the cache.
    """
    target = directory()
    if target.parent != _REFUSED:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
    if target.parent == _REFUSED or not is_private(target):
        raise PermissionError(f"{target} belongs to another user, or other users can write to it")
    with open(target / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if not _is_whole(target):
            _import_all()
            (target / _MARKER).write_text(json.dumps(_sizes(target)))


def _loaded() -> bool:
    """Load the kernels if the cache is complete; return True if they are loaded.

    A damaged cache is removed and compiled again; the reference implementations are used until then.
    """
    global _state  # noqa: PLW0603 (what this process has loaded)
    if _state is None and _is_whole(directory()):
        try:
            _import_all()
            _keep_freed_memory()
            _state = True
        except Exception:
            log.exception("the compiled kernels in %s cannot be loaded and are removed", directory())
            shutil.rmtree(directory(), ignore_errors=True)
            _state = False
    return bool(_state)


_state: bool | None = None
"""None: not tried yet. False: loading has failed, and would fail again."""


def _keep_freed_memory() -> None:
    """Make glibc reuse the memory of the last buffer instead of fresh pages, whose faults cost more than decoding into
    them. No effect on other platforms.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, size in _MALLOC.items():
            mallopt(option, size)


def _import_all() -> None:
    for name in ENTRIES:
        importlib.import_module(f"{_PACKAGE}.{name}")


def _is_whole(target: Path) -> bool:
    """Return True if all files that were present after the compilation exist with their sizes."""
    try:
        return is_private(target) and json.loads((target / _MARKER).read_text()) == _sizes(target)
    except (OSError, ValueError):
        return False


def _sizes(target: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in target.glob("*.nb?")}


@functools.cache
def warm_in_background() -> None:
    """Start a process that compiles the kernels, with low priority, if they are not ready. Once for this process."""
    if not _allowed() or ready():
        return
    start_in_background(f"from {_PACKAGE} import build; build.warm(wait=False)", os.environ)
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
    # Not the file system: on a cluster the engine may be in a zip archive.
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
        return machine_code_directory(Path(given)) or _REFUSED
    return user_cache("kernels") or _REFUSED


_REFUSED: Final = Path("/nonexistent/airflow-provider-dm-kernels")
"""Used if no directory is acceptable: kernels are never ready there."""
