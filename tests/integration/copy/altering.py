"""A task whose tables are altered at a moment of its copy, and the sync after it."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import pytest

from airflow_provider_dm.engine.copy import begin_load, page, read_round, snapshot_reader, source_load
from airflow_provider_dm.engine.copy.gather import Gathering
from airflow_provider_dm.engine.copy.page_writing import ChunkJob
from airflow_provider_dm.engine.copy.source_load import SourceLoad
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.sync.sync_result import SyncResult
from testbed import Server
from tests.before import before
from tests.integration.copy.migrations import Migration, set_page_rows
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
MOMENTS = (
    "before F0",
    "before the snapshots",
    "behind the lock",
    "before the first page",
    "between pages",
    "behind the last page",
    "between rounds",
    "on resume",
)


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

    def copy(self, at: str, what: Callable[[], None], *, schemas: int = 1) -> dict[str, Any]:
        """Copy, and let `what` happen once at a moment. The more schemas are copied, the more pages are read before."""
        once, whole = iter([what]), page.PageReader.page

        def happen(*_: object) -> None:
            next(once, lambda: None)()
            patch.setattr(page.PageReader, "page", whole)  # no further round is cut short

        with pytest.MonkeyPatch.context() as patch:
            set_page_rows(patch, 2)
            match at:
                case "before F0":
                    before(patch, begin_load, "current_location", happen)
                case "before the snapshots":
                    before(patch, Gathering, "gather", happen)
                case "behind the lock":
                    before(patch, source_load, "read_births", happen)
                case "before the first page":
                    before(patch, Gathering, "open", happen)
                case "between pages":
                    before(patch, page.PageReader, "page", _at(3 * schemas, happen))
                case "behind the last page":
                    before(patch, source_load, "close_round", _at(1, happen))
                case "between rounds":
                    _cut_short(patch, 2 * schemas)
                    before(patch, SourceLoad, "_follow", _at(1, happen))
                case "on resume":
                    _cut_short(patch, 2 * schemas)
                    begun = threading.Event()
                    before(patch, page.PageReader, "page", _page_of_a(2 * schemas, begun.set))
                    assert not self.migration.go(stop=begun.is_set).complete
                    happen()
            outcome = self.migration.go()
        assert outcome.complete
        assert next(once, None) is None, f"nothing happened {at}"
        result: dict[str, Any] = outcome.result["sources"]["one"]
        return result

    def sync(self) -> SyncResult:
        return self.migration.sync()

    def wanted(self) -> list[tuple[object, ...]]:
        """Return the source's columns as the target shows them. A BIT's decimals are 0 on TiDB, NULL elsewhere."""
        rows = definition(self.source, self.schema)
        if self.migration.target.flavour != "tidb":
            return rows
        return [(*row[:8], 0, *row[9:]) if row[3] == "bit" else row for row in rows]

    def check(self) -> None:
        """Every table, column, key and row is the same on both sides."""
        source, target, schema = self.source, self.migration.target, self.schema
        ours = [one for one in self.wanted() if not str(one[0]).startswith("_")]
        assert definition(target, schema) == ours, (definition(target, schema), ours)
        assert keys(target, schema) == [one for one in keys(source, schema) if not str(one[0]).startswith("_")]
        for table in sorted({str(one[0]) for one in ours}):
            assert rows_of(target, schema, table) == rows_of(source, schema, table), table


def _at(number: int, happen: Callable[[], None]) -> Callable[..., None]:
    """Let it happen before a call, the first being 0."""
    calls, lock = count(), threading.Lock()

    def called(*_: object, **_named: object) -> None:
        with lock:
            if next(calls) == number:
                happen()

    return called


def _page_of_a(number: int, happen: Callable[[], None]) -> Callable[..., None]:
    """Let it happen when so many pages of tables `a` are copied."""
    at = _at(number, happen)
    return lambda reader, *_: at() if reader.table.name.table == "a" else None


def hold_pages(
    patch: pytest.MonkeyPatch, begins: Callable[[], None], holds: Callable[[], None], at_once: int = 2
) -> None:
    """Let the first pages of a round, `at_once`, be read at once, and others when its readers have to end.

    `begins`: done when a round begins; `holds`: done when a page is held.
    """
    readers, pages = dict[object, snapshot_reader.SnapshotReader](), list[int]()

    def copied(_job: ChunkJob, by: snapshot_reader.SnapshotReader, *_: object) -> None:
        readers[by.connection] = by

    def counted(_of: page.PageReader, snapshot: Any, *_: object) -> None:
        pages.append(1)
        if len(pages) > at_once:
            holds()
            while not readers[snapshot].is_over:
                time.sleep(0.01)

    def opened(_: Gathering) -> None:
        pages.clear()
        begins()

    before(patch, read_round, "copy_chunk", copied)
    before(patch, page.PageReader, "page", counted)
    before(patch, Gathering, "open", opened)
    patch.setattr(source_load, "ROUND_POLL_SECONDS", 0.05)
    patch.setattr(snapshot_reader, "WATCH_SECONDS", 0.05)


def _cut_short(patch: pytest.MonkeyPatch, pages: int) -> None:
    """Let each round end when its first pages are read."""

    def last(seconds: float) -> None:
        patch.setattr(source_load, "ROUND_SECONDS", seconds)

    hold_pages(patch, partial(last, 600.0), partial(last, 0.0), pages)
