"""What a subtask's rows mean: per source table where its rows go, per target table what tells rows apart.

Made once from schemas and rules, shared with every task, and immutable: a change of schema or rules is another plan.
Rows of all source tables of one target are brought into one column order, so that images can be compared; their
columns must be of the same types, as equal values of different types need not have equal bytes.

Changes are folded apart for each source table of a merged target (`merge`), since a row that moves from one to the
other is no change of one row. Source tables whose changes are folded together go by the name of the first of them,
their *lead*: without a key, where images are counted, or where the user lets rows overwrite each other.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from typing import ClassVar, Final, TypeAlias

from airflow_provider_dm.engine.binlog.maps import WantedTable, WantedTables
from airflow_provider_dm.engine.errors import MIGRATE_AGAIN, DmError, NotSupportedYet, Scope
from airflow_provider_dm.engine.merge.overwritable import can_be_written_over
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.keyset import KeyOrder
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.kept_keys import check_keys_kept
from airflow_provider_dm.engine.rules.mapping import (
    TableMapping,
    check_same_columns,
    family,
    map_table,
    value_signature,
)
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.rules.row_filter import Loss, RowFilter, check_merged, row_filter
from airflow_provider_dm.engine.rules.subtask import SubtaskRules
from airflow_provider_dm.engine.schema.codec import Row, Value, codec_for
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.schema.text_folds import TextFold
from airflow_provider_dm.engine.sync.change import Key
from airflow_provider_dm.engine.target.table_schema import TableSchema

GROUPS_VERSION: Final = 1
"""Of the way in which changes that depend on each other are found, and get their bucket (sync/dependence.py)."""


@dataclass(eq=False)
class UnknownTable(DmError):
    """The log has rows of a table that the rules allow and nobody has described."""

    table: str

    code: ClassVar[str] = "DM-6030"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "the log has rows of {table}, which the rules allow but which was not there at the start."
    hint: ClassVar[str] = f"Leave it out by block-allow-list, or {MIGRATE_AGAIN}."


@dataclass(eq=False)
class TargetTableMissing(DmError):
    """A route ends at a table that is not there."""

    table: str

    code: ClassVar[str] = "DM-6031"
    scope: ClassVar[Scope] = Scope.DOWNSTREAM
    what: ClassVar[str] = "the target has no table {table}."
    hint: ClassVar[str] = f"Create it like the source's table if nothing was written to it yet; else {MIGRATE_AGAIN}."


@dataclass(frozen=True)
class SourcePart:
    """One source table: the index of its target, and how its columns are brought into the target part's order."""

    table: Table
    target: int
    order: tuple[int, ...] | None
    """Indexes into this table's rows; None where the order is the same."""
    skip_until: str = ""
    filter: RowFilter | None = field(default=None, repr=False)
    """Which changes count; None: all."""
    added: tuple[bytes, ...] = field(default=(), repr=False)
    """What routing adds to each row, behind the table's own columns."""

    @property
    def width(self) -> int:
        """Return the number of values of a row, with those that are added."""
        return len(self.table.columns) + len(self.added)

    def whole(self, row: Row | None) -> Row | None:
        """Return a row of the log with what is added."""
        return row if row is None else row + self.added

    @property
    def own_order(self) -> tuple[int, ...] | None:
        """The way back: where this table's columns stand in rows of the target part's order."""
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
    folds: tuple[tuple[int, TextFold], ...] = field(default=(), repr=False)
    """Those of `hashed` whose text is told apart by a collation's weights."""

    @property
    def name(self) -> TableName:
        return self.mapping.target.name

    @property
    def needed(self) -> frozenset[int]:
        """The columns whose values decide what is written: all but those that the target computes outside of keys."""
        return frozenset(self.mapping.written).union(self.key or (), *self.unique)

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

    def without_folds(self) -> TargetPart:
        """Return this part as releases had it that knew no folds."""
        index, identity = _places(self.mapping), self.mapping.target.identity
        has_form = partial(has_form_of_its_own, self.mapping)
        hashed = told_apart(self.mapping, identity, index, has_form) if identity else self.hashed
        return replace(self, hashed=hashed, folds=())

    def as_before(self) -> TargetPart:
        """Return this part as releases had it that knew no folds either, and took columns which only the target has for
        changed by any change."""
        index, everything = _places(self.mapping), tuple(range(len(self.mapping.source.columns)))
        further = _further_keys(self.mapping)
        unique = tuple(
            _unique_values(key, self.mapping.target, index, everything)
            if all(name.lower() in index for name in key.columns)
            else everything
            for key in further
        )
        return replace(self.without_folds(), unique=unique)

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
    merged: frozenset[int] = frozenset()
    """Indexes of the targets that take rows of other source tables as well, of this source or another, by the law of
    `merge`. It may become more while the subtask runs."""
    owners: tuple[int, ...] = ()
    """Of each source table the number (`target.table_schema.Feeder`); empty: none has one."""
    adopts: bool = False
    """The target was filled by somebody else (task-mode incremental): see `merge.writer.OwnerWriter`, and
    merge/joining.py."""
    held: tuple[Table, ...] = ()
    """Tables of the task whose rows are passed over for now (sync/shards.py), as they are at this place of the log."""
    alone: bool = False
    """Rows of other tables are passed over, whatever the rules say: these are applied afterwards."""
    snapshots: frozenset[int] = frozenset()
    """Indexes of the source tables that were copied from one snapshot, so that their rows are exact from `skip_until`
    on."""
    gone: tuple[tuple[TableName, str], ...] = ()
    """Tables that the source had, and had no more where others were copied again: rows up to that place are passed
    over."""
    compact: bool = True
    """Changes are folded; else each is written (sync/dependence.py)."""
    whole: bool = False
    """Transactions of the source are written whole and in their order (sync/transactional.py)."""
    safe: bool = False
    """With `safe-mode: true`: rows of merged tables may be written over each other (sync/last_wins.py)."""

    def fingerprint(self) -> str:
        """Return a hash that is equal for plans by which the same log is folded and written in the same way."""
        made_of: tuple[object, ...] = (self.sources, self.targets, self.buckets, self.optional_columns())
        if apart := self._folded_apart():
            made_of = (*made_of, apart)
        if filters := self.filters:
            made_of = (*made_of, filters)
        if any(source.added for source in self.sources):
            made_of = (*made_of, tuple(source.added for source in self.sources))
        if (self.compact, self.whole) != (True, False):
            made_of = (*made_of, ("compact", self.compact, "whole", self.whole, GROUPS_VERSION))
        if folds := [part.folds for part in self.targets if part.folds]:
            made_of = (*made_of, folds)
        if self.snapshots:
            made_of = (*made_of, sorted(self.snapshots))
        if self.contended:
            made_of = (*made_of, ("contended", sorted(self.contended), GROUPS_VERSION))
        return hashlib.sha256(repr(made_of).encode()).hexdigest()

    def _folded_apart(self) -> tuple[int, ...]:
        """Return the targets for which folding each source table by itself makes a difference."""
        shards = Counter(source.target for source in self.sources)
        return tuple(target for target in sorted(self.merged) if shards[target] > 1)

    def older(self) -> Iterator[SyncPlan]:
        """Yield the plan as older releases had it, the newest first: their half epochs are completed by theirs."""
        without_folds = replace(self, targets=tuple(part.without_folds() for part in self.targets))
        targets = tuple(part.as_before() for part in self.targets)
        before = replace(self, targets=targets, snapshots=frozenset())
        yield without_folds
        yield before
        for one in (self, without_folds, before):
            yield one.folding_together()

    def folding_together(self) -> SyncPlan:
        """Return the plan as releases without `merge` had it."""
        return replace(self, merged=frozenset())

    def in_other_modes(self) -> Iterator[SyncPlan]:
        """Yield the plan as it would be if the user had asked for another way of writing."""
        for compact, whole, safe in product((True, False), (False, True), (False, True)):
            if (compact, whole, safe) != (self.compact, self.whole, self.safe):
                yield replace(self, compact=compact, whole=whole, safe=safe)

    def leads(self) -> tuple[int, ...]:
        """Return for each source table the one that its changes are folded with: itself, or the first of its target."""
        firsts: dict[int, int] = {}
        for index, source in enumerate(self.sources):
            firsts.setdefault(source.target, index)
        return tuple(
            index if source.target in self.merged else firsts[source.target]
            for index, source in enumerate(self.sources)
        )

    @cached_property
    def filters(self) -> dict[int, RowFilter]:
        """Return the filters, by source table, of those that have one."""
        return {index: source.filter for index, source in enumerate(self.sources) if source.filter is not None}

    @cached_property
    def losses(self) -> dict[int, Loss]:
        """Return what filters may take away, by lead; of tables that are folded together, the most."""
        leads = self.leads()
        found: dict[int, Loss] = {}
        for index, one in self.filters.items():
            found[leads[index]] = max(one.loss, found.get(leads[index], Loss.NOTHING))
        return found

    def part(self, source: int) -> TargetPart:
        """Return where the rows of a source table go."""
        return self.targets[self.sources[source].target]

    def is_merged(self, source: int) -> bool:
        return self.sources[source].target in self.merged

    @cached_property
    def over(self) -> frozenset[int]:
        """Return the merged targets whose rows may be written over each other."""
        fed = (source for source in self.sources if self.safe and source.target in self.merged)
        able: dict[int, bool] = {}
        for source in fed:
            able[source.target] = able.get(source.target, True) and can_be_written_over(self._mapping_of(source))
        return frozenset(target for target, can in able.items() if can)

    @cached_property
    def contended(self) -> frozenset[int]:
        """Return those of them in which tables of this source meet: their changes keep their order, unfolded."""
        shards = Counter(source.target for source in self.sources)
        return frozenset(target for target in self.over if shards[target] > 1)

    def by_owner(self, source: int, *, over: bool) -> bool:
        """Tell whether rows of a source table touch no others' in its target. `over`: those may be written over now."""
        target = self.sources[source].target
        return target in self.merged and not (over and target in self.over)

    def _mapping_of(self, source: SourcePart) -> TableMapping:
        added = (column for column in self.targets[source.target].mapping.source.columns if column.constant is not None)
        return TableMapping(source.table.with_constants(added), self.targets[source.target].mapping.target)

    def check_filters(self, elsewhere: Collection[TableName], *, overwrites: bool) -> None:
        """Refuse filters by which a row of another table could be taken for one's own: rows without a key are nobody's,
        so there it does not help that rows are meant to overwrite each other.

        `elsewhere`: targets that other sources feed. Raises NotSupportedYet.
        """
        shards = Counter(source.target for source in self.sources)
        for index, one in self.filters.items():
            part = self.part(index)
            merged = shards[self.sources[index].target] > 1 or part.name in elsewhere
            if merged and not (overwrites and part.key is not None):
                check_merged(one, part.name)

    def check_keys_kept(self) -> None:
        """Refuse tables in which, while a load or a past is caught up with, a row could be written over by another one.

        Merged tables that were copied have rows wait instead. Raises TargetKeyNotKept."""
        for index, source in enumerate(self.sources):
            part = self.part(index)
            if part.key is not None and index not in self.snapshots and (self.adopts or not self.is_merged(index)):
                check_keys_kept(self._mapping_of(source))

    def owner(self, source: int) -> int:
        return max(0, self.owners[source]) if self.owners else 0

    def tables(self) -> tuple[Table, ...]:
        """Return the tables of the task that the source has, also those that are held."""
        return (*(part.table for part in self.sources), *self.held)

    def copied_behind(self, position: str) -> frozenset[TableName]:
        """Return the tables whose copy shows them as they are at this place (`Location.sort_key`) or later, and those
        that are gone there.
        """
        copied = [(part.table.name, part.skip_until) for part in self.sources]
        return frozenset(name for name, until in (*copied, *self.gone) if until >= position)

    def optional_columns(self) -> tuple[tuple[int, ...], ...]:
        """Return for each source table the columns whose values are not needed, and may be missing in the log."""
        return tuple(self._optional_columns(part) for part in self.sources)

    def _optional_columns(self, part: SourcePart) -> tuple[int, ...]:
        needed, order = self.targets[part.target].needed, part.order or range(part.width)
        filtered_by = part.filter.columns() if part.filter else frozenset()
        return tuple(
            sorted(column for index, column in enumerate(order) if index not in needed and column not in filtered_by)
        )

    def wanted(self) -> WantedTables:
        """Return the tables for the decoder, which raises UnknownTable for one that is none of them and should be."""
        parts = zip(self.sources, self.optional_columns(), strict=True)
        tables = [WantedTable(part.table, part.skip_until, optional) for part, optional in parts]
        tables += [WantedTable(Table(name, (), ()), until) for name, until in self.gone]
        return WantedTables(tables, self._check_excluded)

    def _check_excluded(self, name: TableName) -> None:
        if not self.alone and self.rules.allows(name) and not any(table.name == name for table in self.held):
            raise UnknownTable(str(name))


