"""Where a task stands, read from where the truth is: the target's meta-schema, beside the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow.sdk import BaseHook

from airflow_provider_dm.hooks.database import DmDatabaseHook

if TYPE_CHECKING:
    from airflow_provider_dm.engine.target.subtask import Subtask

DEFAULT_META_SCHEMA: Final = "dm_meta"


class CheckpointHook(BaseHook):
    """A hook that reads a subtask's checkpoint. Nothing is written: a checkpoint moves only with the rows before it.

    :param target_conn_id: connection of the target (type ``dm_database``)
    :param meta_schema: the task's ``meta-schema``
    """

    def __init__(self, target_conn_id: str, *, meta_schema: str = DEFAULT_META_SCHEMA) -> None:
        super().__init__()
        self.target_conn_id = target_conn_id
        self.meta_schema = meta_schema

    def get(self, task: str, source_id: str) -> Subtask | None:
        """Return what the target says of one source of the task; None when it knows nothing of it.

        Raises what connecting raises.
        """
        from airflow_provider_dm.engine.target.subtask import known_subtasks

        session = DmDatabaseHook(self.target_conn_id, name="target").get_conn()
        try:
            return known_subtasks(session, self.meta_schema, task, [source_id]).get(source_id)
        finally:
            session.close()
