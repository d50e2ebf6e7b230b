"""The parts of a plan: of a source table where its rows go, of a target table what tells its rows apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import TableMapping, family
from airflow_provider_dm.engine.rules.row_filter import RowFilter
from airflow_provider_dm.engine.schema.codec import Row, Value, codec_for
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.schema.text_folds import TextFold
from airflow_provider_dm.engine.sync.coverage import ALL, Coverage
from airflow_provider_dm.engine.sync.plan.change import Key


@dataclass(frozen=True)
class SourcePart:
    """One source table: the index of its target, and how its columns are brought into the target part's order."""

    table: Table
    target: int
    order: tuple[int, ...] | None
    """Indexes into this table's rows; None where the order is the same."""
    skip_until: str = ""
    filter: RowFilter | None = None
    """Which changes count; None: all."""
    added: tuple[bytes, ...] = ()
    """What routing adds to each row, behind the table's own columns."""
    coverage: Coverage = ALL
    """The keys whose rows the target has: never NONE, as such a table is none of a plan's sources (`SyncPlan.held`)."""
    shard: TableName | None = None
    """The newest name of the table, where its rows are older and have another one; None: the same."""

    @property
    def owner_name(self) -> TableName:
        """Return the name by which rows of the table that wait are known."""
        return self.shard or self.table.name

    @property
    def width(self) -> int:
        """Return the number of values of a row, with those that are added."""
        return len(self.table.columns) + len(self.added)

    def whole(self, row: Row | None) -> Row | None:
        """Return a row of the log with what is added."""
        return row if row is None else row + self.added

    @property
    def own_order(self) -> tuple[int, ...] | None:
        """The inverse: the places of this table's columns in rows of the target part's order."""
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
    """The values of all further unique keys. For a key over expressions: the whole row."""
    folds: tuple[tuple[int, TextFold], ...] = ()
    """Those of `hashed` whose text is distinguished by a collation's weights."""

    @property
    def name(self) -> TableName:
        return self.mapping.target.name

    @property
    def needed(self) -> frozenset[int]:
        """The columns whose values decide what is written: all but those that the target computes outside of keys."""
        return frozenset(self.mapping.written).union(self.key or (), *self.unique)

    def decisive(self, *, in_order: bool) -> tuple[object, ...]:
        """Return what decides in which bucket and when a change is written. `in_order`: changes are not folded, so that
        those which meet in any unique key keep their order (sync/write/dependence.py)."""
        keys: tuple[object, ...] = ()
        if in_order:
            target = self.mapping.target
            names = {name.lower() for key in target.unique_keys for name in key.columns}
            keys = (target.unique_keys, [one for one in target.columns if one.name.lower() in names])
        return (self.name, self.key, self.hashed, self.folds, self.unique, *keys)

    def row_of(self, key: Key, before: Row | None, after: Row | None) -> Row:
        """Return a row with this key: an image, or where there is none, one of which only the key is known."""
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
    """Return what tells the rows of a target table apart. `folds`: those of the target's collations."""
    index, identity, further = _places(mapping), mapping.target.identity, _further_keys(mapping)
    everything = tuple(range(len(mapping.source.columns)))
    known = folds or {}

    def has_form(source: Column, target: Column) -> bool:
        return _fold(source, target, known) is not None or has_form_of_its_own(mapping, source, target)

    hashed = told_apart(mapping, identity, index, has_form) if identity else everything
    return TargetPart(
        mapping=mapping,
        key=tuple(index[name.lower()] for name in identity.columns) if identity else None,
        hashed=hashed,
        unique=tuple(_unique_values(key, mapping.target, index, everything) for key in further),
        folds=_folds(mapping, hashed, known) if identity else (),
    )


def _places(mapping: TableMapping) -> dict[str, int]:
    return {column.name.lower(): number for number, column in enumerate(mapping.source.columns)}


def _further_keys(mapping: TableMapping) -> list[Index]:
    identity = mapping.target.identity
    return [key for key in mapping.target.unique_keys if identity is None or key.name != identity.name]


def _unique_values(key: Index, target: Table, index: Mapping[str, int], everything: tuple[int, ...]) -> tuple[int, ...]:
    """Return the columns of which the key's values are made. What only the target has, no change of a row changes,
    unless it is computed."""
    own = [target.column(name) for name in key.columns if name.lower() not in index]
    if key.expression or any(column.generated for column in own):
        return everything
    return tuple(index[name.lower()] for name in key.columns if name.lower() in index)


def text_collations(table: Table) -> Iterator[str]:
    """Yield the collations of a target table's identity key."""
    identity = table.identity
    for name in identity.columns if identity is not None else ():
        column = table.column(name)
        if family(column) == "text" and column.collation is not None:
            yield column.collation


FormKnown: TypeAlias = Callable[[Column, Column], bool]


def told_apart(mapping: TableMapping, key: Index, index: Mapping[str, int], has_form: FormKnown) -> tuple[int, ...]:
    """Return the key columns whose values, where the target may hold two for equal, have one common form.

    `index`: the places of the columns in the source's rows, by their names in lower case.
    """
    prefixes = key.prefixes or (None,) * len(key.columns)
    return tuple(
        index[name.lower()]
        for name, prefix in zip(key.columns, prefixes, strict=True)
        if prefix is None and has_form(mapping.source.columns[index[name.lower()]], mapping.target.column(name))
    )


def has_form_of_its_own(mapping: TableMapping, source: Column, target: Column) -> bool:
    """Tell whether both columns' codecs have a form."""
    return (
        codec_for(mapping.source.name, source).key_form is not None
        and codec_for(mapping.target.name, target).key_form is not None
    )


def _fold(source: Column, target: Column, folds: Mapping[str, TextFold]) -> TextFold | None:
    fold = folds.get(target.collation or "") if family(source) == family(target) == "text" else None
    return fold if fold is not None and fold.takes(source.charset) else None


def _folds(
    mapping: TableMapping, hashed: Sequence[int], folds: Mapping[str, TextFold]
) -> tuple[tuple[int, TextFold], ...]:
    columns = ((number, mapping.source.columns[number]) for number in hashed)
    found = ((number, _fold(column, mapping.target.column(column.name), folds)) for number, column in columns)
    return tuple((number, fold) for number, fold in found if fold is not None)
