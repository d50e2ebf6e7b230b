"""Writes changes in the order of the log, for tables whose filters skip inserts or updates.

    INSERT   writes the row, over an existing row with its identity key (whose DELETE was skipped)
    UPDATE   writes the row if the old row exists (it does not if its INSERT was skipped)
    DELETE   deletes the row if it exists

This is the effect of the single statements. Successive changes of one kind and of different rows share a statement.

If the table has only one unique key, a row is updated in place, which keeps the values of the target's own columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.downstream.row_statements import Literals, Verb, delete_image
from airflow_provider_dm.engine.merge.owner_writer import TargetAccess
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.sync.plan.bucket import forms_function
from airflow_provider_dm.engine.sync.plan.plan_parts import Change, TargetPart
from airflow_provider_dm.engine.sync.write.dependence import ChangeKind

MOST_TOGETHER: Final = 500


def runs(changes: Sequence[Change], part: TargetPart) -> Iterator[tuple[ChangeKind, list[Change]]]:
    """Yield runs of successive changes of one kind. In tables with a key, the keys in a run differ for the target."""
    form_of = forms_function(part)
    run: list[Change] = []
    seen: set[tuple[bytes, ...]] = set()
    for change in changes:
        forms = {form_of(row) for row in change if row is not None} if part.key is not None else set()
        together = part.key is not None or ChangeKind.of(*change) is ChangeKind.INSERT
        fits = together and len(run) < MOST_TOGETHER and seen.isdisjoint(forms)
        if run and not (fits and ChangeKind.of(*change) is ChangeKind.of(*run[-1])):
            yield ChangeKind.of(*run[-1]), run
            run, seen = [], set()
        run.append(change)
        seen |= forms
    if run:
        yield ChangeKind.of(*run[-1]), run


@dataclass(frozen=True)
class WritesInOrder:
    """The changes of one transaction to one target table."""

    part: TargetPart
    access: TargetAccess
    changes: tuple[Change, ...]
    row: Callable[[Row], Literals]
    key: Callable[[Row], Literals]

    def run(self, connection: Connection, *, careful: bool) -> int:
        """See `MergedWrites.run`; return 0. `careful` changes nothing: no number of affected rows is expected."""
        for kind, changes in runs(self.changes, self.part):
            old = [change.before for change in changes if change.before is not None]
            new = [change.after for change in changes if change.after is not None]
            match kind:
                case ChangeKind.INSERT:
                    self._make_room(connection, new)
                    self._write(connection, new, Verb.INSERT)
                case ChangeKind.DELETE:
                    self._delete(connection, old)
                case ChangeKind.UPDATE if self.part.key is None:
                    pairs = zip(old, new, strict=True)
                    updated = [row for image, row in pairs if self._delete_image(connection, image)]
                    self._write(connection, updated, Verb.INSERT)
                case ChangeKind.UPDATE:
                    self._update(connection, changes)
        return 0

    def _update(self, connection: Connection, changes: list[Change]) -> None:
        existing = self._existing(connection, changes)
        new = list(map(_after, existing))
        if self.part.unique:
            self._delete(connection, list(map(_before, existing)))
            self._make_room(connection, new)
            self._write(connection, new, Verb.INSERT)
            return
        moved = (old for old, row in zip(map(_before, existing), new, strict=True) if self.key(old) != self.key(row))
        self._delete(connection, list(moved))
        self._write(connection, new, Verb.UPSERT)

    def _write(self, connection: Connection, new: Sequence[Row], verb: Verb) -> None:
        self.access.write_rows(connection, self.part.mapping, map(self.row, new), verb)

    def _make_room(self, connection: Connection, new: Sequence[Row]) -> None:
        if self.part.key is not None:
            self._delete(connection, new)

    def _delete(self, connection: Connection, old: Sequence[Row]) -> None:
        if self.part.key is None:
            for image in old:
                self._delete_image(connection, image)
            return
        self.access.delete_rows(connection, self.part.mapping, map(self.key, old))

    def _delete_image(self, connection: Connection, image: Row) -> bool:
        """Delete a row of a table without a key; return True if it existed."""
        return bool(self.access.execute(connection, delete_image(self.part.mapping, self.row(image), 1)))

    def _existing(self, connection: Connection, changes: list[Change]) -> list[Change]:
        """Lock the rows to be updated; return the changes whose rows exist."""
        if not changes:
            return []
        keys = (self.key(_before(change)) for change in changes)
        counts = self.access.count_rows(connection, self.part.mapping, keys)
        if counts == len(changes):
            return list(changes)
        if not counts:
            return []
        half = len(changes) // 2
        return self._existing(connection, changes[:half]) + self._existing(connection, changes[half:])


def _before(change: Change) -> Row:
    assert change.before is not None
    return change.before


def _after(change: Change) -> Row:
    assert change.after is not None
    return change.after
