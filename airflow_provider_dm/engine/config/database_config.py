"""Addresses of servers in DM's files: `from` of a source, `target-database` of a task.

A password is kept in memory only: it is excluded from `model_dump`, JSON and repr, so that a configuration can be
stored, logged and shipped. Besides DM's `password`, plain or as `dmctl encrypt` writes it, there are two references,
`password-env` and `password-file`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from pydantic import Field, SecretStr

from airflow_provider_dm.engine.config.base import DmModel, Names
from airflow_provider_dm.engine.config.dm_encryption import decrypted, looks_encrypted
from airflow_provider_dm.engine.config.errors import CannotDecrypt
from airflow_provider_dm.engine.config.secrets import taken
from airflow_provider_dm.engine.errors import InvalidInput, NotSupportedYet
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret, Tls


def _password_unreadable(reference: str, reason: str) -> InvalidInput:
    return InvalidInput(
        f"the password cannot be read from {reference}: {reason}.", "Set it, or use an Airflow connection."
    )


class Security(DmModel):
    """TLS to a server. With a CA its certificate is verified, and the host if the certificate names one."""

    ssl_ca: str | None = None
    """File of the CA that signed the server's certificate."""
    ssl_cert: str | None = None
    """File of the certificate of this client."""
    ssl_key: str | None = None
    """File of the key of that certificate."""
    cert_allowed_cn: Names = ()
    """Refused: with `ssl-ca` the host is verified."""
    ssl_ca_base64: str | None = Field(default=None, exclude=True, repr=False)
    """Refused: name a file."""
    ssl_cert_base64: str | None = Field(default=None, exclude=True, repr=False)
    """Refused: name a file."""
    ssl_key_base64: str | None = Field(default=None, exclude=True, repr=False)
    """Refused: name a file."""
    ssl_ca_bytes: tuple[int, ...] = Field(default=(), exclude=True, repr=False)
    """Refused: name a file."""
    ssl_cert_bytes: tuple[int, ...] = Field(default=(), exclude=True, repr=False)
    """Refused: name a file."""
    ssl_key_bytes: tuple[int, ...] = Field(default=(), exclude=True, repr=False)
    """Refused: name a file."""

    @property
    def embedded(self) -> bool:
        """Return True if the file itself contains TLS material, instead of naming files."""
        return any(getattr(self, name) for name in _EMBEDDED)

    def tls(self) -> Tls | None:
        """Return the TLS files; None if no file is named: DM's examples contain empty `security` keys."""
        if not (self.ssl_ca or self.ssl_cert or self.ssl_key):
            return None
        return Tls(self.ssl_ca or None, self.ssl_cert or None, self.ssl_key or None)


class DatabaseConfig(DmModel):
    """The source's server."""

    host: str = Field(min_length=1)
    """Host name or address."""
    port: int = Field(default=3306, ge=1, le=65535)
    """TCP port."""
    user: str = "root"
    """Account."""
    password: SecretStr | None = Field(default=None, exclude=True, repr=False)
    """Password, plain or as DM's `dmctl encrypt` writes it."""
    password_env: str | None = None
    """Extension: the environment variable that contains the password."""
    password_file: str | None = None
    """Extension: a file that contains the password; one line break at its end is removed."""
    max_allowed_packet: int | None = None
    """Without effect: statements are kept below the limit that the server reports."""
    session: dict[str, str] = Field(default_factory=dict)
    """SET SESSION for every connection. `sql_mode` is added to the product's own; a `time_zone` has no effect."""
    security: Security | None = None
    """TLS; without it, TLS is used where the server offers it."""

    def secret(self) -> Secret:
        """Return the password; empty if none is given. Raises InvalidInput."""
        if self.password_env:
            if (password := taken(self.password_env)) is None:
                raise _password_unreadable(f"the environment variable {self.password_env}", "it is not set")
            return Secret(password)
        if self.password_file:
            return _read_password(self.password_file)
        plain = self.password.get_secret_value() if self.password else ""
        if looks_encrypted(plain):
            try:
                plain = decrypted(plain, os.environ)
            except CannotDecrypt as error:
                raise _password_unreadable(f"the encrypted form of {self.user}@{self.host}", str(error)) from None
        return Secret(plain)

    def endpoint(self, name: str) -> Endpoint:
        """Return this server as an Endpoint; `name` identifies it in messages. Raises the errors of `secret`."""
        tls = self.security.tls() if self.security else None
        return Endpoint(name, self.host, self.port, self.user, self.secret(), tls, tuple(self.session.items()))

    def unsupported(self, where: str) -> Iterator[NotSupportedYet]:
        """Yield the settings that this release does not support. `where`: the server's name in messages."""
        if self.security is not None and self.security.cert_allowed_cn:
            remedy = "Set ssl-ca: the host is verified if the certificate names one."
            yield NotSupportedYet("cert-allowed-cn", where, remedy)
        if self.security is not None and self.security.embedded:
            remedy = "Name files by ssl-ca, -cert, -key."
            yield NotSupportedYet("TLS material in the file itself", where, remedy)

    def without_secrets(self) -> Self:
        """Return a copy without the password and without embedded TLS material (references stay)."""
        security = self.security.model_copy(update=_NO_KEYS) if self.security else None
        return self.model_copy(update={"password": None, "security": security})


_EMBEDDED: Final = tuple(f"ssl_{what}_{form}" for what in ("ca", "cert", "key") for form in ("base64", "bytes"))
_NO_KEYS: Final = {name: Security.model_fields[name].default for name in _EMBEDDED}


class TargetDatabase(DatabaseConfig):
    """The target server."""

    port: int = Field(default=4000, ge=1, le=65535)
    """TCP port."""


def _read_password(path: str) -> Secret:
    try:
        return Secret(Path(path).read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r"))
    except (OSError, UnicodeDecodeError) as error:
        raise _password_unreadable(f"the file {path}", type(error).__name__) from None
