"""Stores sources as Airflow connections with Airflow's own command: this process does not import Airflow.

`airflow connections import` reads them from a file that only its user can read and that is removed immediately, so no
command line contains a password. Airflow encrypts the password with its Fernet key.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import util
from typing import Any, Final

from airflow_provider_dm.engine.config.source import IN_A_CONNECTION, SourceConfig
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.launch.errors import AirflowRefuses

TYPE: Final = "dm_database"


def connection_of(source: SourceConfig, endpoint: Endpoint) -> dict[str, Any]:
    """Return the connection that is equivalent to a source.yaml, in the format of `airflow connections import`."""
    given = source.model_dump(by_alias=True, mode="json", exclude_unset=True)
    extra = {key: given[key] for key in IN_A_CONNECTION if key in given} | {"enable-relay": source.enable_relay}
    tls = endpoint.tls
    files = {} if tls is None else {"tls": True, "tls_ca": tls.ca, "tls_cert": tls.cert, "tls_key": tls.key}
    session = {"session": dict(endpoint.session)} if endpoint.session else {}
    flavour = {"flavour": source.flavor} if source.flavor else {}
    return {
        "conn_type": TYPE,
        "host": endpoint.host,
        "port": endpoint.port,
        "login": endpoint.user,
        "password": endpoint.password.reveal(),
        "extra": {key: value for key, value in (extra | files | session | flavour).items() if value is not None},
    }


def write_connections(connections: Mapping[str, Mapping[str, Any]], *, overwrite: bool) -> dict[str, str]:
    """Write connections by id; return for each the error, or "". Raises InvalidInput, AirflowRefuses."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:  # of mode 600
        json.dump(connections, file)
        file.flush()
        printed = _airflow(["connections", "import", file.name, *(["--overwrite"] if overwrite else [])])
    lines = [line.strip() for line in printed.splitlines()]
    return {name: "" if f"Imported connection {name}" in lines else _why_not(name, lines) for name in connections}


def delete_connection(name: str) -> str:
    """Delete a connection; return the error, or "". Raises InvalidInput."""
    try:
        _airflow(["connections", "delete", name])
    except AirflowRefuses as error:
        return str(error)
    return ""


def list_connections() -> list[str]:
    """Return the ids of connections of this type. Raises InvalidInput, AirflowRefuses."""
    printed = _airflow(["connections", "list", "--output", "json"])
    listed = json.loads(printed[printed.index("[") :])
    return sorted(str(connection["conn_id"]) for connection in listed if connection.get("conn_type") == TYPE)


def _why_not(name: str, lines: Sequence[str]) -> str:
    refused = [line for line in lines if line.startswith(f"Could not import connection {name}:")]
    return refused[0] if refused else f"Airflow has not reported connection {name} as imported"


def _airflow(words: Sequence[str]) -> str:
    """Run Airflow's program and return its stdout."""
    if util.find_spec("airflow") is None:
        raise InvalidInput(
            "the command is about Airflow connections, but Airflow is not installed in dmctl's environment.",
            "Run it in Airflow's environment, or give the source files to each command (`-s SOURCE.yaml`).",
        )
    done = subprocess.run(
        [sys.executable, "-m", "airflow", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR", "COLUMNS": "500"},
    )
    if done.returncode:
        raise AirflowRefuses(" ".join(words[:2]), (done.stderr + done.stdout).strip()[-500:])
    return done.stdout
