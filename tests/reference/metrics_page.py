"""docs/reference/metrics.md: what an app shows to Prometheus."""

import re
from collections import defaultdict
from typing import Final

from airflow_provider_dm.engine.meta.records import Stage
from spark_apps import metrics
from tests.reference.markdown import cell, head, page, table

ABOUT: Final = """\
With `metrics-addr: :8262` in the task's file the task's app serves these at `http://127.0.0.1:8262/metrics`
([how to use them](../how-to/dmctl.md#progress)). Metrics with DM's names have DM's meaning. Each metric has
the labels `task` and `source_id`; a number that is not known is left out."""
_SYNC: Final = {
    "lag_seconds": 0,
    "seconds_left": 0,
    "master": "mysql-bin.000001:4",
    "location": "mysql-bin.000001:4",
    "failures": 0,
    "changes_applied": 0,
    "ddl_applied": 0,
    "unresolved_groups": [{"target": "", "unsynced": []}],
}


def metrics_page() -> str:
    known = [one for one in vars(metrics).values() if isinstance(one, metrics.Metric)]
    labels = _labels()
    rows = [(f"`{one.name}`", one.kind, cell(one.help), ", ".join(labels.get(one.name, ()))) for one in known]
    return page([*head("Metrics", ABOUT), *table(("metric", "type", "meaning", "further labels"), rows)])


def _labels() -> dict[str, list[str]]:
    """Return the labels of each metric beside those of all, with the values that they always have."""
    values: defaultdict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    shown = metrics.exposition("", "", {"": Stage.RUNNING}, {"": _SYNC})
    for name, labels in re.findall(r"^(\w+)\{(.*)\} ", shown, re.MULTILINE):
        for label, value in re.findall(r'(\w+)="([^"]*)"', labels):
            if label not in ("task", "source_id"):
                values[name][label] += [f"`{value}`"] if value else []
    return {
        name: [f"`{label}`: {' or '.join(always)}" if always else f"`{label}`" for label, always in found.items()]
        for name, found in values.items()
    }
