"""Moves waiting rows to keys that have become free.

A waiting row is as much a part of its owner's state as a row in the target, so moving it changes nothing for any log,
and any driver of the task may move it: the driver that has freed the key, or the driver of the waiting row. Each
transaction first checks the driver's own generation, and then locks the waiting rows, so that changes of the owner's
log come before or after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from airflow_provider_dm.engine.binlog.partial_rows import ABSENT
from airflow_provider_dm.engine.downstream.contested_row import (
    ContestedRow,
    RowOwner,
    ids_after,
    lock_rows,
    remove_rows,
)
from airflow_provider_dm.engine.downstream.frontier import Transactions
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.row_statements import UNKNOWN, Literals
from airflow_provider_dm.engine.merge.owner_writer import OwnerWriter, TargetAccess
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.codec import Row, row_literals
from airflow_provider_dm.engine.schema.model import Table

ROWS_OF_A_TRANSACTION: Final = 100
ROWS_OF_A_PASS: Final = 1_000
"""Maximum rows of one pass: the sync waits for it."""


@dataclass
class Settler:
    """Moves waiting rows, the oldest first. Each pass begins after the last row of the previous pass."""

    fence: Fence
    transactions: Transactions
    access: Callable[[], TargetAccess]
    mapped: Callable[[str, TableName, TableName], TableMapping]
    """(source, its table, target table) -> their mapping."""
    own_only: bool = False
    """True to move only rows of the driver's own source: other sources may have other definitions (engine.shard)."""
    last_id: int = field(default=0, init=False)

    def settle(self) -> int:
        """Try up to ROWS_OF_A_PASS rows of the task. Return how many were moved. Raises Fenced or TargetWentBack."""
        settled = 0
        for _ in range(ROWS_OF_A_PASS // ROWS_OF_A_TRANSACTION):
            ids = self.transactions(lambda tx: ids_after(tx, self.fence.ref, self.last_id, ROWS_OF_A_TRANSACTION))
            if ids:
                settled += self.transactions(partial(self._move, ids=ids))
            self.last_id = ids[-1] if len(ids) == ROWS_OF_A_TRANSACTION else 0
            if not self.last_id:
                break
        return settled

    def _move(self, connection: Connection, ids: list[int]) -> int:
        """Move the rows whose keys are free, in one transaction; return how many."""
        self.fence.check(connection)
        by_owner: defaultdict[tuple[str, TableName, TableName], list[ContestedRow]] = defaultdict(list)
        for row in lock_rows(connection, self.fence.ref, ids):
            if self.own_only and row.source != self.fence.ref.source:
                continue
            by_owner[row.source, row.table, row.target].append(row)
        moved = [one for names, rows in by_owner.items() for one in self._move_rows(connection, names, rows)]
        if moved:
            remove_rows(connection, self.fence.ref, moved)
        return len(moved)

    def _move_rows(
        self, connection: Connection, names: tuple[str, TableName, TableName], rows: list[ContestedRow]
    ) -> list[int]:
        source, table, _target = names
        access, mapping = self.access(), self.mapped(*names)
        writer = OwnerWriter(RowOwner(self.fence.ref.of_source(source), table), mapping, access, most_waiting=0)
        literals = known_literals(mapping.source, access.dialect.server.flavour)
        new = writer.rows([row.row for row in rows], [literals(row.row) for row in rows])
        taken = set(writer.insert_if_free(connection, new))
        return [row.id for number, row in enumerate(rows) if number not in taken]


def known_literals(table: Table, target: Flavour) -> Callable[[Row], Literals]:
    """Return `row_literals` for rows with ABSENT instead of a value that the target generates."""
    plain = row_literals(table, target)

    def literals(row: Row) -> Literals:
        known = plain(tuple([None if value is ABSENT else value for value in row]))
        return tuple([UNKNOWN if value is ABSENT else one for value, one in zip(row, known, strict=True)])

    return literals
