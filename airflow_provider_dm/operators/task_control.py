"""Pausing, resuming and stopping the runs of a DM task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from airflow_provider_dm.links.dm_page import push_dm_page
from airflow_provider_dm.operators.base import DmOperator, files_of
from airflow_provider_dm.operators.errors import translated

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_dm.operators.inputs import Document

ControlAction = Literal["pause", "resume", "stop"]


class DmTaskControlOperator(DmOperator):
    """An operator that pauses, resumes or stops the runs of a task, as ``dmctl pause-task``, ``resume-task`` and
    ``stop-task`` do. It waits until the request is fulfilled.

    A pause lasts until a user resumes the task: no DAG run withdraws it. A stop also releases the files that the
    task keeps in the relay logs of its sources; its checkpoint in the target remains.

    :param task: the task's name, the path of its ``task.yaml`` (relative: to the DAG file), or a dictionary with its
        keys
    :param action: ``"pause"``, ``"resume"`` or ``"stop"``
    :param sources: source-ids to act on; None: all sources of the task
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id``

    Returns ``{"task", "action", "sources": [source-id]}``.
    """

    template_fields: Sequence[str] = ("task", "action", "sources", "dm_meta_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"task": "json"}

    def __init__(
        self,
        *,
        task: Document,
        action: ControlAction,
        sources: Sequence[str] | None = None,
        dm_meta_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.task = task
        self.action = action
        self.sources = sources
        self.dm_meta_conn_id = dm_meta_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Request the stage and wait for it. Raises AirflowException (retry), AirflowFailException."""
        from airflow_provider_dm.engine.meta.records import Stage
        from airflow_provider_dm.hooks.metadata import DmMetadataHook
        from airflow_provider_dm.launch.task_control import control
        from airflow_provider_dm.operators.arguments import chosen, texts
        from airflow_provider_dm.operators.inputs import task_name

        stages = {"pause": Stage.PAUSED, "resume": Stage.RUNNING, "stop": Stage.STOPPED}
        with translated(), DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
            desired = stages[chosen(self.action, "action", get_args(ControlAction))]
            task = task_name(self.task, files_of(self, context))
            push_dm_page(context, task=task)
            sources = control(store, task, texts(self.sources, "sources"), desired)
        self.log.info("task %s: %s on %s", task, desired.value, ", ".join(sources))
        return {"task": task, "action": self.action, "sources": list(sources)}
