"""The server takes as many connections as the task opens."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_dm.engine.config.units import MOST_WORKERS
from airflow_provider_dm.engine.precheck.facts import SourceFacts, TargetFacts
from airflow_provider_dm.engine.precheck.result import State


def check_source_connections(facts: SourceFacts) -> Iterator[tuple[State, str, str]]:
    # One to read with for each thread, one for the relay, some for questions.
    yield from _enough(facts.setting("max_connections"), facts.subtask.mydumper.threads + 4)


def check_target_connections(facts: TargetFacts) -> Iterator[tuple[State, str, str]]:
    wanted = sum(source.subtask.syncer.worker_count or MOST_WORKERS for source in facts.sources) + 4
    yield from _enough(facts.setting("max_connections"), wanted)


def _enough(most: str, wanted: int) -> Iterator[tuple[State, str, str]]:
    if most.isdigit() and 0 < int(most) < wanted:
        yield State.WARN, f"max_connections is {most}, the task may open {wanted}", "Raise it, or lower the threads."
    else:
        yield State.OK, f"max_connections is {most or 'not limited'}", ""
