"""The pairing of a source table with the target table that its rows go to.

A route may add columns to the source's (`extract-table` and the like), which have one value in all rows of a table:
they count as its last ones, of the types that the target has for them. The target may have further columns that it
fills by itself: those that may be NULL, those with a default, and those that it computes or counts. A key with one that
it counts (AUTO_INCREMENT) is left out of the pairing: no row that comes can have its value already, and none is found
by it.

Same columns by name, in any order, and each pair of types such that a value written comes back the same, or is refused
by the target's strict mode. What strict mode lets pass with a change (fewer decimals, fewer fractional seconds,
trailing spaces cut off, BINARY padded to another length, a float for a double) is refused here, before any row.

A column that the target computes takes no values; the source has to compute it, too. What it comes to may depend on the
session that computes: on div_precision_increment, on the time zone, on sql_mode. So it is held against the source's
value when it is written (`target.statements`), but for expressions of which it is certain."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from airflow_provider_dm.engine.errors import DmError, NotSupportedYet, Scope
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.schema.codec import BINARIES, GEOMETRIES, TEXTS
from airflow_provider_dm.engine.schema.model import Column, Table
from airflow_provider_dm.engine.schema.strings import MYSQL_ONLY_CHARSETS, charset_bytes

FAMILIES: Final[dict[str, frozenset[str]]] = {
    "integer": frozenset({"tinyint", "smallint", "mediumint", "int", "integer", "bigint"}),
    "decimal": frozenset({"decimal", "numeric"}),
    "float": frozenset({"float", "double", "real"}),
    "text": TEXTS,
    "geometry": GEOMETRIES,
    "bytes": BINARIES,
}
_FAMILY_OF: Final = {data_type: family for family, members in FAMILIES.items() for data_type in members}
_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "integer": 32, "bigint": 64}
_NAME: Final = re.compile(r"`((?:[^`]|``)+)`")
_SUMS: Final = re.compile(r"(?:`(?:[^`]|``)+`|\d+|[-+*()])+")
_TEMPORAL: Final = frozenset({"time", "datetime", "timestamp"})


class TargetTableMismatch(DmError):
    source: str
    target: str
    missing: tuple[str, ...]
    """Columns, with type, that only the source has."""
    extra: tuple[str, ...]
    """Columns, with type, that only the target has and does not fill by itself."""
    different: tuple[str, ...]
    """Columns that both have, with both types and what is wrong with that."""
    source_columns: tuple[str, ...]
    target_columns: tuple[str, ...]
    remedy: str
    """The statement that adds what is missing; changing and dropping columns is left to a person's judgement."""
    created_anew: bool = False
    """Whether the task would create the target table if it were not there, and may still choose another one."""

    code = "DM-5202"
    scope = Scope.DOWNSTREAM
    what = "the target table {target} cannot take the rows of {source}."
    hint = "Alter the target table, or leave the table out by block-allow-list."

    def workaround(self) -> str:
        freely = "Alter the target table, or drop it to have it created anew, or route to another table."
        return f"{freely if self.created_anew else self.hint} {self.remedy}".rstrip()

    def happened(self) -> str:
        found = (("missing there", self.missing), ("only there", self.extra), ("different", self.different))
        differences = "; ".join(f"{label}: {', '.join(columns)}" for label, columns in found if columns)
        return (
            f"the target table {self.target} cannot take the rows of {self.source}. {differences}. "
            f"Source columns: {', '.join(self.source_columns)}. Target columns: {', '.join(self.target_columns)}."
        )


class ExtractNotPossible(DmError):
    source: str
    target: str
    column: str
    why: str

    code = "DM-5205"
    scope = Scope.DOWNSTREAM
    what = "the column {column} of {target}, which the route of {source} fills, cannot be: {why}."
    hint = (
        "Create the target table by hand, with a text column for each extract-table, extract-schema and "
        "extract-source, as a part of its key where the shards share keys; or leave the extract-… out of the route."
    )


