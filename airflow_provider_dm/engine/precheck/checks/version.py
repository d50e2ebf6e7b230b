"""The server's release is one that this engine knows how to read or write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.precheck.facts import ServerFacts
from airflow_provider_dm.engine.precheck.result import State

OLDEST: Final = {Flavour.MYSQL: (5, 7), Flavour.MARIADB: (10, 5), Flavour.TIDB: (0,)}
"""Older ones write binlogs and catalogues that were never tried."""


def check_version(facts: ServerFacts) -> Iterator[tuple[State, str, str]]:
    oldest = ".".join(map(str, OLDEST[facts.info.flavour]))
    if facts.info.version_number < OLDEST[facts.info.flavour]:
        remedy = f"It was never tried with releases before {oldest}: upgrade, or test your data well."
        yield State.WARN, f"{facts.info.flavour.value} {facts.info.version}", remedy
    else:
        yield State.OK, f"{facts.info.flavour.value} {facts.info.version}", ""


def check_source_flavour(facts: ServerFacts) -> Iterator[tuple[State, str, str]]:
    if facts.info.flavour is Flavour.TIDB:
        yield State.FAIL, "TiDB writes no binlog that a replica could read", "Use a MySQL or MariaDB source."
    else:
        yield from check_version(facts)
