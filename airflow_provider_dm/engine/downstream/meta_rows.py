"""The rows of a subtask in the tables of the meta-schema (meta_tables.py): each statement starts with its subtask."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.mysql.connection import Connection, query, query_whole, text
from airflow_provider_dm.engine.mysql.identifiers import TableName

OF_TABLE: Final = "table_schema = %s AND table_name = %s"
"""The rows of one source table; the value is its name."""
OF_TARGET: Final = "target_schema = %s AND target_name = %s"
"""The rows of one target table."""

MetaValues = tuple[object, ...]


@dataclass(frozen=True)
class MetaRows:
    """The rows of one table. `lane`: those of the subtask's lane, if it has one.

    A `where` follows the condition on the subtask, with a `%s` for each of `values`.
    """

    table: str
    lane: bool = False

    def select(
        self, tx: Connection, ref: SubtaskRef, columns: str, where: str = "", values: MetaValues = (), tail: str = ""
    ) -> list[tuple[Any, ...]]:
        """Return a few rows."""
        return query(tx, f"SELECT {columns} {self._found(ref, where)} {tail}", self._key(ref) + values)

    def read(
        self, tx: Connection, ref: SubtaskRef, columns: str, where: str = "", values: MetaValues = (), tail: str = ""
    ) -> list[tuple[Any, ...]]:
        """Return rows, whose number is verified. Raises IncompleteResult."""
        return query_whole(tx, columns, self._found(ref, where), self._key(ref) + values, tail=tail)

    def read_of_task(
        self, tx: Connection, ref: SubtaskRef, columns: str, where: str = "", values: MetaValues = (), tail: str = ""
    ) -> list[tuple[Any, ...]]:
        """Return rows of all sources of the task, as `read`."""
        found = f"FROM {ref.table(self.table)} WHERE task = %s" + (where and f" AND {where}")
        return query_whole(tx, columns, found, (ref.task, *values), tail=tail)

    def update(
        self, tx: Connection, ref: SubtaskRef, changes: str, new: MetaValues, where: str = "", values: MetaValues = ()
    ) -> int:
        """Change rows. Return how many matched. `new`: the values of the `%s` in `changes`."""
        sql = f"UPDATE {ref.table(self.table)} SET {changes} {_where(where)}"
        with tx.cursor() as cursor:
            return int(cursor.execute(sql, new + self._key(ref) + values))

    def delete(self, tx: Connection, ref: SubtaskRef, where: str = "", values: MetaValues = ()) -> int:
        """Remove rows. Return their number."""
        with tx.cursor() as cursor:
            return int(cursor.execute(f"DELETE {self._found(ref, where)}", self._key(ref) + values))

    def put(
        self,
        tx: Connection,
        ref: SubtaskRef,
        columns: str,
        rows: Iterable[MetaValues],
        *,
        now: str = "",
        verb: Literal["INSERT", "REPLACE"] = "REPLACE",
    ) -> None:
        """Add rows, as many in a statement as fit. `now`: a column for the time of the target's clock."""
        names, marks = f"task, source, {columns}", f"%s,%s,{marks_for(columns.split(', '))}"
        if now:
            names, marks = f"{names}, {now}", f"{marks},UTC_TIMESTAMP(6)"
        sql = f"{verb} INTO {ref.table(self.table)} ({names}) VALUES ({marks})"
        with tx.cursor() as cursor:
            cursor.executemany(sql, [self._key(ref) + row for row in rows])

    def _found(self, ref: SubtaskRef, where: str) -> str:
        return f"FROM {ref.table(self.table)} {_where(where)}"

    def _key(self, ref: SubtaskRef) -> MetaValues:
        return ref.lane_key if self.lane else ref.key


FRONTIER: Final = MetaRows("dm_frontier", lane=True)


def _where(where: str) -> str:
    return "WHERE task = %s AND source = %s" + (where and f" AND {where}")


def marks_for(values: Collection[object]) -> str:
    """Return a `%s` for each value."""
    return ",".join(["%s"] * len(values))


def name_of(schema: object, table: object) -> TableName:
    """Return the name in two cells."""
    return TableName(text(schema), text(table))
