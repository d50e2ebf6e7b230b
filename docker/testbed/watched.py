"""Folders whose processes end with this process: a keeper (`keeper`, `airflow_keeper`) gets them by a pipe."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Final

_lock: Final = threading.Lock()
_keepers: Final[dict[str, tuple[int, "subprocess.Popen[str]"]]] = {}
"""The keepers by the file that each runs, with the pid of their owner: a forked child starts its own keepers."""


def watch(folder: Path, keeper: ModuleType) -> None:
    """Have a keeper clean up in this folder when this process is gone."""
    file = str(keeper.__file__)
    with _lock:
        owner, process = _keepers.get(file, (0, None))
        if process is None or owner != os.getpid():
            process = subprocess.Popen(
                [sys.executable, file],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
            _keepers[file] = os.getpid(), process
        assert process.stdin is not None
        process.stdin.write(f"{folder}\n")
        process.stdin.flush()
