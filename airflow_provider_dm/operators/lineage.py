"""Reports to Airflow which tables an operator has written: as asset events, and as OpenLineage datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from airflow.sdk import Asset, AssetAlias

from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.schema_by_hand import known_tables
from airflow_provider_dm.engine.downstream.session import fresh_target
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules
from airflow_provider_dm.launch.inputs import Inputs

if TYPE_CHECKING:
    from airflow.sdk import Context


def emit_assets(context: Context, outlets: Sequence[Any], flows: Sequence[TableFlow], extra: dict[str, Any]) -> None:
    """Emit one event for each pair of an asset alias in `outlets` and a target table."""
    sources: dict[str, Any] = {}
    for flow in flows:
        sources.setdefault(flow.target.uri, []).append(flow.source.uri)
    for alias in aliases(outlets):
        for uri, tables in sources.items():
            context["outlet_events"][alias].add(Asset(uri), extra={**extra, "sources": tables})


def aliases(outlets: Sequence[Any]) -> list[AssetAlias]:
    return [outlet for outlet in outlets if isinstance(outlet, AssetAlias)]


def openlineage_of(flows: Sequence[TableFlow]) -> Any:
    """Return the tables as OpenLineage's inputs and outputs; None if its provider is not installed."""
    try:
        from airflow.providers.openlineage.extractors import OperatorLineage
        from openlineage.client.event_v2 import Dataset
    except ImportError:
        return None
    inputs, outputs = ({getattr(flow, side): None for flow in flows} for side in ("source", "target"))
    return OperatorLineage(
        inputs=[Dataset(namespace=dataset.server, name=str(dataset.name)) for dataset in inputs],
        outputs=[Dataset(namespace=dataset.server, name=str(dataset.name)) for dataset in outputs],
    )


class ServerTable(NamedTuple):
    """A table of a server. `server`: `mysql://HOST:PORT`, as OpenLineage names servers of the MySQL family."""

    server: str
    name: TableName

    @classmethod
    def of(cls, endpoint: Endpoint, name: TableName) -> ServerTable:
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        return cls(f"mysql://{host}:{endpoint.port}", name)

    @property
    def uri(self) -> str:
        """The URI of the table's asset, as Airflow's MySQL provider has it.

        >>> ServerTable("mysql://10.0.0.9:4000", TableName("shop", "orders")).uri
        'mysql://10.0.0.9:4000/shop/orders'
        """
        return f"{self.server}/{quote(self.name.schema, safe='')}/{quote(self.name.table, safe='')}"


class TableFlow(NamedTuple):
    source: ServerTable
    target: ServerTable


def table_flows(inputs: Inputs) -> tuple[TableFlow, ...]:
    """Return the source tables of a task that has begun, each with its target table. Raises SubtaskMissing,
    IncompleteResult, and the errors of connecting to the target.
    """
    task, flows = inputs.task, []
    with fresh_target(inputs.target) as connection:
        for config, endpoint in inputs.pairs:
            router = SubtaskRules.of(task.subtask(config.source_id)).router
            for name in known_tables(connection, SubtaskRef(task.meta_schema, task.name, config.source_id)):
                target = ServerTable.of(inputs.target, router.route(name))
                flows.append(TableFlow(ServerTable.of(endpoint, name), target))
    return tuple(flows)
