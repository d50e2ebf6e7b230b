"""dm_owner: the numbers under which the rows of source tables are recorded in dm_row_owner.

A source table has a number while its rows are recorded. When nobody needs that any more, the number is turned below
zero, so that nothing more is recorded, and removed with the last record. Numbers are given by dm_version and never
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.target.identity import SubtaskRef
from airflow_provider_dm.engine.target.owner_keys import forget_owner_keys, save_owner_keys

_TABLE = "task = %s AND source = %s AND table_schema = %s AND table_name = %s"


def lock_owner_numbers(connection: Connection, ref: SubtaskRef) -> int:
    """Lock and return the last number that was given. Until the transaction ends nobody else begins a subtask in this
    schema: of two that begin at once, the second sees the tables of the first."""
    ((last,),) = query(connection, f"SELECT last_owner FROM {ref.table('dm_version')} FOR UPDATE")
    return int(last)


def save_owner_numbers(
    connection: Connection, ref: SubtaskRef, numbers: Mapping[TableName, int], keys: Mapping[TableName, str]
) -> None:
    """Replace the numbers of this subtask, after `lock_owner_numbers`. The highest one is the last given now.

    `keys`: those by which the tables' rows will be recorded (owner_keys.py).
    """
    forget_owner_keys(connection, ref, "task = %s AND source = %s", ref.key)
    query(connection, f"DELETE FROM {ref.table('dm_owner')} WHERE task = %s AND source = %s", ref.key)
    _add(connection, ref, numbers, keys)


def give_owner_numbers(connection: Connection, ref: SubtaskRef, keys: Mapping[TableName, str]) -> dict[TableName, int]:
    """Give numbers to further tables of a subtask, in a transaction that has checked the generation; return them.

    `keys`: as in `save_owner_numbers`.
    """
    last = lock_owner_numbers(connection, ref)
    numbers = {table: last + 1 + at for at, table in enumerate(keys)}
    _add(connection, ref, numbers, keys)
    return numbers


def _add(
    connection: Connection, ref: SubtaskRef, numbers: Mapping[TableName, int], keys: Mapping[TableName, str]
) -> None:
    if numbers:
        save_owner_keys(connection, ref, {number: keys[table] for table, number in numbers.items()})
        with connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {ref.table('dm_owner')} (task, source, table_schema, table_name, number) "
                "VALUES (%s, %s, %s, %s, %s)",
                [(*ref.key, *table, number) for table, number in numbers.items()],
            )
        query(connection, f"UPDATE {ref.table('dm_version')} SET last_owner = %s", (max(numbers.values()),))


def lock_owner(connection: Connection, ref: SubtaskRef, table: TableName) -> int:
    """Return the table's number if its rows are recorded now, else 0. That stays so until the transaction ends."""
    sql = f"SELECT number FROM {ref.table('dm_owner')} WHERE {_TABLE} FOR UPDATE"
    rows = query(connection, sql, (*ref.key, *table))
    return max(0, int(rows[0][0])) if rows else 0


def give_up_owner(connection: Connection, ref: SubtaskRef, table: TableName) -> None:
    """Stop recording the table's rows, from here on."""
    sql = f"UPDATE {ref.table('dm_owner')} SET number = -number WHERE {_TABLE} AND number > 0"
    query(connection, sql, (*ref.key, *table))


def remove_owner(connection: Connection, ref: SubtaskRef, table: TableName) -> None:
    """Remove the table's number, after its records."""
    forget_owner_keys(connection, ref, _TABLE, (*ref.key, *table))
    query(connection, f"DELETE FROM {ref.table('dm_owner')} WHERE {_TABLE}", (*ref.key, *table))


def forget_owners(connection: Connection, ref: SubtaskRef, tables: Iterable[TableName]) -> None:
    """Remove numbers and records of source tables that leave the task."""
    for table in tables:
        query(
            connection,
            f"DELETE FROM {ref.table('dm_row_owner')} WHERE owner IN "
            f"(SELECT ABS(number) FROM {ref.table('dm_owner')} WHERE {_TABLE})",
            (*ref.key, *table),
        )
        remove_owner(connection, ref, table)
