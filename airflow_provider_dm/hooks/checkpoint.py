"""The checkpoints of a task, read from the target's meta-schema, where they are stored with the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from airflow_provider_dm.engine.config.task import DEFAULT_META_SCHEMA
from airflow_provider_dm.hooks.database import DmDatabaseHook

if TYPE_CHECKING:
    from airflow_provider_dm.engine.downstream.subtask import Subtask
    from airflow_provider_dm.engine.mysql.endpoint import Endpoint


class CheckpointHook(BaseHook):
    """A hook that lists, shows and resets checkpoints. Only the transaction that writes the rows moves a checkpoint.

    :param target_conn_id: connection of the target (type ``dm_database``)
    :param meta_schema: the task's ``meta-schema``
    :param dm_meta_conn_id: connection of type ``dm_meta``, for :meth:`reset`; ``[dm] metadata_conn_id`` by default
    """

    def __init__(
        self, target_conn_id: str, *, meta_schema: str = DEFAULT_META_SCHEMA, dm_meta_conn_id: str | None = None
    ) -> None:
        super().__init__()
        self.target_conn_id = target_conn_id
        self.meta_schema = meta_schema
        self.dm_meta_conn_id = dm_meta_conn_id

    def get(self, task: str, source_id: str) -> Subtask | None:
        """Return the state of one source of the task in the target; None if it has not started.

        Raises errors of connecting.
        """
        from airflow_provider_dm.engine.downstream.subtask import known_subtasks
        from airflow_provider_dm.engine.mysql.connection import connected

        with connected(self._target()) as session:
            return known_subtasks(session, self.meta_schema, task, [source_id]).get(source_id)

    def list(self, task: str = "") -> Sequence[Subtask]:
        """Return the state of all sources of a task, or of all tasks, in the target. Raises errors of connecting."""
        from airflow_provider_dm.engine.downstream.subtask import list_subtasks
        from airflow_provider_dm.engine.mysql.connection import connected

        with connected(self._target()) as session:
            return list_subtasks(session, self.meta_schema, task)

    def show(self, task: str, source_id: str) -> dict[str, Any] | None:
        """Return a subtask's checkpoint as JSON, in the format of `launch.checkpoints.checkpoint_json`.

        Raises errors of connecting, and CheckpointUnusable.
        """
        from airflow_provider_dm.engine.downstream.identity import SubtaskRef
        from airflow_provider_dm.engine.mysql.connection import connected
        from airflow_provider_dm.launch.checkpoints import checkpoint_json

        with connected(self._target()) as session:
            return checkpoint_json(session, SubtaskRef(self.meta_schema, task, source_id))

    def reset(self, task: str, source_ids: Sequence[str]) -> Sequence[str]:
        """Remove the checkpoints of these sources, and DM's: the task starts from the beginning. Rows are kept.

        Same as ``dmctl start-task --remove-meta``. Return the sources that had a checkpoint. Raises LeaseHeld while a
        run is working, InvalidInput if other sources feed the same tables, and errors of connecting.
        """
        from airflow_provider_dm.engine.downstream.removal import remove_progress
        from airflow_provider_dm.hooks.metadata import DmMetadataHook

        with DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
            return remove_progress(store, self._target(), self.meta_schema, task, source_ids, who="CheckpointHook")

    def _target(self) -> Endpoint:
        return DmDatabaseHook(self.target_conn_id, name="target").endpoint()
