"""Runs all checks: first of the sources, then of the target, with facts of the sources. Reads only, without Spark.

A server that cannot be reached is one failed result, `connection`, with the error's text, and its other checks are left
out. A check that cannot be completed fails with the reason. `ignore-checking-items` leaves out checks by DM's names or
by the shown names (`all`: everything except the connections and the configuration)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Final, Generic, TypeVar

import pymysql

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.downstream.subtask import Subtask, known_subtasks
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.connection import Connection, connected
from airflow_provider_dm.engine.mysql.endpoint import TARGET, Endpoint
from airflow_provider_dm.engine.mysql.error_numbers import ACCESS_DENIED
from airflow_provider_dm.engine.precheck.checks import binlog, privileges, server, shards, side_effects, tables
from airflow_provider_dm.engine.precheck.checks.configuration import check_configuration, unknown_items
from airflow_provider_dm.engine.precheck.facts import ServerFacts, SourceFacts, TargetFacts
from airflow_provider_dm.engine.precheck.result import CheckResult, Findings, PrecheckReport, State

_GRANT: Final = "Grant the privileges that the privilege checks name, then check again."
FactsT = TypeVar("FactsT", bound=ServerFacts)


@dataclass(frozen=True)
class Check(Generic[FactsT]):
    """A check to run. `item`: its name in `ignore-checking-items`; `name` is shown. `only`: the tasks for which it is
    run.
    """

    name: str
    item: str
    run: Callable[[FactsT], Findings]
    only: Callable[[FactsT], bool] = lambda _facts: True


_follows: Final = attrgetter("follows")


SOURCE_CHECKS: Final[tuple[Check[SourceFacts], ...]] = (
    Check("version", "version", server.check_source_flavour),
    Check("server_id", "server_id", server.check_server_id, _follows),
    Check("binlog_enable", "binlog_enable", binlog.check_enabled),
    Check("binlog_format", "binlog_format", binlog.check_format, _follows),
    Check("binlog_row_image", "binlog_row_image", binlog.check_row_image, _follows),
    Check("binlog_db", "binlog_db", binlog.check_schemas, _follows),
    Check("binlog_retention", "binlog_enable", binlog.check_retention, _follows),
    Check("meta_position", "meta_position", binlog.check_start, _follows),
    Check("relay_start", "meta_position", binlog.check_relay_start, lambda facts: facts.relay_dir is not None),
    Check("gtid", "binlog_enable", binlog.check_gtid, lambda facts: facts.follows and facts.binlog.log_bin),
    Check("dump_privilege", "dump_privilege", privileges.check_dump),
    Check("replication_privilege", "replication_privilege", privileges.check_replication),
    Check("conn_number", "conn_number", server.check_source_connections),
    Check("table_routes", "table_schema", tables.check_routes),
    Check("column_types", "table_schema", tables.check_types),
    Check("table_keys", "table_schema", tables.check_keys),
    Check("foreign_keys", "table_schema", tables.check_foreign_keys),
    Check(side_effects.CASCADES, side_effects.CASCADES, side_effects.check_cascades, _follows),
    Check("table_engines", "table_schema", lambda facts: tables.check_engines(facts, facts.selected)),
    Check("online_ddl", "online_ddl", tables.check_online_ddl),
)
TARGET_CHECKS: Final[tuple[Check[TargetFacts], ...]] = (
    Check("version", "downstream_version", server.check_version),
    Check("target_privilege", "target_privilege", privileges.check_target),
    Check("conn_number", "conn_number", server.check_target_connections),
    Check("collations", "collations", server.check_collations, lambda facts: facts.info.capabilities.text_is_utf8),
    Check("not_the_source", "table_schema", tables.check_not_source),
    Check("target_rows", "table_schema", tables.check_rows),
    Check("table_columns", "schema_of_shard_tables", tables.check_columns),
    Check("shard_tables", "schema_of_shard_tables", shards.check_shards, shards.merges),
    Check("table_creation", "table_schema", tables.check_creation),
    Check("table_changes", "table_schema", tables.check_changes, lambda facts: bool(facts.begun)),
    Check("table_engines", "table_schema", lambda facts: tables.check_engines(facts, facts.tables)),
    Check(side_effects.TRIGGERS, side_effects.TRIGGERS, side_effects.check_triggers),
)


OF_A_SERVER: Final = frozenset(
    {
        "version",
        "server_id",
        "binlog_enable",
        "binlog_format",
        "binlog_row_image",
        "binlog_retention",
        "replication_privilege",
    }
)
"""The checks of a source that do not need a task."""


def check_source(config: SourceConfig, endpoint: Endpoint) -> tuple[CheckResult, ...]:
    """Check whether a server and its account can be the source of a task. Findings are never raised."""
    instances = [{"source-id": config.source_id}]
    any_task = TaskConfig.model_validate({"name": "any", "task-mode": "all", "mysql-instances": instances})
    with ExitStack() as open_connections:
        results: list[CheckResult] = []
        connection = _connect(config.source_id, endpoint, open_connections, results)
        if connection is not None:
            checks = [check for check in SOURCE_CHECKS if check.name in OF_A_SERVER]
            checks.append(Check("select_privilege", "dump_privilege", privileges.check_select))
            results += _checked(config.source_id, SourceFacts(endpoint, connection, any_task, config), checks)
    return tuple(results)


def run_precheck(
    task: TaskConfig,
    sources: Sequence[tuple[SourceConfig, Endpoint]],
    target: Endpoint,
    relay_dirs: Mapping[str, Path] = MappingProxyType({}),
) -> PrecheckReport:
    """Run every check of every source and of the target; none of them if the check of the configuration fails. Findings
    are never raised. `relay_dirs`: the shared relay logs of this machine, by source.
    """
    results = list(_named("configuration", TARGET, check_configuration(task, [config for config, _ in sources])))
    if any(result.state is State.FAIL for result in results):
        return PrecheckReport(task.name, tuple(results))
    known_names = {name for check in SOURCE_CHECKS for name in (check.name, check.item)}
    known_names |= {name for check in TARGET_CHECKS for name in (check.name, check.item)}
    results += _named("configuration", TARGET, unknown_items(task.ignore_checking_items, known_names))
    with ExitStack() as open_connections:
        reached: list[SourceFacts] = []
        known = _known(task, target)
        for config, endpoint in sources:
            connection = _connect(config.source_id, endpoint, open_connections, results)
            if connection is not None:
                facts = SourceFacts(
                    endpoint, connection, task, config, known.get(config.source_id), relay_dirs.get(config.source_id)
                )
                reached.append(facts)
                results += _checked(config.source_id, facts, SOURCE_CHECKS)
        connection = _connect(TARGET, target, open_connections, results)
        if connection is not None:
            target_facts = TargetFacts(target, connection, task, _usable(reached))
            results += _checked(TARGET, target_facts, TARGET_CHECKS)
    return PrecheckReport(task.name, tuple(results))


def _known(task: TaskConfig, target: Endpoint) -> Mapping[str, Subtask]:
    """Return the subtasks that the target has of the task; problems of the target are in its own results."""
    try:
        with connected(target) as connection:
            return known_subtasks(connection, task.meta_schema, task.name, task.source_ids)
    except DmError:
        return {}


def _connect(where: str, endpoint: Endpoint, stack: ExitStack, results: list[CheckResult]) -> Connection | None:
    try:
        connection = stack.enter_context(connected(endpoint))
    except DmError as error:
        results.append(CheckResult.failed("connection", where, error))
        return None
    results.append(CheckResult("connection", where, State.OK, f"logged in to {endpoint}"))
    return connection


def _checked(where: str, facts: FactsT, checks: Sequence[Check[FactsT]]) -> Iterator[CheckResult]:
    ignored = set(facts.task.ignore_checking_items)
    for check in checks:
        if ignored & {"all", check.item, check.name}:
            continue
        try:
            if check.only(facts):
                yield from list(_named(check.name, where, check.run(facts)))
        except DmError as error:
            yield CheckResult.failed(check.name, where, error)
        except pymysql.err.Error as error:
            number, reason = (*error.args, "", "")[:2]
            remedy = _GRANT if number in ACCESS_DENIED else f"See the server's manual for its error {number}."
            yield CheckResult(check.name, where, State.FAIL, f"the server returned error {number}: {reason}", remedy)


def _named(name: str, where: str, findings: Findings) -> Iterator[CheckResult]:
    return (CheckResult(name, where, *finding) for finding in findings)


def _usable(reached: Sequence[SourceFacts]) -> tuple[SourceFacts, ...]:
    """Return the sources whose tables could be read; problems of the others are in their own results."""
    usable = []
    for facts in reached:
        try:
            if len(facts.tables) == len(facts.routed):  # both are read here and cached
                usable.append(facts)
        except (DmError, pymysql.err.Error):
            continue
    return tuple(usable)