def make_plan(
    schemas: Iterable[TableSchema],
    targets: Mapping[TableName, Table],
    *,
    rules: SubtaskRules,
    buckets: int,
    merged: Collection[TableName] | None = frozenset(),
    shared: Collection[TableName] = (),
    adopts: bool = False,
    copied_again: Mapping[TableName, str] | None = None,
    held: Collection[TableName] = frozenset(),
    compact: bool = True,
    whole: bool = False,
    safe: bool = False,
    folds: Mapping[str, TextFold] | None = None,
) -> SyncPlan:
    """Return the plan for these source tables. `merged`: target tables that other sources feed as well, or are to, or
    have fed: where rows are recorded or wait; None: rows of merged tables overwrite each other, as the user wishes,
    and `shared` has the names. `copied_again`: as `target.copied_tables` has it. `held`: those of the source tables
    whose rows are passed over, and whose targets need not be as they are. `folds`: of the target's collations
    (`text_collations`); text under others takes no part in hashing.

    Raises TargetTableMissing, TargetTableMismatch, AmbiguousRoute, UnsupportedColumnType, ExpressionNotSupported, and
    NotSupportedYet (shards whose columns differ, filters that a merged table does not allow).
    """
    everything = list(schemas)
    schemas = [one for one in everything if one.table.name not in held]
    if merged is not None:  # what feeds a target does so while it is held
        merged = {*merged, *(one.target for one in everything if one.table.name in held)}
    sources: list[SourcePart] = []
    parts: list[TargetPart] = []
    index_of: dict[TableName, int] = {}
    for schema in schemas:
        mapping = _mapping(schema.table, targets, rules.router)
        name = mapping.target.name
        if name not in index_of:
            index_of[name] = len(parts)
            parts.append(target_part(mapping, folds))
        first = parts[index_of[name]].mapping.source
        order, counts = _column_order(mapping.source, first), row_filter(rules.events, rules.expressions, schema.table)
        added = mapping.source.constants
        sources.append(SourcePart(schema.table, index_of[name], order, schema.skip_until, counts, added))
        if adopts and schema.owner > 0:
            _check_key_types(mapping)
    plan = SyncPlan(
        tuple(sources),
        tuple(parts),
        buckets,
        rules.block_allow,
        merged=frozenset() if merged is None else merged_parts(sources, parts, merged),
        owners=tuple(schema.owner for schema in schemas),
        adopts=adopts,
        held=tuple(one.table for one in everything if one.table.name in held),
        snapshots=frozenset() if adopts else _snapshots(sources, parts),
        gone=_gone(everything, copied_again or {}),
        compact=compact,
        whole=whole,
        safe=safe,
    )
    plan.check_filters({*(merged or ()), *shared}, overwrites=merged is None)
    return plan


