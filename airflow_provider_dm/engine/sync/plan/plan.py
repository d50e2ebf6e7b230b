"""The plan of a subtask: the target of each source table, the identity of rows in each target table, the write policy.

A plan is immutable, made from schemas and rules (plan_making.py), and shared with every task. A change of a schema or
rule makes a new plan.

In a merged target (`merge`) the changes of each source table are folded separately, because a row that moves from one
source table to another is not an update. They are folded together if the target has no key (rows are counted images)
or if rows overwrite each other, by configuration or because of filters; then the first source table is their *lead*.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import product
from typing import Final

from airflow_provider_dm.engine.binlog.maps import WantedTable, WantedTables
from airflow_provider_dm.engine.merge.overwritable import is_overwritable
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.kept_keys import check_identity_kept, check_keys_kept
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.rules.row_filter import FilterLoss, RowFilter
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.sync.coverage import ALL, Coverage
from airflow_provider_dm.engine.sync.errors import UnknownTable
from airflow_provider_dm.engine.sync.plan.plan_parts import SourcePart, TargetPart

GROUPS_VERSION: Final = 1
"""The version of the algorithm that groups dependent changes and assigns their buckets (sync/write/dependence.py)."""


class WritePolicy(Enum):
    """How the changes of source tables with the same lead are written."""

    EXACT = "as logged: a collision stops the task"
    WAIT = "as logged, in a merged table: a row that collides with a row of another table waits (merge/owner_writer.py)"
    OVERWRITE = "as logged: a collision is rolled back, overwritten, and counted (sync/safe_mode)"
    UNCOUNTED = "over any row of the same key, because filters skip deletes"
    IN_ORDER = "one by one, whether rows exist or not, because filters skip inserts or updates (sync/write/in_order.py)"


@dataclass(frozen=True)
class SyncPlan:
    """The plan of one subtask. Picklable. `sources`: RowChange.table is an index into it."""

    sources: tuple[SourcePart, ...]
    targets: tuple[TargetPart, ...]
    buckets: int
    rules: BlockAllowRules
    merged: frozenset[int] = frozenset()
    """Indexes of the targets with rows of several source tables, of this or other sources, that follow the rules of
    `merge`. Targets may be added while the subtask runs."""
    in_order: frozenset[int] = frozenset()
    """Indexes of the targets with rows of several source tables for some of which filters ignore INSERTs or UPDATEs.
    Rows of these source tables overwrite each other. Targets may be added while the subtask runs."""
    held: tuple[Table, ...] = ()
    """Tables of the task whose rows are skipped for now, as defined at this location: held back by shard DDL
    (sync/shard_ddl/source_shards.py), or not copied yet (sync/coverage.py)."""
    alone: bool = False
    """True in a re-sync: rows of other tables are skipped without an error, although the rules allow them."""
    compact: bool = True
    """True if changes are folded; else each change is written (sync/write/dependence.py)."""
    whole: bool = False
    """True if the source's transactions are written whole and in order (sync/write/transactional.py)."""
    safe: bool = False
    """True in safe mode: rows that collide are overwritten where possible (sync/safe_mode)."""

    def fingerprint(self) -> str:
        """Return a hash that is equal for plans which fold and write the same log in the same way.

        It covers the identity of a target table's rows, not the column types: an epoch that failed because a value did
        not fit must be completed after the column was widened.
        """
        in_order = not self.compact or self.whole
        made_of = (
            self.sources,
            [part.decisive(in_order=in_order or at in self.contended) for at, part in enumerate(self.targets)],
            self.buckets,
            self.optional_columns(),
            self._folded_apart(),
            sorted(self.contended),
            sorted(self.in_order),
            (self.compact, self.whole, GROUPS_VERSION),
            *self._deleted_first(),
        )
        return hashlib.sha256(repr(made_of).encode()).hexdigest()

    def _folded_apart(self) -> tuple[int, ...]:
        """Return the merged targets with several tables of this source, whose changes are folded separately."""
        shards = Counter(source.target for source in self.sources)
        return tuple(target for target in sorted(self.merged) if shards[target] > 1)

    def _deleted_first(self) -> list[int]:
        """Return the source tables whose rows are all deleted in wave 1 (sync/write/causality.py)."""
        policies = enumerate(self.policies)
        return [index for index, one in policies if one is WritePolicy.UNCOUNTED and self.part(index).unique]

    @property
    def mode(self) -> tuple[bool, bool, bool]:
        """The configured mode of writing, and whether safe mode is on: (compact, whole, safe)."""
        return self.compact, self.whole, self.safe

    def in_all_modes(self) -> Iterator[SyncPlan]:
        """Yield the plan, and those of `as_before`, in each mode of writing; first those with the present safe mode."""
        plans, safe_first = (self, *self.as_before), (self.safe, not self.safe)
        for plan, safe, compact, whole in product(plans, safe_first, (True, False), (False, True)):
            yield replace(plan, compact=compact, whole=whole, safe=safe)

    @property
    def as_before(self) -> tuple[SyncPlan, SyncPlan]:
        """Return the plans with which a half-applied epoch may have begun, before other sources fed its targets:
        `by_owner`, and the same without merged targets for which filters skip deletes."""
        kept = {self.sources[lead].target for lead, loss in self.losses.items() if loss is FilterLoss.DELETES}
        return self.by_owner, replace(self.by_owner, merged=self.by_owner.merged - kept)

    @cached_property
    def by_owner(self) -> SyncPlan:
        """Return the plan as it was before filtered tables of other sources fed its targets. It folds like the old
        plan, to complete a half-applied epoch; its rows follow the rules of `merge`."""
        own = {self.sources[index].target for index, one in self.filters.items() if one.loss is FilterLoss.ROWS}
        keyed = (at for at in self.in_order - own if self.targets[at].key is not None)
        return replace(self, merged=self.merged.union(keyed), in_order=self.in_order & own)

    def leads(self) -> tuple[int, ...]:
        """Return the lead of each source table: itself if its target is merged, else the first table of the target."""
        firsts: dict[int, int] = {}
        for index, source in enumerate(self.sources):
            firsts.setdefault(source.target, index)
        return tuple(
            index if source.target in self.merged else firsts[source.target]
            for index, source in enumerate(self.sources)
        )

    @cached_property
    def filters(self) -> dict[int, RowFilter]:
        """Return the row filters, by index of the source table."""
        return {index: source.filter for index, source in enumerate(self.sources) if source.filter is not None}

    @cached_property
    def parts(self) -> dict[int, tuple[Table, Coverage]]:
        """Return the source tables that are covered in part, by index, with their coverage."""
        return {
            index: (source.table, source.coverage)
            for index, source in enumerate(self.sources)
            if source.coverage != ALL
        }

    @cached_property
    def losses(self) -> dict[int, FilterLoss]:
        """Return which changes filters may skip, by lead: the maximum of all source tables with that lead."""
        leads = self.leads()
        losses: dict[int, FilterLoss] = {}
        for index, one in self.filters.items():
            losses[leads[index]] = max(one.loss, losses.get(leads[index], FilterLoss.NOTHING))
        return losses

    def part(self, source: int) -> TargetPart:
        """Return the target part of a source table."""
        return self.targets[self.sources[source].target]

    def is_merged(self, source: int) -> bool:
        return self.sources[source].target in self.merged

    @property
    def ordered_differently(self) -> frozenset[TableName]:
        """Return the source tables whose target has another primary key, or another order of its texts."""
        pairs = ((source.table, self.targets[source.target].mapping.target) for source in self.sources)
        return frozenset(source.name for source, target in pairs if not _orders_alike(source, target))

    @property
    def json_columns(self) -> frozenset[tuple[TableName, str]]:
        """Return the columns, in lower case, of source tables that are JSON in the target."""
        pairs = ((source.table.name, self.targets[source.target].mapping.target) for source in self.sources)
        return frozenset(
            (name, column.name.lower())
            for name, table in pairs
            for column in table.columns
            if column.data_type == "json"
        )

    @property
    def overwritable(self) -> frozenset[int]:
        """Return the merged targets whose rows overwrite each other: in safe mode, those that allow it."""
        return self._can_be_overwritten if self.safe else frozenset()

    @cached_property
    def _can_be_overwritten(self) -> frozenset[int]:
        """Return the merged targets whose rows can be overwritten."""
        fed = (source for source in self.sources if source.target in self.merged)
        able: dict[int, bool] = {}
        for source in fed:
            able[source.target] = able.get(source.target, True) and is_overwritable(self._mapping_of(source))
        return frozenset(target for target, can in able.items() if can)

    @cached_property
    def not_overwritable(self) -> frozenset[TableName]:
        """Return the targets whose rows cannot be overwritten, so that contested rows stay contested in safe mode."""
        return frozenset(self.targets[at].name for at in self.merged - self._can_be_overwritten)

    @cached_property
    def unowned(self) -> frozenset[TableName]:
        """Return the targets that are not, or no longer, `merged`: a contested row replaces the row in its place."""
        return frozenset(part.name for at, part in enumerate(self.targets) if at not in self.merged)

    @cached_property
    def contended(self) -> frozenset[int]:
        """Return the targets of `overwritable` with several tables of this source. Their changes are not folded, and
        keep their order."""
        shards = Counter(source.target for source in self.sources)
        return frozenset(target for target in self.overwritable if shards[target] > 1)

    @cached_property
    def policies(self) -> tuple[WritePolicy, ...]:
        """Return the write policy of each source table, which is that of its lead."""
        of_leads = {lead: self._policy(lead) for lead in set(self.leads())}
        return tuple(of_leads[lead] for lead in self.leads())

    def _policy(self, lead: int) -> WritePolicy:
        target, loss = self.sources[lead].target, self.losses.get(lead, FilterLoss.NOTHING)
        if loss is FilterLoss.ROWS or target in self.in_order:
            return WritePolicy.IN_ORDER
        if target in self.merged and target not in self.overwritable:
            return WritePolicy.WAIT
        if loss is FilterLoss.DELETES:
            return WritePolicy.UNCOUNTED
        able = target in self._can_be_overwritten or is_overwritable(self.targets[target].mapping)
        return WritePolicy.OVERWRITE if self.safe and able else WritePolicy.EXACT

    def _mapping_of(self, source: SourcePart) -> TableMapping:
        added = (column for column in self.targets[source.target].mapping.source.columns if column.constant is not None)
        return TableMapping(source.table.with_constants(added), self.targets[source.target].mapping.target)

    def check_keys_kept(self) -> None:
        """Raise TargetKeyNotKept for tables in which overwriting a row could replace another row of the source."""
        for index, source in enumerate(self.sources):
            if self.part(index).key is not None:
                check_keys_kept(self._mapping_of(source))

    def check_filtered(self) -> None:
        """Raise TargetKeyNotKept for tables whose filters let a row replace another row of the source."""
        for index, source in enumerate(self.sources):
            if self.policies[index] in (WritePolicy.UNCOUNTED, WritePolicy.IN_ORDER):
                check_identity_kept(self._mapping_of(source))

    def tables(self) -> tuple[Table, ...]:
        """Return all tables of the task that the source has, including held ones."""
        return (*(part.table for part in self.sources), *self.held)

    def applied_up_to(self, position: str) -> frozenset[TableName]:
        """Return the tables that DM has applied up to this location (`Location.sort_key`) or further."""
        return frozenset(part.table.name for part in self.sources if part.skip_until >= position)

    def optional_columns(self) -> tuple[tuple[int, ...], ...]:
        """Return for each source table the columns whose values are not needed and may be missing in row images."""
        return tuple(self._optional_columns(part) for part in self.sources)

    def _optional_columns(self, part: SourcePart) -> tuple[int, ...]:
        needed, order = self.targets[part.target].needed, part.order or range(part.width)
        filtered_by = set(part.filter.columns() if part.filter else ())
        if part.coverage != ALL and part.table.identity is not None:
            filtered_by.update(part.table.column(name).position for name in part.table.identity.columns)
        return tuple(
            sorted(column for index, column in enumerate(order) if index not in needed and column not in filtered_by)
        )

    def wanted(self) -> WantedTables:
        """Return the tables for the decoder. It raises UnknownTable for any other table that the rules allow."""
        parts = zip(self.sources, self.optional_columns(), strict=True)
        tables = [WantedTable(part.table, part.skip_until, optional) for part, optional in parts]
        return WantedTables(tables, self._check_excluded)

    def _check_excluded(self, name: TableName) -> None:
        if not self.alone and self.rules.allows(name) and not any(table.name == name for table in self.held):
            raise UnknownTable(str(name))


def _orders_alike(source: Table, target: Table) -> bool:
    """Return True if the target's rows have the order of the source's primary key."""
    wanted, offered = _order(source), _order(target)
    return offered[: len(wanted)] == wanted


def _order(table: Table) -> list[tuple[str, int | None, str | None]]:
    keys = [key for key in table.unique_keys if key.primary]
    return [(name.lower(), prefix, table.column(name).collation) for key in keys for name, prefix in key.parts]
