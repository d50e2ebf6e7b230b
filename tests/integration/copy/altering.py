"""A task whose tables are altered at a moment of its copy, and the sync behind it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.engine.copy import again, begin, page
from airflow_provider_dm.engine.copy.migration import Finished, Stopped
from airflow_provider_dm.engine.copy.watermark import low_watermark
from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.sync.begin import SyncSource
from airflow_provider_dm.engine.sync.run import SyncResult, run_sync
from airflow_provider_dm.engine.sync.runner import LocalRunner
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.copy.migrations import Migration
from tests.integration.copy.test_purge_while_beginning import META_VARIABLE, relay_of
from tests.integration.sync.conftest import rows_of
from tests.integration.sync.test_follows_ddl import definition, keys

SETUP = (
    "CREATE TABLE a (id int PRIMARY KEY AUTO_INCREMENT, v varchar(40))",
    "INSERT INTO a (v) VALUES ('one'), ('two'), ('three'), ('4'), ('5'), ('6'), ('7'), ('8'), ('9'), ('10')",
    "CREATE TABLE b (id int PRIMARY KEY, v varchar(40), u int, UNIQUE KEY u (u))",
    "INSERT INTO b SELECT id, v, id FROM a",
    "CREATE TABLE nokey (v varchar(40))",
    "INSERT INTO nokey SELECT v FROM a",
)
MOMENTS = ("before P0", "before the first page", "between pages", "behind the last page", "on resume")


@dataclass
class Kit:
    """One task of mode all, with a relay, from its copy to the end of its sync."""

    migration: Migration
    store: MetaStore
    schema: str
    slow: pytest.MonkeyPatch
    results: list[dict[str, Any]] = field(default_factory=list)

    @property
    def source(self) -> Server:
        return self.migration.sources["one"]

    def write(self, statements: Sequence[str]) -> None:
        for statement in statements:
            self.source.sql(statement, database=self.schema)

    def copy(self, at: str, what: Callable[[], None]) -> dict[str, Any]:
        """Copy, and let `what` happen once at a moment."""
        once = iter([what])

        def happen() -> None:
            next(once, lambda: None)()

        run, hooks = LocalRunner(2).run, dict[str, Any]()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(page, "FIRST_ROWS", 2)
            patch.setattr(page, "MOST_ROWS", 2)
            match at:
                case "before P0":
                    patch.setattr(begin, "low_watermark", _first(low_watermark, happen))
                case "before the first page":
                    patch.setattr(self.migration, "run", _first(run, happen))
                case "between pages":
                    reads = page.PageReader.page
                    patch.setattr(page.PageReader, "page", _at_second(reads, happen))
                case "behind the last page":
                    patch.setattr(self.migration, "run", _then(run, happen))
                case "on resume":
                    patch.setattr("airflow_provider_dm.engine.copy.migration.ROUND_SECONDS", 0.0)
                    rounds = iter([False, True])
                    assert isinstance(self.migration.go(stop=lambda: next(rounds)), Stopped)
                    happen()
            outcome = self.migration.go(**hooks)
        assert isinstance(outcome, Finished)
        assert next(once, None) is None, f"nothing happened {at}"
        result: dict[str, Any] = outcome.result["sources"]["one"]
        return result

    def sync(self) -> SyncResult:
        fence = self.migration.claim()["one"]
        spec = self.migration.spec.model_copy(update={"app": "incremental_sync", "until": "caught-up"})
        return run_sync(SyncSource.of(spec, fence), LocalRunner(2), self.store, threading.Event())

    def check(self) -> None:
        """Every table, column, key and row is the same on both sides."""
        source, target, schema = self.source, self.migration.target, self.schema
        ours = [one for one in definition(source, schema) if not str(one[0]).startswith("_")]
        assert definition(target, schema) == ours
        assert keys(target, schema) == [one for one in keys(source, schema) if not str(one[0]).startswith("_")]
        for table in sorted({str(one[0]) for one in ours}):
            assert rows_of(target, schema, table) == rows_of(source, schema, table), table


def _first(step: Callable[..., Any], happen: Callable[[], None]) -> Callable[..., Any]:
    def stepped(*arguments: Any, **named: Any) -> Any:
        happen()
        return step(*arguments, **named)

    return stepped


def _then(step: Callable[..., Any], happen: Callable[[], None]) -> Callable[..., Any]:
    def stepped(*arguments: Any, **named: Any) -> Any:
        found = step(*arguments, **named)
        happen()
        return found

    return stepped


def _at_second(step: Callable[..., Any], happen: Callable[[], None]) -> Callable[..., Any]:
    calls, lock = iter(range(1_000_000)), threading.Lock()

    def stepped(*arguments: Any, **named: Any) -> Any:
        with lock:
            if next(calls) == 3:
                happen()
        return step(*arguments, **named)

    return stepped


def kit_of(
    source: Server, target: Server, fresh_schema: FreshSchema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Kit]:
    schema = fresh_schema(source, target)
    url = f"sqlite:///{tmp_path}/meta.db"
    migrate(url)
    monkeypatch.setenv(META_VARIABLE, url)
    monkeypatch.setattr(again, "SWAP_SECONDS", 0.0)
    source.sql("FLUSH BINARY LOGS")
    migration = Migration(
        target,
        {"one": source},
        {"one": [schema]},
        f"{schema}_meta",
        task={"task-mode": "all"},
        relay_dir=str(tmp_path / "relay"),
    )
    with MetaStore.open(url) as store, relay_of(migration.spec.sources[0], url, tmp_path):
        kit = Kit(migration, store, schema, monkeypatch)
        kit.write(SETUP)
        yield kit
