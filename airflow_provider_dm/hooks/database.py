"""A MySQL, MariaDB or TiDB server as an Airflow connection of type `dm_database`, or of type `mysql`.

The hook only converts a connection to the engine's `Endpoint`; `engine.mysql.connection` sets the session variables.
Messages contain host and user, never a password.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseHook

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from airflow_provider_dm.engine.config.source import SourceConfig
    from airflow_provider_dm.engine.mysql.connection import Connection as Session
    from airflow_provider_dm.engine.mysql.connection import ServerInfo
    from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Tls

DEFAULT_PORT: Final = 3306
CONNECTION_TYPES: Final = ("dm_database", "mysql")
TLS: Final = "tls"
TLS_FILES: Final = ("tls_ca", "tls_cert", "tls_key")


class DmDatabaseHook(BaseHook):
    """One source or target of a migration. A source's connection also holds the options of its ``source.yaml``.

    :param dm_database_conn_id: connection of type ``dm_database`` (or ``mysql``)
    :param name: the server's name in messages; the connection id by default
    """

    conn_name_attr = "dm_database_conn_id"
    default_conn_name = "dm_database_default"
    conn_type = "dm_database"
    hook_name = "DM database (MySQL, MariaDB, TiDB)"

    def __init__(self, dm_database_conn_id: str = default_conn_name, *, name: str | None = None) -> None:
        super().__init__()
        self.dm_database_conn_id = dm_database_conn_id
        self.name = name or dm_database_conn_id

    @cached_property
    def connection(self) -> Connection:
        """The Airflow connection. Raises AirflowNotFoundException."""
        return self.get_connection(self.dm_database_conn_id)

    def endpoint(self) -> Endpoint:
        """Return the server's address and credentials. Raises ConnectionUnusable, AirflowNotFoundException."""
        return endpoint_of(self.connection, self.name)

    def get_conn(self) -> Session:
        """Open a PyMySQL connection with the engine's session variables; the caller closes it.

        Raises ServerUnreachable, AccessDenied, ConnectionUnusable.
        """
        from airflow_provider_dm.engine.mysql.connection import connect

        return connect(self.endpoint())

    def server_info(self) -> ServerInfo:
        """Return flavour, version and identity of the server. Raises the errors of `get_conn`."""
        from airflow_provider_dm.engine.mysql.connection import connected, server_info

        with connected(self.endpoint()) as session:
            return server_info(session)

    def test_connection(self) -> tuple[bool, str]:
        """Return the text of the Test button: version, and possible roles of the server. Never raises."""
        from airflow_provider_dm.hooks.server_summary import describe_server

        try:
            flavour_name = str(extra_of(self.connection).get("flavour") or "auto")
            flavour = None if flavour_name == "auto" else flavour_name
            # The form tests under a random connection id, which would not help a user.
            return describe_server(
                endpoint_of(self.connection, "the server"), flavour, source_in(self.connection, "any")
            )
        except Exception as error:  # noqa: BLE001  the button shows it
            return False, str(error)


def endpoint_of(connection: Connection, name: str) -> Endpoint:
    """Return an Airflow connection as the engine's value. Raises ConnectionUnusable."""
    from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
    from airflow_provider_dm.hooks.errors import ConnectionUnusable

    if connection.conn_type not in CONNECTION_TYPES:
        raise ConnectionUnusable(connection.conn_id, f"its type is {connection.conn_type}, not dm_database")
    if not connection.host:
        raise ConnectionUnusable(connection.conn_id, "it has no host")
    if not connection.login:
        raise ConnectionUnusable(connection.conn_id, "it has no login")
    extra = extra_of(connection)
    session = extra.get("session") or {}
    if not isinstance(session, dict):
        raise ConnectionUnusable(connection.conn_id, "`session` is not a JSON object")
    return Endpoint(
        name=name,
        host=connection.host,
        port=connection.port or DEFAULT_PORT,
        user=connection.login,
        password=Secret(connection.password or ""),
        tls=tls_of(connection, extra),
        session=tuple((str(variable), str(value)) for variable, value in session.items()),
    )


def source_in(connection: Connection, source_id: str) -> SourceConfig:
    """Return the source that a connection describes: with a relay log unless its extra has `enable-relay: false`.

    Raises ConfigError, ConnectionUnusable.
    """
    from airflow_provider_dm.engine.config.source import IN_A_CONNECTION
    from airflow_provider_dm.engine.config.yaml_file import source_of as source_of_document
    from airflow_provider_dm.hooks import settings

    extra = extra_of(connection) if connection.conn_type == DmDatabaseHook.conn_type else {}
    given = {key: _as_json(extra[key]) for key in IN_A_CONNECTION if extra.get(key) not in (None, "")}
    flavour = extra.get("flavour")
    if flavour in ("mysql", "mariadb"):
        given["flavor"] = flavour
    document = {"source-id": source_id, "enable-relay": True, **given}
    return settings.with_relay_dir(source_of_document(document, f"the connection {connection.conn_id}"))


def _as_json(value: Any) -> Any:
    """Return an option as JSON: the form and a connection's URI may have an object or a list as text."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with suppress(ValueError):
            return json.loads(value)
    return value


def extra_of(connection: Connection) -> dict[str, Any]:
    """Return a connection's extra. Airflow treats an unreadable extra as empty, which would disable TLS.

    Raises ConnectionUnusable.
    """
    from airflow_provider_dm.hooks.errors import ConnectionUnusable

    extra: Any = connection.extra_dejson
    if isinstance(extra, dict) and (extra or (connection.extra or "").strip() in ("", "{}")):
        return extra
    raise ConnectionUnusable(connection.conn_id, "its extra is not a JSON object")


def tls_of(connection: Connection, extra: dict[str, Any]) -> Tls | None:
    """Return the TLS settings of a connection's extra. Raises ConnectionUnusable."""
    from airflow_provider_dm.engine.mysql.endpoint import Tls
    from airflow_provider_dm.hooks.errors import ConnectionUnusable

    unknown = [key for key in extra if key.lower().startswith(("tls", "ssl")) and key not in (TLS, *TLS_FILES)]
    files = [extra.get(key) or None for key in TLS_FILES]
    wanted = _boolean_option(extra.get(TLS))
    if wanted is None:
        raise ConnectionUnusable(connection.conn_id, f"`tls` is {extra[TLS]!r}, neither true nor false")
    if unknown and not (wanted or any(files)):
        # If the key were ignored, the connection would be unencrypted, or the server not verified.
        known = ", ".join((TLS, *TLS_FILES))
        raise ConnectionUnusable(
            connection.conn_id, f"its extra has the unknown key `{unknown[0]}`; the keys of TLS are {known}"
        )
    return Tls(*files) if wanted or any(files) else None


def _boolean_option(value: Any) -> bool | None:
    """Return a boolean of JSON or a connection's URI; None for any other value."""
    text = str(value if value is not None else "").strip().lower()
    return True if text in ("true", "1", "yes", "on") else False if text in ("false", "0", "no", "off", "") else None
