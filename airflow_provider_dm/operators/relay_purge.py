"""Removing relay files by a source's own rules, as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_dm.links.dm_page import DmPageLink, push_dm_page
from airflow_provider_dm.operators.base import files_of
from airflow_provider_dm.operators.errors import translated

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_dm.operators.inputs import Document


class DmRelayPurgeOperator(BaseOperator):
    """An operator that removes files of a source's relay log by `purge` of its source.yaml.

    A relay that runs does the same by itself. The operator is for relay logs whose relay runs seldom, or has ended. It
    never removes a file that a task needs, nor the newest one. Run it on the machine where the files are: give the task
    the queue of the relay. With ``interval: 0`` it removes nothing.

    :param source: source-id, path of a ``source.yaml`` (relative: to the DAG file), or a dictionary with its keys (str
        | dict, required, templated)
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id`` (str | None, default
        None, templated)

    Returns ``{"source", "files": [removed], "bytes", "kept": reason for which the first other file stays}``.
    """

    template_fields: Sequence[str] = ("source", "dm_meta_conn_id")
    operator_extra_links = (DmPageLink(),)
    ui_color = "#d9ecf2"

    def __init__(self, *, source: Document, dm_meta_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.dm_meta_conn_id = dm_meta_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Purge once. Raises AirflowException for a relay log that is not here, or whose needs are unknown."""
        from airflow_provider_dm.hooks.relay import RelayLogHook
        from airflow_provider_dm.operators.inputs import read_source

        with translated():
            config = read_source(self.source, files_of(self, context))
            push_dm_page(context, source=config.source_id)
            hook = RelayLogHook(self.dm_meta_conn_id)
            plan = hook.plan_purge_by_policy(config)
            purged = hook.purge(plan)
        files = [str(file) for file in purged.deleted]
        self.log.info("%s: removed %d files, %d bytes. %s", config.source_id, len(files), purged.size, plan.held_by)
        return {"source": config.source_id, "files": files, "bytes": purged.size, "kept": plan.held_by}
