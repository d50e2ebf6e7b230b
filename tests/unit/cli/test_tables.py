"""Documents as a user at a terminal sees them."""

import io
from collections.abc import Mapping
from typing import Any

import pytest
from rich.console import Console

from airflow_provider_dm.cli.tables import tables_of


def shown(body: Mapping[str, Any]) -> str:
    """Return the text of a document's tables, each line without spaces at its end."""
    console = Console(file=io.StringIO(), width=200, color_system=None)
    for one in tables_of(body):
        console.print(one)
    file = console.file
    assert isinstance(file, io.StringIO)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


REMEDY = "Correct the table."
ERROR = {"ErrCode": "DM-5010", "Message": f"the row does not fit. {REMEDY}", "Workaround": REMEDY}
SUBTASK = {
    "name": "shop",
    "stage": "Paused",
    "unit": "Sync",
    "result": {"errors": [ERROR]},
    "sync": {
        "syncerBinlog": "(bin.000001, 4)",
        "masterBinlog": "(bin.000002, 9)",
        "secondsBehindMaster": "12",
        "recentRps": "350",
        "synced": False,
        "unresolvedGroups": [{"target": "a.b", "waits": "for shards"}, {"target": "c.d", "waits": ""}],
    },
}


def test_the_status_of_a_task_has_a_row_for_each_source_and_its_errors() -> None:
    source = {"sourceStatus": {"source": "mysql-01", "relayStatus": {"stage": "Running"}}, "subTaskStatus": [SUBTASK]}
    head, row, error, waiting, held = shown({"result": True, "msg": "", "sources": [source]}).splitlines()
    assert head.split()[:5] == ["source", "relay", "task", "unit", "stage"]
    assert row.split("  ")[:1] == ["mysql-01"]
    for part in ("Running", "shop", "Sync", "Paused", "(bin.000001, 4)", "(bin.000002, 9)", "12 s", "350", "no"):
        assert part in row
    assert error == "mysql-01, shop: DM-5010 the row does not fit. Correct the table."
    assert waiting == "mysql-01, shop: rows of a.b are held back, and wait for shards"
    assert held == "mysql-01, shop: rows of c.d are held back"


def test_a_relay_without_tasks_has_a_row() -> None:
    relay = {"stage": "Paused", "masterBinlog": "(bin.000002, 9)", "result": {"errors": [ERROR]}}
    source = {"msg": "no sub task started", "sourceStatus": {"source": "a", "relayStatus": relay}, "subTaskStatus": []}
    _, row, error = shown({"result": True, "msg": "", "sources": [source]}).splitlines()
    assert row.split("  ")[0] == "a"
    assert "(bin.000002, 9)" in row
    assert error.startswith("a, relay: DM-5010")


OF_A_SOURCE = {"result": True, "msg": "", "source": "a", "worker": "h"}
CHECK = {"id": 0, "state": "ok", "errorMsg": ""}


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ({"tasks": []}, ["no tasks"]),
        ({}, ["done"]),
        ({"result": False, "msg": "no task shop is known", "sources": []}, ["no task shop is known"]),
        ({"op": "Pause", "sources": [OF_A_SOURCE]}, ["result  source  worker", "yes     a       h"]),
        ({"results": [CHECK], "summary": {"total": 1}}, ["id  state", "0   ok", "total: 1"]),
    ],
)
def test_documents_without_a_table_are_shown_as_text(body: Mapping[str, Any], lines: list[str]) -> None:
    assert shown({"result": True, "msg": "", **body}).splitlines() == lines
