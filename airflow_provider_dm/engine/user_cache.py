"""Files of this user that are loaded as machine code: their directories, to which no other user can write, and the
processes that make them."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

log = logging.getLogger(__name__)


def user_cache(name: str) -> Path | None:
    """Return the directory `name` in the user's cache directory, else in that of temporary files; None if neither can
    be used."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "airflow-provider-dm" / name
    shared = Path(tempfile.gettempdir()) / f"airflow-provider-dm-{name}-{os.getuid()}"
    return machine_code_directory(home) or machine_code_directory(shared)


def machine_code_directory(path: Path) -> Path | None:
    """Return `path`, created if it is missing; None if that fails or another user can write to it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    if is_private(path):
        return path
    log.warning("%s belongs to another user, or other users can write to it: no machine code is kept there", path)
    return None


def is_private(path: Path) -> bool:
    """Return True if a path is a directory, not a link, that we own and to which no other user can write."""
    status = path.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


def start_in_background(code: str, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Run Python code with low priority in a process that outlives this one; its output is discarded."""
    return subprocess.Popen(
        [sys.executable, "-c", f"import os; os.nice(10); {code}"],
        env={**environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