@dataclass(frozen=True)
class TableMapping:
    """A source table and its target, which has the source's columns, in any order, and may have others."""

    source: Table
    target: Table

    @property
    def target_columns(self) -> tuple[Column, ...]:
        """The target's columns in the order of the source's row images."""
        return tuple(self.target.column(column.name) for column in self.source.columns)

    @cached_property
    def written(self) -> tuple[int, ...]:
        """The positions in the source's rows of the values that the target is given: all but those that it computes."""
        return tuple(index for index, column in enumerate(self.target_columns) if not column.generated)

    @cached_property
    def computed(self) -> tuple[int, ...]:
        """The positions in the source's rows of the values that the target computes by itself."""
        return tuple(index for index, column in enumerate(self.target_columns) if column.generated)

    @cached_property
    def uncertain(self) -> tuple[int, ...]:
        """Return those of `computed` that may come to something else than at the source."""
        return tuple(index for index in self.computed if not self._is_certain(index))

    @cached_property
    def key_places(self) -> tuple[int, ...]:
        """The positions in the source's rows of the target's identity key; none for a target without."""
        identity = self.target.identity
        return tuple(self.source.column(name).position for name in identity.columns) if identity else ()

    @cached_property
    def found_by(self) -> tuple[int, ...] | None:
        """The positions in the source's rows of the identity key by which the target's row is found again.

        None: it has no key of given values."""
        return self.key_places if self.key_places and not {*self.key_places} & {*self.computed} else None

    def _is_certain(self, index: int) -> bool:
        """Tell whether rows alone decide: sums and products of integers and decimals, one expression on both sides."""
        ours, theirs = (_bare(columns[index].expression) for columns in (self.source.columns, self.target_columns))
        names = [name.replace("``", "`") for name in _NAME.findall(theirs)]
        if ours != theirs or _SUMS.fullmatch(theirs) is None:
            return False
        sides = (self.source, self.target)
        return all(family(side.column(name)) in ("integer", "decimal") for name in names for side in sides)

    @cached_property
    def enums(self) -> tuple[int, ...]:
        """Return those of `written` that are ENUMs."""
        return tuple(index for index in self.written if self.source.columns[index].data_type == "enum")


def map_table(
    source: Table, target: Table, extracted: Mapping[str, str] | None = None, *, created_anew: bool = False
) -> TableMapping:
    """Pair two tables. `created_anew`: without the target the task would create it.

    `extracted`: the columns of the target that routing fills, and their values.
    Raises TargetTableMismatch, ExtractNotPossible.
    """
    added = (extracted or {}).items()
    source = source.with_constants(_constant(source, target, name, value) for name, value in added)
    theirs, ours = target.by_name, source.by_name
    missing = tuple(_shown(column) for name, column in ours.items() if name not in theirs)
    extra = tuple(_shown(column) for name, column in theirs.items() if name not in ours and _needs_value(column))
    target = _without_counted(target, ours.keys())
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
            created_anew=created_anew,
        )
    return TableMapping(source, target)


def check_same_columns(table: Table, first: Table) -> None:
    """Refuse shards of which one has a column that the other lacks: its values would be lost, or made up."""
    if differing := table.by_name.keys() ^ first.by_name.keys():
        raise NotSupportedYet(
            "merging shards with different columns",
            f"column {', '.join(sorted(differing))} of {table.name} and {first.name}",
            "Make the columns equal, or route the tables to different targets.",
        )


def _constant(source: Table, target: Table, name: str, value: str) -> Column:
    """Return the column that routing adds. Raises ExtractNotPossible."""

    def refused(why: str) -> ExtractNotPossible:
        return ExtractNotPossible(str(source.name), str(target.name), name, why)

    if name.lower() in source.by_name:
        raise refused("the source's table has such a column itself")
    try:
        column = target.column(name)
    except KeyError:
        raise refused("the target has no such column") from None
    if column.generated:
        raise refused("the target computes it")
    if family(column) == "integer" and re.fullmatch(r"0|[1-9]\d{0,18}", value):
        bits = _BITS[column.data_type.lower()]
        if int(value) >= 1 << (bits if column.unsigned else bits - 1):
            raise refused(f"{value} does not fit {column.column_type}")
        return replace(column, constant=value.encode())
    if family(column) != "text":
        raise refused(f"it is {column.column_type}, and text is what is found in a name ({value!r})")
    known = charset_bytes(value, column.charset)
    if known is None:
        raise refused(f"its character set {column.charset} has not all of {value!r}, or is not written here")
    if len(value) > _length(column):
        raise refused(f"{value!r} does not fit {column.column_type}")
    if column.data_type == "char" and value.endswith(" "):
        raise refused("CHAR drops trailing spaces")
    return replace(column, constant=known)


