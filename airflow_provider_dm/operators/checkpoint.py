"""An operator that shows or deletes the checkpoints of a DM task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from airflow_provider_dm.links.dm_page import push_dm_page
from airflow_provider_dm.operators.base import DmOperator, files_of
from airflow_provider_dm.operators.errors import translated

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_dm.operators.inputs import Document

CheckpointAction = Literal["show", "reset"]


class DmCheckpointOperator(DmOperator):
    """An operator that shows the checkpoints of a task, or deletes them, as ``dmctl start-task --remove-meta`` does.

    A checkpoint is stored in the target and changes only together with the rows, so it cannot be set. After a reset the
    task starts from the beginning; its rows remain in the target. A reset is rejected while a run of the task is
    working.

    :param task: path of a DM ``task.yaml`` (relative: to the DAG file), or a dictionary with its keys
    :param action: ``"show"`` or ``"reset"``
    :param sources: source-ids; None: all sources of the task
    :param target_conn_id: Airflow connection of the target; None: ``target-database`` of the task
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id``

    Returns ``{"task", "action", "sources": {source-id: checkpoint before the action, or null}}``.
    """

    template_fields: Sequence[str] = ("task", "action", "sources", "target_conn_id", "dm_meta_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"task": "json"}

    def __init__(
        self,
        *,
        task: Document,
        action: CheckpointAction = "show",
        sources: Sequence[str] | None = None,
        target_conn_id: str | None = None,
        dm_meta_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.task = task
        self.action = action
        self.sources = sources
        self.target_conn_id = target_conn_id
        self.dm_meta_conn_id = dm_meta_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Read the checkpoints, and delete them for a reset. Raises AirflowException (retry), AirflowFailException."""
        from airflow_provider_dm.engine.downstream.identity import SubtaskRef
        from airflow_provider_dm.engine.downstream.removal import remove_progress
        from airflow_provider_dm.engine.mysql.connection import connected
        from airflow_provider_dm.hooks.metadata import DmMetadataHook
        from airflow_provider_dm.launch.checkpoints import checkpoint_json
        from airflow_provider_dm.operators.arguments import chosen, texts
        from airflow_provider_dm.operators.inputs import read_task, sources_of, target_endpoint

        with translated():
            action = chosen(self.action, "action", get_args(CheckpointAction))
            config = read_task(self.task, files_of(self, context))
            push_dm_page(context, task=config.name)
            sources = sources_of(config, texts(self.sources, "sources"))
            target = target_endpoint(config, self.target_conn_id)
            with connected(target) as session:
                checkpoints = {
                    source: checkpoint_json(session, SubtaskRef(config.meta_schema, config.name, source))
                    for source in sources
                }
            if action == "reset":
                with DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
                    who = type(self).__name__
                    remove_progress(store, target, config.meta_schema, config.name, sources, who=who)
        for source, one in checkpoints.items():
            self.log.info("%s: %s", source, "no checkpoint" if one is None else f"{one['unit']}, {one['location']}")
        return {"task": config.name, "action": action, "sources": checkpoints}
