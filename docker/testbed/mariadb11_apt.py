"""MariaDB 11: the newest MariaDB of Debian's unstable suite, in a folder of its own (debian_sid.py).

Beside the host's MariaDB (mariadb_apt.py), for what only newer ones have: VECTOR, UUID …. Its `mariadb-install-db` is a
shell script that calls /usr/sbin/mariadbd; we give the same SQL files to the same bootstrap ourselves."""

from pathlib import Path
from typing import Final

from testbed import debian_sid
from testbed.build import Build, Initialisation
from testbed.unavailable import Mariadb11Unavailable

MARIADB: Final = debian_sid.Product("mariadb", ("mariadb-server-core",), Mariadb11Unavailable)
# In the order of mariadb-install-db. Without fill_help_tables.sql: no test uses HELP.
SYSTEM_TABLES: Final = (
    "mariadb_system_tables.sql",
    "mariadb_performance_tables.sql",
    "mariadb_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql",
    "mariadb_sys_schema.sql",
)


def mariadb11_build() -> Build:
    """Return the build of MariaDB 11. Raises Mariadb11Unavailable."""
    tree = debian_sid.tree(MARIADB)
    argv = (
        *tree.command("mariadbd"),
        "--no-defaults",
        # The package is unpacked outside of the directory that mariadbd is compiled for.
        f"--basedir={tree.root / 'usr'}",
        f"--lc-messages-dir={tree.root / 'usr/share/mariadb'}",
        f"--character-sets-dir={tree.root / 'usr/share/mariadb/charsets'}",
        f"--plugin-dir={tree.root / 'usr/lib/mysql/plugin'}",
    )

    def initialise(folder: Path) -> Initialisation:
        first = "CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n"
        files = "".join(tree.one(f"usr/share/mariadb/{name}").read_text("utf-8") for name in SYSTEM_TABLES)
        # The templates are for any host: as with --cross-bootstrap, no account of this one.
        lines = [line for line in files.splitlines(keepends=True) if "@current_hostname" not in line]
        bootstrap = ["--bootstrap", f"--datadir={folder}", "--enforce-storage-engine=", "--log-warnings=0"]
        return Initialisation([*argv, *bootstrap], first + "".join(lines))

    return Build(tree.version, argv, initialise)
