"""MySQL: the newest of Debian's unstable suite, in a folder of its own (debian_sid.py)."""

from pathlib import Path
from typing import Final

from testbed import debian_sid
from testbed.build import Build, Initialisation
from testbed.unavailable import MysqlUnavailable

MYSQL: Final = debian_sid.Product("mysql", ("mysql-server-core", "mysql-client-core"), MysqlUnavailable)


def mysql_build() -> Build:
    """Return the build of MySQL. Raises MysqlUnavailable."""
    tree = debian_sid.tree(MYSQL)
    argv = (
        *tree.command("mysqld"),
        "--no-defaults",
        # The package is unpacked outside of the directory that mysqld is compiled for.
        f"--basedir={tree.root / 'usr'}",
        f"--lc-messages-dir={tree.root / 'usr/share/mysql'}",
        f"--plugin-dir={tree.root / 'usr/lib/mysql/plugin'}",
        "--secure-file-priv=",  # else it aborts, missing the folder /var/lib/mysql-files
        "--mysqlx=OFF",
    )

    def initialise(folder: Path) -> Initialisation:
        return Initialisation([*argv, "--initialize-insecure", f"--datadir={folder}", "--innodb-redo-log-capacity=8M"])

    return Build(tree.version, argv, initialise)
