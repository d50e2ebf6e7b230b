"""The mapping of a source table to the target table that its rows are routed to.

A route may add columns (`extract-table` and the like) with one value in all rows of a source table: they count as the
source's last columns, with the types of the target's columns. The target may have additional columns that it fills by
itself: nullable columns, columns with a default, generated columns and AUTO_INCREMENT. A key over an AUTO_INCREMENT
column of the target alone is left out of the mapping: no row of the source can have its value already, and rows are not
searched by it.

Columns are matched by name, in any order, and each pair of types must return every written value unchanged, or reject
it in the target's strict mode. Values that strict mode accepts and changes (fewer decimals, fewer fractional seconds,
trailing spaces cut off, BINARY padded to another length, a float for a double) are refused here, before any row. A JSON
column keeps the value of a document and not its text, so `verify` compares values there.

A column that the target generates takes no values; the source has to generate it, too. The result may depend on the
session: on div_precision_increment, on the time zone, on sql_mode. So it is compared with the source's value when it is
written (`downstream.row_statements`), except for expressions that are certain to be equal."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.rules.errors import ExtractNotPossible, TargetTableMismatch
from airflow_provider_dm.engine.schema.codec import BINARIES, GEOMETRIES, TEXTS
from airflow_provider_dm.engine.schema.model import Column, Table
from airflow_provider_dm.engine.schema.strings import charset_bytes

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
_EMPTY_MEMBER: Final = re.compile(r"[(,]''[,)]")
_WIDE_BIT: Final = re.compile(r"bit\((5[7-9]|6\d)\)", re.IGNORECASE)
"""Also found in a member such as `x,',y`."""
_TEMPORAL: Final = frozenset({"time", "datetime", "timestamp"})


@dataclass(frozen=True)
class TableMapping:
    """A source table and its target, which has the source's columns in any order, and may have others."""

    source: Table
    target: Table

    @property
    def target_columns(self) -> tuple[Column, ...]:
        """The target's columns in the order of the source's row images."""
        return tuple(self.target.column(column.name) for column in self.source.columns)

    @cached_property
    def written(self) -> tuple[int, ...]:
        """The positions in the source's rows of written values: all but generated columns of the target."""
        return tuple(index for index, column in enumerate(self.target_columns) if not column.generated)

    @cached_property
    def computed(self) -> tuple[int, ...]:
        """The positions in the source's rows of the columns that the target generates."""
        return tuple(index for index, column in enumerate(self.target_columns) if column.generated)

    @cached_property
    def uncertain(self) -> tuple[int, ...]:
        """The positions in `computed` whose values may differ from the source's."""
        return tuple(index for index in self.computed if not self._is_certain(index))

    @cached_property
    def key_places(self) -> tuple[int, ...]:
        """The positions in the source's rows of the target's identity key; empty if the target has none."""
        identity = self.target.identity
        return tuple(self.source.column(name).position for name in identity.columns) if identity else ()

    @cached_property
    def found_by(self) -> tuple[int, ...] | None:
        """The positions in the source's rows of the identity key by which a row of the target is found.

        None: the target has no key of written values."""
        return self.key_places if self.key_places and not {*self.key_places} & {*self.computed} else None

    def _is_certain(self, index: int) -> bool:
        """Return True if the value depends on the row alone: sums and products of integers and decimals, and the same
        expression on both sides."""
        ours, theirs = (_bare(columns[index].expression) for columns in (self.source.columns, self.target_columns))
        names = [name.replace("``", "`") for name in _NAME.findall(theirs)]
        if ours != theirs or _SUMS.fullmatch(theirs) is None:
            return False
        sides = (self.source, self.target)
        return all(family(side.column(name)) in ("integer", "decimal") for name in names for side in sides)

    @cached_property
    def enums(self) -> tuple[int, ...]:
        return tuple(index for index in self.written if self.source.columns[index].data_type == "enum")

    @cached_property
    def enums_with_empty(self) -> tuple[int, ...]:
        """The positions of ENUMs that may have an empty member in the target."""
        return tuple(index for index in self.enums if _EMPTY_MEMBER.search(self.target_columns[index].column_type))

    @cached_property
    def has_wide_bits(self) -> bool:
        """True if a BIT column of the target has eight bytes."""
        return any(_WIDE_BIT.fullmatch(self.target_columns[index].column_type) for index in self.written)


