"""Overwriting rows of one table that collide, where the configuration or an inexact past allows it.

A transaction is first tried as the log has it. Only where that meets a row that it should not meet, or misses one, is
it rolled back and written so, each collision counted:

    the log           is written as                collides when
    INSERT a          REPLACE a                    a row of that key, or with another unique value of a, is there
    UPDATE b to a     DELETE b, REPLACE a          b is not there, or another row has a unique value of a
    DELETE b          DELETE b                     b is not there
    INSERT a, DELETE  DELETE a                     a row of that key is there

For example, all of it once more into a target that has it already:

    INSERT INTO t (id, int_value, str_value) VALUES (123, 999, 'abc')       REPLACE INTO t … VALUES (123, 999, 'abc')
    UPDATE t SET int_value = 888999 WHERE int_value = 999                   DELETE FROM t WHERE id = 123
                                                                            REPLACE INTO t … VALUES (123, 888999, 'abc')
    UPDATE t SET id = 999 WHERE id = 888                                    DELETE FROM t WHERE id = 888
                                                                            REPLACE INTO t … VALUES (999, 888888, …)

A target that has columns of its own keeps them: a row there is changed in place, and only rows that hold another unique
value of it have to go. The removed rows that REPLACE counts include those only because the row's own key was deleted
before: for a row that is identical already, servers count nothing.

Where rows of several source tables go into a target, none is overwritten, because its owner is not known here, except
with `safe-mode: true`, and behind all loads (sync/safe_mode/last_wins.py). Nor where the target may take two rows of
the source for one: a right row would go. Tables without a key are counted images, and exact in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.statements import (
    Literals,
    Statement,
    Verb,
    delete_holders,
)
from airflow_provider_dm.engine.downstream.table_schema import load_feeders
from airflow_provider_dm.engine.merge.overwritable import has_own_columns
from airflow_provider_dm.engine.merge.writer import Access, unique_positions
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.literals import NULL
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart


@dataclass(frozen=True)
class Collision:
    """The rows of one table that the log had otherwise. `missing`: to be changed or deleted, and not there; `present`:
    there, and in the way of another one that was written. `by`: see `OverWrites`."""

    table: str
    missing: int
    present: int
    by: str = ""


def has_one_feeder(connection: Connection, ref: SubtaskRef, target: TableName) -> bool:
    """Tell whether no other source table of the task, of any source, feeds this table."""
    return sum(feeder.target == target for feeder in load_feeders(connection, ref)) <= 1


@dataclass(frozen=True)
class OverWrites:
    """The writes of one transaction to one target table, whatever is there. For a table that `can_be_written_over`.

    `by`: the source table whose rows they are, where others feed the target, too. `unsure`: rows may be there or not,
    as filters leave changes out; then what is missing is no collision.
    """

    part: TargetPart
    access: Access
    delete: Sequence[Literals]
    """Identity keys."""
    gone: Sequence[Literals]
    """Identity keys at which nothing should be."""
    insert: Sequence[Literals]
    change: Sequence[Literals]
    unsure: bool = False
    by: str = ""

    def run(self, connection: Connection) -> Collision:
        """Write. Raises what `execute` raises."""
        missing = len(self.delete) - self._delete(connection, self.delete)
        present = self._delete(connection, self.gone)
        if has_own_columns(self.part.mapping):
            there, changed = self._count(connection, self.insert), self._count(connection, self.change)
            missing += len(self.change) - changed
            present += there + self._in_place(connection)
        else:
            present += self._delete(connection, map(self._key, self.insert))
            missing += len(self.change) - self._delete(connection, map(self._key, self.change))
            rows = [*self.insert, *self.change]
            present += self._write(connection, rows, Verb.REPLACE) - len(rows)
        return Collision(str(self.part.name), 0 if self.unsure else missing, present, self.by)

    def _in_place(self, connection: Connection) -> int:
        """Write rows so that values which only the target has stay. Return how many others had to go."""
        rows = [*self.insert, *self.change]
        if not self.part.unique:
            self._write(connection, rows, Verb.UPSERT)
            return 0
        gone = 0
        for row in rows:  # one by one: an UPSERT could take a row for its own that has only another unique value of it
            gone += sum(self.access.execute(connection, statement) for statement in self._holders(row))
            self._write(connection, [row], Verb.UPSERT)
        return gone

    def _holders(self, row: Literals) -> Iterable[Statement]:
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
