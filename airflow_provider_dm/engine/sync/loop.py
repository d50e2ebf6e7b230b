"""The loop of one sync: plan the next piece of the log, apply it, repeat until the goal, an error, or a request.

planning.py decides which piece is next, epoch.py applies it, downstream/frontier.py commits it exactly once,
noting.py reports the progress. The loop itself holds the position, which moves when all buckets have applied an epoch.
A failed epoch is retried with the same bounds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, Planned, UpToDate
from airflow_provider_dm.engine.ddl.first_words import first_words
from airflow_provider_dm.engine.ddl.statements import IrrelevantStatement, Statement
from airflow_provider_dm.engine.downstream.ddl_journal import COMMITTED
from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget
from airflow_provider_dm.engine.downstream.subtask import note_plan
from airflow_provider_dm.engine.errors import DmError, InvalidInput, Reaction
from airflow_provider_dm.engine.merge.errors import TooManyContested
from airflow_provider_dm.engine.meta.records import Operator, Stage
from airflow_provider_dm.engine.mysql.location import Location, Order, compare, missing_at
from airflow_provider_dm.engine.relay.health import SILENT_SECONDS
from airflow_provider_dm.engine.rules.errors import StoppedByFilter
from airflow_provider_dm.engine.rules.online_ddl.outcomes import ApplyDdl, SkipDdl
from airflow_provider_dm.engine.shard.errors import ShardDdlNotSupported
from airflow_provider_dm.engine.sync.ddl.verdict import RelevantDdl, stop_error
from airflow_provider_dm.engine.sync.epoch import EpochApplier
from airflow_provider_dm.engine.sync.errors import (
    CannotFollow,
    GoalLost,
    MissingRow,
    NotUnderstood,
    RefusedByFilter,
    RoutedElsewhere,
    TransactionGroupsChanged,
)
from airflow_provider_dm.engine.sync.following import DdlMeaning
from airflow_provider_dm.engine.sync.loop_state import LoopState
from airflow_provider_dm.engine.sync.noting import SyncNotes, forget_xa, note_xa
from airflow_provider_dm.engine.sync.planning import Planning
from airflow_provider_dm.engine.sync.ports import Follower, MergedTables
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.safe_mode.overwriting import Collision
from airflow_provider_dm.engine.sync.safe_mode.states import Collisions, save_window
from airflow_provider_dm.engine.sync.write.apply import ApplyResult

log = logging.getLogger(__name__)

LONGEST_WAIT: Final = 0.5
"""Longest wait for the log to grow."""
LONG_SECONDS: Final = 10.0
"""Slower epochs are logged at level INFO, all others at level DEBUG: launchers show the progress as often."""
RETRIES: Final = 5
"""Retries of an epoch after a transient error of its tasks, in addition to the retries of each transaction."""


@dataclass
class Loop:
    """The loop of one source. `state`: its current state; each step replaces it."""

    state: LoopState
    planning: Planning
    applier: EpochApplier
    following: Follower
    merged: MergedTables
    notes: SyncNotes
    progress: SyncProgress
    stop: threading.Event
    collisions: Collisions = field(init=False)

    def __post_init__(self) -> None:
        self.collisions = Collisions(self.state.fence.ref.source)

    def run(self) -> bool:
        """Run the loop. Return True at the goal, False after a stop request. Raises every DmError that stops a task."""
        try:
            return self._run()
        except DmError as error:
            if error.reaction is not Reaction.FENCED:  # a fenced run leaves the report to the run that replaced it
                self.notes.elsewhere(self.state, Stage.PAUSED)
                self.notes.exit_point(self.state)
            raise

    def _run(self) -> bool:
        self.progress.begins(self.state.applied, self.state.goal)
        self._leave_past()
        self._show_safe_mode(exit_point=self.state.edge)
        try:
            self.note(Stage.RUNNING, now=True)
        finally:
            self._show_shards()  # after the contested rows, so that a reader who sees groups also sees those rows
        idle_since = time.monotonic()
        following: Future[Planned] | None = None
        with ThreadPoolExecutor(1, thread_name_prefix="plan") as planner:
            while not self.state.at_goal and not self.stop.is_set():
                self.planning.by_hand.refresh()
                if self.state.edge is None and self._shards():
                    continue
                planned = self.planning.next(following, self.state, self.applier.size)
                following = None
                safe_mode = save_window(self.notes.transactions, self.state.fence, self.state.safe_mode, planned)
                self.state = replace(self.state, safe_mode=safe_mode)
                match planned:
                    case Epoch(lo=lo, size=size):
                        if self.state.edge is None:
                            self._inject(lo)
                        if self.applier.size.is_backlog(size):  # plan the next epoch during this one
                            following = planner.submit(
                                self.planning.after, self.state.after(planned), self.applier.size
                            )
                        began = time.monotonic()
                        self._epoch(planned, following)
                        if following is None and not self.state.at_goal:
                            self._gather(began)
                    case DdlStatement():
                        self._leave_file(planned)
                        self._ddl(planned)
                    case UpToDate(at):
                        self._leave_file(planned)
                        self._idle(at, idle_since)
                        continue
                    case _:
                        assert_never(planned)
                idle_since = time.monotonic()
                self.note(Stage.RUNNING)
        self._finish_shards()
        if self.state.at_goal and self.merged.sharing.rows:
            self.note(Stage.RUNNING, now=True)  # syncs that wait for rows of this log read its end from this report
            self._finish_shared()
            self._finish_shards()  # a shard DDL may have waited for the contested rows
        # Stopped, not Finished: the next run continues from here and needs the log from here.
        self.note(Stage.STOPPED, now=True)
        return self.state.at_goal

    # The steps

    def _epoch(self, epoch: Epoch, following: Future[Planned] | None = None) -> None:
        self.merged.shards.check_no_resync()
        self._begins(epoch.hi)
        self.progress.log_checked(caught_up=False)
        if self.state.edge is None:
            self._take_plan()
        self._overwrite_by_waiting()
        self._show_safe_mode(exit_point=epoch.hi)
        began = time.monotonic()
        note_xa(self.notes.transactions, self.state, epoch)
        try:
            applied = self._apply_with_retries(epoch, following)
        except DmError as error:
            if not self._share_table(error):
                # Raises the error, unless the same range can be read from another log.
                self.planning.tail.distrust(error, epoch, replace(self.planning.cursor(self.state), place=epoch.lo))
            self.state = replace(self.state, edge=epoch.hi)  # some buckets may have applied it
            return
        seconds = time.monotonic() - began
        before, self.state = self.state, self.state.after(epoch)
        self._has_moved()
        forget_xa(self.notes.transactions, before, epoch)
        self._take_plan()
        if applied.contested or self.merged.sharing.rows:
            self._check_shared_tables()
        self.applier.learn(epoch, seconds, applied)
        self.progress.read(epoch)
        self._count(applied)
        log.log(
            logging.INFO if seconds > LONG_SECONDS else logging.DEBUG,
            "epoch applied: %s..%s, %d bytes, %d transactions, %d changes, %d rows, %.3f s",
            *(epoch.lo, epoch.hi, epoch.bytes, epoch.transactions, applied.changes, applied.rows, seconds),
        )

    def _begins(self, end: Location) -> None:
        """Record that the log up to `end` may be applied in part from now on."""
        self.notes.begins()
        self.state = replace(self.state, furthest=end)

    def _count(self, applied: ApplyResult) -> None:
        self.progress.wrote(applied.changes, applied.rows)
        self._count_collisions(applied.collisions)

    def _apply_with_retries(self, epoch: Epoch, following: Future[Planned] | None) -> ApplyResult:
        for attempt in range(RETRIES):
            try:
                return self.applier.apply(epoch, self.state, following)
            except DmError as error:
                may_retry = error.reaction is Reaction.RETRY and not isinstance(error, TransactionGroupsChanged)
                if not may_retry or self.stop.wait(2.0**attempt / 2):
                    raise
                log.warning("retrying epoch %s..%s after: %s", epoch.lo, epoch.hi, error)
                if isinstance(error, TooManyContested):
                    self._check_shared_tables(now=True)
        return self.applier.apply(epoch, self.state, following)

    def _overwrite_by_waiting(self) -> None:
        """Write contested rows over the rows in their places, in safe mode and in tables whose rows overwrite each
        other: later changes do not check for contested rows. New contested rows arise only in safe mode."""
        plan = self.state.written_by
        due = not self.state.overwritten or (plan.safe and self.merged.sharing.rows)
        if due and (plan.safe or plan.unowned):
            self._count_collisions(self.merged.sharing.overwrite_by_waiting(plan))
            self.state = replace(self.state, overwritten=True)
            self._show_shared()

    def _count_collisions(self, collisions: Iterable[Collision]) -> None:
        self.collisions.add(collisions, self.merged.sharing.contests.servers.feeders)
        self._show_safe_mode()

    def _share_table(self, error: DmError) -> bool:
        """Switch to the plan that treats a table as shared, if the error is a collision with a row of another source
        that now feeds it. Return True if so. The plan folds as before: the epoch may be half applied.
        """
        writes_by = self.state.written_by
        if writes_by.mode != self.state.plan.mode:
            return False  # the epoch is half written in another mode
        if not isinstance(error, (DuplicateInTarget, MissingRow) if writes_by.safe else DuplicateInTarget):
            return False
        plan, same = self.merged.sharing.noticed(self.state.plan), writes_by.fingerprint()
        after = next((one for one in (plan, *plan.as_before) if one.fingerprint() == same), writes_by)
        self.state = replace(self.state, plan=plan, written_by=after)
        # The sharing may have been noticed earlier, while an epoch was half applied: so compare with the first plan.
        return after != writes_by

    def _take_plan(self) -> None:
        """Write the next epoch by the current plan: after a half-applied epoch, after tables have become shared, and
        where safe mode begins or ends."""
        before, self.state = self.state.written_by, self.state.overwriting()
        plan = self.state.plan
        if plan is before:
            return
        noted = plan.fingerprint()
        if noted != before.fingerprint():
            # Before the first write by this plan: after a crash, a half-applied epoch must be repeated in its own mode.
            self.notes.transactions(lambda connection: note_plan(connection, self.state.fence, noted))
        self.state = replace(self.state, written_by=plan, overwritten=False)
        if plan.contended:
            self.applier.keep_changes()

    def _check_shared_tables(self, *, now: bool = False) -> None:
        """Check the shared tables. `now`: check all contested rows, while an epoch or a re-sync is in progress."""
        try:
            self.state = replace(self.state, plan=self.merged.sharing.check(self.state.plan, now=now))
        finally:
            self._show_shared()
        if not now and self.state.edge is None:
            self._take_plan()
            self._overwrite_by_waiting()

    def _finish_shared(self) -> None:
        try:
            self.merged.sharing.finish(self.state.plan, self.stop.wait)
        finally:
            self._show_shared()

    def _show_shared(self) -> None:
        self.progress.set_contested(self.merged.sharing.rows, self.merged.sharing.contests.since)

    def _ddl(self, ddl: DdlStatement) -> None:
        self.merged.shards.check_no_resync()
        self._begins(ddl.end)
        # An operator's decision is ignored once rows of this transaction were written according to the log.
        too_late = self.state.edge is not None and COMMITTED not in self.following.noted(ddl)
        operator = None if too_late else self.planning.by_hand.at(ddl)
        meaning = self.following.meaning(ddl, self.state)
        match meaning.outcome:
            case SkipDdl(why) if operator is None:
                log.info("skipped the DDL at %s: %s", ddl.at, why)
                self.state = self.following.pass_over(meaning, self.state)
                self._has_moved()
            case SkipDdl(why):
                self._follow(meaning, IrrelevantStatement(why), why, operator)
            case RelevantDdl(why, statement):
                self._follow(meaning, statement, why, operator)
            case ApplyDdl(real) as repeat:
                self._follow(meaning, repeat, f"it ends an online DDL on {real}", operator)
        rows = ddl.rows_epoch()
        if rows is not None:
            self._epoch(rows)  # the rows of its transaction are applied even if the statement is skipped
        elif compare(self.state.applied, ddl.end) is not Order.SAME:
            self._advance(ddl.end)
        self.progress.ddl_passed(ddl.timestamp)
        self.planning.by_hand.passed(self.state.applied)

    def _follow(
        self, meaning: DdlMeaning, statement: Statement | ApplyDdl | None, why: str, operator: Operator | None
    ) -> None:
        ddl = meaning.ddl
        self.progress.ddl_begun(ddl.at)
        if statement is None and operator is None:
            raise stop_error(ddl, why, NotUnderstood.remedy)
        try:
            self.state = self.following.follow(meaning, statement, self.state, operator)
        except RoutedElsewhere as error:
            task, source = self.state.fence.ref.key
            raise ShardDdlNotSupported(
                feature=f"DDL on a shard ({first_words(ddl.sql)} …: {error})",
                where=f"task {task}, source {source}, at {ddl.at}",
                remedy="Add a route from the new name to the same table, and run the task again: the target's table "
                "keeps its name. Or migrate in full again, as another task, after all shards have the new name.",
            ) from None
        except RefusedByFilter as error:
            raise StoppedByFilter(
                f"a filter with the action Error matches DDL at {ddl.at} ({first_words(ddl.sql)} …): {error}.",
                "Decide about it: `dmctl binlog skip TASK -s SOURCE` continues without it, `dmctl binlog replace "
                'TASK -s SOURCE "…"` executes another statement in its place. Or set the rule\'s action to Do or '
                "Ignore, and start the task again.",
            ) from None
        except CannotFollow as error:
            raise stop_error(ddl, f"{why}: {error}", error.remedy) from None
        self.progress.ddl_followed()
        self._adopt()
        self._show_shards()
        if self.state.edge is None:  # else its rows are half written, by the plan of that time
            self._take_plan()
        self.notes.tables_changed()
        if ddl.rows is None:
            self._applied_up_to(ddl.end)

    def _adopt(self) -> None:
        """Use the tables as they are after a statement."""
        self.merged.sharing.contests.servers.forget_mappings()
        self.merged.shards.adopt(self.state.plan)

    def _inject(self, here: Location) -> None:
        """Execute the statements that an operator has injected before the rows at `here`."""
        operator = self.planning.by_hand.before_rows(here)
        if operator is None:
            return
        try:
            self.state = self.following.inject(operator, here, self.state)
        except CannotFollow as error:
            raise InvalidInput(
                f"the statements to be injected at {here} cannot be executed: {error}.",
                "Remove them by `dmctl binlog revert TASK -s SOURCE -b FILE:POSITION`, or replace them.",
            ) from None
        self._adopt()
        self._take_plan()

    def _leave_file(self, planned: DdlStatement | UpToDate) -> None:
        """Execute what an operator has injected here if the log continues in another file: the sync does not return to
        this location, and the execution may have begun. A DDL that has begun executes its own injected statements."""
        here, at = self.state.here, planned.at
        if self.state.edge is not None or (at.suffix, at.file) == (here.suffix, here.file):
            return
        if not (isinstance(planned, DdlStatement) and self.following.noted(planned)):
            self._inject(here)

    def _advance(self, hi: Location) -> None:
        """Move all buckets to `hi`: the log in between has no changes."""
        self.merged.shards.check_no_resync()
        self.applier.advance(self.state, hi)
        self._applied_up_to(hi)

    def _applied_up_to(self, hi: Location) -> None:
        self.state = self.state.at(hi)
        self._has_moved()

    def _has_moved(self) -> None:
        self.progress.moved(self.state.applied)
        self._leave_past()

    def _leave_past(self) -> None:
        """Drop the end of the inexact part of the log once it is passed: after a failover, the log of another server
        could not show that it was. It is kept while rows from before it are held back."""
        keep = self.state.safe_mode.until is None or self.state.uncertain is not None or self.merged.shards.unresolved
        if not keep:
            self.state = replace(self.state, safe_mode=replace(self.state.safe_mode, until=None))

    def _gather(self, began: float) -> None:
        """Let the log grow after an epoch at its end, so that the next one has more than a few changes."""
        rest = began + self.applier.size.period - time.monotonic()
        if rest > 0:
            self.stop.wait(rest)

    def _idle(self, at: Location, idle_since: float) -> None:
        self.progress.log_checked(caught_up=self.state.edge is None and not self.planning.tail.waiting)
        if self.state.edge is None:
            applied = self.state.applied
            same = (at.suffix, at.file) == (applied.suffix, applied.file)
            applied = replace(applied, created=at.created) if same else applied
            self.state = replace(self.state, here=at, applied=applied)
            if not same or self.state.at_goal:
                self._advance(at)  # otherwise a file without changes could never be purged
        if self.state.at_goal:
            return
        self._check_goal(time.monotonic() - idle_since)
        self.note(Stage.RUNNING)
        self.planning.tail.wait(LONGEST_WAIT, self.stop)
        self.planning.tail.idle(self.planning.cursor(self.state), time.monotonic() - idle_since)

    def _check_goal(self, seconds: float) -> None:
        """Check the goal after `seconds` without events. Raises GoalLost if the log is now of another server, which
        lacks transactions before the goal."""
        goal, here = self.state.goal, self.state.here
        if goal is not None and here.suffix > goal.suffix and seconds > SILENT_SECONDS:
            known = goal.gtid_set and here.gtid_set
            missing = str(missing_at(here, goal)) if known else "transactions before it (unknown without GTID sets)"
            raise GoalLost(self.state.fence.ref.source, str(goal), missing)

    # Shards of merged tables

    def _shards(self, *, now: bool = False) -> bool:
        """Check the shard DDL, and apply rows that were held back. Return True if anything has changed. `now`: even if
        the last check was recent."""
        if not self.merged.shards.unresolved:
            return False
        group = self.merged.shards.check(self.state.applied, self.state.plan.buckets, now=now)
        self._show_shards()
        if group is None:
            return False
        self.merged.sharing.contests.servers.forget_mappings()  # the definition of the target's table has changed
        self._check_shared_tables(now=True)
        self._overwrite_by_waiting()
        if not self.merged.resync(group, self.state, self._count):
            return True  # stopped in the middle of the re-sync: nothing else may be applied before its rest
        plan = self.following.plan_without(group, self.state.plan)
        self.merged.shards.finish(group, plan)
        self.notes.tables_changed()
        self.state = replace(self.state, plan=plan)
        self._adopt()
        self._take_plan()
        self._show_shards()
        self._check_shared_tables()  # rows that were held back may collide with rows of other sources
        return True

    def _finish_shards(self) -> None:
        while self.state.at_goal and not self.stop.is_set() and self._shards(now=True):
            pass

    def _show_shards(self) -> None:
        self.progress.set_unresolved_groups(self.merged.shards.to_json())

    def _show_safe_mode(self, *, exit_point: Location | None = None) -> None:
        described = self.state.safe_mode.described(self.state.applied)
        self.progress.set_safe_mode(self.collisions.to_json(described, exit_point))

    def note(self, stage: Stage, *, now: bool = False) -> None:
        """Report the state of the sync and read requests, if that is due or `now`."""
        if not (now or self.notes.due):
            return
        self.notes.in_target(self.state, stage)
        self._check_shared_tables()
        self.planning.by_hand.passed(self.state.applied)
        self.planning.tail.update_progress(self.state.here, self.state.goal, held=self.merged.shards.needs)
        self.notes.elsewhere(self.state, stage)
