"""TiDB, if the machine has one: `DM_TIDB_SERVER` names the program, else `tidb-server` is looked for on PATH.

Nothing is fetched. One process with its embedded store (unistore), without PD and TiKV: the SQL is TiDB's, what happens
between its machines is not. It takes no option of the other two flavours, so it has a command line and a configuration
file of its own. Its root has the empty password over TCP from the start, and utf8mb4 is its default character set."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from testbed.build import Build
from testbed.unavailable import TidbUnavailable

VARIABLE: Final = "DM_TIDB_SERVER"
_RELEASE: Final = re.compile(r"^Release Version:\s*v?(\S+)", re.MULTILINE)


def tidb_build() -> Build:
    """Return the build of TiDB. Raises TidbUnavailable."""
    program = tidb_program()
    version = subprocess.run([program, "-V"], check=False, capture_output=True, text=True)
    release = _RELEASE.search(version.stdout + version.stderr)
    if release is None:
        raise TidbUnavailable(f"{program} -V tells no release")
    return Build(release[1], (program,), initialise=None)


def tidb_program() -> str:
    """Return the path of the program. Raises TidbUnavailable."""
    named = os.environ.get(VARIABLE)
    found = shutil.which(named or "tidb-server")
    if found is None:
        wanted = f"{named} ({VARIABLE}) is no program" if named else f"no tidb-server on PATH; {VARIABLE} may name one"
        raise TidbUnavailable(wanted)
    return found


def tidb_argv(program: tuple[str, ...], home: Path, socket: Path, host: str, port: int) -> list[str]:
    """Return the command line of one server. Its data goes to `home/data`, by which a keeper finds it."""
    return [
        *program,
        f"--config={config_file(home)}",
        "--store=unistore",
        f"--path={home / 'data'}",
        f"--host={host}",
        f"-P={port}",
        f"--socket={socket}",
        "--report-status=false",  # the status port is the same for all servers of a machine
        "-L=warn",
    ]


def tidb_config(home: Path) -> str:
    """Return the configuration file: what has no option, and would else be one folder for all servers."""
    folders = {"temp-dir": home / "tmp", "tmp-storage-path": home / "tmp"}
    return "".join(f"{name} = {json.dumps(str(folder))}\n" for name, folder in folders.items())


def config_file(home: Path) -> Path:
    """Return where the configuration file of a server is."""
    return home / "tidb.toml"
