"""Setting rows of held shards aside, where others wait for their places: what the sync of one source does about it.

The rule is `shard/giving_way.py`'s, what becomes of a row is asked of what was held back (`held_log.py`). Here they
meet the target: while rows wait for places in a merged table of which this source holds rows back, their holders are
looked for, and those that were rows of these shards, and give the place up, are taken out in one transaction behind the
fence. A crash in front of it leaves nothing, one behind it a row that is set aside, which the re-sync comes to.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.merge.collision import identity_of
from airflow_provider_dm.engine.merge.servers import Servers
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.mapping import TableMapping, value_signature
from airflow_provider_dm.engine.schema.codec import codec_for
from airflow_provider_dm.engine.schema.model import Index
from airflow_provider_dm.engine.shard.giving_way import gives_up, held_pieces, keys_stay
from airflow_provider_dm.engine.shard.group import Group
from airflow_provider_dm.engine.sync.epoch import EpochSize
from airflow_provider_dm.engine.sync.runner import Runner
from airflow_provider_dm.engine.sync.shard_ddl.held_log import HeldLog, Identity, Keys
from airflow_provider_dm.engine.sync.source import SyncSource
from airflow_provider_dm.engine.sync.write.apply import MissingRow
from airflow_provider_dm.engine.target.contested_row import (
    ContestedRow,
    lock_rows,
    rows_for,
    set_aside,
    set_aside_of,
    take_aside,
)
from airflow_provider_dm.engine.target.identity import SubtaskRef
from airflow_provider_dm.engine.target.row_key import row_key
from airflow_provider_dm.engine.target.row_owner import RowOwner
from airflow_provider_dm.engine.target.shard_groups import executed_ddls, note_look
from airflow_provider_dm.engine.target.statements import delete_rows

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.5
ROWS_OF_A_LOOK: Final = 1_000

Wanted: TypeAlias = dict[TableName, dict[Identity, list[Index]]]
"""Shard -> identity of a row that may be its -> the unique keys in which another row waits for its place."""


class RowSetAsideStays(DmError):
    """A row was set aside for what its log said of it, and all of that log is applied without that."""

    source: str
    table: str
    rows: int

    code = "DM-6061"
    what = (
        "{source}: {rows} rows of {table} were taken out of the target for others, as what was held back of {table} "
        "gives up their places. All of it is applied now, and did not."
    )
    hint = (
        "A filter rule was added meanwhile, or a statement was skipped by hand. The rows "
        "without an image in dm_contested_row are they: where the source has such a row, write it to the target, if "
        "its place is free; then remove it from dm_contested_row, and run the task again."
    )


@dataclass
class GivingWay:
    """The rows that one source sets aside; for the thread of its sync."""

    source: SyncSource
    runner: Runner
    store: MetaStore
    stop: threading.Event
    servers: Servers
    spares: Callable[[TableMapping], bool] | None = None
    """See `Contests.spares`: nothing is set aside for such rows."""
    _logs: dict[tuple[TableName, int], HeldLog] = field(default_factory=dict)
    """The logs that are read ahead, by merged table and the number of its DDL whose turn it is."""
    _behind: dict[TableName, int] = field(default_factory=dict, init=False)
    """The last row that was looked for in this round, by merged table; 0: the next round begins."""
    _due: float = field(default=0.0, init=False)

    def look(self, groups: Iterable[Group], here: Location, size: EpochSize, *, now: bool = False) -> bool:
        """Set aside what can be. Tell whether there was any. `here`: where all buckets stand. `now`: however long it
        takes.

        Raises Fenced, TargetWentBack, MissingRow, and what reading the log raises.
        """
        if not now and time.monotonic() < self._due:
            return False
        began = time.monotonic()
        found = [self._look_at(group, here, size, now=now) for group in groups if group.resync is None]
        self._due = time.monotonic() + max(LOOK_SECONDS, time.monotonic() - began)
        return any(found)

    def _look_at(self, group: Group, here: Location, size: EpochSize, *, now: bool) -> bool:
        ref, target, behind = self.source.fence.ref, group.target, self._behind.get(group.target, 0)
        rows = self.servers.transactions(
            lambda connection: rows_for(connection, ref, target, behind=behind, most=ROWS_OF_A_LOOK)
        )
        # Asked behind it: as long as it has not been run all rows that wait have the form in front of it.
        if not (rows or behind) or self._is_run(group) or self._is_recorded(target):
            self._logs = {known: one for known, one in self._logs.items() if known[0] != target}
            return False
        count = self._look_into(group, rows, here, size, now=now)
        if count is None:
            return False
        self._behind[target] = rows[-1].id if len(rows) == ROWS_OF_A_LOOK else 0
        if not self._behind[target]:
            fence = self.source.fence
            self.servers.transactions(lambda connection: note_look(connection, fence, target))
        return count > 0

    def _look_into(
        self, group: Group, rows: Collection[ContestedRow], here: Location, size: EpochSize, *, now: bool
    ) -> int | None:
        """Return how many rows are set aside for these; None: the log is not read to its end yet."""
        if not rows:
            return 0
        try:
            wanted = self._wanted(group, rows)
        except (DmError, LookupError, ValueError):
            ids = [row.id for row in rows]
            if self.servers.transactions(lambda connection: lock_rows(connection, self.source.fence.ref, ids)):
                raise
            return None  # others have settled them, and run the DDL: tables have another form than these rows
        if not wanted:
            return 0
        log_of_group = self._log_of(group, wanted)
        looked_at = (one for one in group.members if one.items and one.table in log_of_group.wanted)
        pieces = [piece for one in looked_at for piece in held_pieces(one, here)]
        if not log_of_group.read(pieces, size, to_the_end=now):
            return None
        count = 0
        for table, places in wanted.items():
            fates = {identity: log_of_group.fates.get((table, identity)) for identity in places}
            aside = [
                identity
                for identity, fate in fates.items()
                if fate is not None and gives_up(fate, [_lowered(key.columns) for key in places[identity]])
            ]
            if aside:
                count += self._set_aside(group.target, table, aside, here)
        return count

    def _is_run(self, group: Group) -> bool:
        ref, target = self.source.fence.ref, group.target
        return self.servers.transactions(lambda connection: executed_ddls(connection, ref, target)) > group.resolved

    def _is_recorded(self, target: TableName) -> bool:
        """Tell whether what an owner has in the target is not told by its log alone (merge/records.py)."""
        return any(one.target == target and one.owner > 0 for one in self.servers.feeders())

    def _wanted(self, group: Group, rows: Iterable[ContestedRow]) -> Wanted:
        """Return the rows that stand in the way of others, as each shard would have them, and those of these shards
        that wait themselves."""
        target, me = group.target, self.source.fence.ref.source
        members = [(one, self.servers.mapped(me, one.table, target)) for one in group.members if one.items]
        mappings = {one.table: mapping for one, mapping in members if keys_stay(one, _keys(mapping).own)}
        found: defaultdict[TableName, defaultdict[Identity, list[Index]]] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            mapping = self.servers.mapped(row.source, row.table, target)
            if self.spares is not None and self.spares(mapping):
                continue
            for holder in self.servers.holders(row, mapping):
                for table, mine in mappings.items():
                    identity = _as_of_shard(holder.identity, mine)
                    if identity is not None:
                        found[table][identity].append(holder.key)
                if row.source == me and row.table in mappings:
                    found[row.table][tuple(identity_of(row.row, mapping).values())].append(holder.key)
        return {table: dict(places) for table, places in found.items()}

    def _log_of(self, group: Group, wanted: Wanted) -> HeldLog:
        known = self._logs.get((group.target, group.resolved))
        if known is not None and known.knows(wanted):
            return known
        rows = {table: frozenset(places) for table, places in wanted.items()}
        for table, before in known.wanted.items() if known is not None else ():
            rows[table] = rows.get(table, frozenset()) | before
        me = self.source.fence.ref.source
        keys = {table: _keys(self.servers.mapped(me, table, group.target)) for table in rows}
        fresh = HeldLog(self.source, self.runner, self.store, self.stop, keys, rows)
        self._logs[group.target, group.resolved] = fresh
        return fresh

    def _set_aside(self, target: TableName, table: TableName, rows: Collection[Identity], here: Location) -> int:
        fence, access = self.source.fence, self.servers.access()
        mapping = self.servers.mapped(fence.ref.source, table, target)
        owner, by_key = RowOwner(fence.ref, table), {row_key([value or b"" for value in row]): row for row in rows}
        columns = [mapping.source.column(name) for name in _identity(mapping)]
        flavour = access.dialect.server.flavour
        literals = [codec_for(table, column).literal(flavour) for column in columns]

        def body(connection: Connection) -> int:
            fence.check(connection)
            placed, found = set_aside(connection, owner, by_key)
            keys = [
                tuple([literal(value or b"") for literal, value in zip(literals, by_key[key], strict=True)])
                for key in placed
            ]
            for statement in delete_rows(mapping, keys, dialect=access.dialect):
                met = access.execute(connection, statement)
                if met != statement.rows:
                    raise MissingRow(str(target), "DELETE", statement.rows, met, log=f"at {here}")
            take_aside(connection, owner, target, placed)
            return found + len(placed)

        count = self.servers.transactions(body)
        if count:
            log.info("%d rows of %s are set aside, for others that wait for places in %s", count, table, target)
        return count


def check_none_stays(connection: Connection, ref: SubtaskRef, ready: Collection[TableName]) -> None:
    """Check that no rows are set aside of shards all of whose log is applied. Raises RowSetAsideStays."""
    for table, rows in set_aside_of(connection, ref).items():
        if table in ready:
            raise RowSetAsideStays(ref.source, str(table), rows)


def _identity(mapping: TableMapping) -> tuple[str, ...]:
    identity = mapping.target.identity
    assert identity is not None
    return identity.columns


def _lowered(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


def _keys(mapping: TableMapping) -> Keys:
    """Return the columns that are looked at: those of the target's unique keys that the shard has."""
    columns = {column.name.lower(): column for column in mapping.source.columns}
    names = {name for key in mapping.target.unique_keys for name in _lowered(key.columns)} & columns.keys()
    constants = {name: one.constant for name in names if (one := columns[name]).constant is not None}
    identity = _lowered(_identity(mapping))
    return Keys(identity, tuple(sorted(names.difference(identity, constants))), tuple(constants.items()))


def _as_of_shard(found: Mapping[str, bytes | None], mapping: TableMapping) -> Identity | None:
    """Return the identity of a row of the target as a shard's log would have it; None: it cannot be, or be told."""
    identity = []
    for name in _identity(mapping):
        mine, value = mapping.source.column(name), found[name]
        if value_signature(mine) != value_signature(mapping.target.column(name)):
            return None
        if mine.constant not in (None, value):
            return None
        identity.append(value)
    return tuple(identity)
