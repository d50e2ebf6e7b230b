"""The sources of a DM task as a list, for dynamic task mapping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_dm.links.dm_page import push_dm_page
from airflow_provider_dm.operators.base import DmOperator, files_of
from airflow_provider_dm.operators.errors import translated

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_dm.operators.inputs import Document


class DmSourcesOperator(DmOperator):
    """An operator that returns the source-ids of a task, for dynamic task mapping:
    ``RelayCatchUpSensor.partial(task_id="caught_up").expand(source_id=sources.output)``.

    A load can be mapped too, with a list of one source for each run: ``DmFullMigrationOperator.partial(task_id="load",
    task=…).expand(sources=sources.output.map(lambda source: [source]))``. Each run reads from the task which sources a
    merged table has. One sync works on all sources.

    :param task: path of a DM ``task.yaml`` (relative: to the DAG file), or a dictionary with its keys

    Returns ``[source-id]``.
    """

    template_fields: Sequence[str] = ("task",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"task": "json"}

    def __init__(self, *, task: Document, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.task = task

    def execute(self, context: Context) -> list[str]:
        """Read the task. Raises AirflowFailException for an invalid file."""
        from airflow_provider_dm.operators.inputs import read_task

        with translated():
            config = read_task(self.task, files_of(self, context))
        push_dm_page(context, task=config.name)
        return list(config.source_ids)
