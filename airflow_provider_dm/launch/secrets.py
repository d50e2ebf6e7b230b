"""Passwords for a child process: passed by a pipe (`engine.config.secrets`), never by argv, environment or conf.

A reference is a name. Names are derived from the owner of the secret, so that a job file that is read later has the
same names, and are unique: a source may be called "target", and `a-b` differs from `a_b`.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import unquote

from airflow_provider_dm.engine.config.job import EndpointSpec, SecretRef
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret, Tls

Role = Literal["SOURCE", "TARGET", "META"]
_WITH_SECRETS: Final = ("AIRFLOW_CONN_", "AIRFLOW_VAR_", "AIRFLOW__", "DM_META_URL", "DM_PASSWORD_")
"""Prefixes of variables that a child does not need: Airflow's settings and connections, and credentials of dmctl."""


@dataclass
class PassedSecrets:
    """The secrets that a child needs, collected while its job is described. Its repr shows none."""

    by_name: dict[str, str] = field(default_factory=dict, repr=False)

    def reference(self, role: Role, name: str, secret: Secret) -> SecretRef:
        """Store the secret; the returned reference is not secret."""
        key = secret_name(role, name)
        self.by_name[key] = secret.reveal()
        return SecretRef(env=key)

    def endpoint(self, role: Role, endpoint: Endpoint) -> EndpointSpec:
        """Store the endpoint's password; return the endpoint with a reference to it."""
        password = self.reference(role, endpoint.name, endpoint.password) if endpoint.password.reveal() else None
        tls = endpoint.tls or Tls()
        return EndpointSpec(
            name=endpoint.name,
            host=endpoint.host,
            port=endpoint.port,
            user=endpoint.user,
            password=password,
            tls_ca=_absolute(tls.ca),
            tls_cert=_absolute(tls.cert),
            tls_key=_absolute(tls.key),
            use_tls=endpoint.tls is not None,
            session=dict(endpoint.session),
        )

    def masked(self, text: str) -> str:
        """Return `text` with the secrets masked, except those under four characters, which occur in ordinary text."""
        for value in self.by_name.values():
            for secret in (value, *_passwords_in(value)):
                if len(secret) >= 4:
                    text = text.replace(secret, "******")
        return text


def _absolute(path: str | None) -> str | None:
    """Return the absolute path of a file, for a process with another working directory."""
    return str(Path(path).absolute()) if path else None


def _passwords_in(value: str) -> tuple[str, ...]:
    """Return the password of a database URL, as written and decoded."""
    match = re.match(r"[\w+]+://[^/@:]*:(?P<password>[^/@]*)@", value)
    return (match["password"], unquote(match["password"])) if match else ()


def secret_name(role: Role, name: str) -> str:
    """Return the name of this secret.

    >>> secret_name("SOURCE", "mysql-replica-01")
    'DM_SECRET_SOURCE_MYSQL_REPLICA_01_4612476D'
    """
    readable = re.sub(r"[^A-Z0-9]", "_", name.upper())[:40]
    return f"DM_SECRET_{role}_{readable}_{hashlib.sha256(name.encode()).hexdigest()[:8].upper()}"


def inherited() -> dict[str, str]:
    """Return the environment of a child: without variables that hold secrets."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_WITH_SECRETS)}