def map_table(
    source: Table, target: Table, extracted: Mapping[str, str] | None = None, *, created_anew: bool = False
) -> TableMapping:
    """Map a source table to a target table. `created_anew`: the task would create the target if it were missing.

    `extracted`: the target's columns that routing fills, with their values.
    Raises TargetTableMismatch, ExtractNotPossible.
    """
    added = (extracted or {}).items()
    source = source.with_constants(_constant(source, target, name, value) for name, value in added)
    theirs, ours = target.by_name, source.by_name
    missing = tuple(_shown(column) for name, column in ours.items() if name not in theirs)
    # The server might reject a row without such a column, or fill it with an arbitrary value.
    further = (column for name, column in theirs.items() if name not in ours)
    extra = tuple(_shown(column) for column in further if not (column.nullable or column.generated or column.filled))
    target = _without_auto_increment(target, ours.keys())
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
    """Refuse shards with different columns: values would be lost or invented."""
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
        raise refused("the source table has a column of that name")
    try:
        column = target.column(name)
    except KeyError:
        raise refused("the target has no such column") from None
    if column.generated:
        raise refused("the target generates it")
    if family(column) == "integer" and re.fullmatch(r"0|[1-9]\d{0,18}", value):
        bits = _BITS[column.data_type.lower()]
        if int(value) >= 1 << (bits if column.unsigned else bits - 1):
            raise refused(f"{value} does not fit {column.column_type}")
        return replace(column, constant=value.encode())
    if family(column) != "text":
        raise refused(f"it is {column.column_type}, but a value from a name is text ({value!r})")
    known = charset_bytes(value, column.charset)
    if known is None:
        raise refused(f"its character set {column.charset} lacks a character of {value!r}, or is not supported")
    if len(value) > _length(column):
        raise refused(f"{value!r} does not fit {column.column_type}")
    if column.data_type == "char" and value.endswith(" "):
        raise refused("CHAR drops trailing spaces")
    return replace(column, constant=known)


def _without_auto_increment(target: Table, given: Collection[str]) -> Table:
    """Return the target without keys over its own AUTO_INCREMENT column. `given`: the columns with written values."""
    counted = {name for name, column in target.by_name.items() if column.auto_increment} - set(given)
    if not counted:
        return target
    kept = (key for key in target.unique_keys if counted.isdisjoint(map(str.lower, key.columns)))
    return replace(target, unique_keys=tuple(kept))


def objection(source: Column, target: Column) -> str | None:
    """Return why `target` cannot keep values of `source`; None if it keeps or, in strict mode, rejects each value.

    A NULL in a TIMESTAMP NOT NULL counts as replaced, as by MariaDB, although MySQL and TiDB reject it.
    """
    if target.generated:
        return None if source.generated else "the target generates it"
    numbers = target.auto_increment and not source.auto_increment
    if source.nullable and (numbers or (target.data_type == "timestamp" and not target.nullable)):
        return "the target would replace a NULL by a number or the current time"
    if family(source) != family(target) and not (_json_as_text(source, target) or _text_as_json(source, target)):
        return "a different kind of value"
    if source.charset == "gb18030" != target.charset:
        return f"the character set {source.charset} is not converted"
    match family(source):
        case "decimal" if (target.numeric_scale or 0) < (source.numeric_scale or 0):
            return "fewer decimals would round"
        case "float" if target.data_type == "float" and source.data_type != "float":
            return "single precision would round"
        case "float" if target.numeric_scale is not None and (  # without a scale there is no limit; 0 is a limit
            source.numeric_scale is None or source.numeric_scale > target.numeric_scale
        ):
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


def value_signature(column: Column) -> tuple[object, ...]:
    """Return the properties that a canonical value depends on: with equal signatures, equal values are equal bytes."""
    return (
        column.data_type.lower(),
        column.unsigned,
        column.charset,
        column.numeric_scale,
        column.datetime_precision,
        column.octet_length if column.data_type.lower() in ("binary", "bit") else None,
    )


def _json_as_text(source: Column, target: Column) -> bool:
    """Return True if JSON documents are written to text, in MySQL's format: MariaDB's JSON is a LONGTEXT."""
    return source.data_type == "json" and target.data_type in ("text", "mediumtext", "longtext")


def _text_as_json(source: Column, target: Column) -> bool:
    """Return True if MariaDB's JSON, a LONGTEXT, is written to a JSON column, which refuses other text in any mode."""
    return source.data_type == "longtext" and source.collation == "utf8mb4_bin" and target.data_type == "json"


def family(column: Column) -> str:
    """Return the family of a column's type, whose types hold the same kind of values; an unlisted type is its own."""
    return type_family(column.data_type.lower())


def type_family(data_type: str) -> str:
    """Return the family of a type, given by its name in lower case."""
    return _FAMILY_OF.get(data_type, data_type)


def _bare(expression: str) -> str:
    """Strip differences in notation between flavours: spaces, and parentheses around the whole expression.

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
    """Yield key columns that no row of the source could fill. A target without any key is fine: images are counted."""
    known = set(common)
    for name in target.identity.columns if target.identity else ():
        if name.lower() not in known:
            yield f"{name} is in the target's key and not in the source"


def _length(column: Column) -> int:
    """Return how many characters fit: the declared length, or the maximum bytes."""
    _, _, rest = column.column_type.partition("(")
    length, _, _ = rest.partition(")")
    return int(length) if length.isdigit() else column.octet_length or 0


def _remedy(target: TableName, missing: Iterable[Column]) -> str:
    additions = ", ".join(f"ADD COLUMN {quote(column.name)} {_defined(column)}" for column in missing)
    return f"To add the missing columns: ALTER TABLE {target.quoted()} {additions}" if additions else ""


def _defined(column: Column) -> str:
    """Return the definition for the target; without an explicit NULL a TIMESTAMP might become NOT NULL."""
    charset = f" CHARACTER SET {column.charset}" if family(column) == "text" and column.charset else ""
    return f"{column.column_type}{charset} {'NULL' if column.nullable else 'NOT NULL'}"


def _shown(column: Column) -> str:
    return f"{column.name} {column.column_type}"
