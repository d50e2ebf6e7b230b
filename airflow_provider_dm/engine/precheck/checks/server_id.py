"""The source has a server id, as a replica cannot connect to one without, and ours differs from it."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_dm.engine.precheck.facts import SourceFacts
from airflow_provider_dm.engine.precheck.result import State


def check_server_id(facts: SourceFacts) -> Iterator[tuple[State, str, str]]:
    server_id = facts.info.server_id
    if server_id == 0:
        yield State.FAIL, "server_id is 0", "Set server_id to a number that no other server of this replication has."
    elif facts.config.server_id == server_id:
        message = f"our replica connection has the server-id {server_id}, which is the source's own"
        yield State.FAIL, message, "Give another server-id in source.yaml, or none."
    else:
        yield State.OK, f"server_id is {server_id}", ""
