"""What a subtask's rows mean: per source table where its rows go, per target table what tells rows apart.

Made once from schemas and rules (plan_making.py), shared with every task, and immutable: a change of schema or rules is
another plan.

Changes are folded apart for each source table of a merged target (`merge`), since a row that moves from one to the
other is no change of one row. Source tables whose changes are folded together go by the name of the first of them,
their *lead*: without a key, where images are counted, or where the user lets rows overwrite each other.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import product
from typing import Final

from airflow_provider_dm.engine.binlog.maps import WantedTable, WantedTables
from airflow_provider_dm.engine.errors import MIGRATE_AGAIN, DmError, Scope
from airflow_provider_dm.engine.merge.overwritable import can_be_written_over
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.kept_keys import check_keys_kept
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.rules.row_filter import Loss, RowFilter, check_merged
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.sync.coverage import Part
from airflow_provider_dm.engine.sync.plan.plan_parts import SourcePart, TargetPart

GROUPS_VERSION: Final = 1
"""The version of how changes that depend on each other are found, and get their bucket (sync/write/dependence.py)."""


class UnknownTable(DmError):
    """The log has rows of a table that the rules allow and that has no definition."""

    table: str

    code = "DM-6030"
    scope = Scope.UPSTREAM
    what = "the log has rows of {table}, which the rules allow but which did not exist at the start."
    hint = f"Leave it out by block-allow-list, or {MIGRATE_AGAIN}."


class WritePolicy(Enum):
    """The way in which the changes of source tables that are folded together are written. A plan has one for each."""

    EXACT = "as the log has them: what does not fit stops the task"
    WAIT = "the same, in a merged table: a row that meets another table's row waits (merge/writer.py)"
    OVERWRITE = "as the log has them: what collides is rolled back, written over, and counted (sync/safe_mode)"
    UNCOUNTED = "over the row of the same key, if there is one, as filters leave deletes out"
    IN_ORDER = "one by one, about what is there, as filters leave inserts or updates out (sync/write/in_order.py)"


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
    held: tuple[Table, ...] = ()
    """Tables of the task whose rows are passed over for now, as they are at this place of the log: held back by shard
    DDL (sync/shard_ddl/shards.py), or not copied yet (sync/coverage.py)."""
    alone: bool = False
    """Rows of other tables are passed over, whatever the rules say: these are applied afterwards."""
    compact: bool = True
    """Changes are folded; else each is written (sync/write/dependence.py)."""
    whole: bool = False
    """Transactions of the source are written whole and in their order (sync/write/transactional.py)."""
    safe: bool = False
    """Rows may collide here, and are written over where they can be (sync/safe_mode)."""

    def fingerprint(self) -> str:
        """Return a hash that is equal for plans by which the same log is folded and written in the same way.

        Of a target table it covers what identifies rows, not what the columns can hold: after a column is widened
        because a row did not fit, the epoch with that row has to be completed.
        """
        in_order = not self.compact or self.whole
        made_of = (
            self.sources,
            [part.decisive(in_order=in_order or at in self.contended) for at, part in enumerate(self.targets)],
            self.buckets,
            self.optional_columns(),
            self._folded_apart(),
            sorted(self.contended),
            (self.compact, self.whole, GROUPS_VERSION),
        )
        return hashlib.sha256(repr(made_of).encode()).hexdigest()

    def _folded_apart(self) -> tuple[int, ...]:
        """Return the targets for which folding each source table by itself makes a difference."""
        shards = Counter(source.target for source in self.sources)
        return tuple(target for target in sorted(self.merged) if shards[target] > 1)

    @property
    def mode(self) -> tuple[bool, bool, bool]:
        """The way of writing that the user has asked for, or that safe mode makes of it."""
        return self.compact, self.whole, self.safe

    def in_other_modes(self) -> Iterator[SyncPlan]:
        """Yield the plan as it would be if the user had asked for another way of writing."""
        for compact, whole, safe in product((True, False), (False, True), (False, True)):
            if (compact, whole, safe) != self.mode:
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
    def parts(self) -> dict[int, tuple[Table, Part]]:
        """Return the source tables that are covered in part, by index, with their coverage."""
        return {
            index: (source.table, source.coverage)
            for index, source in enumerate(self.sources)
            if isinstance(source.coverage, Part)
        }

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

    @property
    def over(self) -> frozenset[int]:
        """Return the merged targets whose rows may be written over each other."""
        return self._able if self.safe else frozenset()

    @cached_property
    def _able(self) -> frozenset[int]:
        """Return the merged targets whose rows can be written over."""
        fed = (source for source in self.sources if source.target in self.merged)
        able: dict[int, bool] = {}
        for source in fed:
            able[source.target] = able.get(source.target, True) and can_be_written_over(self._mapping_of(source))
        return frozenset(target for target, can in able.items() if can)

    @cached_property
    def kept(self) -> frozenset[TableName]:
        """Return the targets whose rows cannot be: those that wait for their places there are looked into."""
        return frozenset(part.name for at, part in enumerate(self.targets) if at not in self._able)

    @cached_property
    def contended(self) -> frozenset[int]:
        """Return those of them in which tables of this source meet: their changes keep their order, unfolded."""
        shards = Counter(source.target for source in self.sources)
        return frozenset(target for target in self.over if shards[target] > 1)

    @cached_property
    def policies(self) -> tuple[WritePolicy, ...]:
        """Return for each source table the policy of the changes that are folded with its own."""
        of_leads = {lead: self._policy(lead) for lead in set(self.leads())}
        return tuple(of_leads[lead] for lead in self.leads())

    def _policy(self, lead: int) -> WritePolicy:
        target, loss = self.sources[lead].target, self.losses.get(lead, Loss.NOTHING)
        if loss is Loss.ROWS:
            return WritePolicy.IN_ORDER
        if target in self.merged and target not in self.over:
            return WritePolicy.WAIT
        if loss is Loss.DELETES:
            return WritePolicy.UNCOUNTED
        able = target in self._able or can_be_written_over(self.targets[target].mapping)
        return WritePolicy.OVERWRITE if self.safe and able else WritePolicy.EXACT

    def _mapping_of(self, source: SourcePart) -> TableMapping:
        added = (column for column in self.targets[source.target].mapping.source.columns if column.constant is not None)
        return TableMapping(source.table.with_constants(added), self.targets[source.target].mapping.target)

    def check_filters(self, elsewhere: Collection[TableName], *, overwrites: bool) -> None:
        """Refuse filters by which a row of another table could be taken for one's own: rows without a key have no
        owner, so there it does not help that rows are meant to overwrite each other.

        `elsewhere`: targets that other sources feed. Raises NotSupportedYet.
        """
        shards = Counter(source.target for source in self.sources)
        for index, one in self.filters.items():
            part = self.part(index)
            merged = shards[self.sources[index].target] > 1 or part.name in elsewhere
            if merged and not (overwrites and part.key is not None):
                check_merged(one, part.name)

    def check_keys_kept(self) -> None:
        """Refuse tables in which a row of a past that is not exact could be written over by another one.

        Raises TargetKeyNotKept."""
        for index, source in enumerate(self.sources):
            if self.part(index).key is not None:
                check_keys_kept(self._mapping_of(source))

    def tables(self) -> tuple[Table, ...]:
        """Return the tables of the task that the source has, also those that are held."""
        return (*(part.table for part in self.sources), *self.held)

    def applied_behind(self, position: str) -> frozenset[TableName]:
        """Return the tables that DM has applied up to this place (`Location.sort_key`) or further."""
        return frozenset(part.table.name for part in self.sources if part.skip_until >= position)

    def optional_columns(self) -> tuple[tuple[int, ...], ...]:
        """Return for each source table the columns whose values are not needed, and may be missing in the log."""
        return tuple(self._optional_columns(part) for part in self.sources)

    def _optional_columns(self, part: SourcePart) -> tuple[int, ...]:
        needed, order = self.targets[part.target].needed, part.order or range(part.width)
        filtered_by = set(part.filter.columns() if part.filter else ())
        if isinstance(part.coverage, Part) and part.table.identity is not None:
            filtered_by.update(part.table.column(name).position for name in part.table.identity.columns)
        return tuple(
            sorted(column for index, column in enumerate(order) if index not in needed and column not in filtered_by)
        )

    def wanted(self) -> WantedTables:
        """Return the tables for the decoder, which raises UnknownTable for one that is none of them and should be."""
        parts = zip(self.sources, self.optional_columns(), strict=True)
        tables = [WantedTable(part.table, part.skip_until, optional) for part, optional in parts]
        return WantedTables(tables, self._check_excluded)

    def _check_excluded(self, name: TableName) -> None:
        if not self.alone and self.rules.allows(name) and not any(table.name == name for table in self.held):
            raise UnknownTable(str(name))
