"""The end of records: when every source table of a merged table is exact, nobody needs to know whose its rows are.

First a table's rows stop being recorded, in a transaction that no beginning subtask runs beside: whoever begins later
sees it (`joining`). Then its driver removes the records it has, some at each look.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from airflow_provider_dm.engine.merge.contests import Surroundings
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.target.identity import Fence
from airflow_provider_dm.engine.target.owner_numbers import give_up_owner, lock_owner_numbers, remove_owner
from airflow_provider_dm.engine.target.row_owner import forget_some
from airflow_provider_dm.engine.target.subtask import read_subtask
from airflow_provider_dm.engine.target.table_schema import Feeder, load_feeders

RECORDS_OF_A_LOOK: Final = 10_000


@dataclass
class Records:
    """The records of one subtask's tables. `recorded`: there may be some; False once all are removed."""

    fence: Fence
    around: Surroundings
    full: bool = False
    """The task reads no log."""
    recorded: bool = True
    recording: bool = True
    """Rows of some table are recorded still. It ends between two epochs, as it decides how one is written."""
    behind: bool = True
    """At the last look somebody was loading or catching up in one of those tables."""

    def resume(self) -> None:
        """Look after records again, as there are some of a new table."""
        if not self.recorded:
            self.recorded = self.recording = self.behind = True

    def remove_all(self) -> None:
        """Give up all that can be, at once: for a driver that will not look again. Raises Fenced or TargetWentBack."""
        self.look()
        while self.recorded and not self.recording:
            self.look()

    def look(self) -> None:
        """Give up what can be, remove some of what is left. Raises Fenced or TargetWentBack."""
        if not self.recorded:
            return
        _, mine = self._numbered()
        if any(one.owner > 0 for one in mine):
            mine = self.around.transactions(self._give_up)
        self.recording = any(one.owner > 0 for one in mine)
        self.recorded = bool(mine)
        for one in mine:
            if one.owner < 0:
                self.around.transactions(partial(self._remove, one=one))
                return

    def see(self) -> None:
        """Look how far the others are."""
        feeders, mine = self._numbered() if self.recorded else ([], [])
        shared = {one.target for one in mine}
        self.behind = bool(mine) and not self.around.transactions(
            lambda connection: shared <= self._exact(connection, feeders)
        )

    def _numbered(self) -> tuple[list[Feeder], list[Feeder]]:
        """Return all source tables, and those of this subtask that have a number."""
        feeders = self.around.feeders()
        return feeders, [one for one in feeders if one.source == self.fence.ref.source and one.owner]

    def _give_up(self, connection: Connection) -> list[Feeder]:
        """Give up numbers that nobody needs, in one transaction. Return this subtask's tables that have a number."""
        ref = self.fence.ref
        self.fence.check(connection)
        lock_owner_numbers(connection, ref)
        feeders = load_feeders(connection, ref)
        exact = self._exact(connection, feeders)
        for one in feeders:
            if one.source == ref.source and one.owner > 0 and one.target in exact:
                give_up_owner(connection, ref, one.table)
        return [one for one in load_feeders(connection, ref) if one.source == ref.source and one.owner]

    def _exact(self, connection: Connection, feeders: Iterable[Feeder]) -> set[TableName]:
        """Return the target tables whose source tables are all exact."""
        behind: dict[str, bool] = {}
        for source in {one.source for one in feeders}:
            subtask = read_subtask(connection, self.fence.ref.of_source(source))
            behind[source] = subtask is None or not subtask.is_caught_up(full=self.full)
        return {one.target for one in feeders} - {one.target for one in feeders if behind[one.source]}

    def _remove(self, connection: Connection, one: Feeder) -> None:
        """Remove some records of a table, and its number with the last of them, in one transaction."""
        ref = self.fence.ref
        self.fence.check(connection)
        if forget_some(connection, ref, -one.owner, RECORDS_OF_A_LOOK) < RECORDS_OF_A_LOOK:
            remove_owner(connection, ref, one.table)
