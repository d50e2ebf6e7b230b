"""Overwriting rows of one table that collide, in safe mode.

A transaction is first written as the log has it. If a row unexpectedly exists or is missing, the transaction is rolled
back and written as follows, and each collision is counted:

    the log           is written as                collides if
    INSERT a          REPLACE a                    a row with that key, or with another unique value of a, exists
    UPDATE b to a     DELETE b, REPLACE a          b is missing, or another row has a unique value of a
    DELETE b          DELETE b                     b is missing
    INSERT a, DELETE  DELETE a                     a row with that key exists

For example, changes that are applied again to a target that already has them:

    INSERT INTO t (id, int_value, str_value) VALUES (123, 999, 'abc')       REPLACE INTO t … VALUES (123, 999, 'abc')
    UPDATE t SET int_value = 888999 WHERE int_value = 999                   DELETE FROM t WHERE id = 123
                                                                            REPLACE INTO t … VALUES (123, 888999, 'abc')
    UPDATE t SET id = 999 WHERE id = 888                                    DELETE FROM t WHERE id = 888
                                                                            REPLACE INTO t … VALUES (999, 888888, …)

If the target table has columns of its own, their values are kept: an existing row is updated in place, and only rows
with another unique value of the new row are deleted. Otherwise the row's own key is deleted before REPLACE, because
servers do not count the replacement of an identical row.

Rows of a merged table are not overwritten, because their owner is unknown here, except by the rules in
sync/safe_mode/last_wins.py. Nor are rows overwritten if the target may compare the keys of two source rows as equal: a
valid row would be lost. Rows of tables without a key are counted images, which do not collide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.row_statements import Literals, SqlStatement, Verb, delete_holders
from airflow_provider_dm.engine.downstream.table_schema import load_feeders
from airflow_provider_dm.engine.merge.overwritable import has_own_columns
from airflow_provider_dm.engine.merge.owner_writer import TargetAccess, unique_positions
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.literals import NULL
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart


@dataclass(frozen=True)
class Collision:
    """The collisions of one table. `missing`: rows to be updated or deleted that did not exist. `present`: rows that
    unexpectedly existed and were overwritten. `by`: see `OverwritingWrites`."""

    table: str
    missing: int
    present: int
    by: str = ""


def has_one_feeder(connection: Connection, ref: SubtaskRef, target: TableName) -> bool:
    """Return True if at most one source table of the task, of any source, is routed to this table."""
    return sum(feeder.target == target for feeder in load_feeders(connection, ref)) <= 1


@dataclass(frozen=True)
class OverwritingWrites:
    """The writes of one transaction to one target table, over existing rows. For tables that `is_overwritable`.

    `by`: the source table of the rows, if the target is merged; else "". `unsure`: filters skip changes, so that a
    missing row is no collision.
    """

    part: TargetPart
    access: TargetAccess
    delete: Sequence[Literals]
    """Identity keys."""
    transient: Sequence[Literals]
    """Identity keys at which no row should exist."""
    insert: Sequence[Literals]
    change: Sequence[Literals]
    unsure: bool = False
    by: str = ""

    def run(self, connection: Connection) -> Collision:
        """Write the changes, and return the collisions. Raises the errors of `execute`."""
        missing = len(self.delete) - self._delete(connection, self.delete)
        present = self._delete(connection, self.transient)
        if has_own_columns(self.part.mapping):
            existing, changed = self._count(connection, self.insert), self._count(connection, self.change)
            missing += len(self.change) - changed
            present += existing + self._in_place(connection)
        else:
            present += self._delete(connection, map(self._key, self.insert))
            missing += len(self.change) - self._delete(connection, map(self._key, self.change))
            rows = [*self.insert, *self.change]
            present += self._write(connection, rows, Verb.REPLACE) - len(rows)
        return Collision(str(self.part.name), 0 if self.unsure else missing, present, self.by)

    def _in_place(self, connection: Connection) -> int:
        """Write rows and keep the values of columns that only the target has. Return the number of deleted rows."""
        rows = [*self.insert, *self.change]
        if not self.part.unique:
            self._write(connection, rows, Verb.UPSERT)
            return 0
        deleted = 0
        for row in rows:  # one by one: an UPSERT would update a row that matches by another unique key only
            deleted += sum(self.access.execute(connection, statement) for statement in self._holders(row))
            self._write(connection, [row], Verb.UPSERT)
        return deleted

    def _holders(self, row: Literals) -> Iterable[SqlStatement]:
        mapping = self.part.mapping
        for index in mapping.target.unique_keys:
            places = unique_positions(mapping, index)
            if places is not None and index != mapping.target.identity and NULL not in [row[place] for place in places]:
                yield delete_holders(mapping, index.columns, [row[place] for place in places], self._key(row))

    def _key(self, row: Literals) -> Literals:
        return tuple([row[place] for place in self.part.key or ()])

    def _delete(self, connection: Connection, keys: Iterable[Literals]) -> int:
        return self.access.delete_rows(connection, self.part.mapping, keys)

    def _count(self, connection: Connection, rows: Iterable[Literals]) -> int:
        return self.access.count_rows(connection, self.part.mapping, map(self._key, rows))

    def _write(self, connection: Connection, rows: Iterable[Literals], verb: Verb) -> int:
        return self.access.write_rows(connection, self.part.mapping, rows, verb)
