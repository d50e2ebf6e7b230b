"""`dmctl meta migrate|check`: the metadata DB's schema."""

from __future__ import annotations

import argparse

from airflow_provider_dm.cli import meta_url
from airflow_provider_dm.cli.output import Exit, Output
from airflow_provider_dm.cli.parsing import Verbs
from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.store import MetaStore


def add_verbs(verbs: Verbs) -> None:
    actions = verbs.below("meta", "migrate|check")
    meta_url.add_arguments(
        actions.add("migrate", migrate_schema, "create the tables, or bring them to this release's version")
    )
    meta_url.add_arguments(actions.add("check", check_schema, "say whether the tables are those of this release"))


def migrate_schema(arguments: argparse.Namespace, output: Output) -> Exit:
    """Migrate the metadata DB to the schema of this release. Safe to repeat."""
    url, own = meta_url.meta_url(arguments)
    if own:
        meta_url.make_own(arguments)
    migrate(url)
    output.answer({}, "the metadata DB is up to date")
    return Exit.DONE


def check_schema(arguments: argparse.Namespace, output: Output) -> Exit:
    """Check that the metadata DB is up to date. Raises MetaSchemaOutdated."""
    url, _ = meta_url.meta_url(arguments)
    with MetaStore.open(url):
        output.answer({}, "the metadata DB is up to date")
    return Exit.DONE
