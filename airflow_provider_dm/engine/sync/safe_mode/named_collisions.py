"""What collided and was written over, by name: the last rows of each table, for the status and the log.

Keys are shown as RowsCollide shows them: they are what a person has to look at. The target is asked for them in front
of what is written over, and only there; not for keys whose values it may show otherwise than the source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from airflow_provider_dm.engine.merge.collision import shown_values
from airflow_provider_dm.engine.merge.writer import Access, unique_positions, values_reader
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import quote
from airflow_provider_dm.engine.mysql.literals import NULL
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Index
from airflow_provider_dm.engine.target.statements import Literals

MOST_SHOWN: Final = 20
"""The collisions of one table that are named: the first ones of a run in the log, the last ones in the status."""


ROWS_ASKED_FOR: Final = 1_000
"""The rows of a transaction that are asked for: the first ones."""


@dataclass(frozen=True)
class NamedCollision:
    """One row that collided. `key`: the name of the unique key in which it did, with columns and values.

    `missing`: it was to be changed or deleted, and was not there; else another one was, in the way. `other`: the source
    and table that has it, where that is known.
    """

    key: str
    columns: tuple[str, ...]
    values: tuple[str, ...]
    missing: bool = False
    other: str = ""

    def to_json(self, by: str) -> dict[str, Any]:
        """Return it as the status shows it. `by`: the source table whose change it was; "": the only one."""
        said: dict[str, Any] = {
            "key": self.key,
            "columns": list(self.columns),
            "values": list(self.values),
            "was": "missing" if self.missing else "present",
        }
        names = {"by": by, "other": self.other}
        return said | {name: value for name, value in names.items() if value}

    def line(self, table: str, by: str) -> str:
        """Return it as the log says it.

        >>> NamedCollision("PRIMARY", ("id",), ("5",), other="b:shop.o_2").line("shop.o", "a:shop.o_1")
        'shop.o: a row of a:shop.o_1 has taken the place of one of b:shop.o_2, by PRIMARY (id) = (5)'
        >>> NamedCollision("PRIMARY", ("id",), ("5",), missing=True).line("shop.o", "")
        'shop.o: a row that was to be changed or deleted was missing, by PRIMARY (id) = (5)'
        """
        of = f" of {by}" if by else ""
        other = f"one of {self.other}" if self.other else "another one"
        what = "that was to be changed or deleted was missing" if self.missing else f"has taken the place of {other}"
        return f"{table}: a row{of} {what}, by {self.key} ({', '.join(self.columns)}) = ({', '.join(self.values)})"


@dataclass(frozen=True)
class Naming:
    """The rows of one source table that are about to be written, as values by identity key."""

    mapping: TableMapping
    access: Access
    rows: Mapping[Literals, Row]

    def by_identity(
        self, connection: Connection, expected: Sequence[Literals], unexpected: Sequence[Literals]
    ) -> list[NamedCollision]:
        """Name those of `expected` that are missing, and those of `unexpected` that are there."""
        index = self.mapping.target.identity
        if index is None:
            return []
        expected, unexpected = expected[:ROWS_ASKED_FOR], unexpected[:ROWS_ASKED_FOR]
        found = self._standing(connection, index.columns, index, {*expected, *unexpected})
        if found is None:
            return []
        there = set(found)
        missing = [self._named(index, key, missing=True) for key in expected if key not in there]
        return _known([*missing, *(self._named(index, key) for key in unexpected if key in there)])

    def by_others(
        self, connection: Connection, written: Mapping[Literals, Literals], mine: Collection[Literals]
    ) -> list[NamedCollision]:
        """Name those of `written`, rows by their key, whose further unique values other rows have than `mine`."""
        identity, found = self.mapping.target.identity, list[NamedCollision | None]()
        for index in self.mapping.target.unique_keys:
            places = unique_positions(self.mapping, index)
            if identity is None or index == identity or places is None:
                continue
            wanted = {tuple([row[place] for place in places]): key for key, row in written.items()}
            asked = dict(islice(((value, key) for value, key in wanted.items() if NULL not in value), ROWS_ASKED_FOR))
            columns = (*index.columns, *identity.columns)
            for one in self._standing(connection, columns, index, asked) or ():
                value, holder = one[: len(index.columns)], one[len(index.columns) :]
                if value in asked and holder not in mine:
                    found.append(self._named(index, asked[value]))
        return _known(found)

    def _standing(
        self, connection: Connection, columns: Sequence[str], index: Index, wanted: Collection[Literals]
    ) -> list[Literals] | None:
        """Return what rows of the target have in these columns that have one of the wanted values of a unique key."""
        reader = values_reader(self.mapping, columns, self.access.dialect.server.flavour)
        if reader is None or not wanted:
            return None if reader is None else []
        select, read = reader
        names = ",".join(quote(name) for name in index.columns)
        values = b",".join([b"(" + b",".join(one) + b")" for one in wanted])
        found = self.access.select(connection, f"{select} WHERE ({names}) IN (".encode() + values + b")")
        return [literals for _, literals in map(read, found)]

    def _named(self, index: Index, key: Literals, *, missing: bool = False) -> NamedCollision | None:
        row = self.rows.get(key)
        if row is None:
            return None
        values = [row[self.mapping.source.column(name).position] for name in index.columns]
        return NamedCollision(index.name, index.columns, shown_values(values), missing)


def _known(found: Iterable[NamedCollision | None]) -> list[NamedCollision]:
    return [one for one in found if one is not None]
