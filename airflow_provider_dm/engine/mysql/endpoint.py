"""The address of a server and the login to it, as one value that never shows its password."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

TARGET: Final = "target"
"""The target's name in messages and reports, where a source has its source-id."""


class Secret:
    """A password: usable by `reveal`, invisible in repr, str, format and JSON."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret('******')"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return (Secret, (self._value,))


class Flavour(Enum):
    """The family of a server; determined by a query to the server, never by configuration alone."""

    MYSQL = "mysql"
    MARIADB = "mariadb"
    TIDB = "tidb"


@dataclass(frozen=True)
class Tls:
    """TLS files. With a CA the server's certificate is verified, and the host too if the certificate names one."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


@dataclass(frozen=True)
class Endpoint:
    """One server to log in to. `name` identifies it in messages: a source-id, or TARGET."""

    name: str
    host: str
    port: int
    user: str
    password: Secret = field(default_factory=lambda: Secret(""))
    tls: Tls | None = None
    session: tuple[tuple[str, str], ...] = ()
    """Extra session variables (DM's `target-database.session`)."""

    def __str__(self) -> str:
        return f"{self.name} ({self.user}@{self.host}:{self.port})"
