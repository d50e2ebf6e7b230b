"""The writes of one transaction of the sync to a merged table, with rows of several source tables.

First the deletes of all source tables are executed, then the writes, so that a row can move from one shard to another
within the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from airflow_provider_dm.engine.binlog.partial_rows import ABSENT
from airflow_provider_dm.engine.downstream.contested_row import RowOwner, contested_keys
from airflow_provider_dm.engine.downstream.frontier import EpochRange
from airflow_provider_dm.engine.downstream.row_statements import (
    Literals,
    SqlStatement,
    Verb,
    count_rows,
    delete_rows,
    write_rows,
)
from airflow_provider_dm.engine.merge.owner_writer import MOST_WHILE_SYNCING, OwnerRows, OwnerWriter, TargetAccess
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart
from airflow_provider_dm.engine.sync.write.causality import TableWork
from airflow_provider_dm.engine.sync.write.compactor import Image

CheckMatched = Callable[[SqlStatement, int], None]
"""Checks the number of rows that a statement matched, which should be `statement.rows`; raises if it differs."""


@dataclass(frozen=True)
class OwnerWork:
    """The work on the rows of one source table."""

    writer: OwnerWriter
    delete: OwnerRows
    insert: OwnerRows
    change: OwnerRows
    may_return: bool = False
    """Filters skip deletes: a row that waits may be deleted and inserted again, and the log has only the INSERT."""

    @classmethod
    def of(
        cls,
        plan: SyncPlan,
        source: int,
        works: Sequence[TableWork],
        step: EpochRange,
        access: TargetAccess,
        literals: RowLiterals,
    ) -> OwnerWork:
        part = plan.part(source)
        owner = RowOwner(step.fence.ref, plan.sources[source].owner_name)
        writer = OwnerWriter(owner, part.mapping, access, MOST_WHILE_SYNCING, plan.sources[source].own_order)

        logged = as_logged(part)

        def rows(kind: Callable[[TableWork], list[Row]]) -> OwnerRows:
            found = [row for work in works for row in kind(work)]
            return writer.rows(list(map(logged, found)), list(map(literals, found)))

        return cls(
            writer,
            rows(lambda work: work.delete),
            rows(lambda work: work.insert),
            rows(lambda work: work.change),
            source in plan.losses,
        )


RowLiterals = Callable[[Row], Literals]


def as_logged(part: TargetPart) -> Callable[[Row], Row]:
    """Return the function from a row to the row with the logged values of computed columns."""
    left_out = part.left_out
    if not left_out:
        return lambda row: row

    def logged(row: Row) -> Row:
        computed = row.computed if isinstance(row, Image) else {}
        values = list(row)
        for index in left_out:
            values[index] = computed.get(index, ABSENT)
        return tuple(values)

    return logged


@dataclass(frozen=True)
class MergedWrites:
    """The writes of one transaction to one target table."""

    step: EpochRange
    owners: Sequence[OwnerWork]

    def run(self, connection: Connection, *, found: CheckMatched, changed: CheckMatched, careful: bool) -> int:
        """Write the changes; return the number of new contested rows.

        `found`: checks statements that must find all their rows. `changed`: checks upserts. `careful`: count the
        existing rows before upserts. Raises the errors of these checks and of `execute`, and TooManyContested.
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

    def _delete(self, connection: Connection, work: OwnerWork, waiting: set[bytes], found: CheckMatched) -> None:
        writer = work.writer
        remaining = writer.withdraw(connection, waiting, work.delete)
        for statement in delete_rows(writer.mapping, writer.key_literals(remaining), dialect=writer.access.dialect):
            found(statement, writer.access.execute(connection, statement))

    def _write(
        self,
        connection: Connection,
        work: OwnerWork,
        waiting: set[bytes],
        counted: CheckMatched | None,
        changed: CheckMatched,
    ) -> int:
        writer = work.writer
        rows, again = writer.change(connection, waiting, work.change)
        if counted is not None:
            for statement in count_rows(writer.mapping, writer.key_literals(rows), dialect=writer.access.dialect):
                counted(statement, writer.access.count(connection, statement))
        for statement in write_rows(writer.mapping, rows.literals, Verb.UPSERT, dialect=writer.access.dialect):
            changed(statement, writer.access.execute(connection, statement))
        new = work.insert
        returned = new.pick(())
        if work.may_return:
            new, returned = writer.change(connection, waiting, new)
        contested = sum(writer.insert(connection, waiting, some) for some in (again, returned) if some.keys)
        return contested + writer.insert_new(connection, waiting, new)
