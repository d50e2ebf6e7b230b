"""The columns that a merged table lacks of a source table that was altered while it was copied, where nobody agrees.

Task-mode full, and shards without `shard-mode`: nobody makes the DDL in the target, and which of the shards is right
nobody knows. To have a column more does no harm to the others' rows: they get its default, as if their tables had it,
or NULL where there is none. All else that was altered is for a person, as others' values would go. Pure.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_dm.engine.copy.renewal import Found, Sides
from airflow_provider_dm.engine.ddl.create_like import CannotCreateTarget
from airflow_provider_dm.engine.ddl.server import CannotTrack
from airflow_provider_dm.engine.ddl.statements import AddColumn, AlterTable, ColumnDefinition
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.ddl.write import statement_sql
from airflow_provider_dm.engine.reading.survey import SourceTable
from airflow_provider_dm.engine.target.ddl_execution import TargetDdl


def additions(new: SourceTable, there: Found, sides: Sides) -> TargetDdl | None:
    """Return what adds to the target's table the columns that it lacks; None: none that could be added."""
    name = new.target
    try:
        made = sides.created_after(new.create, new.table, name, new.collation)
        columns = Tracker.of(sides.target, {name: made.sql}, {}).definition(name).columns
    except (CannotCreateTarget, CannotTrack):
        return None
    missing = [one for one in columns if one.name.lower() not in there.table.by_name]
    specs = tuple(AddColumn(_optional(one)) for one in missing if one.generated is None and not one.auto_increment)
    if not specs:
        return None
    return TargetDdl(statement_sql(AlterTable(name, specs), 0, sides.target.flavour), (name,))


def _optional(column: ColumnDefinition) -> ColumnDefinition:
    return replace(column, nullable=True) if column.default is None else column
