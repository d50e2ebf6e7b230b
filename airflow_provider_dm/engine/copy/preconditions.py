"""The preconditions of a copy that has not started, or is complete: checked before the claim.

`begin` checks the same about what it is going to change; here it is checked early, so that invalid input leaves no
trace in the target, and for complete loads, which `begin` does not touch."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.config.task import TaskMode
from airflow_provider_dm.engine.copy.design import design
from airflow_provider_dm.engine.copy.loading import Source
from airflow_provider_dm.engine.downstream.session import run_transaction
from airflow_provider_dm.engine.downstream.subtask import begun_subtasks
from airflow_provider_dm.engine.downstream.table_schema import load_table_schemas
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.reading.survey import survey_source, survey_target
from airflow_provider_dm.engine.rules.block_allow import select
from airflow_provider_dm.engine.rules.errors import RulesChanged
from airflow_provider_dm.engine.rules.subtask import SubtaskRules
from airflow_provider_dm.engine.schema.catalogue import list_tables

log = logging.getLogger(__name__)


def table_not_copied(source: str, table: str) -> RulesChanged:
    return RulesChanged(
        f"{source}: {table} is selected by the rules, but the task's full load was completed without it.",
        "If it was created since, the sync creates it by the log. Otherwise leave it out by "
        "block-allow-list, or migrate it with another task (another name).",
    )


def check_nothing_new(target: Endpoint, source: Source) -> None:
    """Check for tables that the rules select and that are missing in the complete load of this source.

    Raises RulesChanged if no log is read; otherwise the log may create them, and a warning is logged.
    """
    copied = {one.table.name for one in run_transaction(target, lambda tx: load_table_schemas(tx, source.fence.ref))}
    with connected(source.endpoint) as connection:
        selected = set(select(list_tables(connection), source.rules.block_allow))
    for name in sorted(selected - copied):
        error = table_not_copied(source.id, str(name))
        if source.subtask.mode is TaskMode.FULL:
            raise error
        log.warning("%s", error)


def check_beforehand(spec: JobSpec, sources: Mapping[str, Endpoint], target: Endpoint) -> None:
    """Check, for a task that has not started, what `begin` would refuse: before the claim, so that invalid input leaves
    no trace in the target. A started task is not checked. Raises the errors of `design`.
    """
    task = spec.task
    if run_transaction(target, lambda tx: begun_subtasks(tx, task.meta_schema, task.name, task.source_ids)):
        return
    subtasks = {source: spec.subtask(source) for source in sources}
    surveys = [survey_source(endpoint, SubtaskRules.of(subtasks[source])) for source, endpoint in sources.items()]
    names = {one.target for survey in surveys for one in survey.tables}
    design(surveys, subtasks, survey_target(target, names), fresh=set(sources), copied_into=frozenset())