def _gone(schemas: Sequence[TableSchema], copied_again: Mapping[TableName, str]) -> tuple[tuple[TableName, str], ...]:
    there = {schema.table.name for schema in schemas}
    return tuple((name, until) for name, until in sorted(copied_again.items()) if name not in there)


def _snapshots(sources: Sequence[SourcePart], parts: Sequence[TargetPart]) -> frozenset[int]:
    """Return the tables, alone in targets with a key, that a copy could not page (copy/keyless.py)."""
    shards = Counter(source.target for source in sources)
    return frozenset(
        index
        for index, source in enumerate(sources)
        if parts[source.target].key is not None and shards[source.target] == 1 and KeyOrder.of(source.table) is None
    )


def _check_key_types(mapping: TableMapping) -> None:
    """Refuse a key of other types than the target's: whose a row is that stands there could not be told.

    Where nothing was copied, records of all owners are held against keys as the target shows them.
    """
    identity = mapping.target.identity
    for name in identity.columns if identity is not None else ():
        if value_signature(mapping.source.column(name)) != value_signature(mapping.target.column(name)):
            raise NotSupportedYet(
                "a start in the past (`meta`) where a merged table's key has another type than the source's",
                f"column {name} of {mapping.source.name} and {mapping.target.name}",
                "Make the types equal, or migrate with task-mode all.",
            )


