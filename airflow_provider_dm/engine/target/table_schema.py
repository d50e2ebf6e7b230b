"""dm_table_schema: the source's tables as rows of its log are decoded by, and from where on each table is replayed.

The schema is the one at the location where reading the log begins, not the one of today (invariant 6)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.target.meta_tables import meta_table


@dataclass(eq=False)
class RouteChanged(DmError):
    """Rows of a table would go on in another place than they began in."""

    table: str
    began: str
    now: str

    code: ClassVar[str] = "DM-6045"
    what: ClassVar[str] = "the rows of {table} went to {began} so far, and the routes send them to {now} now."
    hint: ClassVar[str] = (
        "Change the routes back, or migrate in full with another task (another name): rows in two places would both be "
        "incomplete."
    )


@dataclass(frozen=True)
class TableSchema:
    """A source table, and the target table that takes its rows. `skip_until` (`Location.sort_key`, "" for none):
    changes up to there are copied already."""

    table: Table
    target: TableName
    skip_until: str = ""

    def check_route(self, now: TableName) -> None:
        """Raises RouteChanged unless `now` is where the rows have gone from the first one on."""
        if now != self.target:
            raise RouteChanged(str(self.table.name), str(self.target), str(now))


def save_table_schemas(
    connection: Connection, meta_schema: str, task: str, source: str, schemas: Iterable[TableSchema]
) -> None:
    """Inside a transaction whose first statement has checked the generation: replace all of this subtask."""
    name = meta_table(meta_schema, "dm_table_schema")
    query(connection, f"DELETE FROM {name} WHERE task = %s AND source = %s", (task, source))
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {name} (task, source, table_schema, table_name, target_schema, target_name, skip_until, "
            "definition) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            [(task, source, *one.table.name, *one.target, one.skip_until, _json(one.table)) for one in schemas],
        )


def set_skip_until(connection: Connection, meta_schema: str, task: str, source: str, table: Table, until: str) -> None:
    """Inside a transaction that has checked the generation: rows of `table` up to `until` are in its copy already."""
    query(
        connection,
        f"UPDATE {meta_table(meta_schema, 'dm_table_schema')} SET skip_until = %s "
        "WHERE task = %s AND source = %s AND table_schema = %s AND table_name = %s",
        (until, task, source, *table.name),
    )


def forget_table_schemas(
    connection: Connection, meta_schema: str, task: str, source: str, names: Iterable[TableName]
) -> None:
    """Inside a transaction that has checked the generation: these tables are no part of the task any more."""
    for name in names:
        query(
            connection,
            f"DELETE FROM {meta_table(meta_schema, 'dm_table_schema')} "
            "WHERE task = %s AND source = %s AND table_schema = %s AND table_name = %s",
            (task, source, *name),
        )


def load_table_schemas(connection: Connection, meta_schema: str, task: str, source: str) -> list[TableSchema]:
    """In the order of their names."""
    rows = query(
        connection,
        f"SELECT definition, target_schema, target_name, skip_until FROM {meta_table(meta_schema, 'dm_table_schema')} "
        "WHERE task = %s AND source = %s ORDER BY table_schema, table_name",
        (task, source),
    )
    return [
        TableSchema(Table.from_json(json.loads(text(one))), TableName(text(schema), text(table)), text(skip))
        for one, schema, table, skip in rows
    ]


def _json(table: Table) -> str:
    return json.dumps(table.to_json(), ensure_ascii=False)
