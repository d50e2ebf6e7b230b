"""Which metadata DB a command works with: the one named, else dmctl's own SQLite file in the work directory."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Secret
from airflow_provider_dm.launch.workdir import work_root

VARIABLE: Final = "DM_META_URL"
OWN_FILE: Final = "meta.db"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --meta-url and --work-dir."""
    parser.add_argument(
        "--meta-url",
        metavar="URL",
        help=f"SQLAlchemy URL of the metadata DB (better by the variable {VARIABLE}: arguments are visible to others); "
        "default: a SQLite file in the work directory, created and migrated by itself",
    )
    parser.add_argument(
        "--work-dir",
        metavar="DIR",
        type=Path,
        help="where logs, job files and relay logs are kept; default: $DM_WORK_DIR, else below $XDG_STATE_HOME",
    )


def root_of(arguments: argparse.Namespace) -> Path:
    """Return the work directory that the command line means."""
    return work_root(arguments.work_dir)


def meta_url(arguments: argparse.Namespace) -> tuple[Secret, bool]:
    """Return the URL, and whether the database is dmctl's own."""
    given = arguments.meta_url or os.environ.get(VARIABLE)
    return (Secret(given), False) if given else (Secret(f"sqlite:///{root_of(arguments) / OWN_FILE}"), True)


def open_store(arguments: argparse.Namespace) -> tuple[MetaStore, Secret]:
    """Open the store, dmctl's own one made and migrated first. Raises MetaSchemaOutdated for a named one that is
    old.
    """
    url, own = meta_url(arguments)
    if own:
        make_own(arguments)
        migrate(url)
    return MetaStore.open(url), url


def make_own(arguments: argparse.Namespace) -> None:
    """Create dmctl's own database file, empty and private, unless it is there."""
    path = root_of(arguments) / OWN_FILE
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