def _needs_value(column: Column) -> bool:
    """Tell whether a row without this column might be refused, or be filled with what nobody has chosen."""
    return not (column.nullable or column.generated or column.filled)


def _without_counted(target: Table, given: Collection[str]) -> Table:
    """Return the target without the keys over a column that it counts by itself. `given`: what rows have values for."""
    counted = {name for name, column in target.by_name.items() if column.counted} - set(given)
    if not counted:
        return target
    kept = (key for key in target.unique_keys if counted.isdisjoint(map(str.lower, key.columns)))
    return replace(target, unique_keys=tuple(kept))


def objection(source: Column, target: Column) -> str | None:
    """Say why `target` cannot keep values of `source`; None if it can, or if strict mode refuses what it cannot."""
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
        case "float" if target.numeric_scale is not None and _more_decimals(source.numeric_scale, target.numeric_scale):
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


def _more_decimals(source: int | None, target: int) -> bool:
    """Tell whether a source's FLOAT(M,D) or DOUBLE(M,D) has more decimals: None has no limit, and 0 is one."""
    return source is None or source > target


def value_signature(column: Column) -> tuple[object, ...]:
    """Return what a canonical value depends on: equal values of two columns with one signature are equal bytes."""
    return (
        column.data_type.lower(),
        column.unsigned,
        column.charset,
        column.numeric_scale,
        column.datetime_precision,
        column.octet_length if column.data_type.lower() in ("binary", "bit") else None,
    )


def _json_as_text(source: Column, target: Column) -> bool:
    """Tell whether JSON documents go to text, as MySQL prints them: MariaDB's JSON is a LONGTEXT."""
    return source.data_type == "json" and target.data_type in ("text", "mediumtext", "longtext")


def family(column: Column) -> str:
    """Return a type's family, whose types hold the same values, some more of them; an unlisted type is its own."""
    return family_of(column.data_type.lower())


def family_of(data_type: str) -> str:
    """Return the family of a type by its name, in lower case."""
    return _FAMILY_OF.get(data_type, data_type)


def _bare(expression: str) -> str:
    """Strip what only one flavour writes: spaces, and parentheses around all of it.

    >>> _bare("(`a` + 1)"), _bare("`a` + 1"), _bare("(`a`) + (`b`)")
    ('`a`+1', '`a`+1', '(`a`)+(`b`)')
    """
    bare = "".join(expression.split())
    inner = bare[1:-1]
    depth = lowest = 0
    for character in inner:
        depth += (character == "(") - (character == ")")
        lowest = min(lowest, depth)
    return inner if bare.startswith("(") and bare.endswith(")") and lowest == 0 else bare


def _differences(pairs: Iterable[tuple[Column, Column]]) -> Iterator[str]:
    for source, target in pairs:
        why = objection(source, target)
        if why is not None:
            yield f"{source.name} {source.column_type} -> {target.column_type} ({why})"


def _lost_keys(target: Table, common: Iterable[str]) -> Iterator[str]:
    """Describe key columns that no row could fill. A target without any key is fine: its rows are counted images."""
    known = set(common)
    for name in target.identity.columns if target.identity else ():
        if name.lower() not in known:
            yield f"{name} is in the target's key and not in the source"


def _length(column: Column) -> int:
    """Return how many characters fit: what the type says, or no more than the bytes that fit."""
    _, _, rest = column.column_type.partition("(")
    length, _, _ = rest.partition(")")
    return int(length) if length.isdigit() else column.octet_length or 0


def _remedy(target: TableName, missing: Iterable[Column]) -> str:
    additions = ", ".join(f"ADD COLUMN {quote(column.name)} {_defined(column)}" for column in missing)
    return f"To add what is missing: ALTER TABLE {target.quoted()} {additions}" if additions else ""


def _defined(column: Column) -> str:
    """Return what the target needs to hold the column's values; without NULL a TIMESTAMP may come to be NOT NULL."""
    charset = f" CHARACTER SET {column.charset}" if family(column) == "text" and column.charset else ""
    return f"{column.column_type}{charset} {'NULL' if column.nullable else 'NOT NULL'}"


def _shown(column: Column) -> str:
    return f"{column.name} {column.column_type}"
