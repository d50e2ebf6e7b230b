"""The engine in the world of ddl_world.py: what it asks of machines it asks of the world, and the task that it runs.

The task has two sources. Their tables a, b, … go into schemas of their own, m_1, m_2, … of both into one table.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from airflow_provider_dm.engine.config.job import EndpointSpec, HolderSpec, JobSpec, SecretRef, SourceSpec
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.sync import by_hand, definitions, start
from airflow_provider_dm.engine.sync.begin import SyncSource
from airflow_provider_dm.engine.target import ddl_execution, session
from airflow_provider_dm.engine.target.identity import Fence, SubtaskRef
from tests.unit.sync.ddl_history import MERGED, SCHEMA, TASK
from tests.unit.sync.sqlite_target import META

SOURCES: Final = ("one", "two")
NOWHERE: Final = EndpointSpec(name="nobody's", host="192.0.2.1", port=1, user="nobody")
here: Final = threading.local()
"""`here.world` is the world of the thread."""


@contextmanager
def engine_in_the_world() -> Iterator[None]:
    """Let the engine find the world of its thread where it looks for machines."""
    still: Any = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _seconds: None)

    def opened(endpoint: object) -> session._Session:
        found: session._Session = here.world.opened(endpoint)
        return found

    def read_tables(_connection: object, names: Any) -> Any:
        tables = here.world.server.tables
        return {name: tables.tracker.table(name) for name in names if tables.has(name)}

    parsed = cache(parse)
    readers = [vars(module) for module in sys.modules.copy().values() if vars(module).get("parse") is parse]
    with (
        ExitStack() as stack,
        patch.object(session, "_open", opened),
        patch.object(session, "time", still),
        patch.object(by_hand, "time", still),
        patch.object(ddl_execution, "time", still),
        patch.object(ddl_execution, "set_all", lambda *_, **__: None),
        patch.object(ddl_execution, "check_keyless", lambda *_: None),
        patch.object(start, "read_tables", read_tables),
        patch.object(definitions, "connected", lambda _endpoint: nullcontext(_Upstream())),
    ):
        for names in readers:  # texts are the same again and again
            stack.enter_context(patch.dict(names, {"parse": parsed}))
        yield


class _Upstream:
    """A connection to the source, which is asked what kind of server it is."""

    def cursor(self) -> _Upstream:
        return self

    __enter__ = cursor

    def __exit__(self, *_: object) -> None:
        return None

    def execute(self, sql: str, _arguments: object) -> None:
        answers = {"SELECT VERSION()": "9.7.0", "SELECT @@global.lower_case_table_names": 0}
        self._found = [(answers[sql],)] if sql in answers else [(1, "source")] if "server_id" in sql else []

    def fetchall(self) -> list[tuple[object, ...]]:
        return list(self._found)


@cache
def _job() -> JobSpec:
    routes = {name: {"schema-pattern": SCHEMA, "target-schema": name} for name in SOURCES}
    merged = {
        "schema-pattern": SCHEMA,
        "target-schema": SOURCES[0],
        "table-pattern": f"{MERGED}_*",
        "target-table": MERGED,
    }
    task = {
        "name": TASK,
        "task-mode": "all",
        "meta-schema": META,
        "routes": {**routes, "merged": merged},
        "block-allow-list": {"ours": {"do-dbs": [SCHEMA]}},
        "mysql-instances": [
            {"source-id": name, "route-rules": [name, "merged"], "block-allow-list": "ours"} for name in SOURCES
        ],
    }
    configs = [SourceConfig.model_validate({"source-id": name}) for name in SOURCES]
    return JobSpec(
        run_id="run",
        app="incremental_sync",
        task=TaskConfig.model_validate(task),
        sources=tuple(SourceSpec(config=one, endpoint=NOWHERE, relay_dir="/nowhere") for one in configs),
        target=NOWHERE,
        meta_url=SecretRef(env="UNUSED"),
        holder=HolderSpec(identity="test", attempt="1", host="here"),
    )


def ref_of(source: str) -> SubtaskRef:
    return SubtaskRef(META, TASK, source)


@cache
def _source(name: str) -> SyncSource:
    return SyncSource.of(_job(), Fence(ref_of(name), 0))


def source_of(fence: Fence) -> SyncSource:
    """Return the engine's view of a source, of a run with this generation."""
    known = _source(fence.ref.source)
    source = replace(known, fence=fence)
    source.__dict__["rules"] = known.rules  # a cached property, which takes long to make
    return source


def routed(source: str, name: TableName) -> TableName:
    return _source(source).rules.router.route(name)
