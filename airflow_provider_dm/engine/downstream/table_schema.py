"""dm_table_schema: the table definitions with which rows of the source's log are decoded, and the location at which the
changes of each table begin.

The schema is that of the location at which reading the log begins, not the current one (invariant 6). All rows of a
task together determine the merged target tables: those that receive the rows of more than one source table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from airflow_provider_dm.engine.downstream.contested_row import withdraw_all
from airflow_provider_dm.engine.downstream.copy_progress import rename_chunks
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.meta_rows import OF_TABLE, MetaRows, name_of
from airflow_provider_dm.engine.downstream.table_definitions import delete_definitions
from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.errors import RulesChanged
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.schema.model import Table

_ROWS: Final = MetaRows("dm_table_schema")


@dataclass(frozen=True)
class TableSchema:
    """A source table and its target table. `skip_until` (`Location.sort_key`, "" for none): changes up to there are
    already applied according to DM's checkpoint (sync/start/dm_import.py). `extracted`: columns that routing adds to
    its rows, with their values."""

    table: Table
    target: TableName
    skip_until: str = ""
    extracted: tuple[tuple[str, str], ...] = ()

    @classmethod
    def routed(cls, table: Table, router: Router, skip_until: str = "") -> TableSchema:
        """Return a table with the target and the extracted values that the routes give it. Raises InvalidInput."""
        name = table.name
        return cls(table, router.route(name), skip_until, tuple(sorted(router.extracted(name).items())))

    def check_route(self, router: Router) -> None:
        """Check that the routes still give this target and these extracted values. Raises RulesChanged."""
        now, name = self.routed(self.table, router), self.table.name
        if now.target != self.target:
            raise RulesChanged(
                f"the rows of {name} were routed to {self.target} so far, and the routes now name {now.target}.",
                "Change the routes back, or migrate in full with a task of another name; otherwise both target tables "
                "would be incomplete.",
            )
        if now.extracted != self.extracted:
            raise RulesChanged(
                f"the rows of {name} have the extracted values {_shown(self.extracted)} so far, "
                f"and the routes now give {_shown(now.extracted)}.",
                "Change the routes back, or migrate in full with a task of another name.",
            )


@dataclass(frozen=True)
class Feeder:
    """A source table of any source of the task, and its target table."""

    source: str
    table: TableName
    target: TableName


def save_table_schemas(connection: Connection, ref: SubtaskRef, schemas: Iterable[TableSchema]) -> None:
    """Replace all tables of the subtask, inside a transaction whose first statement has checked the generation."""
    _ROWS.delete(connection, ref)
    put_table_schemas(connection, ref, schemas)


def put_table_schemas(connection: Connection, ref: SubtaskRef, schemas: Iterable[TableSchema]) -> None:
    """Store or replace these tables of the subtask, in a transaction that has checked the generation."""
    columns = "table_schema, table_name, target_schema, target_name, skip_until, definition"
    rows = [(*schema.table.name, *schema.target, schema.skip_until, _json(schema)) for schema in schemas]
    _ROWS.put(connection, ref, columns, rows)


def rename_tables(connection: Connection, ref: SubtaskRef, pairs: Iterable[tuple[TableName, TableName]]) -> None:
    """Change the names of tables in all stored state, in a transaction that has checked the generation.

    The pairs (old, new) are in the order of the renames, as a name may be used again.
    """
    for old, new in pairs:
        for table in ("dm_table_schema", "dm_table_definition", "dm_contested_row"):
            MetaRows(table).update(connection, ref, "table_schema = %s, table_name = %s", new, OF_TABLE, old)
        rename_chunks(connection, ref, old, new)


def load_feeders(connection: Connection, ref: SubtaskRef) -> list[Feeder]:
    """Return the source tables of all started sources of the task. Raises IncompleteResult."""
    columns = "source, table_schema, table_name, target_schema, target_name"
    rows = _ROWS.read_of_task(connection, ref, columns, tail="ORDER BY 1, 2, 3")
    return [
        Feeder(text(source), name_of(schema, table), name_of(to, to_table))
        for source, schema, table, to, to_table in rows
    ]


def lock_feeders(connection: Connection, ref: SubtaskRef, target: TableName) -> int:
    """Count the source tables of the task that are routed to a table, and block new ones until the transaction ends."""
    sql = f"SELECT target_schema, target_name FROM {ref.table(_ROWS.table)} WHERE task = %s FOR UPDATE"
    return sum(name_of(*row) == target for row in query(connection, sql, (ref.task,)))


def forget_table_schemas(connection: Connection, ref: SubtaskRef, names: Iterable[TableName]) -> None:
    """Remove, in a transaction that has checked the generation, tables that no longer belong to the task.

    Their waiting rows (dm_contested_row) are removed, as no transaction would move them any more.
    """
    names = list(names)
    withdraw_all(connection, ref, names)
    delete_definitions(connection, ref, names)
    for name in names:
        _ROWS.delete(connection, ref, OF_TABLE, name)


def load_table_schemas(connection: Connection, ref: SubtaskRef) -> list[TableSchema]:
    """Return the subtask's tables in the order of their names. Raises IncompleteResult."""
    columns = "definition, target_schema, target_name, skip_until"
    rows = _ROWS.read(connection, ref, columns, tail="ORDER BY table_schema, table_name")
    return [_schema(text(one), name_of(schema, table), text(skip)) for one, schema, table, skip in rows]


@lru_cache(1024)
def _schema(definition: str, target: TableName, skip_until: str) -> TableSchema:
    saved = json.loads(definition)
    extracted = tuple((column, value) for column, value in saved["extracted"])
    return TableSchema(Table.from_json(saved["table"]), target, skip_until, extracted)


def _shown(extracted: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{column} = '{value}'" for column, value in extracted) or "(none)"


def _json(schema: TableSchema) -> str:
    return json.dumps({"table": schema.table.to_json(), "extracted": schema.extracted}, ensure_ascii=False)
