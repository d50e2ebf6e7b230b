"""The preconditions of a copy that has not started, or is complete: checked before the claim.

`begin_load` has the same checks for the tables that it changes. They are made earlier here, so that invalid input
leaves no trace in the target, and also for complete loads, which `begin_load` skips.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.config.task import TaskMode
from airflow_provider_dm.engine.copy.design import design
from airflow_provider_dm.engine.downstream.session import run_transaction
from airflow_provider_dm.engine.downstream.subtask import begun_subtasks
from airflow_provider_dm.engine.downstream.table_schema import load_table_schemas
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.reading.survey import survey_source, survey_target
from airflow_provider_dm.engine.rules.block_allow import select
from airflow_provider_dm.engine.rules.errors import RulesChanged
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules
from airflow_provider_dm.engine.schema.catalogue import list_tables
from airflow_provider_dm.engine.sync.sync_source import SyncSource

log = logging.getLogger(__name__)


def table_not_copied(source: str, table: str) -> RulesChanged:
    return RulesChanged(
        f"{source}: {table} is selected by the rules, but the task's full load was completed without it.",
        "If it was created later, the sync creates it by the log. Otherwise leave it out by "
        "block-allow-list, or migrate it with another task (another name).",
    )


def check_all_copied(source: SyncSource) -> None:
    """Check that the complete load of this source has all tables that the rules select.

    Raises RulesChanged if no log is read; otherwise the log may create them, and a warning is logged.
    """
    copied = {
        one.table.name for one in run_transaction(source.target, lambda tx: load_table_schemas(tx, source.fence.ref))
    }
    with connected(source.upstream) as connection:
        selected = set(select(list_tables(connection), source.rules.block_allow))
    for name in sorted(selected - copied):
        error = table_not_copied(source.id, str(name))
        if source.config.mode is TaskMode.FULL:
            raise error
        log.warning("%s", error)


def check_before_claim(spec: JobSpec, sources: Mapping[str, Endpoint], target: Endpoint) -> None:
    """Check a task before the claim, unless it has started already. Raises the errors of `design`."""
    task = spec.task
    if run_transaction(target, lambda tx: begun_subtasks(tx, task.meta_schema, task.name, task.source_ids)):
        return
    subtasks = {source: spec.subtask(source) for source in sources}
    surveys = [survey_source(endpoint, SubtaskRules.of(subtasks[source])) for source, endpoint in sources.items()]
    names = {table.target for survey in surveys for table in survey.tables}
    design(surveys, subtasks, survey_target(target, names), fresh=set(sources), copied_into=frozenset())
