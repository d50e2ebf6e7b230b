"""Copying tables again that were altered while they were copied: each from its own low watermark P0' in the same log.

    look     whose birth is another one now                                          altered.py, groups.py
    settle   P0', and the tables as they are there: born the same before and behind it, and their definitions in between
    doubt    one transaction: their chunks go, so no late page of the first copy is written any more; they count as
             tables to be copied again until the last step, whoever dies in between. Rows that wait for places go, too
    alike    merged tables whose source tables are not alike stay so, and are looked at again later   groups.py
    remove   the target's tables: those that the task has made go, others are emptied  renewal.py
    expect   definitions as they are now. Until here what the target has was made after the old ones, from here on after
             these: a table that is altered once more, and whoever dies, it is known for the task's
    create   what was removed, and what is new; then nobody needs the records of whose a removed row was
    begin    one transaction for all sources: births, `skip_until` = P0', new chunks

    P0 ─── ALTER t ─── RENAME a TO b ─── P0' ──────────── Pend
    rows and DDL of t, a and b up to P0' are in their second copies; a is gone there; the sync replays what comes behind

All sources of a run are looked at together, as a merged table takes rows of several. No source can join one that is in
doubt (merge/joining.py), and one that has joined is seen in the transaction that doubts. What may still be sent to the
target by a run that died is waited for at each of the sources, as any of them may have been the one that removed.

A merged table that others feed than this run is not this run's to remove: behind `doubt` its tables *leave* it, and in
`begin` they come back (visiting.py); without a key only those that have no rows there yet, as the log has what comes
behind the copies of the others (whole.py). Nor is what a copy is meant to overwrite: there the log is applied up to P0'
(by_log.py); with task-mode full the table stays what it is, and is written over once more.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_provider_dm.engine.copy.alike import why_unlike
from airflow_provider_dm.engine.copy.altered import Altered
from airflow_provider_dm.engine.copy.by_log import SETTLE_ATTEMPTS, go_behind
from airflow_provider_dm.engine.copy.design import Design, design
from airflow_provider_dm.engine.copy.groups import Groups, Member, strangers, to_copy_again
from airflow_provider_dm.engine.copy.renewal import (
    Found,
    Renewal,
    Shard,
    Sides,
    dropped,
    renewed_together,
)
from airflow_provider_dm.engine.copy.snapshot import WatermarkBlocked
from airflow_provider_dm.engine.copy.visiting import (
    check_may_enter,
    is_fed_by_others,
    leave,
    leaves,
    unrecorded_visitors,
    visitors,
    why_not_back,
    widen,
)
from airflow_provider_dm.engine.copy.watch import Seen, Settled, Watch
from airflow_provider_dm.engine.copy.whole import got_rows
from airflow_provider_dm.engine.ddl.create_like import create_schema_like
from airflow_provider_dm.engine.ddl.server import server_of
from airflow_provider_dm.engine.errors import DmError, Reaction, Scope
from airflow_provider_dm.engine.merge.recorded_key import recorded_key
from airflow_provider_dm.engine.mysql.connection import Connection, connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.births import read_births, settled_births
from airflow_provider_dm.engine.reading.chunks import plan_chunks
from airflow_provider_dm.engine.reading.survey import SourceTable, TargetSurvey, measure, survey_target
from airflow_provider_dm.engine.schema.catalogue import TableNotFound, create_statement, existing, read_tables
from airflow_provider_dm.engine.target.contested_row import withdraw_all
from airflow_provider_dm.engine.target.copied_tables import (
    CopiedTable,
    Leave,
    doubt_copied_tables,
    note_leaves,
    put_copied_tables,
)
from airflow_provider_dm.engine.target.copy_progress import ChunkProgress, add_chunks, forget_chunks
from airflow_provider_dm.engine.target.ddl_execution import TargetDdl, end_earlier_ddl, execute_ddl
from airflow_provider_dm.engine.target.ddl_journal import forget_entries
from airflow_provider_dm.engine.target.owner_keys import save_owner_keys
from airflow_provider_dm.engine.target.owner_numbers import give_owner_numbers, lock_owner_numbers, remove_owner
from airflow_provider_dm.engine.target.row_owner import forget_some
from airflow_provider_dm.engine.target.session import run_transaction
from airflow_provider_dm.engine.target.table_definitions import Definition, save_definitions
from airflow_provider_dm.engine.target.table_schema import (
    TableSchema,
    forget_table_schemas,
    load_feeders,
    put_table_schemas,
)

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 20.0
"""Between two looks while pages are read: a look asks for every table of the sources."""
LOOK_SHARE: Final = 20
"""Where there are many tables: so many times longer is copied than looked."""
SWAP_SECONDS: Final = 3.0
"""A table may be away for so long while another one takes its place by a second statement."""
WAIT_LOOK_SECONDS: Final = 3.0
"""Between two looks where nothing is left to copy but tables that wait for each other."""
WAIT_SECONDS: Final = 600.0
RECORDS_OF_A_TRANSACTION: Final = 10_000


class ShardsUnlike(DmError):
    """The source tables of a merged table have not been altered alike for long."""

    target: str
    why: str
    seconds: float

    code = "DM-7023"
    scope = Scope.UPSTREAM
    reaction = Reaction.RETRY
    what = (
        "tables that are merged into {target} were altered while they were copied, and are not alike since: {why}. "
        "Nothing else is left to copy, and they have been waited for {seconds:.0f} s."
    )
    hint = (
        "They are copied again when all of them have made the same DDL: make it in the others too, or undo it. Sources "
        "that sync already make it in the target when their shards have. The next run waits for that as well."
    )


@dataclass
class Watches:
    """The sources of a run that are being copied, and what was altered meanwhile. For the thread of the driver."""

    target: Endpoint
    each: Sequence[Watch]
    apply_log: Callable[[str], bool]
    """See `Hooks`."""
    waits: dict[TableName, str] = field(default_factory=dict)
    """The merged tables whose source tables are not alike, and why."""
    merged: bool = False
    """There are merged tables that this run may copy again, or its part of them."""
    took: bool = False
    """The last look has taken pages away that were being copied, or reads others from here on, so what went wrong with
    them is past. Not so where tables only go on waiting: that excuses nothing of the others.
    """
    _looked_at: float = field(default_factory=time.monotonic)
    _pause: float = LOOK_SECONDS
    _idle_since: float | None = None
    _gone: dict[Member, float] = field(default_factory=dict)
    """Since when tables are known to be away."""

    def look_now_and_then(self) -> bool:
        """Look if the last look is long ago. Tells and raises what `look` does."""
        return time.monotonic() - self._looked_at >= self._pause and self.look()

    def look(self, *, closing: bool = False) -> bool:
        """Look what was altered, and begin to copy it again; tell whether there is anything, though it may wait.

        `closing`: the pages are behind us, and each Pend; what is new in merged tables counts as well where a log is
        read (groups.py).
        Raises SchemaChangedDuringCopy, WatermarkBlocked (retry), Fenced, and what planning and creating tables raises.
        """
        began = time.monotonic()
        self.took = False
        seen = [self._seen(watch) for watch in self.each]
        self._looked_at = time.monotonic()
        self._pause = max(LOOK_SECONDS, LOOK_SHARE * (self._looked_at - began))
        if any(one.watch.altered_by_log(one) for one in seen):
            return True  # asked to stop
        again, groups = self._found(seen, closing=closing)
        if again:
            self._copy_again(closing=closing)
        else:
            self.waits = {}
            for one in seen:
                one.watch.seal(one, groups.names(one.watch.source.id))
        for watch in self.each:
            watch.looked()
        return bool(again)

    def _seen(self, watch: Watch) -> Seen:
        """Return how a source stands, behind what was altered of it there where its log is applied."""
        seen = watch.see(read_births(watch.source.endpoint, watch.source.rules.block_allow))
        altered = bool(watch.altered_by_log(seen))
        self.took |= altered
        return go_behind(self.target, watch, self.apply_log) if altered else seen

    def wait(self) -> None:
        """Wait a little where nothing is left to copy but tables that are not alike. Raises ShardsUnlike."""
        if not self.waits:
            self._idle_since = None
            return
        now = time.monotonic()
        self._idle_since = self._idle_since or now
        if now - self._idle_since >= WAIT_SECONDS:
            target, why = min(self.waits.items())
            raise ShardsUnlike(str(target), why, now - self._idle_since)
        time.sleep(WAIT_LOOK_SECONDS)

    def _found(self, seen: Sequence[Seen], *, closing: bool) -> tuple[dict[str, Altered], Groups]:
        """Return what has to be copied again, by source. Raises SchemaChangedDuringCopy."""
        sides = [one.side for one in seen]
        groups = Groups.of(sides, seen[0].stand.feeders if seen else ())
        self.merged = bool(groups.together)
        for one in seen:
            one.watch.check_newcomers(one, groups)
            one.watch.check_strangers(strangers(one.side, groups), one)
        closing = closing and any(watch.reads_log for watch in self.each)
        return to_copy_again(sides, groups, closing=closing), groups

    def _copy_again(self, *, closing: bool) -> None:
        settled, groups, noted = self._settle(closing=closing)
        self.took |= any(_was_copied(one) for one in settled)
        for one in settled:
            leave(self.target, one, noted[one.watch.source.id])
        widen(self.target, settled, groups)
        waits = why_not_back(settled, groups, self.target, noted)
        waits |= why_unlike(settled, groups, self.target) if settled and groups.together else {}
        for target, why in waits.items():
            if self.waits.get(target) != why:
                log.warning("%s is copied again when its source tables are alike: %s", target, why)
        self.waits = waits
        work = [one for one in (each.without(waits) for each in settled) if one.names]
        if not work:
            return
        self._idle_since, self.took = None, True
        for one in work:
            log.warning(
                "%s: tables were altered while they were copied; from %s on they are copied again: %s; gone: %s",
                *(one.watch.source.id, one.place),
                *(_listed([table.table.name for table in one.survey.tables]), _listed(one.gone)),
            )
        self._renew([one for one in (each.without(groups.visited) for each in work) if one.names])
        made = self._design(work, frozenset(), groups.visited)
        for one in work:
            self._forget_records(one)
        numbers = self._begin(work, made, groups)
        for one in work:
            one.watch.go_on_with(one, made, numbers.get(one.watch.source.id, {}))

    def _settle(self, *, closing: bool) -> tuple[list[Settled], Groups, dict[str, dict[TableName, Leave]]]:
        """Return the tables as they are at places of their logs, in doubt from here on; none where all are what they
        were after all. And how those leave of which others go on to fill the merged table.
        """
        began = time.monotonic()
        for _ in range(SETTLE_ATTEMPTS):
            seen = [
                watch.see(settled_births(watch.source.endpoint, watch.source.rules.block_allow)) for watch in self.each
            ]
            again, groups = self._found(seen, closing=closing)
            if not again:
                return [], groups, {}
            if (left := self._swapping(again)) > 0:
                time.sleep(left)
                continue
            settled = [self._settled(one, again[one.side.source]) for one in seen if one.side.source in again]
            whole = [one for one in settled if one is not None]
            if len(whole) == len(settled):
                noted = leaves(whole, groups, self.target)
                unrecorded = {one.watch.source.id: unrecorded_visitors(one, groups) for one in whole}
                if self._doubt(whole, groups, noted, unrecorded):
                    return whole, groups, noted
            log.info("tables are being altered, looking again")
        names = ", ".join(watch.source.id for watch in self.each)
        raise WatermarkBlocked(names, "tables that are altered all the time", time.monotonic() - began)

    def _swapping(self, again: Mapping[str, Altered]) -> float:
        """Return for how many seconds tables that are away may yet be replaced by others."""
        now = time.monotonic()
        gone = {(source, name) for source, found in again.items() for name in found.vanished}
        self._gone = {one: self._gone.get(one, now) for one in gone}
        return max(self._gone.values(), default=now - SWAP_SECONDS) + SWAP_SECONDS - now

    def _settled(self, one: Seen, found: Altered) -> Settled | None:
        try:
            return one.watch.settle(one, found)
        except TableNotFound:
            return None  # it is gone since

    def _doubt(
        self,
        settled: Sequence[Settled],
        groups: Groups,
        noted: Mapping[str, Mapping[TableName, Leave]],
        unrecorded: Mapping[str, Sequence[TableName]],
    ) -> bool:
        """Count them as tables to be copied again, and forget what a run that died has noted of its DDL here.

        Tell whether the merged ones that are to be removed are still this run's alone, and of which no row was to be
        there, none is.
        """

        def body(connection: Connection) -> bool:
            for one in settled:
                one.watch.source.fence.check(connection)
                if got_rows(connection, one.watch.source.fence.ref, unrecorded[one.watch.source.id]):
                    return False
            if self.merged or any(one.left for one in settled):
                ref = settled[0].watch.source.fence.ref
                lock_owner_numbers(connection, ref)
                if is_fed_by_others(load_feeders(connection, ref), settled, groups, self._run):
                    return False
            for one in settled:
                ref = one.watch.source.fence.ref
                doubt_copied_tables(connection, ref, one.names)
                note_leaves(connection, ref, noted[one.watch.source.id])
                withdraw_all(connection, ref, one.names)
                for name in one.names:
                    forget_chunks(connection, ref, name)
                forget_entries(connection, ref, one.place.sort_key)
            return True

        return run_transaction(self.target, body)

    @property
    def _run(self) -> frozenset[str]:
        return frozenset(watch.source.id for watch in self.each)

    def _renew(self, work: Sequence[Settled]) -> None:
        """Bring the target's tables into their new form, without rows."""
        for watch in self.each if self.merged else ():
            end_earlier_ddl(self.target, watch.source.fence)
        plans, schemas = self._renewals(work)
        removals: defaultdict[str, list[TargetDdl]] = defaultdict(list)
        creations: defaultdict[str, list[TargetDdl]] = defaultdict(list)
        for target, (source, plan) in plans.items():
            creations[source] += schemas.get(target, [])
            removals[source] += [plan.removal] if plan.removal is not None else []
            creations[source] += [plan.creation] if plan.creation is not None else []
        for one in work:
            self._execute(one, removals[one.watch.source.id], first=0)
        for one in work:
            self._expect(one)
        for one in work:
            source = one.watch.source.id
            self._execute(one, creations[source], first=len(removals[source]))

    def _execute(self, one: Settled, statements: Sequence[TargetDdl], *, first: int) -> None:
        execute_ddl(self.target, one.watch.source.fence, one.place.sort_key, statements, [], first=first)

    def _renewals(
        self, work: Sequence[Settled]
    ) -> tuple[dict[TableName, tuple[str, Renewal]], dict[TableName, list[TargetDdl]]]:
        """Return what becomes of each of the target's tables, with the source that does it, and the statements for
        schemas that new ones lie in.
        """
        with connected(self.target) as connection:
            targets = {table.target for one in work for table in one.survey.tables}
            there = existing(connection, targets)
            now = read_tables(connection, sorted(there))
            found = {name: Found(now[name], create_statement(connection, name)) for name in there}
            server = server_of(connection)
        shards: defaultdict[TableName, list[Shard]] = defaultdict(list)
        sources: dict[TableName, str] = {}
        schemas: dict[TableName, list[TargetDdl]] = {}
        for one in work:
            sides = Sides(one.survey.flavour, server, one.watch.source.subtask.strict_collations)
            for table in one.survey.tables:
                old = None if one.watch.keeps_rows else one.seen.stand.old(table.table.name)
                shards[table.target].append(Shard(table, old, sides))
                sources.setdefault(table.target, one.watch.source.id)
                if table.target not in there and table.target not in schemas:
                    schemas[table.target] = [_schema(table, one, sides)]
        removing = [one for one in work if not one.watch.keeps_rows]
        for one in removing:
            for name in one.gone:  # what is there may be made after it, and has its rows
                target = one.seen.stand.schemas[name].target
                if first := next(iter(shards.get(target, ())), None):
                    sides = Sides(one.survey.flavour, server, one.watch.source.subtask.strict_collations)
                    shards[target].append(Shard(first.new, one.seen.stand.old(name), sides))
        unfilled = {name for name, some in shards.items() if name in there and all(one.old is None for one in some)}
        if unfilled:
            self._design(work, targets - unfilled)  # now, as they are the task's from `_expect` on
        plans = {name: (sources[name], renewed_together(some, found.get(name))) for name, some in shards.items()}
        for one in removing:
            for name in one.gone:
                target = one.seen.stand.schemas[name].target
                plans.setdefault(target, (one.watch.source.id, Renewal(dropped(target))))
        return plans, schemas

    def _expect(self, one: Settled) -> None:
        """Write what the tables are now, as tables that are still to be copied again."""
        fence, tables = one.watch.source.fence, one.survey.tables

        def body(connection: Connection) -> None:
            fence.check(connection)
            _put(connection, one, tables)
            put_copied_tables(connection, fence.ref, {table.table.name: CopiedTable("") for table in tables})

        run_transaction(self.target, body)

    def _design(
        self, work: Sequence[Settled], but: Collection[TableName], filled: Collection[TableName] = ()
    ) -> Design:
        """Look whether the target's tables, as they are now, take the rows. `but`: tables not to look at; `filled`:
        those that others fill.

        Raises what `design` does.
        """
        surveys = [one.without(but).survey for one in work]
        subtasks = {one.watch.source.id: one.watch.source.subtask for one in work}
        there: TargetSurvey = survey_target(self.target, {table.target for one in surveys for table in one.tables})
        return design(surveys, subtasks, there, fresh=set(subtasks), copied_into=filled)

    def _forget_records(self, one: Settled) -> None:
        """Remove the records of rows that were removed."""
        fence, schemas = one.watch.source.fence, one.seen.stand.schemas
        for owner in [abs(schemas[name].owner) for name in one.names if name in schemas and schemas[name].owner]:

            def body(connection: Connection, owner: int = owner) -> int:
                fence.check(connection)
                return forget_some(connection, fence.ref, owner, RECORDS_OF_A_TRANSACTION)

            while run_transaction(self.target, body) == RECORDS_OF_A_TRANSACTION:
                pass

    def _begin(self, work: Sequence[Settled], made: Design, groups: Groups) -> dict[str, dict[TableName, int]]:
        """Write that they are copied from here on, and the chunks of that. Return the numbers of new merged ones."""
        planned = [(one, self._chunks(one), *_numbering(one, made, groups)) for one in work]
        keyless = {one.target.name for some in made.mappings.values() for one in some if one.target.identity is None}

        def body(connection: Connection) -> dict[str, dict[TableName, int]]:
            for one in work:
                one.watch.source.fence.check(connection)
            numbers: dict[str, dict[TableName, int]] = {}
            for one, chunks, without, kept, needless in planned:
                source, place, births = one.watch.source, one.place.sort_key, one.births.tables
                ref, names = source.fence.ref, [table.table.name for table in one.survey.tables]
                check_may_enter(connection, one, groups.visited.keys() - keyless, self._run)
                _put(connection, one, [table for table in one.survey.tables if table.target in groups.visited])
                forget_table_schemas(connection, ref, one.gone)
                known = {name: CopiedTable(str(births[name]), place) for name in names}
                put_copied_tables(connection, ref, known | {name: CopiedTable("", place) for name in one.gone})
                for name in names:
                    forget_chunks(connection, ref, name)
                add_chunks(connection, source.fence, chunks)
                forget_entries(connection, ref, place)
                save_owner_keys(connection, ref, kept)
                for name in needless:
                    remove_owner(connection, ref, name)
                numbers[source.id] = dict.fromkeys(needless, 0) | give_owner_numbers(connection, ref, without)
            return numbers

        numbers = run_transaction(self.target, body)
        for one, chunks, *_ in planned:
            one.watch.last_chunk += len(chunks)
        return numbers

    def _chunks(self, one: Settled) -> list[ChunkProgress]:
        source, watch = one.watch.source, one.watch
        sizes = measure(source.endpoint, [(table.table, table.rows) for table in one.survey.tables])
        planned = plan_chunks(sizes, slots=watch.slots, chunk_rows=source.subtask.mydumper.rows)
        return [replace(chunk, number=watch.last_chunk + 1 + chunk.number) for chunk in planned]


