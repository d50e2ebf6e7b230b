"""The parts of a plan: the target of each source table, and the identity and the changes of rows in a target table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import TableMapping, family
from airflow_provider_dm.engine.rules.row_filter import RowFilter
from airflow_provider_dm.engine.schema.codec import Row, Value, codec_for
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.schema.text_folds import TextFold
from airflow_provider_dm.engine.sync.coverage import ALL, Coverage

Key: TypeAlias = Value | tuple[Value, ...]
"""The canonical values of the identity key: a tuple, or the value itself if the key has one column."""


class Change(NamedTuple):
    """The rows of one key before and after a change; None: no row.

    INSERT is (None, a), DELETE (b, None), UPDATE (b, a). Two successive changes of a key compose to one. Composition is
    associative, so a log can be cut anywhere, folded in pieces, and the pieces combined. (None, None) is a value: the
    row was inserted and deleted. Its effect on the target depends on the mode (`causality`).

    An UPDATE that changes the key is a DELETE of the old key and an INSERT of the new one. A row of a table without a
    key has no identity: it is a signed count of its image (`compactor`).
    """

    before: Row | None
    after: Row | None


@dataclass(frozen=True)
class SourcePart:
    """One source table: the index of its target, and the mapping of its columns to the target part's order."""

    table: Table
    target: int
    order: tuple[int, ...] | None
    """Indexes into this table's rows; None if the order is the same."""
    skip_until: str = ""
    """Changes up to this location are skipped, as DM has applied them."""
    filter: RowFilter | None = None
    """The filter of changes; None: all are applied."""
    added: tuple[bytes, ...] = ()
    """The values that routing adds to each row, after the table's own columns."""
    coverage: Coverage = ALL
    """The covered keys. Never NONE: such a table is not in a plan's sources (`SyncPlan.held`)."""
    shard: TableName | None = None
    """The current name of the table, if its rows in a re-sync have an older name; None: the same name."""

    @property
    def owner_name(self) -> TableName:
        """Return the name under which contested rows of the table are stored."""
        return self.shard or self.table.name

    @property
    def width(self) -> int:
        """Return the number of values of a row, with the added values."""
        return len(self.table.columns) + len(self.added)

    def whole(self, row: Row | None) -> Row | None:
        """Return a row of the log with the added values."""
        return row if row is None else row + self.added

    @property
    def own_order(self) -> tuple[int, ...] | None:
        """The inverse of `order`: the indexes of this table's columns in rows of the target part's order."""
        return None if self.order is None else tuple(sorted(range(len(self.order)), key=self.order.__getitem__))


@dataclass(frozen=True)
class TargetPart:
    """One target table. All indexes are into rows in the column order of `mapping.source`."""

    mapping: TableMapping
    key: tuple[int, ...] | None
    """The identity key; None: rows are counted images."""
    hashed: tuple[int, ...]
    """The columns that decide the bucket. Empty: the table is one bucket."""
    unique: tuple[tuple[int, ...], ...]
    """The columns of each further unique key. For a key over expressions: all columns."""
    folds: tuple[tuple[int, TextFold], ...] = ()
    """The columns of unique keys whose text is compared by a collation's weights."""

    @property
    def name(self) -> TableName:
        return self.mapping.target.name

    @property
    def needed(self) -> frozenset[int]:
        """The columns whose values are needed: written columns and key columns, without other generated columns."""
        return frozenset(self.mapping.written).union(self.key or (), *self.unique)

    @property
    def left_out(self) -> tuple[int, ...]:
        """The columns that the target computes and whose values are not needed: an Image has them in `computed`."""
        return tuple(index for index in self.mapping.computed if index not in self.needed)

    def decisive(self, *, in_order: bool) -> tuple[object, ...]:
        """Return the facts that decide in which bucket and in which order changes are written.

        `in_order`: changes are not folded, and keep their order if they share a unique value (write/dependence.py).
        """
        target = self.mapping.target
        keys: tuple[object, ...] = tuple(map(self.known_values, self.further_keys))
        if in_order:
            names = {name.lower() for key in target.unique_keys for name in key.columns}
            keys = (target.unique_keys, [column for column in target.columns if column.name.lower() in names])
        return (self.name, self.key, self.hashed, self.folds, self.unique, *keys)

    @property
    def further_keys(self) -> list[Index]:
        """Return the keys whose columns are in `unique`."""
        return _further_keys(self.mapping)

    def known_values(self, key: Index) -> tuple[int, ...] | None:
        """Return the columns of a unique key whose forms are equal for values that the target may compare as equal;
        None if the target computes the key's values."""
        index = places_of(self.mapping)
        if key.expression or any(name.lower() not in index for name in key.columns):
            return None
        folded = {number for number, _ in self.folds}

        def has_form(source: Column, target: Column) -> bool:
            return index[source.name.lower()] in folded or has_key_form(self.mapping, source, target)

        return columns_with_form(self.mapping, key, has_form)

    def row_of(self, key: Key, before: Row | None, after: Row | None) -> Row:
        """Return a row with this key: `after`, else `before`, else a row with only the key's values."""
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


