"""The server's release is one that this engine knows how to read or write."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_dm.engine.precheck.facts import ServerFacts
from airflow_provider_dm.engine.precheck.result import State


def check_version(facts: ServerFacts) -> Iterator[tuple[State, str, str]]:
    oldest = facts.info.capabilities.oldest
    if facts.info.version_number < oldest:
        before = ".".join(map(str, oldest))
        remedy = f"It was never tried with releases before {before}: upgrade, or test your data well."
        yield State.WARN, f"{facts.info.flavour.value} {facts.info.version}", remedy
    else:
        yield State.OK, f"{facts.info.flavour.value} {facts.info.version}", ""


def check_source_flavour(facts: ServerFacts) -> Iterator[tuple[State, str, str]]:
    server = facts.info.capabilities
    if server.writes_binlog:
        yield from check_version(facts)
    else:
        said = f"{server.title} writes no binlog that a replica could read"
        yield State.FAIL, said, "Use a MySQL or MariaDB source."
