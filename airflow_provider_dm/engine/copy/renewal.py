"""What becomes of a target table whose source table is copied again: its rows go, and its form becomes the new one.

    the target has none                                 created after the source's table
    it is as it was created after the old definition    dropped, and created after the new one
    a person has made it otherwise, and it fits         emptied; it is that person's to alter it
    a person has made it otherwise, and it does not     TargetTableMismatch, which says what it lacks
    the task has never filled it                        left alone: rows, if it has any, are somebody else's (design.py)

The same goes for a form that tables are not created in (CHECK, foreign keys, …). Pure: definitions go in, statements
come out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_provider_dm.engine.ddl.create_like import CannotCreateTarget, NewTable, create_table_like
from airflow_provider_dm.engine.ddl.server import CannotTrack, Server
from airflow_provider_dm.engine.ddl.statements import TableDefinition
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.survey import SourceTable
from airflow_provider_dm.engine.rules.mapping import map_table
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.target.ddl_execution import TargetDdl


@dataclass(frozen=True)
class Found:
    """A table that the target has. `create`: its SHOW CREATE TABLE."""

    table: Table
    create: str


@dataclass(frozen=True)
class Sides:
    """The two servers."""

    source: Flavour
    target: Server

    def created_after(self, create: str, table: Table, name: TableName, collation: str) -> NewTable:
        """Return the statement that creates `name` after a table of the source. Raises CannotCreateTarget."""
        return create_table_like(
            create,
            table,
            name,
            source_flavour=self.source,
            target_flavour=self.target.flavour,
            collation=collation,
        )


@dataclass(frozen=True)
class Renewal:
    """The statements for one table: what takes its rows away, and what makes it anew."""

    removal: TargetDdl | None = None
    creation: TargetDdl | None = None


def renewed(new: SourceTable, old: tuple[Table, str] | None, found: Found | None, sides: Sides) -> Renewal:
    """Return what becomes of a table. `old`: the source's table that `found` was made after, with its text, "" where
    that is not known.

    Raises CannotCreateTarget and TargetTableMismatch.
    """
    name = new.target
    if found is None:
        return Renewal(creation=_creation(sides.created_after(new.create, new.table, name, new.collation)))
    if old is not None and old[1] and _is_ours(found, *old, new, sides):
        try:
            created = sides.created_after(new.create, new.table, name, new.collation)
        except CannotCreateTarget:
            pass
        else:
            return Renewal(dropped(name), _creation(created))
    map_table(new.table, found.table)
    if old is None:
        return Renewal()
    return Renewal(TargetDdl(f"TRUNCATE TABLE {name.quoted()}", (name,)))


def dropped(name: TableName) -> TargetDdl:
    """Return the statement that removes a table of the target."""
    return TargetDdl(f"DROP TABLE IF EXISTS {name.quoted()}", (name,))


def _creation(table: NewTable) -> TargetDdl:
    return TargetDdl(table.sql, (table.name,), keyless=table.keyless)


def _is_ours(found: Found, table: Table, create: str, new: SourceTable, sides: Sides) -> bool:
    """Tell whether the target's table is what is created after this one of the source."""
    name = found.table.name
    try:
        ours = sides.created_after(create, table, name, new.collation)
        tracked = [Tracker.of(sides.target, {name: text}, {}) for text in (ours.sql, found.create)]
    except (CannotCreateTarget, CannotTrack):
        return False
    made, there = (_without_expressions(one.definition(name)) for one in tracked)
    return made == there


def _without_expressions(definition: TableDefinition) -> TableDefinition:
    """Return what of a definition all servers write alike: each has its own way with defaults and expressions."""
    columns = tuple(
        replace(one, default=None, on_update=None, generated=None if one.generated is None else "")
        for one in definition.columns
    )
    return replace(definition, columns=columns)
