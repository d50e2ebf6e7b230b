"""The address of the metadata DB: a URL that contains a password, and is therefore never shown in full."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.endpoint import Secret

DRIVERS: Final = {
    "sqlite": "sqlite+pysqlite",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
    "tidb": "mysql+pymysql",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
}


def _meta_url_invalid(reason: str) -> InvalidInput:
    return InvalidInput(
        f"the URL of the metadata DB cannot be used: {reason}.",
        "Write sqlite:////absolute/path, mysql://user:password@host/db or postgresql://… .",
    )


def parse_url(url: Secret | str) -> URL:
    """Parse a URL, and set the driver that we ship: another driver in the URL might block or behave differently.

    Raises InvalidInput."""
    text = url.reveal() if isinstance(url, Secret) else url
    try:
        parsed = make_url(text)
    except (ArgumentError, ValueError):
        raise _meta_url_invalid("it is not a URL") from None
    backend = parsed.drivername.partition("+")[0]
    if backend not in DRIVERS:
        raise _meta_url_invalid(f"{backend!r} is not one of {', '.join(sorted(DRIVERS))}")
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise _meta_url_invalid("a database in memory is visible to one process only")
    return parsed.set(drivername=DRIVERS[backend])


def sqlite_file(url: Secret | str) -> Path | None:
    """Return the file of a SQLite URL; None for a server. Raises InvalidInput."""
    parsed = parse_url(url)
    return Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" else None


def without_password(url: URL) -> str:
    """Return the URL for messages: without the password, and without the query, which may contain one too."""
    return url.set(query={}).render_as_string(hide_password=True)
