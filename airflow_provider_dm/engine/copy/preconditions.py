"""What makes a copy impossible although nothing of it has begun, or although all of it is done: asked before the claim.

`begin` asks the same of what it is about to change; here it is asked early, so that bad input leaves no trace in the
target, and of complete loads, which `begin` leaves alone."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.config.task import TaskMode
from airflow_provider_dm.engine.copy.design import design
from airflow_provider_dm.engine.copy.loading import Source
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.reading.survey import survey_source, survey_target
from airflow_provider_dm.engine.rules.block_allow import select
from airflow_provider_dm.engine.rules.subtask import SubtaskRules
from airflow_provider_dm.engine.schema.catalogue import list_tables
from airflow_provider_dm.engine.target.session import run_transaction, target_connection
from airflow_provider_dm.engine.target.subtask import begun_subtasks
from airflow_provider_dm.engine.target.table_schema import load_table_schemas

log = logging.getLogger(__name__)


class TableNotCopied(DmError):
    """A table that the task's load was completed without: its rules have grown, or the table was created since."""

    source: str
    table: str

    code = "DM-7018"
    what = "{source}: {table} is selected by the rules, and the task's full load was completed without it."
    hint = (
        "If it was created since, the sync creates it where the log says so. Else leave it out by block-allow-list, or "
        "migrate it with another task (another name)."
    )


def check_nothing_new(target: Endpoint, source: Source) -> None:
    """Look for tables that the rules select and that were not in the complete load of this source.

    Raises TableNotCopied where no log is read; else the log may have them created, and it is only said.
    """
    copied = {one.table.name for one in run_transaction(target, lambda tx: load_table_schemas(tx, source.fence.ref))}
    with connected(source.endpoint) as connection:
        selected = set(select(list_tables(connection), source.rules.block_allow))
    for name in sorted(selected - copied):
        error = TableNotCopied(source.id, str(name))
        if source.subtask.mode is TaskMode.FULL:
            raise error
        log.warning("%s", error)


def check_beforehand(spec: JobSpec, sources: Mapping[str, Endpoint], target: Endpoint) -> None:
    """Check, of a task that the target knows nothing of, what `begin` would refuse: before the target is claimed, so
    that bad input leaves no trace there. A task that has begun is not checked. Raises as `design` does.
    """
    task = spec.task
    if begun_subtasks(target_connection(target), task.meta_schema, task.name, task.source_ids):
        return
    subtasks = {source: spec.subtask(source) for source in sources}
    surveys = [survey_source(endpoint, SubtaskRules.of(subtasks[source])) for source, endpoint in sources.items()]
    names = {one.target for survey in surveys for one in survey.tables}
    design(surveys, subtasks, survey_target(target, names), fresh=set(sources), copied_into=frozenset())
