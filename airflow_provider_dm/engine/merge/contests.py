"""A driver's work on waiting rows: it moves them, examines them, and ends the run if they can never be placed.

At every check (every two seconds, after an epoch with waiting rows, at the end) it moves the rows whose keys are free.
Rows of its own source that have waited for CONTEST_SECONDS are examined (`collision`), earlier if there are too many. A
collision must be found twice, CONFIRM_SECONDS apart, before it ends the run.

If no source has the holder of a row's key, or a table has dropped a column of the key, the row waits until the log of
every source is applied up to its current end, and this twice. Then the holder is a foreign row (DM-6005). But if rows
of shards are held back, the DELETE of the holder may be one of them: the shards wait for a DDL, and the DDL waits for
the waiting row. This is DM-6057, which a user resolves at the source of the waiting row:

    t1 (held)    ALTER        DELETE k (held)
    t2                        INSERT k (waits: k is t1's in the target)        ALTER        DELETE k, by a user

If the source has changed or deleted a waiting row of a held shard, the row needs no image: its next events in the held
log suffice. So its image is removed, and no DDL waits for the row any more. The source was queried by the name of the
table, so the result is used once the log is applied up to the time of the query, if the table still has that name. A
row of a dropped shard no longer exists at its source.

In safe mode colliding rows do not end a run: they overwrite the holders of their keys (`is_exempt`:
sync/safe_mode/last_wins.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from airflow_provider_dm.engine.downstream.contested_row import (
    ContestedRow,
    forget_image,
    lock_rows,
    oldest_rows,
    waiting,
)
from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget, TargetBusy
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.shard_groups import HeldShard
from airflow_provider_dm.engine.merge.collision import (
    Collides,
    CollisionVerdict,
    row_identity,
    shown_values,
    verdict_on,
)
from airflow_provider_dm.engine.merge.errors import OtherSourcesNeeded, RowWaitsForHeldRow
from airflow_provider_dm.engine.merge.servers import ContestServers, KeyValues
from airflow_provider_dm.engine.merge.settling import Settler
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location, Order, compare, has_passed
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.shard.group import keeps_keys

log = logging.getLogger(__name__)

CONTEST_SECONDS: Final = 15.0
CONFIRM_SECONDS: Final = 2.0
JUDGE_SECONDS: Final = 5.0
FINISH_SECONDS: Final = 10.0
"""The time that a run at its goal waits for waiting rows."""
FINISH_POLL_SECONDS: Final = 0.5
ROWS_EXAMINED: Final = 20
ROWS_EXAMINED_NOW: Final = 200
WINDOWS: Final = 2


IsExempt: TypeAlias = Callable[[TableMapping], bool]
"""Returns True for a source table whose waiting rows are not examined, as they overwrite other rows later."""


@dataclass
class Contests:
    """The waiting rows in the tables of one task, for the driver of one source. For one thread."""

    fence: Fence
    servers: ContestServers
    most: int
    own_only: bool = False
    """See `Settler`."""
    is_filtered: Callable[[Table], bool] = lambda _: False
    """Returns True if a filter may ignore events of a source table."""
    rows: int = 0
    """The number of this source's rows that waited at the last check."""
    since: float | None = None
    """The time since which the oldest of these rows has waited, by the target's clock, in seconds since 1970."""
    _settler: Settler = field(init=False)
    _seen: dict[int, float] = field(default_factory=dict)
    """Rows that collided at the last check, with the time at which the collision was first found."""
    _held: dict[int, tuple[dict[str, Location], int]] = field(default_factory=dict)
    """For a row whose key a foreign row seems to hold: the ends of all logs then, and how often these were reached."""
    _past: dict[int, tuple[TableName, Location]] = field(default_factory=dict)
    """For a row that its source has changed: the table's name, and the end of the log, at the time of that query."""
    _due: float = 0.0
    _last_id: int = 0
    _unknown: bool = False

    def __post_init__(self) -> None:
        self._settler = Settler(
            self.fence, self.servers.transactions, self.servers.access, self.servers.mapped, own_only=self.own_only
        )

    def check(self, is_exempt: IsExempt, *, now: bool = False) -> int:
        """Move rows, then examine the remaining rows of this source if it is due (`now`: immediately).

        Return how many rows of this source wait. Raises RowsCollide, DuplicateInTarget, RowWaitsForHeldRow, Fenced.
        """
        mine, over = self._count()
        if mine is None:
            return 0
        if self._settle():
            mine, over = self._count()
        if not mine:
            self._seen.clear()
            self._held.clear()
            self._past.clear()
        elif now or over or self.servers.now() >= self._due:
            seconds = 0.0 if now or over else CONTEST_SECONDS
            self._examine(seconds, ROWS_EXAMINED_NOW if now else ROWS_EXAMINED, is_exempt)
        return self.rows

    def count(self) -> int:
        """Return how many rows of this source wait."""
        self._count()
        return self.rows

    def _settle(self) -> int:
        try:
            return self._settler.settle()
        except TargetBusy as busy:  # another session has long transactions; a later check moves them
            log.warning("%s: waiting rows were not moved: %s", self.fence.ref.source, busy)
            return 0

    def confirm(self, wait: Callable[[float], bool], is_exempt: IsExempt) -> int:
        """Examine the rows immediately, and again if some collide. `wait(seconds)` is True when the run should stop.

        Return and raise as `check`.
        """
        while self.check(is_exempt, now=True) and self._seen:
            if wait(CONFIRM_SECONDS):
                break
        return self.rows

    def finish(self, wait: Callable[[float], bool], is_exempt: IsExempt) -> int:
        """Wait up to FINISH_SECONDS for the rows. Rows that remain wait for logs that this run does not read.

        Return how many remain. Raises OtherSourcesNeeded if this run cannot decide, and the errors of `check`.
        """
        deadline, checks = self.servers.now() + FINISH_SECONDS, 0
        # A foreign holder is only found after WINDOWS checks.
        while self.confirm(wait, is_exempt) and (self.servers.now() < deadline or checks < WINDOWS):
            checks += 1
            if wait(FINISH_POLL_SECONDS):
                return self.rows
        if self.rows and self._unknown:
            raise OtherSourcesNeeded(self.fence.ref.source, self.rows)
        if self.rows:
            source = self.fence.ref.source
            log.warning("%s: %d rows wait for other sources to free their keys", source, self.rows)
        return self.rows

    def _count(self) -> tuple[int | None, bool]:
        """Return the number of rows of this source (None: no source has any), and True if one table has too many."""
        ref = self.fence.ref
        found = self.servers.transactions(lambda connection: waiting(connection, ref))
        mine = [waiting for waiting in found if waiting.source == ref.source]
        self.rows = sum(waiting.rows for waiting in mine)
        self.since = min((waiting.since for waiting in mine), default=None)
        return (self.rows if found else None), max((waiting.rows for waiting in mine), default=0) > self.most

    def _examine(self, seconds: float, most: int, is_exempt: IsExempt) -> None:
        ref, after = self.fence.ref, self._last_id
        rows = self.servers.transactions(
            lambda connection: oldest_rows(connection, ref, seconds=seconds, after=after, most=most)
        )
        if after and not rows:
            self._last_id = 0
            self._examine(seconds, most, is_exempt)
            return
        if not after and len(rows) < most:  # all rows were returned
            self._held = {row.id: self._held[row.id] for row in rows if row.id in self._held}
            self._past = {row.id: self._past[row.id] for row in rows if row.id in self._past}
        feeders = self.servers.feeders()
        held = {target: self.servers.held_shards(target) for target in {row.target for row in rows}}
        members = {
            (target, shard.source, shard.member.table): shard.member
            for target, shards in held.items()
            for shard in shards
        }
        collisions: list[Collides] = []
        self._unknown = False
        for row in rows:
            own_feeders = [feeder for feeder in feeders if feeder.target == row.target]
            mapping = self.servers.mapped(row.source, row.table, row.target)
            if is_exempt(mapping):
                continue
            member = members.get((row.target, row.source, row.table))
            dropped, kept = member is not None and member.is_dropped, _keep_keys(held[row.target], mapping)
            verdict = CollisionVerdict.PAST if dropped else verdict_on(row, mapping, own_feeders, self.servers)
            if isinstance(verdict, Collides):
                collisions.append(verdict)
                continue
            self._unknown |= verdict is CollisionVerdict.UNKNOWN
            if verdict is CollisionVerdict.FOREIGN or (
                verdict is CollisionVerdict.PAST and member is not None and not kept
            ):
                self._check_foreign(row, mapping, {feeder.source for feeder in own_feeders})
            else:
                self._held.pop(row.id, None)
            if verdict is CollisionVerdict.PAST and member is not None and kept:
                if dropped or (not self.is_filtered(mapping.source) and self._log_has_passed_query(row)):
                    self._forget_image(row)
        self._confirm(collisions)
        self._due = self.servers.now() + (CONFIRM_SECONDS if collisions else JUDGE_SECONDS)
        if not collisions:  # otherwise the next check examines the same rows
            self._last_id = rows[-1].id if len(rows) == most else 0

    def _confirm(self, collisions: list[Collides]) -> None:
        now = self.servers.now()
        self._seen = {collision.row.id: self._seen.get(collision.row.id, now) for collision in collisions}
        sure = [collision for collision in collisions if now - self._seen[collision.row.id] >= CONFIRM_SECONDS]
        if sure:
            raise sure[0].error(sure)

    def _log_has_passed_query(self, row: ContestedRow) -> bool:
        """Return True if the log is applied up to an earlier query for the row, and its table still has that name.

        Otherwise record the current end of the log for the next query.
        """
        table, end = self._past.get(row.id, (None, None))
        here = self.servers.applied(row.source)
        if end is not None and table == row.table and is_in_log_of(here, end):
            return have_applied({row.source: here}, {row.source: end})
        ends = self.servers.ends({row.source})
        if ends is not None:
            self._past[row.id] = row.table, ends[row.source]
        return False

    def _forget_image(self, row: ContestedRow) -> None:
        """Remove the image of a row that its source has changed or deleted, and whose log is held."""

        def body(connection: Connection) -> None:
            self.fence.check(connection)
            if lock_rows(connection, self.fence.ref, [row.id]) == [row]:
                forget_image(connection, self.fence.ref, row.id)

        self.servers.transactions(body)

    def _check_foreign(self, row: ContestedRow, mapping: TableMapping, sources: Collection[str]) -> None:
        if self.servers.is_releasing(row.target):
            self._held.pop(row.id, None)
            return
        ends, windows = self._held.get(row.id, (None, 0))
        if ends is not None and all(is_in_log_of(self.servers.applied(source), end) for source, end in ends.items()):
            if not have_applied({source: self.servers.applied(source) for source in ends}, ends):
                return
            windows += 1
            if windows == WINDOWS:
                raise self._never_placed(row, mapping)
        now = self.servers.ends(sources)
        if now is not None:
            self._held[row.id] = (now, windows)

    def _never_placed(self, row: ContestedRow, mapping: TableMapping) -> DuplicateInTarget | RowWaitsForHeldRow:
        held = self.servers.held_shards(row.target)
        if not held:
            return DuplicateInTarget(str(row.target), "/".join(key.name for key in mapping.target.unique_keys))
        holders = self.servers.holders(row, mapping)
        return RowWaitsForHeldRow(
            row.source,
            self.rows,
            str(row.table),
            _shown(row_identity(row.row, mapping)),
            str(row.target),
            _shown(holders[0].identity | holders[0].values) if holders else "(unknown)",
            ", ".join(f"{shard.member.table} ({shard.source})" for shard in held),
        )


def _keep_keys(held: Collection[HeldShard], mapping: TableMapping) -> bool:
    columns = {name.lower() for key in mapping.target.unique_keys for name in key.columns}
    return all(keeps_keys(shard.member, columns) for shard in held)


def _shown(values: KeyValues) -> str:
    pairs = zip(values, shown_values(values.values()), strict=True)
    return f"({', '.join(f'{name}: {value}' for name, value in pairs)})"


def end_in(place: Location, end: Location) -> Location:
    """Return `end`, a location of the upstream, with the sub-directory of the relay log that is read at `place`."""
    return replace(end, suffix=place.suffix)


def is_in_log_of(place: Location | None, end: Location) -> bool:
    """Return True unless a failover separates `end` from the log at `place`."""
    return place is None or compare(place, end_in(place, end)) is not Order.UNRELATED


def have_applied(here: Mapping[str, Location | None], ends: Mapping[str, Location]) -> bool:
    """Return True if every source has applied its log up to the given end. An unknown end counts as not reached."""
    return all(
        place is not None and source in ends and has_passed(place, end_in(place, ends[source]))
        for source, place in here.items()
    )
