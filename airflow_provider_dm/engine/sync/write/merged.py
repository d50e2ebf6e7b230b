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
from airflow_provider_dm.engine.sync.errors import CountsDiffer, MissingRow
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart
from airflow_provider_dm.engine.sync.write.causality import TableWork
from airflow_provider_dm.engine.sync.write.compactor import Image


def check_found(statement: SqlStatement, number: int) -> None:
    """Check that a statement has found all of its rows. Raises MissingRow."""
    if number != statement.rows:
        operation = "DELETE" if statement.verb is Verb.DELETE else "UPDATE"
        raise MissingRow(str(statement.table), operation, statement.rows, number)


def check_changed(statement: SqlStatement, number: int) -> None:
    """Check the affected rows of an upsert that has to change existing rows. Raises CountsDiffer."""
    if number != 2 * statement.rows:
        raise CountsDiffer


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

    def run(self, connection: Connection, *, careful: bool) -> int:
        """Write the changes; return the number of new contested rows.

        `careful`: count the existing rows before upserts, whose own counts may then differ. Raises MissingRow,
        CountsDiffer, TooManyContested, and the errors of `execute`.
        """
        target = self.owners[0].writer.mapping.target.name
        waiting = contested_keys(connection, self.step.fence.ref, target)
        keys = [waiting.get(work.writer.owner.table, set()) for work in self.owners]
        for work, mine in zip(self.owners, keys, strict=True):
            self._delete(connection, work, mine)
        pairs = zip(self.owners, keys, strict=True)
        return sum(self._write(connection, work, mine, careful=careful) for work, mine in pairs)

    def _delete(self, connection: Connection, work: OwnerWork, waiting: set[bytes]) -> None:
        writer = work.writer
        remaining = writer.withdraw(connection, waiting, work.delete)
        for statement in delete_rows(writer.mapping, writer.key_literals(remaining), dialect=writer.access.dialect):
            check_found(statement, writer.access.execute(connection, statement))

    def _write(self, connection: Connection, work: OwnerWork, waiting: set[bytes], *, careful: bool) -> int:
        writer = work.writer
        rows, again = writer.change(connection, waiting, work.change)
        if careful:
            for statement in count_rows(writer.mapping, writer.key_literals(rows), dialect=writer.access.dialect):
                check_found(statement, writer.access.count(connection, statement))
        for statement in write_rows(writer.mapping, rows.literals, Verb.UPSERT, dialect=writer.access.dialect):
            number = writer.access.execute(connection, statement)
            if not careful:
                check_changed(statement, number)
        new = work.insert
        returned = new.pick(())
        if work.may_return:
            new, returned = writer.change(connection, waiting, new)
        contested = sum(writer.insert(connection, waiting, some) for some in (again, returned) if some.keys)
        return contested + writer.insert_new(connection, waiting, new)
