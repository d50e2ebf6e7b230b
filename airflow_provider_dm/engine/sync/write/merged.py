"""What one transaction of the sync does to a merged table: the rows of several source tables, each by its own state.

What vanishes or moves goes first, of all of them, then what is written: a row that moves from one shard to another
within the transaction finds its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from airflow_provider_dm.engine.binlog.partial_rows import ABSENT
from airflow_provider_dm.engine.downstream.contested_row import RowOwner, contested_keys
from airflow_provider_dm.engine.downstream.frontier import Step
from airflow_provider_dm.engine.downstream.statements import (
    Literals,
    Statement,
    Verb,
    count_rows,
    delete_rows,
    write_rows,
)
from airflow_provider_dm.engine.merge.writer import MOST_WHILE_SYNCING, Access, OwnerWriter, Rows
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart
from airflow_provider_dm.engine.sync.write.causality import TableWork
from airflow_provider_dm.engine.sync.write.compactor import Image

Check = Callable[[Statement, int], None]
"""The error for a statement that should have matched `statement.rows` rows, and the number that it matched."""


@dataclass(frozen=True)
class OwnerWork:
    """The work on the rows of one source table."""

    writer: OwnerWriter
    delete: Rows
    insert: Rows
    change: Rows

    @classmethod
    def of(
        cls, plan: SyncPlan, source: int, works: Sequence[TableWork], step: Step, access: Access, literals: RowLiterals
    ) -> OwnerWork:
        part = plan.part(source)
        owner = RowOwner(step.fence.ref, plan.sources[source].owner_name)
        writer = OwnerWriter(owner, part.mapping, access, MOST_WHILE_SYNCING, plan.sources[source].own_order)

        as_logged = _as_logged(part)

        def rows(kind: Callable[[TableWork], list[Row]]) -> Rows:
            found = [row for work in works for row in kind(work)]
            return writer.rows(list(map(as_logged, found)), list(map(literals, found)))

        return cls(
            writer,
            rows(lambda work: work.delete),
            rows(lambda work: work.insert),
            rows(lambda work: work.change),
        )


RowLiterals = Callable[[Row], Literals]


def _as_logged(part: TargetPart) -> Callable[[Row], Row]:
    """Return the function that puts into a row what it has beside its values: what the log says of computed columns."""
    left_out = [index for index in part.mapping.computed if index not in part.needed]
    if not left_out:
        return lambda row: row

    def as_logged(row: Row) -> Row:
        computed = row.computed if isinstance(row, Image) else {}
        values = list(row)
        for index in left_out:
            values[index] = computed.get(index, ABSENT)
        return tuple(values)

    return as_logged


@dataclass(frozen=True)
class MergedWrites:
    """The writes of one transaction to one target table."""

    step: Step
    owners: Sequence[OwnerWork]

    def run(self, connection: Connection, *, found: Check, changed: Check, careful: bool) -> int:
        """Write. Return how many rows have to wait for their places.

        `found` is called for statements that must meet their rows, `changed` for upserts; with `careful` the rows that
        upserts have to meet are counted before. Raises what they raise, TooManyContested and what `execute` raises.
        """
        target = self.owners[0].writer.mapping.target.name
        waiting = contested_keys(connection, self.step.fence.ref, target)
        keys = [waiting.get(work.writer.owner.table, set()) for work in self.owners]
        for work, mine in zip(self.owners, keys, strict=True):
            self._delete(connection, work, mine, found)
        return sum(
            self._write(connection, work, mine, found if careful else None, changed)
            for work, mine in zip(self.owners, keys, strict=True)
        )

    def _delete(self, connection: Connection, work: OwnerWork, waiting: set[bytes], found: Check) -> None:
        writer = work.writer
        gone = writer.withdraw(connection, waiting, work.delete)
        for statement in delete_rows(writer.mapping, writer.key_literals(gone), dialect=writer.access.dialect):
            found(statement, writer.access.execute(connection, statement))

    def _write(
        self, connection: Connection, work: OwnerWork, waiting: set[bytes], counted: Check | None, changed: Check
    ) -> int:
        writer = work.writer
        rows, again = writer.change(connection, waiting, work.change)
        if counted is not None:
            for statement in count_rows(writer.mapping, writer.key_literals(rows), dialect=writer.access.dialect):
                counted(statement, writer.access.count(connection, statement))
        for statement in write_rows(writer.mapping, rows.literals, Verb.UPSERT, dialect=writer.access.dialect):
            changed(statement, writer.access.execute(connection, statement))
        contested = writer.insert(connection, waiting, again) if again.keys else 0
        return contested + writer.insert_new(connection, waiting, work.insert)
