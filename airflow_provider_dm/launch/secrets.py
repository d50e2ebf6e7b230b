"""Passwords on their way into a child process: by a pipe (`engine.config.secrets`), never by argv, environment or conf.

A reference is a name. Names are derived from what the secret belongs to, so that a job file read later has the same
ones, and cannot collide: a source may be called "target", and `a-b` is not `a_b`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import unquote

from airflow_provider_dm.engine.config.job import EndpointSpec, SecretRef
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret, Tls

Role = Literal["SOURCE", "TARGET", "META"]
_WITH_SECRETS: Final = ("AIRFLOW_CONN_", "AIRFLOW_VAR_", "AIRFLOW__", "DM_META_URL", "DM_PASSWORD_")
"""Beginnings of names of variables that no child needs: Airflow's settings and connections, and logins of ours."""


@dataclass
class PassedSecrets:
    """The secrets that a child needs, collected while its job is described. Its repr shows none."""

    by_name: dict[str, str] = field(default_factory=dict, repr=False)

    def reference(self, role: Role, name: str, secret: Secret) -> SecretRef:
        """Remember the secret; what is returned may be written anywhere."""
        key = secret_name(role, name)
        self.by_name[key] = secret.reveal()
        return SecretRef(env=key)

    def endpoint(self, role: Role, endpoint: Endpoint) -> EndpointSpec:
        """Return the endpoint with its password remembered here and referred to there."""
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
        """Return `text` without the secrets' values. Those under four characters would mask half of every line."""
        for value in self.by_name.values():
            for secret in (value, *_passwords_in(value)):
                if len(secret) >= 4:
                    text = text.replace(secret, "******")
        return text


def _absolute(path: str | None) -> str | None:
    """Return the path of a file for a process that has another working directory."""
    return str(Path(path).absolute()) if path else None


def _passwords_in(value: str) -> tuple[str, ...]:
    """Return a database URL's password, as written and as meant."""
    match = re.match(r"[\w+]+://[^/@:]*:(?P<password>[^/@]*)@", value)
    return (match["password"], unquote(match["password"])) if match else ()


def secret_name(role: Role, name: str) -> str:
    """Return the name of this secret.

    >>> secret_name("SOURCE", "mysql-replica-01")
    'DM_SECRET_SOURCE_MYSQL_REPLICA_01_4612476D'
    """
    readable = re.sub(r"[^A-Z0-9]", "_", name.upper())[:40]
    return f"DM_SECRET_{role}_{readable}_{hashlib.sha256(name.encode()).hexdigest()[:8].upper()}"


def inherited(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of a child: without variables that hold secrets, its own or others'."""
    return {name: value for name, value in environ.items() if not name.startswith(_WITH_SECRETS)}
