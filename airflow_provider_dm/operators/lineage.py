"""Reports to Airflow which tables an operator has written: as asset events, and as OpenLineage datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_dm.launch.lineage import TableFlow


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