def target_part(mapping: TableMapping, folds: Mapping[str, TextFold] | None = None) -> TargetPart:
    """Return the target part of a mapping. `folds`: by name of the target's collation."""
    index, identity, further = places_of(mapping), mapping.target.identity, _further_keys(mapping)
    everything = tuple(range(len(mapping.source.columns)))
    known = folds or {}

    def has_form(source: Column, target: Column) -> bool:
        return _fold(source, target, known) is not None or has_key_form(mapping, source, target)

    hashed = columns_with_form(mapping, identity, has_form) if identity else everything
    compared = {index[name.lower()] for key in further for name in key.columns if name.lower() in index}
    return TargetPart(
        mapping=mapping,
        key=tuple(index[name.lower()] for name in identity.columns) if identity else None,
        hashed=hashed,
        unique=tuple(_unique_values(key, mapping.target, index, everything) for key in further),
        folds=_folds(mapping, sorted(compared.union(hashed)), known) if identity else (),
    )


def places_of(mapping: TableMapping) -> dict[str, int]:
    """Return the indexes of the columns in the source's rows, by their names in lower case."""
    return {column.name.lower(): number for number, column in enumerate(mapping.source.columns)}


def _further_keys(mapping: TableMapping) -> list[Index]:
    identity = mapping.target.identity
    return [key for key in mapping.target.unique_keys if identity is None or key.name != identity.name]


def _unique_values(key: Index, target: Table, index: Mapping[str, int], everything: tuple[int, ...]) -> tuple[int, ...]:
    """Return the source columns of a unique key. A column of the target alone is constant, unless it is generated."""
    own = [target.column(name) for name in key.columns if name.lower() not in index]
    if key.expression or any(column.generated for column in own):
        return everything
    return tuple(index[name.lower()] for name in key.columns if name.lower() in index)


def text_collations(table: Table) -> Iterator[str]:
    """Yield the collations of a target table's unique keys."""
    for name in {name for key in table.unique_keys for name in key.columns}:
        column = table.column(name)
        if family(column) == "text" and column.collation is not None:
            yield column.collation


def columns_with_form(mapping: TableMapping, key: Index, has_form: Callable[[Column, Column], bool]) -> tuple[int, ...]:
    """Return the key columns with a form that is equal for all values that the target may compare as equal."""
    index = places_of(mapping)
    prefixes = key.prefixes or (None,) * len(key.columns)
    return tuple(
        index[name.lower()]
        for name, prefix in zip(key.columns, prefixes, strict=True)
        if prefix is None and has_form(mapping.source.columns[index[name.lower()]], mapping.target.column(name))
    )


def has_key_form(mapping: TableMapping, source: Column, target: Column) -> bool:
    """Return True if the codecs of both columns have a key form."""
    return (
        codec_for(mapping.source.name, source).key_form is not None
        and codec_for(mapping.target.name, target).key_form is not None
    )


def _fold(source: Column, target: Column, folds: Mapping[str, TextFold]) -> TextFold | None:
    fold = folds.get(target.collation or "") if family(source) == family(target) == "text" else None
    return fold if fold is not None and fold.supports(source.charset) else None


def _folds(
    mapping: TableMapping, hashed: Sequence[int], folds: Mapping[str, TextFold]
) -> tuple[tuple[int, TextFold], ...]:
    columns = ((number, mapping.source.columns[number]) for number in hashed)
    folded = ((number, _fold(column, mapping.target.column(column.name), folds)) for number, column in columns)
    return tuple((number, fold) for number, fold in folded if fold is not None)