def _put(connection: Connection, one: Settled, tables: Sequence[SourceTable]) -> None:
    """Write what tables are at the place from which on they are copied."""
    ref, place = one.watch.source.fence.ref, one.place.sort_key
    put_table_schemas(connection, ref, [TableSchema(table.table, table.target, place) for table in tables])
    save_definitions(connection, ref, {table.table.name: Definition(table.create) for table in tables})


def _was_copied(one: Settled) -> bool:
    """Tell whether any of the tables had chunks: those that a look has put in doubt before have none."""
    return not {chunk.table for chunk in one.seen.stand.chunks}.isdisjoint(one.names)


def _numbering(
    one: Settled, made: Design, groups: Groups
) -> tuple[dict[TableName, str], dict[int, str], list[TableName]]:
    """Return the merged tables of a source whose rows have to be recorded and have no number, with their keys; the keys
    of the numbers that go on, whose records were removed; and the tables that have a number and no key any more that
    tells their rows apart.
    """
    ours, schemas = one.watch.source.id, one.seen.stand.schemas
    left = {*one.away, *visitors(one, groups)}
    numbered = {name for name, schema in schemas.items() if schema.owner > 0} - left
    merged = [m for m in made.mappings[ours] if m.target.name in groups.together or m.source.name in left]
    keys = {m.source.name: recorded_key(m.target) for m in merged if m.target.identity is not None}
    without = {name: key for name, key in keys.items() if name not in numbered}
    kept = {schemas[name].owner: key for name, key in keys.items() if name in numbered}
    needless = [m.source.name for m in merged if m.target.identity is None and m.source.name in numbered]
    return without, kept, needless


def _schema(table: SourceTable, one: Settled, sides: Sides) -> TargetDdl:
    collation = one.survey.collations[table.table.name.schema]
    made = create_schema_like(
        table.target.schema,
        collation,
        source_flavour=sides.source,
        target_flavour=sides.target.flavour,
        strict=sides.strict,
    )
    return TargetDdl(made.sql(), ())


def _listed(names: Collection[TableName]) -> str:
    return ", ".join(map(str, names)) or "none"
