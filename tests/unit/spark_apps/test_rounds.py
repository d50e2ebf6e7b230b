"""Sources of one run that wait for each other's DDL are synced again, as long as that changes anything."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.sync_result import SyncResult, result_json
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from spark_apps.incremental_sync import _waiting


def source(name: str) -> SyncSource:
    return cast(SyncSource, SimpleNamespace(config=SimpleNamespace(source_id=name)))


def result(*waits: str) -> SyncResult:
    groups: tuple[dict[str, Any], ...] = tuple({"target": "`t`.`o`", "waits": one} for one in waits)
    return SyncResult(Location("bin.000001", 4), True, 0, 0, 0, 0, 0, 0.0, groups)


def test_waiting_sources_are_synced_again_until_nothing_changes() -> None:
    a, b = source("a"), source("b")
    first = {"a": result("for b"), "b": result("for a, which executes it")}
    assert _waiting([a, b], {}, first) == [a, b]
    second = {"a": result(), "b": result("for a, which executes it")}
    assert _waiting([a, b], first, second) == [b]
    assert _waiting([b], second, {"a": result(), "b": result()}) == []
    assert _waiting([a], {"a": result("for b")}, {"a": result("for b")}) == []
    assert _waiting([a, b], {}, {"a": result(), "b": result()}) == []
    assert [result_json(one, {}, 0.0)["status"] for one in (first, second)] == ["waiting for lock"] * 2
    assert result_json({"a": result(), "b": result()}, {}, 0.0)["status"] == "finished"
    assert result_json({"a": result("for b"), "b": replace(result(), finished=False)}, {}, 0.0)["status"] == "stopped"
