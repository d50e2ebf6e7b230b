"""Copying tables again whose merged table others go on to fill: this run's tables leave it, and come back.

    leave    their chunks go, and their rows that wait (again.py); then their rows, which are recorded (departure.py)
    away     no row of theirs is in the target, and they count no more for who feeds the merged table. So the other
             sources agree on the DDL without them, and make it there. What a run that died has left is told by births
    back     when their source tables are alike, and the target's table shows the DDL: as any source that joins, from a
             low watermark of their own, with numbers of their own

    a (syncs)   ALTER o_1: held ─────────── o is altered ─── rows of o_1 in the new form
    b (copied)        ALTER o_3: leaves ─── away ─────────── back: from P0' on

Where nobody is left that feeds the merged table, it is the first one's that looks (groups.py): two runs that copy its
source tables may both have left. A source that rejoins in another turn of the shards' DDL than the target is in could
never agree with the others again: so nothing may be held there, and what was alike has to be alike. Where nobody agrees
(task-mode full, or without `shard-mode`) a table is enough that takes the rows; columns that it lacks are added to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from airflow_provider_dm.engine.copy.additions import additions
from airflow_provider_dm.engine.copy.groups import Groups
from airflow_provider_dm.engine.copy.renewal import Found, Sides
from airflow_provider_dm.engine.copy.shown import Form, form_after, form_there
from airflow_provider_dm.engine.copy.watch import Settled
from airflow_provider_dm.engine.ddl.server import Server, server_of
from airflow_provider_dm.engine.merge.departure import remove_rows
from airflow_provider_dm.engine.merge.joining import (
    Newcomer,
    OwnerNotReady,
    check_none_in_doubt,
    read_others,
    recorded_tables,
)
from airflow_provider_dm.engine.mysql.connection import Connection, connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.survey import SourceTable
from airflow_provider_dm.engine.rules.mapping import TableMapping, TargetTableMismatch, map_table
from airflow_provider_dm.engine.schema.catalogue import create_statement, existing, read_tables
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.target.copied_tables import Leave, note_leaves
from airflow_provider_dm.engine.target.ddl_execution import TargetDdl, execute_ddl
from airflow_provider_dm.engine.target.owner_numbers import lock_owner_numbers, remove_owner
from airflow_provider_dm.engine.target.row_owner import RowOwner
from airflow_provider_dm.engine.target.session import run_transaction
from airflow_provider_dm.engine.target.shard_groups import held_shards
from airflow_provider_dm.engine.target.table_schema import Feeder


def visitors(one: Settled, groups: Groups) -> list[TableName]:
    """Return the tables of a source that are to be copied again and were known in merged tables which others fill."""
    schemas = one.seen.stand.schemas
    return [name for name in one.names if name in schemas and _target(one, name) in groups.visited]


def unrecorded_visitors(one: Settled, groups: Groups) -> list[TableName]:
    """Return those that have no row in the merged table, and whose rows would not be recorded (whole.py)."""
    known, schemas = one.seen.stand.known, one.seen.stand.schemas
    found = visitors(one, groups)
    return [name for name in found if not schemas[name].owner and (name not in known or known[name].leave is None)]


def leaves(settled: Sequence[Settled], groups: Groups, target: Endpoint) -> dict[str, dict[TableName, Leave]]:
    """Return how each of the visitors leaves, or has left, by source. Asked before the target can be altered for it."""
    found: defaultdict[str, dict[TableName, Leave]] = defaultdict(dict)
    wanted = {_target(one, name) for one in settled for name in visitors(one, groups)}
    server, there = _read_there(target, wanted) if wanted else (None, {})
    for one in settled:
        collations = {table.table.name: table.collation for table in one.survey.tables}
        for name in visitors(one, groups):
            known, old = one.seen.stand.known.get(name), one.seen.stand.old(name)
            leave = known.leave if known is not None else None
            if leave is None and server is not None and old is not None and old[1] and name in collations:
                sides, to = _sides(one, server), _target(one, name)
                made = form_after(old[1], old[0], to, collations[name], sides)
                leave = Leave(False, made is not None and to in there and made == form_there(there[to], sides))
            found[one.watch.source.id][name] = leave or Leave(False, False)
    return found


def leave(target: Endpoint, one: Settled, noted: Mapping[TableName, Leave]) -> None:
    """Remove the rows of a source's visitors, and let them count no more. Raises what `remove_rows` does."""
    going = [name for name, how in noted.items() if not how.away]
    if not going:
        return
    fence, schemas = one.watch.source.fence, one.seen.stand.schemas
    _, there = _read_there(target, {_target(one, name) for name in going})
    for name in going:
        number, found = abs(schemas[name].owner), there.get(_target(one, name))
        if number:
            mapping = None if found is None else TableMapping(schemas[name].table, found.table)
            remove_rows(target, fence, RowOwner(fence.ref, name, number), mapping)

    def away(connection: Connection) -> None:
        fence.check(connection)
        lock_owner_numbers(connection, fence.ref)
        for name in going:
            remove_owner(connection, fence.ref, name)
        note_leaves(connection, fence.ref, {name: Leave(True, noted[name].alike) for name in going})

    run_transaction(target, away)


