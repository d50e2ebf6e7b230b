"""The pairing of a source table with the target table that its rows go to.

Same columns by name, in any order, and each pair of types such that a value written comes back the same, or is refused
by the target's strict mode. What strict mode lets pass with a change (fewer decimals, fewer fractional seconds,
trailing spaces cut off, BINARY padded to another length, a float for a double) is refused here, before any row.

A column that the target computes takes no values; the source has to compute it, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

from airflow_provider_dm.engine.errors import DmError, Scope
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.rules.block_allow import select
from airflow_provider_dm.engine.schema.codec import GEOMETRIES
from airflow_provider_dm.engine.schema.model import Column, Table
from airflow_provider_dm.engine.schema.strings import MYSQL_ONLY_CHARSETS

__all__ = ["TableMapping", "TargetTableMismatch", "map_table", "select"]

FAMILIES: Final[dict[str, frozenset[str]]] = {
    "integer": frozenset({"tinyint", "smallint", "mediumint", "int", "integer", "bigint"}),
    "decimal": frozenset({"decimal", "numeric"}),
    "float": frozenset({"float", "double", "real"}),
    "text": frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"}),
    "geometry": GEOMETRIES,
    "bytes": frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}),
}
_FAMILY_OF: Final = {data_type: family for family, members in FAMILIES.items() for data_type in members}
_TEMPORAL: Final = frozenset({"time", "datetime", "timestamp"})


@dataclass(eq=False)
class TargetTableMismatch(DmError):
    """A target table that cannot take the source's rows as they are."""

    source: str
    target: str
    missing: tuple[str, ...]
    """Columns, with type, that only the source has."""
    extra: tuple[str, ...]
    """Columns, with type, that only the target has."""
    different: tuple[str, ...]
    """Columns that both have, with both types and what is wrong with that."""
    source_columns: tuple[str, ...]
    target_columns: tuple[str, ...]
    remedy: str
    """The statement that adds what is missing; changing and dropping columns is left to a person's judgement."""

    code: ClassVar[str] = "DM-5202"
    scope: ClassVar[Scope] = Scope.DOWNSTREAM
    what: ClassVar[str] = "the target table {target} cannot take the rows of {source}."
    hint: ClassVar[str] = "Alter the target table, or drop it to have it created anew, or route to another table."

    def message(self) -> str:
        found = (("missing there", self.missing), ("only there", self.extra), ("different", self.different))
        differences = "; ".join(f"{label}: {', '.join(columns)}" for label, columns in found if columns)
        return (
            f"the target table {self.target} cannot take the rows of {self.source}. {differences}. "
            f"Source columns: {', '.join(self.source_columns)}. Target columns: {', '.join(self.target_columns)}. "
            f"{self.hint} {self.remedy}"
        ).rstrip()


@dataclass(frozen=True)
class TableMapping:
    """A source table and its target. Both have the same column names; the target's order may differ."""

    source: Table
    target: Table

    @property
    def target_columns(self) -> tuple[Column, ...]:
        """The target's columns in the order of the source's row images."""
        return tuple(self.target.column(column.name) for column in self.source.columns)

    @cached_property
    def written(self) -> tuple[int, ...]:
        """Where, in the source's rows, the values stand that the target is given: all but those that it computes."""
        return tuple(index for index, column in enumerate(self.target_columns) if not column.generated)

    @cached_property
    def enums(self) -> tuple[int, ...]:
        """Which of them are ENUMs."""
        return tuple(index for index in self.written if self.source.columns[index].data_type == "enum")


def map_table(source: Table, target: Table) -> TableMapping:
    """Pairs the two. Raises TargetTableMismatch."""
    theirs = {column.name.lower(): column for column in target.columns}
    ours = {column.name.lower(): column for column in source.columns}
    missing = tuple(_shown(column) for name, column in ours.items() if name not in theirs)
    extra = tuple(_shown(column) for name, column in theirs.items() if name not in ours)
    pairs = [(column, theirs[name]) for name, column in ours.items() if name in theirs]
    different = (*_differences(pairs), *_lost_keys(target, ours.keys() & theirs.keys()))
    if missing or extra or different:
        raise TargetTableMismatch(
            source=str(source.name),
            target=str(target.name),
            missing=missing,
            extra=extra,
            different=different,
            source_columns=tuple(_shown(column) for column in source.columns),
            target_columns=tuple(_shown(column) for column in target.columns),
            remedy=_remedy(target.name, [column for name, column in ours.items() if name not in theirs]),
        )
    return TableMapping(source, target)


def objection(source: Column, target: Column) -> str | None:
    """Why values of `source` cannot be kept in `target`; None if they can, or if strict mode refuses what cannot."""
    if target.generated:
        return None if source.generated else "the target computes it"
    if family(source) != family(target) and not _json_as_text(source, target):
        return "another kind of value"
    if source.charset in MYSQL_ONLY_CHARSETS and target.charset != source.charset:
        return f"the character set {source.charset} goes nowhere else"
    match family(source):
        case "decimal" if (target.numeric_scale or 0) < (source.numeric_scale or 0):
            return "fewer decimals would round"
        case "float" if target.data_type == "float" and source.data_type != "float":
            return "single precision would round"
        case "float" if target.numeric_scale is not None and target.numeric_scale < (source.numeric_scale or 31):
            return "fewer decimals would round"
        case "text" if target.data_type == "char" and source.data_type != "char":
            return "CHAR drops trailing spaces"
        case "text" if (
            target.data_type == "varchar" and source.data_type != "char" and _length(target) < _length(source)
        ):
            return "trailing spaces beyond its length would be cut off"
        case "bytes" if target.data_type == "binary" and source.column_type.lower() != target.column_type.lower():
            return "BINARY pads to its own length"
        case kind if kind in _TEMPORAL and (target.datetime_precision or 0) < (source.datetime_precision or 0):
            return "fewer fractional seconds would round"
        case _:
            return None


def _json_as_text(source: Column, target: Column) -> bool:
    """MariaDB's JSON is a LONGTEXT; so MySQL's documents go there, as the text that MySQL prints."""
    return source.data_type == "json" and target.data_type in ("text", "mediumtext", "longtext")


def family(column: Column) -> str:
    """Types of one family hold the same values, some more of them; a type outside the table is its own family."""
    data_type = column.data_type.lower()
    return _FAMILY_OF.get(data_type, data_type)


def _differences(pairs: Iterable[tuple[Column, Column]]) -> Iterator[str]:
    for source, target in pairs:
        why = objection(source, target)
        if why is not None:
            yield f"{source.name} {source.column_type} -> {target.column_type} ({why})"


def _lost_keys(target: Table, common: Iterable[str]) -> Iterator[str]:
    """Key columns that no row could fill. A target without any key is fine: its rows are counted images."""
    known = set(common)
    for name in target.identity.columns if target.identity else ():
        if name.lower() not in known:
            yield f"{name} is in the target's key and not in the source"


def _length(column: Column) -> int:
    """Characters that fit: what the type says, or no more than the bytes that fit."""
    _, _, rest = column.column_type.partition("(")
    length, _, _ = rest.partition(")")
    return int(length) if length.isdigit() else column.octet_length or 0


def _remedy(target: TableName, missing: Iterable[Column]) -> str:
    additions = ", ".join(f"ADD COLUMN {quote(column.name)} {column.column_type}" for column in missing)
    return f"To add what is missing: ALTER TABLE {target.quoted()} {additions}" if additions else ""


def _shown(column: Column) -> str:
    return f"{column.name} {column.column_type}"
