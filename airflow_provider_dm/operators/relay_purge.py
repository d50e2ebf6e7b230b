"""An operator that removes relay files by the source's `purge` settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_dm.links.dm_page import push_dm_page
from airflow_provider_dm.operators.base import DmOperator, files_of
from airflow_provider_dm.operators.errors import translated

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_dm.operators.inputs import Document


class DmRelayPurgeOperator(DmOperator):
    """An operator that removes files of a source's relay log by `purge` of its source.yaml.

    A running relay purges automatically. The operator is for relay logs whose relay runs rarely, or has ended. It never
    removes a file that a task needs, nor the newest file. If the relay runs on another machine, that relay removes the
    files; if no relay runs, give the task the queue of the machine with the relay log. With ``interval: 0`` it removes
    nothing.

    :param source: source-id, path of a ``source.yaml`` (relative: to the DAG file), or a dictionary with its keys
    :param preview: remove nothing, and return the files that would be removed
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id``

    Returns ``{"source", "preview", "files": [removed], "bytes", "kept": why the oldest remaining file is kept}``.
    """

    template_fields: Sequence[str] = ("source", "dm_meta_conn_id")

    def __init__(
        self, *, source: Document, preview: bool = False, dm_meta_conn_id: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.preview = preview
        self.dm_meta_conn_id = dm_meta_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Purge once. Raises AirflowException for a relay log that cannot be reached, or whose needs are unknown."""
        from airflow_provider_dm.engine.relay.purge_order import PurgeOrder
        from airflow_provider_dm.hooks.relay import RelayLogHook
        from airflow_provider_dm.operators.inputs import read_source

        with translated():
            config = read_source(self.source, files_of(self, context))
            push_dm_page(context, source=config.source_id)
            hook = RelayLogHook(self.dm_meta_conn_id, relay_dir=config.relay_dir)
            report = hook.purge(config.source_id, PurgeOrder(config.purge, self.preview))
        files, did = [str(file) for file in report.files], "would remove" if self.preview else "removed"
        self.log.info("%s: %s %s. %s", config.source_id, did, report, report.kept)
        return {
            "source": config.source_id,
            "preview": self.preview,
            "files": files,
            "bytes": report.size,
            "kept": report.kept,
        }
