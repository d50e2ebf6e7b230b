"""Tables that are altered while a copy may overwrite rows of others (`on-duplicate-logical: replace`).

Nobody can tell which rows of the target are the copy's, so none is removed and nothing begun again. The source's log is
applied in the midst of its load instead, as a sync that catches up applies it: its DDL is made in the target, and of
the tables' rows those that it is about are as they are there. Then the copy goes on, by what the tables have become.

    P0 ── pages of t ── ALTER t ─────────────────── P0'                pages of t as it is now ── Pend
          the target's t, page by page              the log from P0 to P0'                        the log from P0' on

    place    P0', and the births of the tables, the same before and behind it
    doubt    one transaction: the log is to be applied up to P0'; altered tables count as such until the last step;
             chunks that are not done get other numbers, so that no page that was read in front of P0' comes behind it.
             One of which no row is there yet begins at P0', if it is altered, as its chunks know the keys of then, or
             copied whole: its rows in front of that are passed over
    apply    the sync, up to P0'. Whoever dies goes on with it, before anything else is looked at
    go on    one transaction: births, and new chunks for what cannot be read on by its key

A page counts only if its table was, behind it, the one that is known (copier.py). So where the log has DDL, the target
has no rows from behind that, and all that it is made for was the source's there, but for rows of others. Chunks go with
the names of their tables, and end with them; what has none is complete by the log.

A table that is copied in part and loses the key by which it is, is lost: its rows cannot be told from others' any more.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_dm.engine.copy.design import Design, TargetTableGone, design
from airflow_provider_dm.engine.copy.keyless import paging_order
from airflow_provider_dm.engine.copy.snapshot import WatermarkBlocked
from airflow_provider_dm.engine.copy.watch import Seen, Stand, Watch
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.births import Birth, read_births, settled_births
from airflow_provider_dm.engine.reading.chunks import plan_chunks
from airflow_provider_dm.engine.reading.source_session import SchemaChangedDuringCopy
from airflow_provider_dm.engine.reading.survey import SourceSurvey, measure, survey_tables, survey_target
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.catalogue import TableNotFound
from airflow_provider_dm.engine.target.copied_tables import (
    BY_LOG,
    CopiedTable,
    begin_copied_tables,
    put_copied_tables,
)
from airflow_provider_dm.engine.target.copy_progress import (
    ChunkProgress,
    add_chunks,
    forget_chunks,
    lock_chunks,
    renumber_chunks,
)
from airflow_provider_dm.engine.target.session import run_transaction
from airflow_provider_dm.engine.target.subtask import Subtask, apply_log_until, read_subtask
from airflow_provider_dm.engine.target.table_schema import TableSchema, set_skip_until

log = logging.getLogger(__name__)

SETTLE_ATTEMPTS: Final = 30


def go_behind(target: Endpoint, watch: Watch, apply_log: Callable[[str], bool]) -> Seen:
    """Apply the log of a source behind what was altered of its tables; return how it stands then. It is asked to stop
    where some are altered still (`Watch.altered_by_log`).

    Raises SchemaChangedDuringCopy, TargetTableGone, WatermarkBlocked (retry), Fenced, what `design` raises, and what
    the sync raises.
    """
    source, began = watch.source, time.monotonic()
    for _ in range(SETTLE_ATTEMPTS):
        seen = watch.see(settled_births(source.endpoint, source.rules.block_allow))
        names = watch.altered_by_log(seen)
        if not names:
            return seen
        step = _step(watch, seen)
        if step is None:
            continue
        log.warning(
            "%s: tables were altered while they were copied; its log is applied up to %s: %s",
            *(source.id, step.place, ", ".join(map(str, sorted(names)))),
        )
        numbers = _doubt(target, watch, step)
        watch.loading = replace(watch.loading, births={**watch.loading.births, **dict.fromkeys(names, BY_LOG)})
        if not apply_log(source.id):
            return seen
        _go_on(target, watch, step, numbers)
    raise WatermarkBlocked(source.id, "tables that are altered all the time", time.monotonic() - began)


@dataclass(frozen=True)
class _Step:
    """A place of the log, and the tables there: as many as could be told, and those that may be copied on."""

    seen: Seen
    place: Location
    births: Mapping[TableName, Birth]
    survey: SourceSurvey

    @property
    def stand(self) -> Stand:
        return self.seen.stand


def _step(watch: Watch, seen: Seen) -> _Step | None:
    source, before, found = watch.source, seen.births, seen.side.found
    unfinished = {chunk.table for chunk in seen.stand.chunks if not chunk.done}
    wanted = sorted((found.names | unfinished) & before.tables.keys())
    place = watch.watermark(wanted)
    try:
        survey = survey_tables(source.endpoint, wanted, source.rules)
    except TableNotFound:
        return None  # it is gone since
    behind = read_births(source.endpoint, source.rules.block_allow, also=wanted)
    told = (name for name in before.tables.keys() - before.young if before.same(behind, [name]))
    return _Step(seen, place, {name: behind.tables[name] for name in told}, survey)


def _doubt(target: Endpoint, watch: Watch, step: _Step) -> dict[int, TableName]:
    """Note that the log is to be applied. Return the chunks by their numbers from here on."""
    fence, stand = watch.source.fence, step.stand
    names = watch.altered_by_log(step.seen)
    undone = [chunk for chunk in stand.chunks if not chunk.done]
    numbers = {chunk.number: number for number, chunk in enumerate(undone, watch.last_chunk + 1)}
    whole = {one.source.name for one in watch.loading.design.mappings[fence.ref.source] if paging_order(one) is None}

    def body(connection: Connection) -> None:
        apply_log_until(connection, fence, step.place)
        put_copied_tables(connection, fence.ref, {name: CopiedTable(BY_LOG) for name in names})
        subtask = read_subtask(connection, fence.ref)
        assert subtask is not None
        for name in {chunk.table for chunk in undone} & (names | whole):
            schema, chunks = stand.schemas[name], lock_chunks(connection, fence.ref, name)
            if not any(one.done or one.rows_copied for one in chunks) and _has_no_rows(schema, subtask):
                set_skip_until(connection, fence.ref, schema.table, step.place.sort_key)
        renumber_chunks(connection, fence.ref, numbers)

    run_transaction(target, body)
    watch.last_chunk += len(undone)
    return {numbers.get(chunk.number, chunk.number): chunk.table for chunk in stand.chunks}


def _has_no_rows(schema: TableSchema, subtask: Subtask) -> bool:
    """Tell whether neither the log nor an earlier copy, of other chunks, has put rows of a table into the target."""
    applied, start = subtask.location, subtask.start
    assert applied is not None
    assert start is not None
    return applied.sort_key == start.sort_key or schema.skip_until >= applied.sort_key


def _go_on(target: Endpoint, watch: Watch, step: _Step, numbers: Mapping[int, TableName]) -> None:
    """Write that the tables are copied on from there. `numbers`: what the chunks were of."""
    source, before, now = watch.source, step.stand, watch.stand()
    fence = source.fence
    made = _design(target, watch, step, now, numbers)
    again = _again(watch, step, now, numbers, made)
    sizes = measure(source.endpoint, [(one.table, one.rows) for one in step.survey.tables if one.table.name in again])
    planned = plan_chunks(sizes, slots=watch.slots, chunk_rows=source.subtask.mydumper.rows)
    chunks = [replace(chunk, number=watch.last_chunk + 1 + chunk.number) for chunk in planned]
    births = {name: str(step.births[name]) if name in step.births else BY_LOG for name in now.schemas}

    def body(connection: Connection) -> None:
        fence.check(connection)
        begin_copied_tables(connection, fence.ref, births)
        places = {name: one.copied_again for name, one in before.known.items() if one.copied_again}
        put_copied_tables(
            connection, fence.ref, {name: CopiedTable(births.get(name, ""), at) for name, at in places.items()}
        )
        for name in again:
            forget_chunks(connection, fence.ref, name)
        add_chunks(connection, fence, chunks)

    run_transaction(target, body)
    watch.last_chunk += len(chunks)
    watch.again += again
    watch.read_on(made, births)


def _moved(step: _Step, now: Stand, numbers: Mapping[int, TableName]) -> dict[TableName, TableName]:
    """Return the tables that have chunks and are not what they were, with the names that they had."""
    altered = step.seen.side.found.changed | step.seen.side.found.vanished
    were = {chunk.table: numbers[chunk.number] for chunk in now.chunks}
    return {name: old for name, old in were.items() if (old in altered or name != old) and name in step.births}


def _design(target: Endpoint, watch: Watch, step: _Step, now: Stand, numbers: Mapping[int, TableName]) -> Design:
    """Look whether the target's tables take the rows of those that are not what they were, and are not complete."""
    source, moved = watch.source, _moved(step, now, numbers)
    tables = tuple(one for one in step.survey.tables if one.table.name in moved)
    for one in tables:
        if now.schemas[one.table.name].table != one.table:
            raise SchemaChangedDuringCopy(source.id, str(one.table.name), "its log does not show what it is now")
    survey = replace(step.survey, tables=tables)
    there = survey_target(target, {one.target for one in tables})
    made = design([survey], {source.id: source.subtask}, there, fresh={source.id}, copied_into=())
    for new in made.creations:
        raise TargetTableGone(str(new.name), source.id)
    return made


