"""The folder, outside any checkout, where downloads and prepared data directories are kept between runs.

`DM_CACHE` names it; `$HOME/.cache/airflow-provider-dm` is the default. An entry is written under a lock into a
temporary name and renamed into place, so that an entry that exists is complete, also after a crash or a race."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_root() -> Path:
    configured = os.environ.get("DM_CACHE")
    root = Path(configured) if configured else Path.home() / ".cache" / "airflow-provider-dm"
    root.mkdir(parents=True, exist_ok=True)
    return root


@contextmanager
def locked(name: str) -> Iterator[Path]:
    """Hold the lock `name` of the cache and return the cache's folder. Waits for the lock."""
    root = cache_root()
    with open(root / f"{name}.lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield root


def entry(name: str, build: Callable[[Path], None]) -> Path:
    """Return the folder `name` of the cache, built once by `build(empty_folder)`."""
    finished = cache_root() / name
    if finished.is_dir():
        return finished
    with locked(name) as root:
        if finished.is_dir():  # another process built it while we waited
            return finished
        work = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=root))
        work.chmod(0o755)
        try:
            build(work)
            work.rename(finished)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return finished
