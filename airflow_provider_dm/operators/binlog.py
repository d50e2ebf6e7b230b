"""Skipping, replacing and injecting DDL statements of a source's log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from airflow_provider_dm.links.dm_page import push_dm_page
from airflow_provider_dm.operators.base import DmOperator, files_of
from airflow_provider_dm.operators.errors import translated

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_dm.operators.inputs import Document

BinlogAction = Literal["skip", "replace", "inject", "revert"]


class DmBinlogOperator(DmOperator):
    """An operator that decides what a task does at a DDL statement that it cannot apply, as ``dmctl binlog`` does.

    The decision is stored in the metadata DB; the current or the next run of the task carries it out. Without
    ``binlog_pos`` and ``sql_pattern`` it applies to the DDL statement at which a source is paused.

    :param task: the task's name, the path of its ``task.yaml`` (relative: to the DAG file), or a dictionary with its
        keys
    :param action: ``"skip"``: the statement is not executed; ``"replace"``: ``sql`` is executed instead of it;
        ``"inject"``: ``sql`` is executed before it; ``"revert"``: a decision that has not been carried out is removed
    :param sql: DDL with the source's names, ``SCHEMA.TABLE``; one text may hold several statements
    :param sources: source-ids; None: the sources that have an error
    :param binlog_pos: ``FILE:POSITION`` of a statement in the log of one source
    :param sql_pattern: regular expression; the next DDL statement that it matches
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id``

    Returns ``{"task", "action", "sources": {source-id: {"op", "binlogPos", "sqlPattern", "sqls", "state", …}}}``.
    """

    template_fields: Sequence[str] = (
        "task",
        "action",
        "sql",
        "sources",
        "binlog_pos",
        "sql_pattern",
        "dm_meta_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"task": "json", "sql": "sql"}

    def __init__(
        self,
        *,
        task: Document,
        action: BinlogAction,
        sql: str | Sequence[str] | None = None,
        sources: Sequence[str] | None = None,
        binlog_pos: str | None = None,
        sql_pattern: str | None = None,
        dm_meta_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.task = task
        self.action = action
        self.sql = sql
        self.sources = sources
        self.binlog_pos = binlog_pos
        self.sql_pattern = sql_pattern
        self.dm_meta_conn_id = dm_meta_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Store or remove the decision. Raises AirflowException (retry), AirflowFailException."""
        from airflow_provider_dm.engine.meta.records import OperatorKind
        from airflow_provider_dm.hooks.metadata import DmMetadataHook
        from airflow_provider_dm.launch.binlog_operators import (
            RequestedPlace,
            operator_json,
            revert_operators,
            set_operators,
        )
        from airflow_provider_dm.operators.arguments import chosen, texts
        from airflow_provider_dm.operators.inputs import task_name

        with translated(), DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
            action = chosen(self.action, "action", get_args(BinlogAction))
            task, sources = task_name(self.task, files_of(self, context)), texts(self.sources, "sources")
            push_dm_page(context, task=task)
            at = RequestedPlace(self.binlog_pos or None, self.sql_pattern or None)
            if action == "revert":
                operators = revert_operators(store, task, sources, at)
            else:
                sqls = [self.sql] if isinstance(self.sql, str) else texts(self.sql, "sql")
                operators = set_operators(store, task, sources, at, OperatorKind(action), sqls)
            done = {operator.source: operator_json(operator) for operator in operators}
        self.log.info("task %s: %s on %s", task, action, ", ".join(done))
        return {"task": task, "action": action, "sources": done}
