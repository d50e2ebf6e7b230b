"""Whether a target table shows what a source table was altered by, as whoever altered it for the other sources has to
have made the same there. Pure.

    the target's table was alike      it was as it is created after the source's table: it has to be so again
    it was not (made by hand, …)      each column and key that the source's table has got, lost or changed has to be as
                                      it is in one that is created after that; what else differs, did so before

What each server writes in its own way, defaults and expressions, does not count; and where no table is created after
the source's (CHECK, …), nothing but its columns' types and its unique keys.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from airflow_provider_dm.engine.copy.renewal import Found, Sides, without_expressions
from airflow_provider_dm.engine.ddl.create_like import CannotCreateTarget
from airflow_provider_dm.engine.ddl.server import CannotTrack
from airflow_provider_dm.engine.ddl.statements import TableDefinition
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import value_signature
from airflow_provider_dm.engine.schema.model import Column, Table


@dataclass(frozen=True)
class Form:
    """The traits of a table by which it is compared: what each is of, and how it is."""

    columns: tuple[str, ...]
    traits: Mapping[str, Hashable]

    @classmethod
    def of(cls, definition: TableDefinition) -> Form:
        shown = without_expressions(definition)
        traits: dict[str, Hashable] = {f"column {one.name.lower()}": one for one in shown.columns}
        traits |= {f"key {one}": one for one in shown.constraints}
        traits |= {f"option {name}": value for name, value in shown.options}
        return cls(tuple(one.name.lower() for one in shown.columns), traits)

    @classmethod
    def of_rows(cls, table: Table) -> Form:
        """Return no more than what rows are made of."""
        names = tuple(column.name.lower() for column in table.columns)
        traits: dict[str, Hashable] = {f"column {one.name.lower()}": _type(one) for one in table.columns}
        keys = ((one, tuple(map(str.lower, one.columns))) for one in table.unique_keys)
        return cls(names, traits | {f"key of {', '.join(names)}": (names, one.prefixes) for one, names in keys})

    def lacks(self, old: Form, new: Form) -> str:
        """Say what this form does not show of what made `new` of `old`; "": it shows all."""
        for name in sorted(old.traits.keys() | new.traits.keys()):
            before, now = old.traits.get(name), new.traits.get(name)
            if before != now and self.traits.get(name) != now:
                return f"{name.split('(')[0]} is not as it is there"
        if self._order(old) != self._order(new) and self._order(new) != new._order(self):
            return "the columns have another order there"
        return ""

    def _order(self, other: Form) -> tuple[str, ...]:
        """Return the columns of the other form that this one has, too, in the other's order."""
        return tuple(name for name in other.columns if name in self.columns)


def _type(column: Column) -> Hashable:
    members = column.column_type if column.data_type.lower() in ("enum", "set") else ""
    return (*value_signature(column), column.octet_length, members)


def form_after(create: str, table: Table, name: TableName, collation: str, sides: Sides) -> Form | None:
    """Return the form of the table that is created after one of the source; None where none can be."""
    try:
        return _form(sides.created_after(create, table, name, collation).sql, name, sides)
    except (CannotCreateTarget, CannotTrack):
        return None


def form_there(found: Found, sides: Sides) -> Form | None:
    """Return the form of a table of the target; None where it is not understood."""
    try:
        return _form(found.create, found.table.name, sides)
    except CannotTrack:
        return None


def _form(sql: str, name: TableName, sides: Sides) -> Form:
    return Form.of(Tracker.of(sides.target, {name: sql}, {}).definition(name))
