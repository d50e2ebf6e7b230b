"""Short transactions on the metadata DB: `read` and `write` run a body in one transaction and translate errors.

No engine exists before the first transaction, and none survives a fork. A write on SQLite begins with BEGIN IMMEDIATE:
a transaction that reads first and writes later might not be granted the write lock. Servers run READ COMMITTED. A body
may run again after a deadlock, so it must only execute SQL.

A DB that does not answer until a timeout (a host that is down, a network that drops packets, a lock that is held) is
considered away: from then on a separate thread polls it, and all other calls fail at once. Otherwise a sync, which must
continue without the metadata DB, would block for a connection timeout at each of its reports."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolExhausted
from sqlalchemy.pool import NullPool

from airflow_provider_dm.engine.errors import DmError, NotInstalled
from airflow_provider_dm.engine.meta.errors import MetaRefused, MetaUnreachable
from airflow_provider_dm.engine.meta.url import without_password
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Tls
from airflow_provider_dm.engine.mysql.error_numbers import BUSY
from airflow_provider_dm.engine.mysql.pinned import WRITING
from airflow_provider_dm.engine.mysql.pinning import pin_borrowed
from airflow_provider_dm.engine.mysql.tls import tls_context

log = logging.getLogger(__name__)

T = TypeVar("T")

SQLITE_BUSY_SECONDS: Final = 30
"""Limit for a writer's wait. A transaction of ours takes milliseconds."""
ROW_LOCK_SECONDS: Final = 10
"""Limit for the wait of one of a writer's statements for a lock at a server."""
ANSWER_SECONDS: Final = 20
CONNECT_SECONDS: Final = 10
TRANSACTION_ATTEMPTS: Final = 8
AWAY_AFTER_SECONDS: Final = 2.0
"""A failure after more than this time means that the DB is away."""
POLL_SECONDS: Final = 1.0
"""Interval of the polls while the DB is away."""

_TLS_FILES: Final = ("ssl_ca", "ssl_cert", "ssl_key")
"""SQLAlchemy's names in a URL of MySQL; `ssl=true` enables TLS without files."""
_WRITE: Final = "dm_write"
_POSTGRES_AGAIN: Final = frozenset({"40P01", "40001", "55P03"})


@dataclass
class _Away:
    """The state in which all calls fail: a thread of this process polls the DB until `over` is set."""

    error: MetaUnreachable
    over: threading.Event = field(default_factory=threading.Event)


