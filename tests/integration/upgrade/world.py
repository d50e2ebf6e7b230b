"""The task whose states were recorded with an older release: a source with shards, a plain table and one without a key.

Statements are named by when the source runs them. The recorder and the test run the same ones, so what is recorded fits
a fresh source: only places in its binlog are its own, and the record has their names instead (`@start@`, …).
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_provider_dm.engine.config.job import SecretRef
from airflow_provider_dm.engine.meta.migrate import migrate as migrate_meta
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.process import RelayProcess
from airflow_provider_dm.engine.relay.spec import RelaySpec
from airflow_provider_dm.engine.sync.run import run_sync
from airflow_provider_dm.engine.sync.runner import LocalRunner
from airflow_provider_dm.engine.sync.source import SyncSource
from testbed import Server
from testbed.equality import Report
from tests.integration.copy.migrations import Migration, differences, endpoint

SCHEMA: Final = "left_behind"
META_SCHEMA: Final = "left_behind_meta"
META_TABLES: Final = ("dm_subtask", "dm_frontier", "dm_copy_chunk", "dm_table_schema")
TARGETS: Final = {"o": ("o_0", "o_1"), "plain": ("plain",), "keyless": ("keyless",)}
META_VARIABLE: Final = "DM_TEST_UPGRADE_META"
ROWS: Final = 12

_SHARD: Final = "(id int NOT NULL PRIMARY KEY, u int, v varchar(20), UNIQUE KEY u (u))"
_OPTIONS: Final = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
SETUP: Final = (
    f"CREATE TABLE o_0 {_SHARD} {_OPTIONS}",
    f"CREATE TABLE o_1 {_SHARD} {_OPTIONS}",
    f"CREATE TABLE plain (id int NOT NULL PRIMARY KEY, v varchar(20)) {_OPTIONS}",
    f"CREATE TABLE keyless (a int, b varchar(20)) {_OPTIONS}",
    *(f"INSERT INTO o_0 VALUES ({n}, {n}, 'zero')" for n in range(ROWS)),
    *(f"INSERT INTO o_1 VALUES ({100 + n}, {100 + n}, 'one')" for n in range(ROWS)),
    *(f"INSERT INTO plain VALUES ({n}, 'plain')" for n in range(ROWS)),
    "INSERT INTO keyless VALUES (1, 'twin'), (1, 'twin'), (2, 'single')",
)
COPYING: Final = (
    "UPDATE o_0 SET v = 'changed' WHERE id = 1",
    "DELETE FROM plain WHERE id = 2",
    "UPDATE plain SET v = 'changed' WHERE id = 11",
    "INSERT INTO keyless VALUES (3, 'new')",
    "INSERT INTO o_1 VALUES (150, 150, 'new')",
)
"""While it is copied."""
BEFORE: Final = (
    "UPDATE o_1 SET v = 'before' WHERE id = 103",
    "INSERT INTO plain VALUES (50, 'before')",
    "DELETE FROM keyless WHERE a = 1 LIMIT 1",
)
"""Applied everywhere."""
EPOCH: Final = (
    "UPDATE o_0 SET v = 'epoch' WHERE id < 4",
    "DELETE FROM o_0 WHERE id = 5; INSERT INTO o_1 VALUES (5, 5, 'moved')",
    "UPDATE o_1 SET u = u + 1000 WHERE id > 107",
    "UPDATE plain SET v = 'epoch' WHERE id > 6",
    "DELETE FROM plain WHERE id = 0",
    "INSERT INTO keyless VALUES (4, 'epoch'), (4, 'epoch')",
)
"""One epoch, of which some buckets are applied."""
AFTER: Final = (
    "INSERT INTO o_1 SELECT * FROM o_0 WHERE id = 7; DELETE FROM o_0 WHERE id = 7",
    "UPDATE o_1 SET v = 'after' WHERE id = 5",
    "DELETE FROM o_0 WHERE id = 8; INSERT INTO o_1 VALUES (8, 8, 'after')",
    "UPDATE plain SET v = 'after' WHERE id = 9",
    "DELETE FROM keyless WHERE a = 4 LIMIT 1",
)
"""When the new release is at work."""


def write(source: Server, transactions: tuple[str, ...]) -> None:
    for transaction in transactions:
        with source.connect(database=SCHEMA, autocommit=False) as connection, connection.cursor() as cursor:
            for statement in transaction.split("; "):
                cursor.execute(statement)
            connection.commit()


def place(source: Server) -> Location:
    with connected(endpoint("one", source)) as connection:
        return current_location(connection)


def migration(source: Server, target: Server, folder: Path) -> Migration:
    route = {"schema-pattern": SCHEMA, "table-pattern": "o_*", "target-schema": SCHEMA, "target-table": "o"}
    return Migration(
        target,
        {"one": source},
        {"one": [SCHEMA]},
        META_SCHEMA,
        task={"task-mode": "all", "routes": {"merge": route}},
        instance={"route-rules": ["merge"]},
        relay_dir=str(folder / "relay"),
    )


def compared(source: Server, target: Server) -> Report:
    return differences(
        target,
        {f"{SCHEMA}.{name}": [(source, f"{SCHEMA}.{one}") for one in shards] for name, shards in TARGETS.items()},
    )


@contextmanager
def syncing(task: Migration, folder: Path) -> Iterator[Syncs]:
    """A relay and a metadata DB for this task."""
    url = f"sqlite:///{folder}/meta.db"
    migrate_meta(url)
    spec = RelaySpec(source=task.spec.sources[0], meta_url=SecretRef(env=META_VARIABLE), launcher_pid=os.getpid())
    relay = RelayProcess.start(spec, {**os.environ, META_VARIABLE: url}, folder / "relay.log")
    try:
        with MetaStore.open(url) as store:
            yield Syncs(task, store)
    finally:
        relay.kill()


@dataclass(frozen=True)
class Syncs:
    """Runs of the sync, one after the other."""

    task: Migration
    store: MetaStore

    def run(self) -> bool:
        """Claim and sync until caught up."""
        fence = self.task.claim()["one"]
        return run_sync(SyncSource.of(self.task.spec, fence), LocalRunner(2), self.store, threading.Event()).finished


# Records

Json = dict[str, Any]


def dump(target: Server, names: Mapping[str, Location]) -> Json:
    """All rows of the target that concern the task, with the names of places."""
    tables = [f"{META_SCHEMA}.{name}" for name in META_TABLES] + [f"{SCHEMA}.{name}" for name in TARGETS]
    creations = [target.sql(f"SHOW CREATE TABLE {table}")[0][1] for table in tables]
    rows = {}
    for table in tables:
        with target.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}")
            columns = [column[0] for column in cursor.description]
            rows[table] = [
                {name: _named(cell, names) for name, cell in zip(columns, row, strict=True)} for row in cursor
            ]
    return {"tables": dict(zip(tables, creations, strict=True)), "rows": rows}


def _named(cell: Any, names: Mapping[str, Location]) -> Any:
    if isinstance(cell, bytes):
        cell = cell.decode()
    if cell is None or isinstance(cell, int):
        return cell
    cell = str(cell)
    for name, location in names.items():
        if cell == location.sort_key:
            return f"@{name}@"
        if cell.startswith("{") and json.loads(cell).get("position") == location.position:
            return f"@{name}:json@"
    return cell


def load(target: Server, record: Json, names: Mapping[str, Location]) -> None:
    """Make the target what it was when it was recorded."""
    for schema in (SCHEMA, META_SCHEMA):
        target.sql(f"DROP DATABASE IF EXISTS {schema}; CREATE DATABASE {schema}")
    with target.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
        for table, create in record["tables"].items():
            cursor.execute(f"USE {table.split('.')[0]}")
            cursor.execute(create)
            for row in record["rows"][table]:
                marks = ", ".join(["%s"] * len(row))
                values = [_placed(cell, record, names) for cell in row.values()]
                cursor.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", values)
        connection.commit()


def _placed(cell: Any, record: Json, names: Mapping[str, Location]) -> Any:
    if not isinstance(cell, str) or not cell.startswith("@"):
        return cell
    name, _, kind = cell.strip("@").partition(":")
    if name == "plan":
        return fingerprint(record, names)
    return json.dumps(names[name].to_json()) if kind else names[name].sort_key


def fingerprint(record: Json, names: Mapping[str, Location]) -> str:
    """dm_subtask.plan, as that release has computed it."""
    return hashlib.sha256(record["plan"].replace("@start@", names["start"].sort_key).encode()).hexdigest()
