"""The server itself: its release, its id, and its limit of connections."""

from __future__ import annotations

from airflow_provider_dm.engine.config.units import MOST_WORKERS
from airflow_provider_dm.engine.mysql.connection import query
from airflow_provider_dm.engine.precheck.facts import ServerFacts, SourceFacts, TargetFacts
from airflow_provider_dm.engine.precheck.result import Findings, State, verdict


def check_version(facts: ServerFacts) -> Findings:
    """Check that this release of the server was tested with this engine."""
    oldest = facts.info.capabilities.oldest
    version, before = f"{facts.info.flavour.value} {facts.info.version}", ".".join(map(str, oldest))
    remedy = f"Releases before {before} were never tested: upgrade, or test with your data."
    return verdict(facts.info.version_number < oldest, State.WARN, version, remedy, fine=version)


def check_source_flavour(facts: ServerFacts) -> Findings:
    server = facts.info.capabilities
    if server.writes_binlog:
        return check_version(facts)
    what = f"{server.title} writes no binlog that a replica could read"
    return [(State.FAIL, what, "Use a MySQL or MariaDB source.")]


def check_server_id(facts: SourceFacts) -> Findings:
    """Check that the source has a server id, which replicas require, and that the task has another server id."""
    server_id = facts.info.server_id
    if server_id == 0:
        remedy = "Set server_id to a number that no other server of this replication has."
        return [(State.FAIL, "server_id is 0", remedy)]
    message = f"server-id {server_id} of source.yaml is the source's own server_id"
    remedy = "Set another server-id in source.yaml, or none."
    return verdict(facts.config.server_id == server_id, State.FAIL, message, remedy, fine=f"server_id is {server_id}")


def check_source_connections(facts: SourceFacts) -> Findings:
    # One connection for each thread, one for the relay, some for queries.
    return _connections(facts, facts.subtask.mydumper.threads + 4)


def check_target_connections(facts: TargetFacts) -> Findings:
    return _connections(facts, sum(source.subtask.syncer.worker_count or MOST_WORKERS for source in facts.sources) + 4)


def _connections(facts: ServerFacts, wanted: int) -> Findings:
    most = facts.setting("max_connections")
    message = f"max_connections is {most}, the task may open {wanted} connections"
    few = most.isdigit() and 0 < int(most) < wanted
    fine = f"max_connections is {most}" if most.strip("0") else "connections are not limited"  # TiDB shows 0
    return verdict(few, State.WARN, message, "Raise it, or lower the threads.", fine=fine)


def check_collations(facts: TargetFacts) -> Findings:
    """Check that TiDB compares text by its collations: a cluster first started before release 6 may compare bytes."""
    ((equal,),) = query(facts.connection, "SELECT 'a' = 'A' COLLATE utf8mb4_general_ci")
    what = (
        "this TiDB compares all text by its bytes, whatever its collation (new_collation_enabled is False): upper and "
        "lower case differ, and trailing spaces count"
    )
    remedy = "Rows are replicated correctly. If applications need collations, migrate to a cluster created with them."
    return verdict(not int(equal), State.WARN, what, remedy, fine="text is compared by its collation")
