"""Why a kind of server cannot be had on this machine.

`Unavailable` is about the machine (nothing installed, no network, another architecture); it is a reason to leave tests
out where the caller allows that. A server that is there and does not start is a failure (`ServerStartFailed`), never
an excuse."""


class ServerUnavailable(RuntimeError):
    """A flavour cannot be had here. `reason` is one line a person can act on."""

    flavour = "server"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.flavour} cannot be had here: {self.reason}"


class MysqlUnavailable(ServerUnavailable):
    flavour = "MySQL"


class MariadbUnavailable(ServerUnavailable):
    flavour = "MariaDB"


class Mariadb11Unavailable(ServerUnavailable):
    flavour = "MariaDB 11"


class TidbUnavailable(ServerUnavailable):
    flavour = "TiDB"
