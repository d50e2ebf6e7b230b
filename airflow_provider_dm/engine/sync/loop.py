"""The loop: plan a piece of the log, apply it, go on; until the goal, an error, or a wish.

A short conductor. What to apply next is planning.py's, how is epoch.py's, whether it counts is the frontier's
(target/frontier), what others are told is noting.py's. Here is only what ties them: the position, which moves when an
epoch is applied everywhere. A failed epoch is tried again with the same bounds, never another way.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, assert_never

from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, Planned, UpToDate
from airflow_provider_dm.engine.config.task import ShardMode
from airflow_provider_dm.engine.ddl.first_words import first_words
from airflow_provider_dm.engine.ddl.statements import PassedOver, Statement
from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.merge.writer import TooManyContested
from airflow_provider_dm.engine.meta.model import Operator, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location, Order, compare, missing_at
from airflow_provider_dm.engine.relay.health import SILENT_SECONDS
from airflow_provider_dm.engine.rules.online_ddl.outcomes import Apply, PassOver
from airflow_provider_dm.engine.shard.group import ShardDdlNotSupported
from airflow_provider_dm.engine.sync.ddl.by_hand import ByHand
from airflow_provider_dm.engine.sync.ddl.subtask_tables import (
    CannotFollow,
    NeedsAgreement,
    RefusedByFilter,
)
from airflow_provider_dm.engine.sync.ddl.verdict import (
    NOT_UNDERSTOOD,
    Concerns,
    DdlRefusedByFilter,
    InjectionRefused,
    stop_error,
)
from airflow_provider_dm.engine.sync.epoch import EpochSize, apply_epoch
from airflow_provider_dm.engine.sync.following import Following
from airflow_provider_dm.engine.sync.log.locations import GoalLost
from airflow_provider_dm.engine.sync.log.tail import Tail
from airflow_provider_dm.engine.sync.noting import Notes
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.planning import Planning, Position
from airflow_provider_dm.engine.sync.prepared import PreparedHere, after
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.runner import Runner, Shared
from airflow_provider_dm.engine.sync.safe_mode.here import SafeModeHere
from airflow_provider_dm.engine.sync.safe_mode.overwriting import Collision
from airflow_provider_dm.engine.sync.shard_ddl.resync import Resyncing
from airflow_provider_dm.engine.sync.shard_ddl.shards import Shards
from airflow_provider_dm.engine.sync.sharing import Sharing
from airflow_provider_dm.engine.sync.source import SyncSource
from airflow_provider_dm.engine.sync.start.opening import Opened
from airflow_provider_dm.engine.sync.write.apply import MissingRow, Target, WaveWriter
from airflow_provider_dm.engine.sync.write.tasks import EpochJob
from airflow_provider_dm.engine.sync.write.transactional import Applied, CutOtherwise
from airflow_provider_dm.engine.sync.write.writing import Writing
from airflow_provider_dm.engine.target.ddl_journal import COMMITTED
from airflow_provider_dm.engine.target.errors import DuplicateInTarget
from airflow_provider_dm.engine.target.subtask import note_plan

log = logging.getLogger(__name__)

SHORTEST_WAIT: Final = 0.05
LONGEST_WAIT: Final = 0.5
LONG_SECONDS: Final = 0.5
"""Epochs that take longer are logged; the many small ones of a sync that is caught up are not."""
RETRIES: Final = 5
"""The attempts at an epoch whose tasks failed in a way that may pass; each transaction has its own before that."""


@dataclass
class Loop:
    """The loop of one source. `opened`: as it began; what has moved on since is in `position`, `plan`, `prepared`."""

    source: SyncSource
    opened: Opened
    writes: Target
    """The way of what the loop itself writes; an epoch's rows are written by its tasks."""
    prepared: PreparedHere
    """The XA transactions that are prepared at `applied`, and `here`."""
    safe_mode: SafeModeHere
    sharing: Sharing
    following: Following
    shards: Shards
    by_hand: ByHand
    runner: Runner
    store: MetaStore
    stop: threading.Event
    progress: SyncProgress
    tail: Tail
    plan: SyncPlan
    """The plan by which epochs are applied now."""
    shared_plan: Shared[SyncPlan]
    position: Position
    planning: Planning
    notes: Notes
    size: EpochSize

    def run(self) -> bool:
        """Run the loop. Return True at the goal, False when asked to stop. Raises every DmError that stops a task."""
        try:
            return self._run()
        except DmError as error:
            if error.reaction is not Reaction.FENCED:  # else whoever has taken over says how it stands
                self.note(Stage.PAUSED, now=True, only_meta=True)
                self.notes.exit_point()
            raise

    def _run(self) -> bool:
        self.progress.goal, self.progress.ddl_at = self.position.goal, None
        self.progress.location = self.position.applied
        self._leave_past()
        self._show_safe_mode(exit_point=self.position.edge)
        try:
            self.note(Stage.RUNNING, now=True)
        finally:
            self._show_shards()  # behind the rows that wait: who sees groups has been told of those
        wait, idle_since = SHORTEST_WAIT, time.monotonic()
        ahead: Future[Planned] | None = None
        with ThreadPoolExecutor(1, thread_name_prefix="plan") as planner:
            while not self.position.at_goal and not self.stop.is_set():
                self.by_hand.refresh()
                if self.position.edge is None and self._shards():
                    continue
                planned = self.planning.next(ahead, self.prepared.now, self.size)
                ahead = None
                self.safe_mode.note(planned)
                match planned:
                    case Epoch(lo=lo, hi=hi, size=size):
                        if self.position.edge is None:
                            self._inject(lo)
                        if self.size.is_backlog(size):  # look ahead while this is applied
                            behind = after(self.prepared.now, planned)
                            ahead = planner.submit(self.planning.behind, hi, behind, self.size)
                        self._epoch(planned)
                    case DdlStatement():
                        self._leave_file(planned)
                        self._ddl(planned)
                    case UpToDate(at):
                        self._leave_file(planned)
                        self._idle(at, wait, idle_since)
                        wait = min(LONGEST_WAIT, wait * 1.5)
                        continue
                    case _:
                        assert_never(planned)
                wait, idle_since = SHORTEST_WAIT, time.monotonic()
                self.note(Stage.RUNNING)
        self._finish_shards()
        if self.position.at_goal and self.sharing.rows:
            self.note(Stage.RUNNING, now=True)  # whoever waits for this log sees where it ends
            self._finish_shared()
            self._finish_shards()  # for whose DDL they were waited
        # Stopped, not Finished: the next run goes on from here, and needs the log from here on.
        self.note(Stage.STOPPED, now=True)
        return self.position.at_goal

    # Doing it

    def _epoch(self, epoch: Epoch) -> None:
        self.shards.check_no_resync()
        self._begins(epoch.hi)
        self.progress.caught_up = False
        if self.position.edge is None:
            self._follow_plan()
        self._write_over()
        self._show_safe_mode(exit_point=epoch.hi)
        began = time.monotonic()
        self.prepared.note(epoch)
        try:
            applied = self._apply_with_retries(epoch)
        except DmError as error:
            if not self._has_become_shared(error):
                # Raises it, unless the same stretch can be read elsewhere.
                self.tail.distrust(error, epoch, self.prepared.now)
            self.position.edge = epoch.hi  # some buckets may stand there already
            return
        seconds = time.monotonic() - began
        self._applied_up_to(epoch.hi)
        self.prepared.applied(epoch)
        self.position.edge = None
        self._follow_plan()
        if applied.contested or self.sharing.rows:
            self._look_at_shared(now=False)
        self.size = self.size.after(epoch.size, seconds, applied.changes, applied.largest)
        self.progress.transactions += epoch.transactions
        self.progress.bytes += epoch.bytes
        self.progress.newest_timestamp = epoch.newest_timestamp
        self._count(applied)
        log.log(
            logging.INFO if seconds > LONG_SECONDS else logging.DEBUG,
            "epoch applied: %s..%s, %d bytes, %d transactions, %d changes, %d rows, %.3f s",
            *(epoch.lo, epoch.hi, epoch.bytes, epoch.transactions, applied.changes, applied.rows, seconds),
        )

    def _begins(self, end: Location) -> None:
        """Note that what follows, up to there, may be applied in part from now on."""
        self.notes.begins()
        self.position.furthest = end

    def _count(self, applied: Applied) -> None:
        self.progress.epochs += 1
        self.progress.changes += applied.changes
        self.progress.rows += applied.rows
        self._met(applied.collisions)

    def _apply_with_retries(self, epoch: Epoch) -> Applied:
        job = EpochJob(
            self.shared_plan,
            self.source.upstream,
            self.source.target,
            self.position.step(epoch.hi),
            Writing.of(self.source.config.syncer, self.plan, tasks=self.size.tasks(epoch.size, self.runner.slots)),
            log_bytes=epoch.size,
        )
        for attempt in range(RETRIES):
            try:
                return self._apply(job, epoch)
            except DmError as error:
                same = error.reaction is Reaction.RETRY and not isinstance(error, CutOtherwise)
                if not same or self.stop.wait(2.0**attempt / 2):
                    raise
                log.warning("epoch %s..%s is tried again: %s", epoch.lo, epoch.hi, error)
                if isinstance(error, TooManyContested):
                    self._look_at_shared(now=True, between=False)
        return self._apply(job, epoch)

    def _write_over(self) -> None:
        """Put rows that wait into their places where others are written over: nothing that follows looks for them."""
        waits = self.sharing.rows or not self.sharing.written_over
        if waits and self.plan.safe:
            self._met(self.sharing.write_over())
            self._show_shared()

    def _met(self, collisions: Iterable[Collision]) -> None:
        self.safe_mode.met(collisions, self.sharing.servers.feeders)
        self._show_safe_mode()

    def _apply(self, job: EpochJob, epoch: Epoch) -> Applied:
        return apply_epoch(self.runner, job, epoch, ship=self.source.job.ship_ranges)

    def _has_become_shared(self, error: DmError) -> bool:
        """Tell whether a new row has met that of a source which has begun to feed the same table meanwhile."""
        if self.plan is self.opened.first_plan is not self.opened.plan:
            return False  # half of it is written in another mode
        if not isinstance(error, (DuplicateInTarget, MissingRow) if self.plan.safe else DuplicateInTarget):
            return False
        self.sharing.notice()
        news = self.plan is not self.sharing.plan  # it may have been noticed before, while half an epoch was left
        self._follow_plan()
        return news

    def _follow_plan(self) -> None:
        """Switch to the plan as it is now: after the first epoch, when tables have become shared, and where rows are
        written over no longer."""
        self.sharing.overwrite(self.safe_mode.is_lenient(self.position.applied))
        if self.plan is not self.sharing.plan:
            if self.plan.fingerprint() != self.sharing.plan.fingerprint():
                # Before anything is written by it: half an epoch of its own must not be taken for the other mode's.
                self._note_plan()
            self.plan, self.shared_plan = self.sharing.plan, self.runner.share(self.sharing.plan)
            if self.plan.contended:
                self.size = self.size.keeping()

    def _note_plan(self) -> None:
        fence, noted = self.source.fence, self.sharing.plan.fingerprint()
        self.writes.transactions(lambda connection: note_plan(connection, fence, noted))

    def _look_at_shared(self, *, now: bool, between: bool = True) -> None:
        """Look after shared tables. `between`: no epoch is being written; nor half written, where `edge` says so."""
        between = between and self.position.edge is None
        try:
            self.sharing.look(now=now)
        finally:
            self._show_shared()
        if between:
            self._follow_plan()
            self._write_over()

    def _finish_shared(self) -> None:
        try:
            self.sharing.finish(self.stop.wait)
        finally:
            self._show_shared()

    def _show_shared(self) -> None:
        self.progress.contested_rows, self.progress.contested_since = self.sharing.rows, self.sharing.rows_since

    def _ddl(self, ddl: DdlStatement) -> None:
        self.shards.check_no_resync()
        self._begins(ddl.end)
        # Where its rows are half written as the log has them, a person comes too late.
        late = self.position.edge is not None and COMMITTED not in self.following.noted(ddl)
        operator = None if late else self.by_hand.at(ddl)
        match self.following.meaning(ddl, self.sharing.plan):
            case PassOver(why) if operator is None:
                log.info("DDL at %s is passed over: %s", ddl.at, why)
                if self.following.pass_over(ddl, self.position.step(ddl.end), self.sharing.plan.buckets):
                    self._applied_up_to(ddl.end)
            case PassOver(why):
                self._follow(ddl, PassedOver(why), why, operator)
            case Concerns(why, statement):
                self._follow(ddl, statement, why, operator)
            case Apply(real) as repeat:
                self._follow(ddl, repeat, f"it ends an online DDL on {real}", operator)
        rows = ddl.rows_epoch()
        if rows is not None:
            self._epoch(rows)  # whatever the statement is to us, the rows of its transaction are like any others
        elif compare(self.position.applied, ddl.end) is not Order.SAME:
            self._advance(ddl.end)
        self.progress.newest_timestamp = max(self.progress.newest_timestamp or 0, ddl.timestamp) or None
        self.by_hand.passed(self.position.applied)

    def _follow(
        self, ddl: DdlStatement, statement: Statement | Apply | None, why: str, operator: Operator | None
    ) -> None:
        self.progress.ddl_at = ddl.at
        if statement is None and operator is None:
            raise stop_error(ddl, why, NOT_UNDERSTOOD)
        try:
            needs = self.prepared.needed(ddl.at)
            step, plan = self.position.step(ddl.end), self.sharing.plan
            plan = self.following.follow(ddl, statement, step, plan, operator, needs=needs)
        except NeedsAgreement as error:
            if self.source.config.shard_mode is ShardMode.PESSIMISTIC:
                words, why = first_words(ddl.sql), str(error)
                raise ShardDdlNotSupported.of(*self.source.fence.ref.key, ddl.at, words, why) from None
            raise stop_error(ddl, str(error)) from None
        except RefusedByFilter as error:
            raise DdlRefusedByFilter(first_words(ddl.sql), str(ddl.at), str(error)) from None
        except CannotFollow as error:
            raise stop_error(ddl, f"{why}: {error}", error.way_out) from None
        self.progress.ddl_at = None
        self.sharing.adopt(plan)
        self.shards.adopt(plan)
        self._show_shards()
        if self.position.edge is None:  # else half of its rows is written by the plan that was there then
            self._follow_plan()
        self.progress.ddl_applied += 1
        self.notes.tables_changed()
        if ddl.rows is None:
            self._applied_up_to(ddl.end)

    def _inject(self, here: Location) -> None:
        """Execute what a person wants executed in front of the rows that begin here."""
        operator = self.by_hand.before_rows(here)
        if operator is None:
            return
        try:
            plan = self.following.inject(operator, here, self.sharing.plan)
        except CannotFollow as error:
            raise InjectionRefused(str(here), str(error)) from None
        if plan is not self.sharing.plan:
            self.sharing.adopt(plan)
        self._follow_plan()

    def _leave_file(self, planned: DdlStatement | UpToDate) -> None:
        """Execute what a person wants executed here, where the log goes on in another file: by this place it is not met
        again, and it may have been begun. Not in front of DDL that is begun: with that it would have been."""
        here, at = self.position.here, planned.at
        if self.position.edge is not None or (at.suffix, at.file) == (here.suffix, here.file):
            return
        if not (isinstance(planned, DdlStatement) and self.following.noted(planned)):
            self._inject(here)

    def _advance(self, hi: Location) -> None:
        """Move all buckets to `hi`, as there is nothing for them in between."""
        self.shards.check_no_resync()
        writer = WaveWriter(self.sharing.plan, self.writes, self.position.step(hi))
        writer.advance({}, range(self.sharing.plan.buckets))
        self._applied_up_to(hi)

    def _applied_up_to(self, hi: Location) -> None:
        self.position.applied = self.position.here = self.progress.location = hi
        self._leave_past()

    def _leave_past(self) -> None:
        """Forget the end of a past that is not exact once it is passed: another server's log could not show that it
        was. Not while rows from before it are held back."""
        if self.position.overwrite_until is None or self.position.uncertain is not None or self.shards.unresolved:
            return
        self.position.overwrite_until = self.safe_mode.until = None

    def _idle(self, at: Location, wait: float, idle_since: float) -> None:
        self.progress.caught_up = self.position.edge is None and not self.tail.waiting
        if self.position.edge is None:
            self.position.here = at
            applied = self.position.applied
            if (at.suffix, at.file) != (applied.suffix, applied.file) or self.position.at_goal:
                self._advance(at)  # else a file without changes could never be purged
        if self.position.at_goal:
            return
        self._check_goal(time.monotonic() - idle_since)
        self.note(Stage.RUNNING)
        self.stop.wait(wait)
        self.tail.idle(self.position.here, time.monotonic() - idle_since)

    def _check_goal(self, seconds: float) -> None:
        """Check the goal when nothing has come for so long. Raises GoalLost where another server has taken over that
        does not have it."""
        goal, here = self.position.goal, self.position.here
        if goal is not None and here.suffix > goal.suffix and seconds > SILENT_SECONDS:
            known = goal.gtid_set and here.gtid_set
            missing = str(missing_at(here, goal)) if known else "what lay before it, as far as anybody can tell"
            raise GoalLost(self.source.fence.ref.source, str(goal), missing)

    # Shards of merged tables

    def _shards(self, *, now: bool = False) -> bool:
        """Look after DDL that shards make together, and apply what was held back. Tell whether anything has changed."""
        if not self.shards.unresolved:
            return False
        group = self.shards.look(self.position.applied, self.sharing.plan.buckets, now=now)
        self._show_shards()
        if group is None:
            return False
        self.sharing.servers.forget_mappings()  # the target's table is another one now
        self._look_at_shared(now=True, between=False)
        self._write_over()
        resyncing = Resyncing(
            source=self.source,
            runner=self.runner,
            store=self.store,
            stop=self.stop,
            buckets=self.sharing.plan.buckets,
            size=self.size,
            safe_mode=self.safe_mode,
            told=self._count,
        )
        if not resyncing.run(group):
            return True  # asked to stop in the middle: nothing else may be applied before the rest of it
        plan = self.following.plan_without(group, self.sharing.plan)
        self.shards.finish(group, plan)
        self.notes.tables_changed()
        self.sharing.adopt(plan)
        self.shards.adopt(plan)
        self._follow_plan()
        self._show_shards()
        self._look_at_shared(now=False)  # rows that were held back may have met others'
        return True

    def _finish_shards(self) -> None:
        while self.position.at_goal and not self.stop.is_set() and self._shards(now=True):
            pass

    def _show_shards(self) -> None:
        self.progress.unresolved_groups = self.shards.to_json()

    def _show_safe_mode(self, *, exit_point: Location | None = None) -> None:
        self.progress.safe_mode = self.safe_mode.to_json(self.position.applied, exit_point)

    def note(self, stage: Stage, *, now: bool = False, only_meta: bool = False) -> None:
        """Tell others how the sync stands, and look what they have told, when that is due, or `now`."""
        if not (now or self.notes.due):
            return
        if not only_meta:
            self.notes.in_target(stage)
            self._look_at_shared(now=False)
            self.by_hand.passed(self.position.applied)
            self.tail.look(self.position.here, self.position.goal, held=self.shards.needs)
        self.notes.elsewhere(stage)
