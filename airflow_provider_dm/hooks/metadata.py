"""The metadata DB as an Airflow connection of type `dm_meta`; never Airflow's own database.

A single machine needs no connection: if the configured default (`[dm] metadata_conn_id`) does not exist, a SQLite file
in the work directory is used, whose schema is upgraded when it is opened. The schema on a server is upgraded by a user
(`dmctl meta migrate`): an operator that finds an old schema fails with an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_dm.hooks import settings

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from airflow_provider_dm.engine.meta.store import MetaStore
    from airflow_provider_dm.engine.mysql.endpoint import Secret, Tls

SQLITE: Final = "sqlite"
DEFAULT_DRIVER: Final = "mysql+pymysql"


class DmMetadataHook(BaseHook):
    """A hook for the runs, leases, subtasks and relays in the metadata DB.

    :param dm_meta_conn_id: connection of type ``dm_meta``; ``[dm] metadata_conn_id`` by default
    """

    conn_name_attr = "dm_meta_conn_id"
    default_conn_name = "dm_meta_default"
    conn_type = "dm_meta"
    hook_name = "DM metadata database"

    def __init__(self, dm_meta_conn_id: str | None = None) -> None:
        super().__init__()
        self.dm_meta_conn_id = dm_meta_conn_id or settings.option("metadata_conn_id")

    def url(self) -> Secret:
        """Return the URL of the database, with its password. Raises ConnectionUnusable."""
        try:
            return url_of(self.get_connection(self.dm_meta_conn_id))
        except AirflowNotFoundException:
            return url_without_connection(self.dm_meta_conn_id)

    def get_store(self) -> MetaStore:
        """Return an open store; close it, or use it in a `with` block. A SQLite schema is migrated.

        Raises MetaSchemaDiffers, MetaUnreachable, NotInstalled, InvalidInput, and the errors of `url`.
        """
        from airflow_provider_dm.engine.meta.migrate import open_migrated

        return open_migrated(self.url())

    get_conn = get_store

    def test_connection(self) -> tuple[bool, str]:
        """Return the text of the Test button: reachability and schema version. Never raises."""
        try:
            return describe_store(self.url())
        except Exception as error:  # noqa: BLE001  the button shows it
            return False, str(error)


def url_of(connection: Connection) -> Secret:
    """Return the URL of a connection; built from parts, so that no character of a password needs escaping by hand.

    Raises ConnectionUnusable.
    """
    from sqlalchemy.engine import URL

    from airflow_provider_dm.engine.mysql.endpoint import Secret
    from airflow_provider_dm.hooks.database import extra_of, tls_of
    from airflow_provider_dm.hooks.errors import ConnectionUnusable

    if connection.conn_type != DmMetadataHook.conn_type:
        raise ConnectionUnusable(connection.conn_id, f"its type is {connection.conn_type}, not dm_meta")
    extra = extra_of(connection)
    driver, tls = driver_of(extra, connection.host), tls_of(connection, extra)
    if not connection.schema:
        reason = "its Schema is empty: it has to name the database, or the file of SQLite"
        raise ConnectionUnusable(connection.conn_id, reason)
    if driver.startswith(SQLITE):
        return Secret(f"sqlite:///{settings.configured_work_root() / connection.schema}")
    url = URL.create(
        driver,
        username=connection.login or None,
        password=connection.password or None,
        host=connection.host,
        port=connection.port,
        database=connection.schema,
        query=_tls_query(driver, tls) if tls is not None else {},
    )
    return Secret(url.render_as_string(hide_password=False))


def _tls_query(driver: str, tls: Tls) -> dict[str, str]:
    """Return the TLS parameters of this driver's URL: libpq's names, or those of `engine.meta.database`."""
    if driver.startswith("postgres"):
        mode = "verify-full" if tls.ca else "require"
        query = {"sslmode": mode, "sslrootcert": tls.ca, "sslcert": tls.cert, "sslkey": tls.key}
    else:
        query = {"ssl": "true", "ssl_ca": tls.ca, "ssl_cert": tls.cert, "ssl_key": tls.key}
    return {name: value for name, value in query.items() if value}


def driver_of(extra: dict[str, Any], host: str | None) -> str:
    """Return the SQLAlchemy driver of the connection's extra, `mysql+pymysql` by default; SQLite if the connection has
    no host.

    >>> driver_of({"driver": "mysql+pymysql"}, None), driver_of({}, "db1")
    ('sqlite', 'mysql+pymysql')
    """
    return str(extra.get("driver") or DEFAULT_DRIVER) if host else SQLITE


def url_without_connection(conn_id: str) -> Secret:
    """Return the URL of SQLite in the work directory, for the configured default only. Raises ConnectionUnusable."""
    from airflow_provider_dm.engine.mysql.endpoint import Secret
    from airflow_provider_dm.hooks.errors import ConnectionUnusable

    if conn_id != settings.option("metadata_conn_id"):
        raise ConnectionUnusable(
            conn_id, "it does not exist, and only the default connection (type dm_meta) may be missing"
        )
    return Secret(f"sqlite:///{settings.configured_work_root() / 'meta.db'}")


def describe_store(url: Secret) -> tuple[bool, str]:
    """Return (usable, text). Raises errors of opening, except for a schema that is missing or old."""
    from airflow_provider_dm.engine.meta.errors import MetaSchemaDiffers
    from airflow_provider_dm.engine.meta.store import MetaStore
    from airflow_provider_dm.engine.meta.tables import SCHEMA_VERSION
    from airflow_provider_dm.engine.meta.url import parse_url, sqlite_file, without_password

    file, shown = sqlite_file(url), without_password(parse_url(url))
    if file is not None and not file.exists():
        return True, f"{shown} does not exist yet: the first task will create it."
    try:
        MetaStore.open(url).close()
    except MetaSchemaDiffers as error:
        if error.found != "none":
            return False, str(error)
        what_next = "create it by `dmctl meta migrate`" if file is None else "the first task will create it"
        return True, f"{shown} answers. It has no DM schema yet: {what_next}."
    return True, f"{shown} answers; its schema version is {SCHEMA_VERSION}, which this release needs."
