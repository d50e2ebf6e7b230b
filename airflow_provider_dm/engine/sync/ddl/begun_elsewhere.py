"""DDL that was begun where another server's log has it: the same transaction ends at another place now.

Its journal says what the target has of it, by the number of each statement. That moves to the new place, if both logs
make the same statements for the target. Where they do not (a person had others executed in the old log, or in front of
it; a newer server writes it otherwise) nobody can tell what is left to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from airflow_provider_dm.engine.binlog.open_places import OldLogNotHeld
from airflow_provider_dm.engine.binlog.planned import DdlStatement
from airflow_provider_dm.engine.ddl.first_words import first_words
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.sync.log.locations import location_at
from airflow_provider_dm.engine.target.ddl_execution import REFUSED, TargetDdl, is_noted
from airflow_provider_dm.engine.target.ddl_journal import (
    IDENTITY,
    IN_FRONT,
    Entry,
    move_entries,
    note_intent,
    noted_elsewhere,
    read_entries,
)
from airflow_provider_dm.engine.target.identity import Fence
from airflow_provider_dm.engine.target.session import run_transaction, target_connection
from airflow_provider_dm.engine.target.subtask import note_location


@dataclass(frozen=True)
class Journal:
    """The notes of one statement. `position`: where; its end, unless it was begun elsewhere."""

    target: Endpoint
    fence: Fence
    ddl: DdlStatement
    position: str
    entries: dict[int, Entry]

    @classmethod
    def of(cls, target: Endpoint, fence: Fence, ddl: DdlStatement) -> Journal:
        """Read it. Raises AnswerCut."""
        connection, here = target_connection(target), ddl.end.sort_key
        elsewhere = noted_elsewhere(connection, fence.ref, ddl.own_set, here) if ddl.own_set else None
        position = elsewhere or here
        return cls(target, fence, ddl, position, read_entries(connection, fence.ref, position))

    def take_over(self) -> None:
        """Move it to the statement's end, if it is elsewhere. Raises Fenced or TargetWentBack."""
        there, here = self.position, self.ddl.end.sort_key
        if there != here:
            run_transaction(self.target, lambda tx: move_entries(tx, self.fence, there, here))

    def check_same(self, in_front: Sequence[TargetDdl], statements: Sequence[TargetDdl]) -> None:
        """Check, where it is elsewhere, that all of it is about these statements. Raises OldLogNotHeld."""
        if self.position == self.ddl.end.sort_key:
            return
        made = dict(enumerate(statements)) | dict(enumerate(in_front, IN_FRONT))
        for number, entry in self.entries.items():
            one = made.get(number)
            if not entry.sql.startswith(REFUSED) and (one is None or not is_noted(one, entry)):
                at, end = self.ddl.at, str(location_at(self.position, self.ddl.at))
                begun = f"the target has begun to execute {first_words(entry.sql)} there, which is not what follows"
                raise OldLogNotHeld(self.fence.ref.source, str(at), end, begun, f"{at.server_uuid}: {at}")

    def note_identity(self, lo: str) -> None:
        """Note, in front of all else, which transaction it is, and what was committed in front of it, where all buckets
        stand (`lo`); if that is known. Raises Fenced or TargetWentBack."""
        if self.ddl.own_set:
            run_transaction(self.target, partial(self._note, lo=lo))

    def _note(self, connection: Connection, *, lo: str) -> None:
        note_intent(connection, self.fence, self.ddl.end.sort_key, IDENTITY, self.ddl.own_set, {})
        stands = location_at(lo, self.ddl.at)
        if stands.suffix == self.ddl.at.suffix:
            note_location(connection, self.fence, replace(stands, gtid_set=self.ddl.at.gtid_set))
