"""Private MariaDB, MySQL and TiDB servers for tests, benchmarks and the demo.

Each server is a process of the harness: its data directory, socket, port and log are in a folder that the caller names,
nothing else on the host is touched, and any number of servers run side by side in either role. No clean-up is needed: a
keeper process holds the other end of a pipe, and ends the remaining servers when the harness has ended, even by kill
-9.

Standard library and PyMySQL only, so that it can be imported before anything else of the project is installed.
"""

from testbed.servers import (
    Flavour,
    Series,
    Server,
    ServerSpec,
    ServerStartFailed,
    attach_servers,
    available,
    running_servers,
    start_servers,
    stop_servers,
)
from testbed.unavailable import (
    Mariadb11Unavailable,
    MariadbUnavailable,
    MysqlUnavailable,
    ServerUnavailable,
    TidbUnavailable,
)

__all__ = [
    "Flavour",
    "Mariadb11Unavailable",
    "MariadbUnavailable",
    "MysqlUnavailable",
    "Series",
    "Server",
    "ServerSpec",
    "ServerStartFailed",
    "ServerUnavailable",
    "TidbUnavailable",
    "attach_servers",
    "available",
    "running_servers",
    "start_servers",
    "stop_servers",
]
