"""The demo's application: it inserts, updates and deletes on one source until the DAG asks it to stop.

Each transaction does a few things at once, some of them awkward on purpose: two customers swap their unique e-mail
address, an order's key moves, a keyless audit row is written twice. Once the tables are copied, it also changes the
columns and keys of its shards' stock, step by step, between the transactions, and at another time gives each of its
shards of the merged orders a column, which the other source does earlier or later. The DAG's
`stop_writes` task and the writer communicate by a control row on the source; the writer's own count (`changes`) is
independent of the migration.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from pymysql.cursors import Cursor
from pymysql.err import OperationalError

from demo.shops import AGREED, ALTERED, ID_SPAN, Shard
from testbed.servers import Server

CONTROL_SCHEMA: Final = "dm_demo_control"
NEW_IDS_FROM: Final = ID_SPAN // 2
"""Rows that the writer inserts have numbers above this one inside their shard."""
_DEADLOCK: Final = 1213
_STOP_CHECK_EVERY: Final = 20
_SCHEMA_CHANGES: Final = (
    "ADD COLUMN place VARCHAR(40) NOT NULL DEFAULT 'main hall'",
    "ADD COLUMN weight DECIMAL(8,3) NULL AFTER name",
    "MODIFY COLUMN name VARCHAR(160) NOT NULL, ADD INDEX by_place (place)",
    "DROP COLUMN weight",
    "CHANGE COLUMN place shelf VARCHAR(80) NULL, ADD COLUMN checked_at DATETIME(3) NULL FIRST",
    "DROP INDEX by_place",
)
"""What happens to each shard's stock, once."""
_AGREED_CHANGE: Final = "ADD COLUMN channel VARCHAR(20) NOT NULL DEFAULT 'web' AFTER state"
"""What happens to all shards of the orders, on all sources."""


def prepare_control(source: Server) -> None:
    """Create or replace the control row: the writer runs and is not asked to stop."""
    connection = source.connect(autocommit=True)
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {CONTROL_SCHEMA}")
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {CONTROL_SCHEMA}.writer "
                "(id INT PRIMARY KEY, running BIT(1) NOT NULL, stop_requested BIT(1) NOT NULL)"
            )
            cursor.execute(f"REPLACE INTO {CONTROL_SCHEMA}.writer VALUES (1, 0, 0)")
    finally:
        connection.close()


