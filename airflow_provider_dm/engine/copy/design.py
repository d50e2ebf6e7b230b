"""Decides which target tables a load creates, and whether it is refused. Pure.

The target of several shards is created like the first of them; all others must fit it as they would fit an existing
table. A target table that already has rows is refused: mixing unknown rows with a copy cannot be undone. It may have
rows if another source of the same task has copied into it, or if `on-duplicate-logical: replace` allows the copy to
overwrite.

The plain indexes of a large new table are dropped, and built again after its rows are copied (postponed_indexes.py).
With sysbench's one index that takes a third less of MariaDB's CPU. They stay if a foreign key may need them, or if
several sources feed the table: their loads end at different times, and each may follow DDL of the table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from airflow_provider_dm.engine.config.task import SubtaskConfig, TaskMode
from airflow_provider_dm.engine.config.units import LoaderConfig, OnDuplicate
from airflow_provider_dm.engine.copy.errors import TargetNotEmpty
from airflow_provider_dm.engine.ddl.create_like import NewTable, ServerPair, Spread, create_table_like
from airflow_provider_dm.engine.downstream.errors import NoTargetTable
from airflow_provider_dm.engine.downstream.row_statements import Verb
from airflow_provider_dm.engine.errors import MIGRATE_AGAIN, NotSupportedYet
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.keyset import KeyOrder
from airflow_provider_dm.engine.reading.survey import SourceSurvey, TargetSurvey
from airflow_provider_dm.engine.rules.kept_keys import check_filtered
from airflow_provider_dm.engine.rules.mapping import TableMapping, check_same_columns, map_table
from airflow_provider_dm.engine.rules.row_filter import row_filter
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules
from airflow_provider_dm.engine.schema.codec import check_source_column
from airflow_provider_dm.engine.schema.model import Table

LARGE_ROWS: Final = 100_000
"""Minimum estimated rows of a table whose indexes are postponed, unless `mydumpers.rows` is set. Adding an
index takes some ten milliseconds and saves about two microseconds a row."""
MOST_ROWS: Final = 500_000
"""Maximum estimated rows of a table without paging, in one transaction, if the target table has other rows as well."""
MOST_SCANNED: Final = 10_000
"""Maximum rows without a key whose generated values are compared with the source's: each hundred rows need one scan of
the table."""


def target_table_missing(target: str, source: str) -> NoTargetTable:
    return NoTargetTable(
        f"the target table {target}, into which {source} has begun to write, no longer exists.",
        f"Restore it as it was, or leave the table out by block-allow-list; or {MIGRATE_AGAIN}.",
    )


def design(
    surveys: Sequence[SourceSurvey],
    subtasks: Mapping[str, SubtaskConfig],
    target: TargetSurvey,
    *,
    fresh: Collection[str],
    copied_into: Collection[TableName],
) -> tuple[NewTable, ...]:
    """Return how a run creates missing target tables. `fresh`: sources whose copy has not started; `copied_into`:
    targets into which this task has copied before.

    Raises the first reason for a refusal: UnsupportedColumnType, CannotCreateTarget, TargetTableMismatch,
    ExtractNotPossible, ExpressionNotSupported, TargetNotEmpty, TargetKeyNotKept, NoTargetTable, NotSupportedYet.
    """
    creations = _creations(surveys, subtasks, target, fresh)
    known = target.tables | {name: table for name, (table, _) in creations.items()}
    mappings: dict[str, tuple[TableMapping, ...]] = {}
    feeders: defaultdict[TableName, list[str]] = defaultdict(list)
    for survey in surveys:
        anew = survey.source_id in fresh
        mappings[survey.source_id] = tuple(
            map_table(table.table, known[table.target], table.extracted, created_anew=anew) for table in survey.tables
        )
        for one in survey.tables:
            feeders[one.target].append(_feeder(survey.source_id, one.table.name))
    firsts: dict[TableName, Table] = {}
    for mapping in (one for some in mappings.values() for one in some):
        firsts.setdefault(mapping.target.name, mapping.source)
    for survey in surveys:
        if survey.source_id in fresh:
            subtask = subtasks[survey.source_id]
            if subtask.mode is not TaskMode.FULL:
                _check_sync(survey, subtask, mappings[survey.source_id], firsts, feeders)
            _check_source(survey, subtask, mappings[survey.source_id], target, feeders, copied_into)
    return tuple(creation for _, creation in creations.values())


def _creations(
    surveys: Sequence[SourceSurvey], subtasks: Mapping[str, SubtaskConfig], target: TargetSurvey, fresh: Collection[str]
) -> dict[TableName, tuple[Table, NewTable]]:
    """Return, for each missing target table, its definition and how it is created."""
    made: dict[TableName, tuple[Table, NewTable]] = {}
    sizes: defaultdict[TableName, float] = defaultdict(float)  # 1.0: large
    fed_by: defaultdict[TableName, set[str]] = defaultdict(set)
    for survey in surveys:
        large = subtasks[survey.source_id].mydumper.rows or LARGE_ROWS
        for table in survey.tables:
            sizes[table.target] += table.rows / large
            fed_by[table.target].add(survey.source_id)
            if table.target in target.tables:
                continue
            if survey.source_id not in fresh:
                raise target_table_missing(str(table.target), _feeder(survey.source_id, table.table.name))
            if table.target in made:
                continue
            subtask = subtasks[survey.source_id]
            statement = create_table_like(
                table.create,
                table.table,
                table.target,
                ServerPair(survey.flavour, target.flavour, subtask.strict_collations, survey.cascades_are_logged),
                collation=table.collation,
                parent=SubtaskRules.of(subtask).target_of,
                spread=Spread(subtask.tidb.auto_random, subtask.tidb.pre_split_regions),
            )
            made[table.target] = (replace(table.table, name=table.target), statement)
    if not CAPABILITIES[target.flavour].adds_indexes_faster:
        return made
    children = [one for _, one in made.values() if one.parents]
    related = {name for child in children for name in (child.name, *child.parents)}
    keep = {name for name in made if sizes[name] < 1 or made[name][1].keyless or len(fed_by[name]) > 1} | related
    return {name: (table, one if name in keep else one.postponing()) for name, (table, one) in made.items()}


def _check_sync(
    survey: SourceSurvey,
    subtask: SubtaskConfig,
    mappings: Sequence[TableMapping],
    firsts: Mapping[TableName, Table],
    feeders: Mapping[TableName, Sequence[str]],
) -> None:
    """Refuse tables that the sync after the copy would refuse. `firsts`: a source table of each target.

    Raises ExpressionNotSupported, NotSupportedYet, TargetKeyNotKept.
    """
    rules = SubtaskRules.of(subtask)
    for one, mapping in zip(survey.tables, mappings, strict=True):
        check_same_columns(mapping.source, firsts[one.target])
        changes = row_filter(rules.events, rules.expressions, one.table)
        if not subtask.overwrites:
            check_filtered(mapping, changes, merged=len(feeders[one.target]) > 1)


def _check_source(
    survey: SourceSurvey,
    subtask: SubtaskConfig,
    mappings: Sequence[TableMapping],
    target: TargetSurvey,
    feeders: Mapping[TableName, Sequence[str]],
    copied_into: Collection[TableName],
) -> None:
    for one, mapping in zip(survey.tables, mappings, strict=True):
        for column in one.table.columns:
            check_source_column(one.table.name, column)
        verb_for(mapping, subtask.loader)
        mixed = len(feeders[one.target]) > 1 or subtask.overwrites
        if mixed and KeyOrder.of(mapping.source) is None and one.rows > MOST_ROWS:
            remedy = (
                "Give it a primary key (and the target table too), route it to a target table of its own, or leave it "
                "out by block-allow-list."
            )
            raise NotSupportedYet(
                f"copying about {one.rows} rows of a table without a key into a table with other rows",
                str(one.table.name),
                remedy,
            )
        if mapping.uncertain and mapping.found_by is None and one.rows > MOST_SCANNED:
            remedy = "Give it a primary key, or create the target table by hand with these as ordinary columns."
            names = ", ".join(mapping.target_columns[index].name for index in mapping.uncertain)
            raise NotSupportedYet(
                f"copying about {one.rows} rows without a key whose columns {names} the target generates",
                str(one.table.name),
                remedy,
            )
        filled = one.target in target.filled and one.target not in copied_into
        if filled and not subtask.overwrites:
            raise TargetNotEmpty(str(one.target), tuple(feeders[one.target]))


def _feeder(source_id: str, name: TableName) -> str:
    return f"{source_id}:{name}"


def verb_for(mapping: TableMapping, loader: LoaderConfig) -> Verb:
    """Return the verb by which rows of this table are written. Raises NotSupportedYet."""
    match loader.on_duplicate_logical:
        case OnDuplicate.REPLACE:
            return Verb.REPLACE
        case OnDuplicate.IGNORE:
            remedy = "Use `replace` or `error`: with `ignore`, the result would depend on which row is written first."
            raise NotSupportedYet("on-duplicate-logical ignore", str(mapping.source.name), remedy)
    return Verb.INSERT
