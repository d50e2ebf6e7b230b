"""Places of one server's log that have to be passed in that log before it goes on in another server's.

What is known of a log by a place is known of that log only: where half an epoch ends, which statement was executed,
up to where a table is copied. Behind a failover the same transactions come again at other places, where nobody would
know them. So such a place is *open* until reading has come to it, and nothing is read past the end of its log before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.errors import MIGRATE_AGAIN, DmError, Scope
from airflow_provider_dm.engine.mysql.location import Location, missing_at


@dataclass(frozen=True)
class OpenPlace:
    """A place, and what is known by it. `what`: "half an epoch ends there".

    `within`: a place at or behind it of which the GTID set is known; who has all of
    that has passed both, though the log is not held up to there (it was rotated, and nothing followed).
    """

    source: str
    place: Location
    what: str
    within: Location | None = None

    def is_open(self, here: Location) -> bool:
        """Tell whether a reader who stands in front of another server's log has yet to come to it."""
        if self.place.sort_key <= here.sort_key:
            return False
        known = self.within
        return known is None or not (known.gtid_set and here.gtid_set) or bool(missing_at(here, known))


def half_epoch(source: str, edge: Location) -> OpenPlace:
    """Return the end of an epoch that some buckets have applied (frontier rule 1)."""
    return OpenPlace(source, edge, "a part of the rows up to there is written")


class OldLogNotHeld(DmError):
    """The log goes on in another server's, and a part of the old one that is needed is nowhere."""

    source: str
    here: str
    place: str
    open: str
    newer: str

    code = "DM-4068"
    scope = Scope.UPSTREAM
    what = (
        "the sync of {source} stands at {here}. Another server has taken over ({newer}), and the old one's log from "
        "there to {place} is not held: {open}, and at what places the new server has the same is not known."
    )
    hint = (
        "Put the old server's relay log back if there is a copy of it, or point the source to the old server again, "
        f"with a new relay-dir, until that place is passed; else {MIGRATE_AGAIN}."
    )


def first_open(places: Sequence[OpenPlace], here: Location, suffix: int) -> OpenPlace | None:
    """Return the first place behind `here` that lies in a sub-directory before the one of that number."""
    found = (one for one in places if one.place.suffix < suffix and one.is_open(here))
    return min(found, key=lambda one: one.place.sort_key, default=None)


def check_passed(places: Sequence[OpenPlace], here: Location, newer: LogFile) -> None:
    """Check that nothing is open at `here`, the end of what is held of a log that goes on in the file `newer`.

    Raises OldLogNotHeld.
    """
    lost = first_open(places, here, newer.suffix)
    if lost is not None:
        raise OldLogNotHeld(lost.source, str(here), str(lost.place), lost.what, str(newer))