def _again(watch: Watch, step: _Step, now: Stand, numbers: Mapping[int, TableName], made: Design) -> list[TableName]:
    """Return the tables that are read from their beginning. Raises SchemaChangedDuringCopy."""
    source, moved = watch.source, _moved(step, now, numbers)
    chunks: defaultdict[TableName, list[ChunkProgress]] = defaultdict(list)
    for chunk in now.chunks:
        chunks[chunk.table].append(chunk)
    planned = {one.source.name: one for one in watch.loading.design.mappings[source.id]}
    again = []
    for mapping in made.mappings[source.id]:
        name = mapping.source.name
        was, birth = planned.get(moved[name]), step.stand.known.get(moved[name])
        pages = all(one is not None and paging_order(one) is not None for one in (was, mapping))
        if all(chunk.done for chunk in chunks[name]) and (watch.looked_before or not pages):
            continue
        untouched = now.schemas[name].skip_until >= step.place.sort_key
        if paging_order(mapping) is None and not untouched:
            why = "it is copied in part, and has lost the key by which its rows are told from others"
            raise SchemaChangedDuringCopy(source.id, str(name), why)
        told = watch.looked_before and _is_told(birth, step.births[name])
        if was is None or untouched or not (told and reads_on(was, mapping)):
            again.append(name)
    return again


def _is_told(before: CopiedTable | None, now: Birth) -> bool:
    """Tell whether each page was asked for whether it is of the table that was there before (births.py)."""
    if before is None or before.birth in ("", BY_LOG):
        return False
    return not Birth.of(before.birth).is_same(now)


def reads_on(before: TableMapping, now: TableMapping) -> bool:
    """Tell whether a table is read on by the key that its pages had."""
    orders = [paging_order(one) for one in (before, now)]
    ours, theirs = ([replace(one, position=0) for one in order.columns] if order else None for order in orders)
    return ours is not None and ours == theirs
