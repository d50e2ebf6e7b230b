"""Makes a plan from schemas and rules, and checks that the targets exist and that merged tables are compatible.

The rows of all source tables of a target are brought into one column order, so that images can be compared. Their
columns must have the same types, because equal values of different types may have different bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_dm.engine.downstream.table_schema import TableSchema
from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import check_same_columns, map_table, value_signature
from airflow_provider_dm.engine.rules.row_filter import row_filter
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.schema.text_folds import TextFold
from airflow_provider_dm.engine.sync.coverage import ALL, NONE, Coverage
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_parts import SourcePart, TargetPart, target_part


@dataclass(frozen=True)
class SharedTargets:
    """The target tables with rows of other sources, and how the rows of merged tables are written."""

    elsewhere: Collection[TableName] = frozenset()
    """Tables into which other sources write, will write, or have written."""
    in_order: Collection[TableName] = frozenset()
    """Tables with source tables for which filters ignore INSERTs or UPDATEs."""
    owned: bool = True
    """True if rows can be contested; False: rows of merged tables overwrite each other by configuration."""

    def merged_in(self, plan: SyncPlan) -> SyncPlan:
        """Return the plan with these targets as merged tables; `plan` if it has them."""
        shards = Counter(source.target for source in plan.sources)
        several = {at for at, part in enumerate(plan.targets) if shards[at] > 1 or part.name in self.elsewhere}
        ordered = plan.in_order | {at for at in several if plan.targets[at].name in self.in_order}
        keyed = {at for at in several if self.owned and plan.targets[at].key is not None}
        merged = (plan.merged | keyed) - ordered
        if (merged, ordered) == (plan.merged, plan.in_order):
            return plan
        return replace(plan, merged=merged, in_order=ordered)


NOTHING_SHARED: Final = SharedTargets()


def make_plan(
    schemas: Iterable[TableSchema],
    targets: Mapping[TableName, Table],
    *,
    rules: SubtaskRules,
    buckets: int,
    shared: SharedTargets = NOTHING_SHARED,
    held: Collection[TableName] = frozenset(),
    coverage: Mapping[TableName, Coverage] | None = None,
    folds: Mapping[str, TextFold] | None = None,
) -> SyncPlan:
    """Return the plan for these source tables, with `compact` on.

    `held`: source tables whose rows are skipped, and whose targets may have other definitions.
    `coverage`: of tables that are not covered completely; a table without covered keys is held. `folds`: of the
    target's collations (`text_collations`); text with other collations is not hashed.

    Raises TargetTableMismatch, InvalidInput, UnsupportedColumnType, ExpressionNotSupported, and
    NotSupportedYet (shards whose columns differ).
    """
    everything = list(schemas)
    coverage = coverage or {}
    held = {*held, *(name for name, covered in coverage.items() if covered is NONE)}
    schemas = [one for one in everything if one.table.name not in held]
    shared = SharedTargets(
        {*shared.elsewhere, *(one.target for one in everything if one.table.name in held)},  # also while it is held
        {*shared.in_order, *(one.target for one in everything if rules.may_ignore_rows(one.table.name))},
        shared.owned,
    )
    sources: list[SourcePart] = []
    parts: list[TargetPart] = []
    index_of: dict[TableName, int] = {}
    for schema in schemas:
        table, to = schema.table, rules.router.route(schema.table.name)
        mapping = map_table(table, targets[to], rules.router.extracted(table.name))
        name = mapping.target.name
        if name not in index_of:
            index_of[name] = len(parts)
            parts.append(target_part(mapping, folds))
        first = parts[index_of[name]].mapping.source
        order, counts = _column_order(mapping.source, first), row_filter(rules.events, rules.expressions, table)
        added = mapping.source.constants
        covered = coverage.get(table.name, ALL)
        sources.append(SourcePart(table, index_of[name], order, schema.skip_until, counts, added, covered))
    plan = SyncPlan(
        tuple(sources),
        tuple(parts),
        buckets,
        rules.block_allow,
        held=tuple(one.table for one in everything if one.table.name in held),
    )
    return shared.merged_in(plan)


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
