"""The MariaDB that the host has installed (Debian package mariadb-server): where its programs are.

It is only located here; `docker/local` installs it. The system's own MariaDB service, its data and its configuration
are never used: every server of ours starts with `--no-defaults`."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testbed.build import Build, Initialisation
from testbed.unavailable import MariadbUnavailable

# /usr/sbin is not on everyone's PATH.
FOLDERS: Final = ("/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin")


@dataclass(frozen=True)
class MariadbPrograms:
    mariadbd: Path
    install_db: Path
    version: str


def mariadb_build() -> Build:
    """Return the build of MariaDB. Raises MariadbUnavailable."""
    programs = mariadb_programs()

    def initialise(folder: Path) -> Initialisation:
        install = [str(programs.install_db), "--no-defaults", "--skip-test-db"]
        return Initialisation([*install, "--auth-root-authentication-method=normal", f"--datadir={folder}"])

    return Build(programs.version, (str(programs.mariadbd), "--no-defaults"), initialise)


def mariadb_programs() -> MariadbPrograms:
    """Find MariaDB's programs. Raises MariadbUnavailable when this host has no MariaDB server."""
    server, install = _find("mariadbd"), _find("mariadb-install-db")
    if server is None or install is None:
        missing = "mariadbd" if server is None else "mariadb-install-db"
        raise MariadbUnavailable(f"no program {missing} (apt-get install mariadb-server)")
    printed = subprocess.run(
        [server, "--no-defaults", "--version"], check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    version = re.search(r"Ver (\d+\.\d+\.\d+)", printed.stdout)
    if version is None:
        raise MariadbUnavailable(f"{server} --version prints {printed.stdout.strip() or printed.stderr.strip()!r}")
    return MariadbPrograms(server, install, version[1])


def _find(program: str) -> Path | None:
    found = shutil.which(program) or next((p for f in FOLDERS if (p := shutil.which(program, path=f))), None)
    return Path(found) if found else None