def widen(target: Endpoint, settled: Sequence[Settled], groups: Groups) -> None:
    """Add the columns to merged tables that this run's tables have got, where nobody agrees on DDL.

    Raises what executing DDL raises.
    """
    for one in (one for one in settled if not one.watch.agrees):
        tables = [table for table in one.survey.tables if table.target in groups.visited]
        if not tables:
            continue
        server, there = _read_there(target, {table.target for table in tables})
        sides, wanted = _sides(one, server), dict[TableName, TargetDdl]()
        for table in (table for table in tables if table.target in there):
            added = additions(table, there[table.target], sides)
            if added is not None:
                wanted.setdefault(table.target, added)
        execute_ddl(target, one.watch.source.fence, one.place.sort_key, list(wanted.values()), [])


def why_not_back(
    settled: Sequence[Settled], groups: Groups, target: Endpoint, noted: Mapping[str, Mapping[TableName, Leave]]
) -> dict[TableName, str]:
    """Return the merged tables that are not ready for this run's tables to come back, and why."""
    coming = {
        to: [(one, table) for one in settled for table in one.survey.tables if table.target == to]
        for to in groups.visited
    }
    coming = {to: some for to, some in coming.items() if some}
    if not coming:
        return {}
    server, there = _read_there(target, set(coming))
    waits: dict[TableName, str] = {}
    for to, some in coming.items():
        if to not in there:
            waits[to] = "the target has no such table"
        else:
            whys = (
                _not_shown(one, table, there[to], _sides(one, server), noted[one.watch.source.id])
                or _not_ready(one, there[to].table, target)
                for one, table in some
            )
            if why := next((why for why in whys if why), ""):
                waits[to] = why
    return waits


def check_may_enter(connection: Connection, one: Settled, targets: Collection[TableName], run: Collection[str]) -> None:
    """Check, in the transaction in which a source's tables come back, that they may. `targets`: those that have keys.

    Raises OwnerNotReady, and what is derived from it.
    """
    source = one.watch.source
    tables = {table.table.name: table.target for table in one.survey.tables if table.target in targets}
    if tables:
        lock_owner_numbers(connection, source.fence.ref)
        others = read_others(connection, source.fence.ref, full=not one.watch.reads_log)
        check_none_in_doubt(source.id, tables, others, run)
        newcomers = [Newcomer(name, to, key="") for name, to in tables.items()]  # asked only whether they may
        recorded_tables(source.id, newcomers, others, (), loading=True)


def is_fed_by_others(
    feeders: Iterable[Feeder], settled: Sequence[Settled], groups: Groups, run: Collection[str]
) -> bool:
    """Tell whether others feed a merged table that is about to be removed for all: it is a run's own, or was left."""
    alone = set(groups.ours)
    for one in settled:
        alone |= {_target(one, name) for name in one.left} - groups.visited.keys()
    return any(one.target in alone and one.source not in run for one in feeders)


def _not_shown(one: Settled, new: SourceTable, there: Found, sides: Sides, noted: Mapping[TableName, Leave]) -> str:
    name = new.table.name
    try:
        map_table(new.table, there.table, new.extracted)
    except TargetTableMismatch as error:
        return f"the target's table does not take the rows of {name} ({one.watch.source.id}) as it is now: {error}"
    old = one.seen.stand.old(name)
    if old is None or not old[1] or not one.watch.agrees:
        return ""
    shows, now = form_there(there, sides), form_after(new.create, new.table, new.target, new.collation, sides)
    before = form_after(old[1], old[0], new.target, new.collation, sides)
    if shows is None or now is None or before is None:
        why = Form.of_rows(there.table).lacks(Form.of_rows(old[0]), Form.of_rows(new.table))
    else:
        why = shows.lacks(shows if noted[name].alike else before, now)
    return why and f"the target's table does not show what {name} ({one.watch.source.id}) was altered by: {why}"


def _not_ready(one: Settled, there: Table, target: Endpoint) -> str:
    ref, to = one.watch.source.fence.ref, there.name

    def body(connection: Connection) -> str:
        held = [f"{shard.member.table} ({shard.source})" for shard in held_shards(connection, ref, to)]
        if held:
            return f"rows of {', '.join(held)} are held back until its shards have made the same DDL"
        check_may_enter(connection, one, () if there.identity is None else (to,), (one.watch.source.id,))
        return ""

    try:
        return run_transaction(target, body)
    except OwnerNotReady as error:
        return str(error)


def _target(one: Settled, name: TableName) -> TableName:
    return one.watch.source.rules.router.route(name)


def _sides(one: Settled, server: Server) -> Sides:
    return Sides(one.survey.flavour, server, one.watch.source.subtask.strict_collations)


def _read_there(target: Endpoint, names: set[TableName]) -> tuple[Server, dict[TableName, Found]]:
    with connected(target) as connection:
        there = existing(connection, names)
        tables = read_tables(connection, sorted(there))
        return server_of(connection), {name: Found(tables[name], create_statement(connection, name)) for name in there}
