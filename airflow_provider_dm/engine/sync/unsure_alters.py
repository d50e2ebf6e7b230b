"""ALTER TABLE statements that the target cannot follow, by the table's definitions in front of them and behind."""

from __future__ import annotations

from airflow_provider_dm.engine.ddl.statements import TableDefinition
from airflow_provider_dm.engine.ddl.target_code import is_moment
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.sync.subtask_tables import CannotFollow


def check_same_everywhere(before: TableDefinition, after: TableDefinition, sql_mode: int) -> None:
    """Refuse what gives the rows that are there other values in each shard, as the target makes it once for all.

    That is: a column that is filled with the moment of the statement, or with numbers. Raises CannotFollow.
    """
    old = {one.name.lower(): one for one in before.columns}
    for column in after.columns:
        was = old.get(column.name.lower())
        if column.auto_increment and (was is None or not was.auto_increment):
            raise CannotFollow(f"each shard numbers the rows in {column.name} anew")
        filled = was is None or (was.nullable is not False and column.nullable is False)
        if filled and column.default is not None and is_moment(column.default, sql_mode):
            raise CannotFollow(f"each shard fills {column.name} with another moment")


def check_shows(name: TableName, before: TableDefinition, after: TableDefinition) -> None:
    """Refuse columns that swap names as well as places: by its looks nobody can tell whether that was done.

    A run that dies behind it would do it again, which undoes it (see the journal). Raises CannotFollow.
    """
    if before.columns == after.columns:
        raise CannotFollow(f"columns of {name} change places and names at once, after which it looks as before")
