"""What a subtask's rows mean: per source table where its rows go, per target table what tells rows apart.

Made once from schemas and rules, shared with every task, and immutable: a change of schema or rules is another plan.
Rows of all source tables of one target are brought into one column order, so that images can be compared; their
columns must be of the same types, as equal values of different types need not have equal bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_dm.engine.errors import DmError, NotSupportedYet, Scope
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.mapping import TableMapping, map_table
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.schema.codec import Row, Value, codec_for
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.sync.change import Key
from airflow_provider_dm.engine.target.table_schema import TableSchema


@dataclass(eq=False)
class UnknownTable(DmError):
    """The log has rows of a table that the rules allow and nobody has described."""

    table: str

    code: ClassVar[str] = "DM-6030"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "the log has rows of {table}, which the rules allow but which was not there at the start."
    hint: ClassVar[str] = "Leave it out in the block-allow list, or start the task again with a full migration."


@dataclass(eq=False)
class TargetTableMissing(DmError):
    """A route ends at a table that is not there."""

    table: str

    code: ClassVar[str] = "DM-6031"
    scope: ClassVar[Scope] = Scope.DOWNSTREAM
    what: ClassVar[str] = "the target has no table {table}."
    hint: ClassVar[str] = "Create it like the source's table, or run the full migration, which does so."


@dataclass(frozen=True)
class SourcePart:
    """One source table: the index of its target, and how its columns are brought into the target part's order."""

    table: Table
    target: int
    order: tuple[int, ...] | None
    """Indexes into this table's rows; None where the order is the same."""
    skip_until: str = ""


@dataclass(frozen=True)
class TargetPart:
    """One target table. All indexes are into rows in the column order of `mapping.source`."""

    mapping: TableMapping
    key: tuple[int, ...] | None
    """The identity key; None: rows are counted images."""
    hashed: tuple[int, ...]
    """The columns that decide the bucket. Empty: the table is one bucket."""
    unique: tuple[tuple[int, ...], ...]
    """The values of all further unique keys. For a key over expressions: the whole row."""

    @property
    def name(self) -> TableName:
        return self.mapping.target.name

    @property
    def needed(self) -> frozenset[int]:
        """The columns whose values decide what is written: all but those that the target computes outside of keys."""
        return frozenset(self.mapping.written).union(self.key or (), *self.unique)

    def row_of(self, key: Key, before: Row | None, after: Row | None) -> Row:
        """A row with this key: an image, or where there is none, one of which only the key is known."""
        image = after if after is not None else before
        if image is not None:
            return image
        row: list[Value] = [None] * len(self.mapping.source.columns)
        values = key if isinstance(key, tuple) else (key,)
        for number, value in zip(self.key or (), values, strict=True):
            row[number] = value
        return tuple(row)

    @property
    def key_columns(self) -> tuple[str, ...]:
        return self.mapping.target.identity.columns if self.mapping.target.identity else ()


@dataclass(frozen=True)
class SyncPlan:
    """The plan of one subtask. Picklable; `sources` is the sequence that RowChange.table points into."""

    sources: tuple[SourcePart, ...]
    targets: tuple[TargetPart, ...]
    buckets: int
    rules: BlockAllowRules

    def fingerprint(self) -> str:
        """Equal for plans by which the same log is folded and written in the same way."""
        return hashlib.sha256(repr((self.sources, self.targets, self.buckets, self.spare())).encode()).hexdigest()

    def tables(self) -> tuple[Table, ...]:
        return tuple(part.table for part in self.sources)

    def skip_until(self) -> tuple[str, ...]:
        return tuple(part.skip_until for part in self.sources)

    def spare(self) -> tuple[tuple[int, ...], ...]:
        """Of each source table: the columns whose values are not needed, and may be missing in the log."""
        return tuple(self._spare(part) for part in self.sources)

    def _spare(self, part: SourcePart) -> tuple[int, ...]:
        needed, order = self.targets[part.target].needed, part.order or range(len(part.table.columns))
        return tuple(sorted(column for index, column in enumerate(order) if index not in needed))

    def wanted(self) -> Wanted:
        """A function for the decoder: table name -> index, None where the rules exclude it."""
        return Wanted({part.table.name: index for index, part in enumerate(self.sources)}, self.rules)


