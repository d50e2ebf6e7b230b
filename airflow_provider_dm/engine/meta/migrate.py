"""Migration of a metadata DB to the schema of this release, by alembic, without an ini file.

Concurrent migrations are serialised by the server's named lock, or on SQLite by the write lock of the file. On SQLite
and PostgreSQL a migration is atomic; MySQL commits each DDL, so revisions are written such that they can be run again.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, text

from airflow_provider_dm.engine.meta.database import SQLITE_BUSY_SECONDS, Database
from airflow_provider_dm.engine.meta.errors import MetaSchemaDiffers, MetaUnreachable
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.meta.tables import SCHEMA_VERSION, schema_version
from airflow_provider_dm.engine.meta.url import parse_url, sqlite_file, without_password
from airflow_provider_dm.engine.mysql.endpoint import Secret

if TYPE_CHECKING:
    from alembic.config import Config

log = logging.getLogger(__name__)

_SCRIPTS: Final = "airflow_provider_dm.engine.meta:migrations"
_LOCK_NAME: Final = "dm_meta_migrate"
# A server's named locks are shared by all its schemas.
_LOCK_OF_SCHEMA: Final = "CONCAT(:prefix, '.', LEFT(SHA2(DATABASE(), 256), 40))"
_LOCK_NUMBER: Final = 0x646D5F6D  # "dm_m"; PostgreSQL's advisory locks are numbered


def open_migrated(url: Secret | str) -> MetaStore:
    """Open a metadata DB. A SQLite file is created if missing, and migrated if necessary; a user migrates a server.

    Raises InvalidInput, MetaUnreachable, NotInstalled, MetaSchemaDiffers."""
    file = sqlite_file(url)
    if file is not None and not file.exists():
        migrate(url)
    try:
        return MetaStore.open(url)
    except MetaSchemaDiffers:
        if file is None:
            raise
        migrate(url)
        return MetaStore.open(url)


def migrate(url: Secret | str) -> None:
    """Migrate the DB to the newest schema; a missing SQLite file is created, readable by its owner only. May be called
    again, and concurrently.

    Raises InvalidInput, MetaUnreachable, NotInstalled, MetaSchemaDiffers."""
    if (file := sqlite_file(url)) is not None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)  # the folder may be readable by others
    database = Database(parse_url(url))
    try:
        with database.connection() as connection:
            _prepare(connection)
            with _alone(connection, without_password(database.url)):
                version = schema_version(connection)
                if version != SCHEMA_VERSION:
                    _upgrade(connection, version, without_password(database.url))
    finally:
        database.close()
    log.info("the metadata DB is up to date", extra={"url": without_password(database.url)})


def _upgrade(connection: Connection, version: str | None, where: str) -> None:
    from alembic import command  # imported here: it takes 0.1 s, and most DBs are up to date
    from alembic.script import ScriptDirectory

    logging.getLogger("alembic.runtime.migration").setLevel(logging.WARNING)  # the logs of tasks are read by users
    config = alembic_config(connection)
    known = {revision.revision for revision in ScriptDirectory.from_config(config).walk_revisions()}
    if version is not None and version not in known:
        raise MetaSchemaDiffers(where, version, SCHEMA_VERSION)
    command.upgrade(config, "head")


def alembic_config(connection: Connection | None = None) -> Config:
    """Return alembic's configuration: our scripts and the connection for env.py. No file or option has the URL."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", _SCRIPTS)
    config.attributes["connection"] = connection
    return config


def _prepare(connection: Connection) -> None:
    """Switch SQLite to WAL, which the file keeps. Readers then never wait for writers."""
    raw = connection.connection.dbapi_connection
    if connection.dialect.name != "sqlite" or raw is None:
        return
    deadline = time.monotonic() + SQLITE_BUSY_SECONDS
    while True:
        try:
            raw.cursor().execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.DatabaseError as error:
            # SQLite does not wait here for another process that creates the file. Other errors recur in later SQL.
            if "locked" not in str(error) or time.monotonic() > deadline:
                return
            time.sleep(0.02)


@contextmanager
def _alone(connection: Connection, where: str) -> Iterator[None]:
    """Open a transaction that excludes other migrations: they begin after its end and see its result."""
    if connection.dialect.name in ("sqlite", "postgresql"):  # SQLite's BEGIN IMMEDIATE waits for the one writer
        with connection.begin():
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK_NUMBER})
            yield
    else:
        held = {"prefix": _LOCK_NAME, "seconds": SQLITE_BUSY_SECONDS}
        with connection.begin():
            taken = connection.execute(text(f"SELECT GET_LOCK({_LOCK_OF_SCHEMA}, :seconds)"), held).scalar()
        if taken != 1:
            raise MetaUnreachable(where, "another migration is running")
        try:
            with connection.begin():
                yield
        finally:
            with connection.begin():
                connection.execute(text(f"SELECT RELEASE_LOCK({_LOCK_OF_SCHEMA})"), {"prefix": _LOCK_NAME})
