"""Short transactions on the metadata DB: `read` and `write` run a body in one, and translate what goes wrong.

No engine exists before the first transaction, none survives a fork. A write on SQLite begins with BEGIN IMMEDIATE:
a transaction that reads first and writes later could not be granted the lock that it then needs. Servers run READ
COMMITTED. A body may run again after a deadlock, so it does nothing but SQL."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.pool import NullPool

from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.meta.url import shown
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Tls
from airflow_provider_dm.engine.mysql.error_numbers import BUSY
from airflow_provider_dm.engine.mysql.pinned import WRITING
from airflow_provider_dm.engine.mysql.pinning import pin_answers
from airflow_provider_dm.engine.mysql.tls import tls_context

log = logging.getLogger(__name__)

T = TypeVar("T")

BUSY_SECONDS: Final = 30
"""How long a writer waits for others. A transaction of ours takes milliseconds."""
CONNECT_SECONDS: Final = 10
ATTEMPTS: Final = 8

_TLS_FILES: Final = ("ssl_ca", "ssl_cert", "ssl_key")
"""As SQLAlchemy names them in a URL of MySQL; `ssl=true` asks for TLS without any."""
_WRITE: Final = "dm_write"
_POSTGRES_AGAIN: Final = frozenset({"40P01", "40001", "55P03"})


class MetaUnreachable(DmError):
    url: str
    reason: str

    code = "DM-8002"
    reaction = Reaction.RETRY
    what = "the metadata DB {url} cannot be used: {reason}."
    hint = "Check that it runs, and the dm_meta connection."


class MetaRefused(DmError):
    """A statement that can never succeed: a value that does not fit, a missing right."""

    url: str
    reason: str

    code = "DM-8011"
    what = "the metadata DB {url} refuses: {reason}."
    hint = "Give its account all rights on its tables; if a value does not fit, please report it."


class MetaDriverMissing(DmError):
    driver: str

    code = "DM-8003"
    what = "the driver {driver} is not installed."
    hint = "For PostgreSQL: pip install 'airflow-provider-dm[postgres]'."


class Database:
    """One metadata DB. May be used from several threads; after a fork it connects anew."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._pid = 0

    def read(self, body: Callable[[Connection], T]) -> T:
        """Run the body in a read-only transaction. Raises MetaUnreachable, MetaRefused, MetaDriverMissing."""
        return self._run(body, write=False)

    def write(self, body: Callable[[Connection], T]) -> T:
        """Run the body and commit; again after a deadlock or a key that another writer inserted first.

        Raises MetaUnreachable, MetaRefused, MetaDriverMissing; what the body raises passes through after a rollback."""
        return self._run(body, write=True)

    def close(self) -> None:
        """Close all connections; the next transaction opens new ones."""
        with self._lock:
            if self._engine is not None and self._pid == os.getpid():
                self._engine.dispose()
            self._engine = None

    @contextmanager
    def connection(self, *, write: bool) -> Iterator[Connection]:
        """Open a connection, errors translated. For transactions of ours use `read` and `write`."""
        try:
            with self._current_engine().connect() as connection:
                yield connection.execution_options(**{_WRITE: write})
        except DBAPIError as error:
            raise self._translate(error) from None

    def _run(self, body: Callable[[Connection], T], *, write: bool) -> T:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self._current_engine().connect() as connection:
                    options = connection.execution_options(**{_WRITE: write})
                    with options.begin():
                        return body(options)
            except DBAPIError as error:
                if attempt == ATTEMPTS or not _may_succeed_later(error):
                    raise self._translate(error) from None
                log.debug("transaction on the metadata DB is tried again", extra={"attempt": attempt})
                time.sleep(random.uniform(0.005, 0.02) * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _translate(self, error: DBAPIError) -> MetaUnreachable | MetaRefused:
        # Only the driver's words: SQLAlchemy's text repeats the statement.
        kind = MetaRefused if isinstance(error, DataError | IntegrityError | ProgrammingError) else MetaUnreachable
        return kind(shown(self.url), " ".join(str(error.orig).split()))

    def _current_engine(self) -> Engine:
        with self._lock:
            if self._engine is None or self._pid != os.getpid():
                if self._engine is not None:
                    self._engine.dispose(close=False)  # the parent's sockets are not ours to close
                self._engine, self._pid = _engine(self.url), os.getpid()
            return self._engine


def _may_succeed_later(error: DBAPIError) -> bool:
    if isinstance(error, IntegrityError):
        return True
    original: Any = error.orig
    if getattr(original, "sqlstate", None) in _POSTGRES_AGAIN:
        return True
    first = original.args[0] if original is not None and original.args else None
    return first in BUSY or (isinstance(first, str) and "database is locked" in first)


def _engine(url: URL) -> Engine:
    try:
        match url.get_backend_name():
            case "sqlite":
                return _sqlite_engine(url)
            case "postgresql":
                return _server_engine(url, connect_timeout=CONNECT_SECONDS, tcp_user_timeout=BUSY_SECONDS * 1000)
            case _:
                return _mysql_engine(url)
    except ModuleNotFoundError as error:
        raise MetaDriverMissing(error.name or url.get_driver_name()) from None


def _mysql_engine(url: URL) -> Engine:
    password = (url.password or "").encode()  # PyMySQL would take latin1, which no server expects
    seconds = {"read_timeout": BUSY_SECONDS * 2, "write_timeout": BUSY_SECONDS}
    files = [str(url.query[name]) if name in url.query else None for name in _TLS_FILES]
    tls = Tls(*files) if any(files) or url.query.get("ssl") == "true" else None
    plain = url.difference_update_query(["ssl", *_TLS_FILES])
    engine = _server_engine(plain, connect_timeout=CONNECT_SECONDS, password=password, **seconds)

    @event.listens_for(engine, "do_connect")
    def encrypt(_dialect: object, _record: object, _arguments: object, options: dict[str, Any]) -> None:
        if tls is not None:  # its files are read anew: certificates are renewed while a sync runs
            where = Endpoint("the metadata DB", url.host or "", url.port or 3306, url.username or "", tls=tls)
            options["ssl"] = tls_context(where)

    @event.listens_for(engine, "connect", insert=True)  # before SQLAlchemy's own, which may leave a transaction open
    def configure(connection: Any, _record: object) -> None:
        pin_answers(connection, shown(url), isolation=WRITING)

    return engine


def _server_engine(url: URL, **connect_args: Any) -> Engine:
    return create_engine(
        url,
        isolation_level="READ COMMITTED",
        pool_size=2,
        max_overflow=4,
        pool_pre_ping=True,
        pool_recycle=600,
        hide_parameters=True,
        connect_args=connect_args,
    )


def _sqlite_engine(url: URL) -> Engine:
    engine = create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver must not begin transactions behind our back
        connection.execute("PRAGMA synchronous = FULL")  # a generation once given is never forgotten

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        write = connection.get_execution_options().get(_WRITE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine
