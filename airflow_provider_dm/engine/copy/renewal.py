"""What becomes of a target table whose source table is copied again: its rows go, and its form becomes the new one.

    the target has none                                 created after the source's table
    it is as it was created after the old definition    dropped, and created after the new one
    a person has made it otherwise, and it fits         emptied; it is that person's to alter it
    a person has made it otherwise, and it does not     TargetTableMismatch, which says what it lacks
    the task has never filled it                        left alone: rows, if it has any, are somebody else's (design.py)

The same goes for a form that tables are not created in (CHECK, foreign keys, …). A merged table is created after the
first of its source tables, and it is as it was created if it is so after any of them. Pure: definitions go in,
statements come out.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_dm.engine.ddl.create_like import CannotCreateTarget, NewTable, create_table_like
from airflow_provider_dm.engine.ddl.server import CannotTrack, Server
from airflow_provider_dm.engine.ddl.statements import TableDefinition
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.survey import SourceTable
from airflow_provider_dm.engine.rules.mapping import TargetTableMismatch, map_table
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.target.ddl_execution import TargetDdl

_NAME: Final = re.compile(r"CREATE TABLE `(?:[^`]|``)*` ")
_COUNTER: Final = re.compile(r" AUTO_INCREMENT=\d+")


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
    strict: bool = False
    """The target keeps the source's collations (`collation_compatible`)."""

    def created_after(self, create: str, table: Table, name: TableName, collation: str) -> NewTable:
        """Return the statement that creates `name` after a table of the source. Raises CannotCreateTarget."""
        return create_table_like(
            create,
            table,
            name,
            source_flavour=self.source,
            target_flavour=self.target.flavour,
            collation=collation,
            strict=self.strict,
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
    map_table(new.table, found.table, new.extracted)
    if old is None:
        return Renewal()
    return Renewal(TargetDdl(f"TRUNCATE TABLE {name.quoted()}", (name,)))


@dataclass(frozen=True)
class Shard:
    """A source table of a merged one, as `renewed` takes it."""

    new: SourceTable
    old: tuple[Table, str] | None
    sides: Sides


def renewed_together(shards: Sequence[Shard], found: Found | None) -> Renewal:
    """Return what becomes of a target table that takes the rows of all of these. Raises as `renewed`."""
    if found is None:
        return renewed(shards[0].new, shards[0].old, None, shards[0].sides)
    plans: list[Renewal] = []
    errors: list[TargetTableMismatch] = []
    for one in shards:
        try:
            plans.append(renewed(one.new, one.old, found, one.sides))
        except TargetTableMismatch as error:  # it may have been created after another one
            errors.append(error)
    for plan in plans:
        if plan.creation is not None:
            return plan
    if errors:
        raise errors[0]
    return next((plan for plan in plans if plan.removal is not None), Renewal())


def form_of(create: str, table: Table, collation: str, sides: Sides) -> tuple[Hashable, Hashable]:
    """Return what two source tables of one target are compared by: the table that would be created after it, and its
    own text.

    The first is the same for both flavours, but knows no expressions, which each server writes in its own way.
    """
    text = (sides.source, _COUNTER.sub("", _NAME.sub("", create, count=1)))
    name = TableName(table.name.schema, "merged")
    try:
        made = sides.created_after(create, table, name, collation)
        return without_expressions(Tracker.of(sides.target, {name: made.sql}, {}).definition(name)), text
    except (CannotCreateTarget, CannotTrack):
        return text, text


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
    made, there = (without_expressions(one.definition(name)) for one in tracked)
    return made == there


def without_expressions(definition: TableDefinition) -> TableDefinition:
    """Return what of a definition all servers write alike: each has its own way with defaults and expressions."""
    columns = tuple(
        replace(one, default=None, on_update=None, generated=None if one.generated is None else "")
        for one in definition.columns
    )
    return replace(definition, columns=columns)
