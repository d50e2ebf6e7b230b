"""The process that outlives a harness just long enough to end its servers.

It reads folders from its standard input, one a line, and blocks. The harness holds the other end and writes nothing
else: end of file means that the harness is gone, by return, exception or SIGKILL. Then every process that was started
with a data directory inside one of the folders is ended, and those data directories are removed. Logs stay.

A pipe, because PR_SET_PDEATHSIG fires when the *thread* that started a server ends, and servers start in threads.
Processes are found by their `--datadir=` argument (TiDB's: `--path=`), so a process that has reused a pid
is never ended. Run as a file: standard library only."""

import os
import shutil
import signal
import sys
import time
from pathlib import Path


def servers_under(root: Path) -> list[int]:
    """Return the pids of processes of ours that run with a data directory inside `root`."""
    prefixes = tuple(f"{option}={root}{os.sep}".encode() for option in ("--datadir", "--path"))
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended, or belongs to another user
            continue
        if any(argument.startswith(prefixes) for argument in arguments):
            found.append(int(entry.name))
    return found


def sweep(root: Path) -> None:
    """End what still runs inside `root` and remove its data directories and sockets; keep the logs."""
    deadline = time.monotonic() + 10
    while (pids := servers_under(root)) and time.monotonic() < deadline:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)  # throw-away servers: no reason to let them flush
            except ProcessLookupError:
                continue
        time.sleep(0.05)
    for state in root.glob("*/server.json"):
        shutil.rmtree(state.parent / "data", ignore_errors=True)
        link = state.parent / "run"
        if link.is_symlink():  # the folder of the socket has a short name elsewhere
            shutil.rmtree(link.readlink(), ignore_errors=True)
            link.unlink(missing_ok=True)
        state.unlink(missing_ok=True)


def main() -> None:
    roots = [Path(line.rstrip("\n")) for line in sys.stdin]
    for root in roots:
        sweep(root)


if __name__ == "__main__":
    main()