def merged_parts(
    sources: Sequence[SourcePart], targets: Sequence[TargetPart], elsewhere: Collection[TableName]
) -> frozenset[int]:
    """Return the targets with a key that several source tables feed. `elsewhere`: those that other sources feed."""
    shards = Counter(source.target for source in sources)
    return frozenset(
        index
        for index, part in enumerate(targets)
        if part.key is not None and (shards[index] > 1 or part.name in elsewhere)
    )


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


def _mapping(table: Table, targets: Mapping[TableName, Table], router: Router) -> TableMapping:
    name = router.route(table.name)
    if name not in targets:
        raise TargetTableMissing(str(name))
    return map_table(table, targets[name], router.extracted(table.name))


def _column_order(table: Table, first: Table) -> tuple[int, ...] | None:
    check_same_columns(table, first)
    position = {column.name.lower(): number for number, column in enumerate(table.columns)}
    order = tuple(position[column.name.lower()] for column in first.columns)
    for number, column in zip(order, first.columns, strict=True):
        if value_signature(table.columns[number]) != value_signature(column):
            raise NotSupportedYet(
                "merging shards whose columns have different types",
                f"column {column.name} of {table.name} and {first.name}",
                "Make the types equal, or route the tables to different targets.",
            )
    return None if order == tuple(range(len(order))) else order