class Writer:
    """One thread that writes to the shards of one source, `per_second` transactions at most."""

    def __init__(self, source: Server, shards: Sequence[Shard], counts: dict[str, int], *, per_second: int) -> None:
        self.source = source
        self.changes = 0
        self.deadlocks = 0
        self.schema_changes = 0
        self.error: BaseException | None = None
        self._shards = tuple(shards)
        self._counts = counts
        self._pause_seconds = 1.0 / per_second
        self._random = random.Random(source.server_id)
        self._next_number = dict.fromkeys(self._shards, NEW_IDS_FROM)
        self._altering = threading.Event()
        self._alterations = [f"{shard.table(ALTERED)} {change}" for change in _SCHEMA_CHANGES for shard in self._shards]
        self._agreeing = threading.Event()
        self._agreed = [f"{shard.table(AGREED)} {_AGREED_CHANGE}" for shard in self._shards]
        self._abandoned = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"writer-{source.name}", daemon=True)

    def start(self) -> None:
        prepare_control(self.source)
        self._thread.start()

    def begin_altering(self) -> None:
        """Change the schema from now on: the copy is over."""
        self._altering.set()

    def begin_agreeing(self) -> None:
        """Change the merged orders from now on; they are changed at the latest when the writer is asked to stop."""
        self._agreeing.set()

    def abandon(self) -> None:
        """Stop without being asked by the DAG: the demo itself is ending."""
        self._abandoned.set()
        self._thread.join(timeout=30)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        connection = self.source.connect(autocommit=False)
        try:
            with connection.cursor() as cursor:
                self._announce(cursor, running=True)
                connection.commit()
                transactions = 0
                while not self._abandoned.is_set():
                    began = time.monotonic()
                    try:
                        changes = self._one_transaction(cursor)
                        connection.commit()
                    except OperationalError as error:
                        if error.args[0] != _DEADLOCK:
                            raise
                        connection.rollback()  # as applications on InnoDB have to; the lock of a load may cause it
                        self.deadlocks += 1
                        continue
                    self.changes += changes
                    transactions += 1
                    if transactions % _STOP_CHECK_EVERY == 0:
                        self._alter(cursor)
                        if self._asked_to_stop(cursor):
                            self._agree(cursor, len(self._agreed))
                            break
                    time.sleep(max(0.0, self._pause_seconds - (time.monotonic() - began)))
                self._announce(cursor, running=False)
                connection.commit()
        except BaseException as error:  # noqa: BLE001 - kept for the main thread, which raises it
            self.error = error
        finally:
            connection.close()

    def _announce(self, cursor: Cursor, *, running: bool) -> None:
        cursor.execute(f"UPDATE {CONTROL_SCHEMA}.writer SET running = %s", (int(running),))

    def _asked_to_stop(self, cursor: Cursor) -> bool:
        return bool(cursor.execute(f"SELECT 1 FROM {CONTROL_SCHEMA}.writer WHERE stop_requested = 1"))

    def _one_transaction(self, cursor: Cursor) -> int:
        shard = self._random.choice(self._shards)
        action = self._random.choices(_ACTIONS, weights=_WEIGHTS)[0]
        return action(self, cursor, shard)

    def _alter(self, cursor: Cursor) -> None:
        """Make the next change of the schema, if it is time for it."""
        if self._altering.is_set() and self._alterations:
            cursor.execute(f"ALTER TABLE {self._alterations.pop(0)}")
            self.schema_changes += 1
        if self._agreeing.is_set():
            self._agree(cursor, 1)

    def _agree(self, cursor: Cursor, shards: int) -> None:
        """Let so many more shards make what all shards of the orders make."""
        for change in self._agreed[:shards]:
            cursor.execute(f"ALTER TABLE {change}")
            self.schema_changes += 1
        del self._agreed[:shards]

    def _some_id(self, shard: Shard, entity: str) -> int:
        """Return an id among the initial rows; it may be gone by now."""
        return shard.first_id + self._random.randint(1, self._counts[entity])

    def _new_number(self, shard: Shard) -> int:
        self._next_number[shard] += 1
        return shard.first_id + self._next_number[shard]

    def _order(self, cursor: Cursor, shard: Shard) -> int:
        """Insert a new order and an audit entry, which has no key and comes twice every other time."""
        number = self._new_number(shard)
        cursor.execute(
            f"INSERT INTO {shard.table('orders')} (id, customer_id, state, amount, note, ordered_at) "
            "VALUES (%s, %s, 'new', %s, %s, NOW(3))",
            (number, self._some_id(shard, "customers"), self._random.randint(1, 99999) / 100, "später ✓"),
        )
        twice = 1 + number % 2
        for _ in range(twice):
            cursor.execute(f"INSERT INTO {shard.table('audit')} VALUES (NOW(), %s, 'ordered')", (shard.number,))
        return 1 + twice

    def _progress(self, cursor: Cursor, shard: Shard) -> int:
        """Change the state of several orders."""
        first = self._some_id(shard, "orders")
        return cursor.execute(
            f"UPDATE {shard.table('orders')} SET state = 'sent', amount = amount + 0.01, changed_at = NOW(6) "
            "WHERE id BETWEEN %s AND %s",
            (first, first + 9),
        )

    def _cancel(self, cursor: Cursor, shard: Shard) -> int:
        return cursor.execute(f"DELETE FROM {shard.table('orders')} WHERE id = %s", (self._some_id(shard, "orders"),))

    def _move(self, cursor: Cursor, shard: Shard) -> int:
        """Change an order's primary key."""
        return cursor.execute(
            f"UPDATE {shard.table('orders')} SET id = %s WHERE id = %s",
            (self._new_number(shard), self._some_id(shard, "orders")),
        )

    def _swap(self, cursor: Cursor, shard: Shard) -> int:
        """Swap the unique e-mail addresses of two customers inside one transaction."""
        one, other = self._some_id(shard, "customers"), self._some_id(shard, "customers")
        if one == other:
            return 0
        table = shard.table("customers")
        found = cursor.execute(f"SELECT id, email FROM {table} WHERE id IN (%s, %s) FOR UPDATE", (one, other))
        if found != 2:
            return 0
        (first, first_email), (second, second_email) = cursor.fetchall()
        update = f"UPDATE {table} SET email = %s WHERE id = %s"
        cursor.execute(update, (f"swapping-{first}", first))
        cursor.execute(update, (first_email, second))
        cursor.execute(update, (second_email, first))
        return 3

    def _reopen(self, cursor: Cursor, shard: Shard) -> int:
        """Delete a customer, who comes back under the same id and e-mail."""
        number = self._some_id(shard, "customers")
        table = shard.table("customers")
        deleted = cursor.execute(f"DELETE FROM {table} WHERE id = %s", (number,))
        cursor.execute(
            f"INSERT IGNORE INTO {table} VALUES (%s, %s, 'again', 0, NULL, 1)", (number, f"c{number}@shop.example")
        )
        return deleted + max(0, cursor.rowcount)

    def _restock(self, cursor: Cursor, shard: Shard) -> int:
        """Count some stock anew, whatever columns it has by now."""
        first = self._random.randint(1, self._counts[ALTERED])
        return cursor.execute(
            f"UPDATE {shard.table(ALTERED)} SET amount = amount + 1, name = CONCAT(LEFT(name, 50), '!') "
            "WHERE id BETWEEN %s AND %s",
            (first, first + 4),
        )


_MIX: Final[tuple[tuple[Callable[[Writer, Cursor, Shard], int], int], ...]] = (
    (Writer._order, 5),
    (Writer._progress, 4),
    (Writer._cancel, 2),
    (Writer._move, 1),
    (Writer._swap, 2),
    (Writer._reopen, 1),
    (Writer._restock, 2),
)
_ACTIONS: Final = tuple(action for action, _ in _MIX)
_WEIGHTS: Final = tuple(weight for _, weight in _MIX)
