"""An operator that shows or changes the definitions with which a DM task decodes rows of its source tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from airflow_provider_dm.links.dm_page import push_dm_page
from airflow_provider_dm.operators.base import DmOperator, files_of
from airflow_provider_dm.operators.errors import translated

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_dm.operators.inputs import Document

SchemaAction = Literal["get", "update", "delete"]
Origin = Literal["sql", "source", "target"]


class DmTableSchemaOperator(DmOperator):
    """An operator that shows or changes the definition with which a task decodes the rows of one source table, as
    ``dmctl binlog-schema`` does. A change is rejected while a run of the task is working.

    :param task: path of a DM ``task.yaml`` (relative: to the DAG file), or a dictionary with its keys
    :param database: schema of the source table
    :param table: name of the source table
    :param action: ``"get"``, ``"update"`` or ``"delete"``
    :param origin: the new definition: ``"sql"``, or the current definition of the table in the ``"source"`` or the
        ``"target"``
    :param sql: ``CREATE TABLE`` of the source table, for ``origin="sql"``
    :param sources: source-ids; None: all sources of the task
    :param source_conn_ids: source-id -> Airflow connection, for sources whose connection has another id; used by
        ``origin="source"``
    :param target_conn_id: Airflow connection of the target; None: ``target-database`` of the task
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id``

    Returns ``{"task", "table", "sources": {source-id: CREATE TABLE, or null}}`` after the action.
    """

    template_fields: Sequence[str] = (
        *("task", "database", "table", "action", "origin", "sql"),
        *("sources", "source_conn_ids", "target_conn_id", "dm_meta_conn_id"),
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"task": "json", "sql": "sql", "source_conn_ids": "json"}

    def __init__(
        self,
        *,
        task: Document,
        database: str,
        table: str,
        action: SchemaAction = "get",
        origin: Origin = "sql",
        sql: str | None = None,
        sources: Sequence[str] | None = None,
        source_conn_ids: Mapping[str, str] | None = None,
        target_conn_id: str | None = None,
        dm_meta_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.task = task
        self.database = database
        self.table = table
        self.action = action
        self.origin = origin
        self.sql = sql
        self.sources = sources
        self.source_conn_ids = source_conn_ids
        self.target_conn_id = target_conn_id
        self.dm_meta_conn_id = dm_meta_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Show or change the definition on each source. Raises AirflowException (retry), AirflowFailException."""
        from airflow_provider_dm.engine.config.source import SourceConfig
        from airflow_provider_dm.engine.downstream.schema_by_hand import definition_in
        from airflow_provider_dm.engine.mysql.identifiers import TableName
        from airflow_provider_dm.hooks.metadata import DmMetadataHook
        from airflow_provider_dm.launch.table_schemas import TableSchemas, in_source
        from airflow_provider_dm.operators.arguments import chosen, conn_ids_by_source, text_argument, texts
        from airflow_provider_dm.operators.inputs import read_task, source_endpoint, sources_of, target_endpoint

        with translated():
            action = chosen(self.action, "action", get_args(SchemaAction))
            origin = chosen(self.origin, "origin", get_args(Origin))
            config = read_task(self.task, files_of(self, context))
            push_dm_page(context, task=config.name)
            sources = sources_of(config, texts(self.sources, "sources"))
            conn_ids = conn_ids_by_source(self.source_conn_ids, config.source_ids)
            name = TableName(text_argument(self.database, "database"), text_argument(self.table, "table"))
            tables = TableSchemas(config, target_endpoint(config, self.target_conn_id))
            for source in sources:
                if action == "get":
                    continue
                if action == "delete":
                    new = None
                elif origin == "source":
                    new = in_source(source_endpoint(SourceConfig(source_id=source), conn_ids.get(source)), name)
                elif origin == "target":
                    new = tables.in_target(source, name)
                else:
                    new = definition_in(text_argument(self.sql, "sql"), name)
                with DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
                    tables.change(store, source, name, new)
                self.log.info("%s: %s of %s", source, action, name)
            definitions = {} if action == "delete" else {one: tables.get(one, name).create_sql for one in sources}
        return {"task": config.name, "table": str(name), "sources": {one: definitions.get(one) for one in sources}}
