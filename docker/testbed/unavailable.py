"""Errors for servers that are not available on this machine.

`ServerUnavailable` is about the machine (nothing installed, no network, another architecture); it is a reason to skip
tests if the caller allows that. An installed server that does not start is a failure (`ServerStartFailed`)."""


class ServerUnavailable(RuntimeError):
    """A flavour is not available here. `reason`: one line that a person can act on."""

    flavour = "server"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.flavour} is not available here: {self.reason}"


class MysqlUnavailable(ServerUnavailable):
    flavour = "MySQL"


class MariadbUnavailable(ServerUnavailable):
    flavour = "MariaDB"


class Mariadb11Unavailable(ServerUnavailable):
    flavour = "MariaDB 11"


class TidbUnavailable(ServerUnavailable):
    flavour = "TiDB"
