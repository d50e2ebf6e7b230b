"""A table as the server's catalogue describes it, as frozen values.

This module neither queries a server (catalogue.py does) nor decodes bytes (codec.py does).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Final

from airflow_provider_dm.engine.mysql.identifiers import TableName


@dataclass(frozen=True)
class Column:
    """One column. `column_type` is the catalogue's full text, e.g. `bigint(20) unsigned` or `enum('a','b')`."""

    name: str
    position: int
    """0-based ordinal: the index in row images."""
    data_type: str
    column_type: str
    nullable: bool
    charset: str | None = None
    collation: str | None = None
    numeric_precision: int | None = None
    numeric_scale: int | None = None
    datetime_precision: int | None = None
    octet_length: int | None = None
    """CHARACTER_OCTET_LENGTH: bytes; None for non-strings."""
    generated: bool = False
    invisible: bool = False
    expression: str = field(default="", compare=False, repr=False)
    """The expression of a generated column, as this server writes it. Rows do not depend on it."""
    filled: bool = field(default=False, compare=False, repr=False)
    """True if an INSERT without this column fills it: by a DEFAULT other than NULL, or a number (`auto_increment`)."""
    auto_increment: bool = field(default=False, compare=False, repr=False)
    """AUTO_INCREMENT."""
    constant: bytes | None = field(default=None, compare=False, repr=False)
    """The value of a column that the source's table lacks and that routing adds to each row (`with_constants`)."""

    @property
    def unsigned(self) -> bool:
        return "unsigned" in self.column_type.lower().split()


_STORED: Final = tuple(one.name for one in fields(Column) if one.name not in ("constant", "filled", "auto_increment"))
"""The attributes of a column that are stored (`Table.to_json`)."""


@dataclass(frozen=True)
class Index:
    """A PRIMARY or UNIQUE key. `prefixes[i]` is the prefix length of `columns[i]` in characters, or None."""

    name: str
    columns: tuple[str, ...]
    unique: bool = True
    prefixes: tuple[int | None, ...] = ()
    expression: bool = False
    """An index over an expression, whose values are not columns of the row."""

    @property
    def primary(self) -> bool:
        return self.name == "PRIMARY"

    @property
    def parts(self) -> tuple[tuple[str, int | None], ...]:
        """The columns, each with the length of its prefix."""
        return tuple(zip(self.columns, self.prefixes or (None,) * len(self.columns), strict=True))


@dataclass(frozen=True)
class Table:
    """A table's columns in order and its unique keys (PRIMARY first)."""

    name: TableName
    columns: tuple[Column, ...]
    unique_keys: tuple[Index, ...]
    has_foreign_keys: bool = False
    hidden: int = 0
    """Number of columns after all others that only row images have: MariaDB's hash for each UNIQUE over long values."""

    @cached_property
    def by_name(self) -> Mapping[str, Column]:
        """The columns by their names in lower case, as servers compare them."""
        return {column.name.lower(): column for column in self.columns}

    def column(self, name: str) -> Column:
        """Return the column of this name. Raises KeyError."""
        return self.by_name[name.lower()]

    def with_constants(self, columns: Iterable[Column]) -> Table:
        """Return the table with additional columns at the end, each with one constant value."""
        start = len(self.columns)
        more = tuple(replace(column, position=start + number) for number, column in enumerate(columns))
        return replace(self, columns=self.columns + more) if more else self

    @property
    def stored(self) -> Table:
        """The table without the columns that routing adds."""
        own = tuple(column for column in self.columns if column.constant is None)
        return self if len(own) == len(self.columns) else replace(self, columns=own)

    @property
    def constants(self) -> tuple[bytes, ...]:
        """The values of the columns that routing adds."""
        return tuple(column.constant for column in self.columns if column.constant is not None)

    @property
    def identity(self) -> Index | None:
        """The key that identifies a row: PRIMARY, else the first unique key over whole, not-null columns, else None."""
        for key in sorted(self.unique_keys, key=lambda key: not key.primary):
            whole = not key.expression and not any(key.prefixes)
            if key.primary or (whole and all(not self.column(name).nullable for name in key.columns)):
                return key
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the stored table as JSON."""
        return {
            "name": list(self.name),
            "columns": [{name: getattr(column, name) for name in _STORED} for column in self.stored.columns],
            "unique_keys": [dict(vars(key)) for key in self.unique_keys],
            "has_foreign_keys": self.has_foreign_keys,
            "hidden": self.hidden,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Table:
        return cls(
            name=TableName(*value["name"]),
            columns=tuple(Column(**column) for column in value["columns"]),
            unique_keys=tuple(
                Index(**(key | {"columns": tuple(key["columns"]), "prefixes": tuple(key["prefixes"])}))
                for key in value["unique_keys"]
            ),
            has_foreign_keys=value["has_foreign_keys"],
            hidden=value.get("hidden", 0),
        )
