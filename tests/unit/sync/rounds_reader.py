"""A reader of a round in the world of rounds_world.py: pages of its snapshot, and their transactions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_dm.engine.downstream.contested_row import RowOwner, contested_keys
from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress, advance_chunk, load_chunk
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.row_statements import Verb, write_rows
from airflow_provider_dm.engine.downstream.table_schema import load_table_schemas
from airflow_provider_dm.engine.merge.owner_writer import MOST_WHILE_COPYING, OwnerWriter
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.reading.keyset import KeyOrder, read_key, write_key
from airflow_provider_dm.engine.rules.mapping import TableMapping, map_table
from airflow_provider_dm.engine.schema.codec import Row, row_literals
from tests.unit.sync.rounds_sources import MERGED, is_shard, ordered
from tests.unit.sync.sqlite_target import META

if TYPE_CHECKING:
    from tests.unit.sync.rounds_driver import Driver


class Page(NamedTuple):
    """What a reader has read: of the chunk as it saw it."""

    seen: ChunkProgress
    mapping: TableMapping
    rows: list[Row]
    last_key: str | None
    last: bool


@dataclass
class Reader:
    """A reader: its snapshot, its round, and the chunk that it is at. It may be slower than its round."""

    driver: Driver
    view: int
    round: int
    fence: Fence
    chunk: ChunkProgress | None = None

    def read(self) -> bool:
        """Read a page and write it. Return whether the reader continues with its round."""
        world = self.driver.world
        if self.chunk is None:
            mine = [one for one in self.driver.chunks() if one.round == self.round and not one.done]
            if not mine:
                return False
            self.chunk = world.rng.choice(mine)
        page = self._page(self.chunk)
        if page is None:
            return False
        if world.quirks.closes_at_once and world.rng.random() < 0.3 and (rest := self._begun(page)):
            world.sleepers.append(rest)
            return True
        if world.rng.random() < 0.15:
            world.sleepers.append(partial(self._wake, page))
            return False
        goes_on = self._written(page)
        if world.rng.random() < 0.1:  # another reader continues with its chunk
            self.chunk = None
        return goes_on

    def _written(self, page: Page) -> bool:
        self.driver.world.started(partial(self._write, page), self.driver, any_time=True)
        now = load_chunk(self.driver.connection(), self.fence, page.seen)
        same = now.round == self.round or self.driver.world.quirks.takes_over
        self.chunk = now if same and not now.done else None
        return same

    def _wake(self, page: Page) -> None:
        """Continue as a reader that slept, maybe until its round was over."""
        next_page: Page | None = page
        while next_page is not None and self._written(next_page) and self.chunk is not None:
            next_page = self._page(self.chunk)

    def _page(self, seen: ChunkProgress) -> Page | None:
        """Return the next rows after the last key, as the snapshot shows them; None: the reader has lost its table."""
        (schema,) = [
            one for one in load_table_schemas(self.driver.connection(), self.driver.ref) if one.table.name == seen.table
        ]
        table, driver = schema.table, self.driver
        found = driver.source.read(table.name, self.view, driver.now, table)
        births = driver.births(driver.now)
        if found is None or (births.get(table.name) != seen.birth and not self.driver.world.quirks.no_birth_check):
            self.driver.world.done["readers lost their table"] += 1
            return None
        mapping = map_table(table, self.driver.world.database.tables[schema.target])
        order = KeyOrder.of(table)
        if order is None:
            return Page(seen, mapping, found, None, True)

        def key_of_row(row: Row) -> tuple[tuple[int, bytes], ...]:
            return tuple(ordered(table.columns[at], row[at]) for at in order.positions)

        behind = seen.last_key and tuple(
            ordered(table.columns[at], value)
            for at, value in zip(order.positions, read_key(seen.last_key), strict=True)
        )
        rows = sorted(
            (
                row
                for row in found
                if (seen.low is None or int(row[order.positions[0]] or b"") >= seen.low)
                and (seen.high is None or int(row[order.positions[0]] or b"") <= seen.high)
                and (not behind or key_of_row(row) > behind)
            ),
            key=key_of_row,
        )
        some = rows[: self.driver.world.rng.choice([1, 2, 3])]
        last_key = write_key(tuple(some[-1][at] or b"" for at in order.positions)) if some else None
        return Page(
            seen,
            mapping,
            some,
            last_key or seen.last_key,
            len(some) == len(rows) and self.driver.world.rng.random() < 0.8,
        )

    def _write(self, page: Page) -> bool:
        def body(connection: Any) -> bool:
            step = advance_chunk(
                connection, self.fence, page.seen, rows=len(page.rows), last_key=page.last_key, done=page.last
            )
            if step:
                self._insert(connection, page)
            return step

        return self.driver.world.transaction(body)

    def _insert(self, connection: Any, page: Page) -> None:
        self.driver.world.done["pages"] += 1
        literals = [row_literals(page.mapping.source, Flavour.MARIADB)(row) for row in page.rows]
        if is_shard(page.seen.table):
            owner = RowOwner(self.driver.ref, page.seen.table)
            writer = OwnerWriter(owner, page.mapping, self.driver.world.database.access(), MOST_WHILE_COPYING)
            waiting = contested_keys(connection, self.driver.ref, MERGED).get(page.seen.table, set())
            writer.insert_new(connection, waiting, writer.rows(page.rows, literals))
            return
        for statement in write_rows(page.mapping, literals, Verb.INSERT):
            self.driver.world.database.access().execute(connection, statement)

    def _begun(self, page: Page) -> Callable[[], object] | None:
        """Execute the first statement of a page, and return the rest as a function."""
        wanted = (page.seen.number, page.seen.round, page.seen.rows_copied, 0)
        now = load_chunk(self.driver.connection(), self.fence, page.seen)
        if (now.number, now.round, now.rows_copied, int(now.done)) != wanted:
            return None
        new = (page.last_key, int(page.last), len(page.rows), self.driver.source.name, page.seen.number)

        def body(connection: Any) -> None:
            connection.execute(
                f"UPDATE {META}.dm_copy_chunk SET last_key = %s, done = %s, rows_copied = rows_copied + %s "
                f"WHERE source = %s AND chunk = %s AND rows_copied = {page.seen.rows_copied} AND done = 0",
                new,
            )
            if connection.database.sqlite.execute("SELECT changes()").fetchone()[0] == 1:
                self._insert(connection, page)

        return partial(self.driver.world.transaction, body)
