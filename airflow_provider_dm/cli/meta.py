"""The metadata DB of a command: that of --meta-url or $DM_META_URL, otherwise dmctl's own SQLite file.

dmctl meta migrate      create its tables, or upgrade them to this release
dmctl meta check        check that its tables match this release
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from airflow_provider_dm.cli.output import Exit, Output
from airflow_provider_dm.cli.parsing import Verbs
from airflow_provider_dm.engine.config.secrets import known
from airflow_provider_dm.engine.meta.migrate import migrate, open_migrated
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Secret
from airflow_provider_dm.launch.workdir import work_root

META_URL_VARIABLE: Final = "DM_META_URL"


def add_verbs(verbs: Verbs) -> None:
    actions = verbs.below("meta", "migrate|check")
    add_arguments(actions.add("migrate", migrate_schema, "create the tables, or upgrade them to this release"))
    add_arguments(actions.add("check", check_schema, "check that the tables match this release"))


def migrate_schema(arguments: argparse.Namespace, output: Output) -> Exit:
    """Migrate the metadata DB to this release's schema. Can be repeated."""
    migrate(meta_url(arguments))
    output.answer({}, "the metadata DB is up to date")
    return Exit.DONE


def check_schema(arguments: argparse.Namespace, output: Output) -> Exit:
    """Check that the metadata DB is up to date. Raises MetaSchemaDiffers."""
    with MetaStore.open(meta_url(arguments)):
        output.answer({}, "the metadata DB is up to date")
    return Exit.DONE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--meta-url",
        metavar="URL",
        help=f"SQLAlchemy URL of the metadata DB (or set {META_URL_VARIABLE}, as arguments are visible); "
        "default: a SQLite file in the work directory, created and migrated automatically",
    )
    parser.add_argument(
        "--work-dir",
        metavar="DIR",
        type=Path,
        help="directory of logs, job files and relay logs; default: $DM_WORK_DIR, else below $XDG_STATE_HOME",
    )


def root_of(arguments: argparse.Namespace) -> Path:
    return work_root(arguments.work_dir)


def meta_url(arguments: argparse.Namespace) -> Secret:
    """Return the URL of the database, with its password."""
    return Secret(_named(arguments) or f"sqlite:///{root_of(arguments) / 'meta.db'}")


def open_store(arguments: argparse.Namespace) -> MetaStore:
    """Open the store; dmctl's own file is created and migrated first. Raises MetaSchemaDiffers if a configured DB is
    old."""
    url = meta_url(arguments)
    return MetaStore.open(url) if _named(arguments) else open_migrated(url)


def _named(arguments: argparse.Namespace) -> str | None:
    named: str | None = arguments.meta_url or known.get(META_URL_VARIABLE)
    return named
