"""Private MariaDB, MySQL and TiDB servers for tests, benchmarks and the demo.

Theory. A server here is a process of our own: its data directory, socket, port and log live in a folder that the
caller names, nothing on the host is touched, and any number of them run side by side in either role. No clean-up is
needed: a keeper process holds the other end of a pipe and ends what is left when the harness is gone, however it
went.

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