@dataclass(frozen=True)
class Wanted:
    """Table name -> index into the plan's sources, or None. Raises UnknownTable."""

    known: dict[TableName, int]
    rules: BlockAllowRules

    def __call__(self, name: TableName) -> int | None:
        index = self.known.get(name)
        if index is None and self.rules.allows(name):
            raise UnknownTable(str(name))
        return index


def make_plan(
    schemas: Iterable[TableSchema],
    targets: Mapping[TableName, Table],
    *,
    rules: BlockAllowRules,
    router: Router,
    buckets: int,
) -> SyncPlan:
    """The plan for these source tables. Raises TargetTableMissing, TargetTableMismatch, AmbiguousRoute,
    UnsupportedColumnType, NotSupportedYet (shards whose columns differ in type)."""
    sources: list[SourcePart] = []
    parts: list[TargetPart] = []
    index_of: dict[TableName, int] = {}
    for schema in schemas:
        mapping = _mapping(schema.table, targets, router)
        name = mapping.target.name
        if name not in index_of:
            index_of[name] = len(parts)
            parts.append(target_part(mapping))
        first = parts[index_of[name]].mapping.source
        sources.append(SourcePart(schema.table, index_of[name], _column_order(schema.table, first), schema.skip_until))
    return SyncPlan(tuple(sources), tuple(parts), buckets, rules)


def target_part(mapping: TableMapping) -> TargetPart:
    """What tells the rows of a target table apart."""
    index = {column.name.lower(): number for number, column in enumerate(mapping.source.columns)}
    identity = mapping.target.identity
    further = [key for key in mapping.target.unique_keys if identity is None or key.name != identity.name]
    everything = tuple(range(len(mapping.source.columns)))
    return TargetPart(
        mapping=mapping,
        key=tuple(index[name.lower()] for name in identity.columns) if identity else None,
        hashed=_hashed(mapping, identity, index) if identity else everything,
        unique=tuple(_unique_values(key, index, everything) for key in further),
    )


def _unique_values(key: Index, index: Mapping[str, int], everything: tuple[int, ...]) -> tuple[int, ...]:
    if key.expression or any(name.lower() not in index for name in key.columns):
        return everything
    return tuple(index[name.lower()] for name in key.columns)


def _hashed(mapping: TableMapping, identity: Index, index: Mapping[str, int]) -> tuple[int, ...]:
    """Key columns whose values, where the target may hold two for equal, have one common form."""
    prefixes = identity.prefixes or (None,) * len(identity.columns)
    usable = []
    for name, prefix in zip(identity.columns, prefixes, strict=True):
        source = mapping.source.columns[index[name.lower()]]
        target = mapping.target.column(name)
        forms = (codec_for(mapping.source.name, source).key_form, codec_for(mapping.target.name, target).key_form)
        if prefix is None and None not in forms:
            usable.append(index[name.lower()])
    return tuple(usable)


def _mapping(table: Table, targets: Mapping[TableName, Table], router: Router) -> TableMapping:
    name = router.route(table.name)
    if name not in targets:
        raise TargetTableMissing(str(name))
    return map_table(table, targets[name])


def _column_order(table: Table, first: Table) -> tuple[int, ...] | None:
    position = {column.name.lower(): number for number, column in enumerate(table.columns)}
    order = tuple(position[column.name.lower()] for column in first.columns)
    for number, column in zip(order, first.columns, strict=True):
        if _signature(table.columns[number]) != _signature(column):
            raise NotSupportedYet(
                "merging shards whose columns have different types",
                f"column {column.name} of {table.name} and {first.name}",
                "Make the types equal, or route the tables to different targets.",
            )
    return None if order == tuple(range(len(order))) else order


def _signature(column: Column) -> Sequence[object]:
    return (
        column.data_type.lower(),
        column.unsigned,
        column.charset,
        column.numeric_scale,
        column.datetime_precision,
        column.octet_length if column.data_type.lower() in ("binary", "bit") else None,
    )
