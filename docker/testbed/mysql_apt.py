"""MySQL: the mysqld that `DM_MYSQL_SERVER` names, such as one of an older release, else the newest of Debian's unstable
suite, in a folder of its own (debian_sid.py)."""

import os
import re
import subprocess
from pathlib import Path
from typing import Final

from testbed import debian_sid
from testbed.build import Build, Initialisation
from testbed.unavailable import MysqlUnavailable

MYSQL: Final = debian_sid.Product("mysql", ("mysql-server-core", "mysql-client-core"), MysqlUnavailable)
VARIABLE: Final = "DM_MYSQL_SERVER"
OPTIONS: Final = (
    "--no-defaults",
    "--secure-file-priv=",  # else it aborts, missing the folder /var/lib/mysql-files
    "--loose-mysqlx=OFF",  # 5.7 has none
)
_VERSION: Final = re.compile(r"Ver (\S+)")


def mysql_build() -> Build:
    """Return the build of MySQL. Raises MysqlUnavailable."""
    version, argv = _named(program) if (program := os.environ.get(VARIABLE)) else _of_debian()
    small = "--loose-innodb-redo-log-capacity=8M"

    def initialise(folder: Path) -> Initialisation:
        return Initialisation([*argv, "--initialize-insecure", f"--datadir={folder}", small])

    return Build(version, argv, initialise)


def _named(program: str) -> tuple[str, tuple[str, ...]]:
    try:
        shown = subprocess.run([program, "--no-defaults", "--version"], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise MysqlUnavailable(f"{program} ({VARIABLE}) does not run: {error}") from None
    version = _VERSION.search(shown.stdout)
    if version is None:
        raise MysqlUnavailable(f"{program} ({VARIABLE}) --version shows no version")
    return version[1], (program, *OPTIONS)


def _of_debian() -> tuple[str, tuple[str, ...]]:
    tree = debian_sid.tree(MYSQL)
    # The package is unpacked outside of the directory that mysqld is compiled for.
    folders = (
        f"--basedir={tree.root / 'usr'}",
        f"--lc-messages-dir={tree.root / 'usr/share/mysql'}",
        f"--plugin-dir={tree.root / 'usr/lib/mysql/plugin'}",
    )
    return tree.version, (*tree.command("mysqld"), *OPTIONS, *folders)