class Database:
    """One metadata DB. May be used from several threads; reconnects after a fork."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._pid = 0
        self._away: _Away | None = None

    def read(self, body: Callable[[Connection], T]) -> T:
        """Run the body in a read-only transaction. Raises MetaUnreachable, MetaRefused, NotInstalled."""
        return self._run(body, write=False)

    def write(self, body: Callable[[Connection], T]) -> T:
        """Run the body and commit; repeat it after a deadlock or if another writer inserted the same key first.

        Raises MetaUnreachable, MetaRefused, NotInstalled; errors of the body pass through after a rollback."""
        return self._run(body, write=True)

    def close(self) -> None:
        """Close all connections; the next transaction opens new ones."""
        with self._lock:
            self._end_away(self._away)
            if self._engine is not None and self._pid == os.getpid():
                self._engine.dispose()
            self._engine = None

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Open a connection for writing, with errors translated. For our own transactions use `read` and `write`."""
        try:
            with self._current_engine().connect() as connection:
                yield connection.execution_options(**{_WRITE: True})
        except DBAPIError as error:
            raise self._translate(error) from None

    def _run(self, body: Callable[[Connection], T], *, write: bool) -> T:
        began = time.monotonic()
        for attempt in range(1, TRANSACTION_ATTEMPTS + 1):
            engine = self._current_engine()
            if (away := self._away) is not None:
                raise MetaUnreachable(away.error.url, away.error.reason)
            try:
                with engine.connect() as connection:
                    options = connection.execution_options(**{_WRITE: write})
                    with options.begin():
                        return body(options)
            except (DBAPIError, PoolExhausted) as error:
                waited = time.monotonic() - began
                if attempt == TRANSACTION_ATTEMPTS or waited > SQLITE_BUSY_SECONDS or not _may_succeed_later(error):
                    raise self._failed(error, waited) from None
                log.debug("retrying a transaction on the metadata DB", extra={"attempt": attempt})
                time.sleep(random.uniform(0.005, 0.02) * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _translate(self, error: DBAPIError | PoolExhausted) -> MetaUnreachable | MetaRefused:
        # Only the driver's text: SQLAlchemy's text repeats the statement.
        kind = MetaRefused if isinstance(error, DataError | IntegrityError | ProgrammingError) else MetaUnreachable
        reason = error.orig if isinstance(error, DBAPIError) else "all connections wait for its answer"
        return kind(without_password(self.url), " ".join(str(reason).split()))

    def _failed(self, error: DBAPIError | PoolExhausted, waited: float) -> MetaUnreachable | MetaRefused:
        """Return the error to raise; after a long wait, start the thread that polls the DB."""
        failed = self._translate(error)
        if isinstance(failed, MetaUnreachable) and waited > AWAY_AFTER_SECONDS:
            with self._lock:
                if self._away is None and self._pid == os.getpid():
                    self._away = _Away(failed)
                    threading.Thread(target=self._poll, args=(self._away,), name="metadata-db", daemon=True).start()
        return failed

    def _poll(self, away: _Away) -> None:
        """Poll the DB until it answers, then end the state in which all calls fail."""
        engine, answered = self._current_engine(), False
        while not answered and not away.over.wait(POLL_SECONDS):
            with suppress(SQLAlchemyError, DmError), engine.connect() as connection:
                with connection.execution_options(**{_WRITE: True}).begin():  # on SQLite: when a write is possible
                    answered = True
        with self._lock:
            self._end_away(away)

    def _end_away(self, away: _Away | None) -> None:
        if away is not None and self._away is away:
            away.over.set()
            self._away = None

    def _current_engine(self) -> Engine:
        with self._lock:
            if self._engine is None or self._pid != os.getpid():
                if self._engine is not None:
                    self._engine.dispose(close=False)  # the sockets belong to the parent process
                self._engine, self._pid, self._away = _engine(self.url), os.getpid(), None
            return self._engine


def _may_succeed_later(error: DBAPIError | PoolExhausted) -> bool:
    if not isinstance(error, DBAPIError):
        return False
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
                return _postgres_engine(url)
            case _:
                return _mysql_engine(url)
    except ModuleNotFoundError as error:
        raise NotInstalled(
            f"the driver {error.name or url.get_driver_name()} is not installed.",
            "For PostgreSQL: pip install 'psycopg[binary]'.",
        ) from None


def _postgres_engine(url: URL) -> Engine:
    engine = _server_engine(url, connect_timeout=CONNECT_SECONDS, tcp_user_timeout=SQLITE_BUSY_SECONDS * 1000)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        # By default it waits for locks without limit, and keeps those of a client without power for hours.
        limits = {"lock_timeout": ROW_LOCK_SECONDS, "idle_in_transaction_session_timeout": 2 * SQLITE_BUSY_SECONDS}
        connection.execute("; ".join(f"SET {name} = '{seconds}s'" for name, seconds in limits.items()))
        connection.commit()

    return engine


def _mysql_engine(url: URL) -> Engine:
    password = (url.password or "").encode()  # PyMySQL would take latin1, which no server expects
    seconds = {"read_timeout": ANSWER_SECONDS, "write_timeout": ANSWER_SECONDS}
    files = [str(url.query[name]) if name in url.query else None for name in _TLS_FILES]
    tls = Tls(*files) if any(files) or url.query.get("ssl") == "true" else None
    plain = url.difference_update_query(["ssl", *_TLS_FILES])
    engine = _server_engine(plain, connect_timeout=CONNECT_SECONDS, password=password, **seconds)

    @event.listens_for(engine, "do_connect")
    def encrypt(_dialect: object, _record: object, _arguments: object, options: dict[str, Any]) -> None:
        if tls is not None:  # read the files for each connection: certificates are renewed while a sync runs
            where = Endpoint("the metadata DB", url.host or "", url.port or 3306, url.username or "", tls=tls)
            options["ssl"] = tls_context(where)

    @event.listens_for(engine, "connect", insert=True)  # before SQLAlchemy's own, which may leave a transaction open
    def configure(connection: Any, _record: object) -> None:
        pin_borrowed(connection, without_password(url), isolation=WRITING)
        with connection.cursor() as cursor:
            cursor.execute(
                f"SET SESSION innodb_lock_wait_timeout = {ROW_LOCK_SECONDS}, lock_wait_timeout = {ROW_LOCK_SECONDS}"
            )

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
    engine = create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args={"timeout": SQLITE_BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver must not begin transactions by itself
        connection.execute("PRAGMA synchronous = FULL")  # an issued generation must survive a power failure

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        write = connection.get_execution_options().get(_WRITE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine
