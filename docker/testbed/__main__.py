"""`python -m testbed fetch`: make sure that both flavours can be started here, and say which versions they are.

Exit code 0 when they can, 3 when one is not available; the line says which and why. `python -m testbed sweep DIR`
ends the servers that were started in a folder and left there."""

import sys
from pathlib import Path

from testbed import available, keeper
from testbed.mariadb_apt import mariadb_build
from testbed.mysql_apt import mysql_build

CANNOT_BE_HAD = 3


def main(arguments: list[str]) -> int:
    match arguments:
        case ["fetch"]:
            return fetch()
        case ["sweep", folder]:
            keeper.sweep(Path(folder).resolve())
            return 0
        case _:
            print(__doc__, file=sys.stderr)
            return 2


def fetch() -> int:
    missing = [reason for reason in (available("mariadb"), available("mysql")) if reason is not None]
    if available("mariadb") is None:
        print(f"MariaDB {mariadb_build().version}")
    if available("mysql") is None:
        print(f"MySQL {mysql_build().version}")
    for reason in missing:
        print(reason, file=sys.stderr)
    return CANNOT_BE_HAD if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
