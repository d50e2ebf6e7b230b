"""Places of one server's log that have to be passed in that log before it goes on in another server's.

What is known of a log by a place is known of that log only: where half an epoch ends, which statement was executed,
up to where a table is copied. Behind a failover the same transactions come again at other places, where nobody would
know them. So such a place is *open* until reading has come to it, and nothing is read past the end of its log before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.errors import MIGRATE_AGAIN, DmError, Scope
from airflow_provider_dm.engine.mysql.location import Location


@dataclass(frozen=True)
class OpenPlace:
    """A place, and what is known by it. `what`: "half an epoch ends there"."""

    source: str
    place: Location
    what: str


def half_epoch(source: str, edge: Location) -> OpenPlace:
    """Return the end of an epoch that some buckets have applied (frontier rule 1)."""
    return OpenPlace(source, edge, "a part of the rows up to there is written")


@dataclass(eq=False)
class OldLogNotHeld(DmError):
    """The log goes on in another server's, and a part of the old one that is needed is nowhere."""

    source: str
    here: str
    place: str
    open: str
    newer: str

    code: ClassVar[str] = "DM-4068"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = (
        "the sync of {source} stands at {here}. Another server has taken over ({newer}), and the old one's log from "
        "there to {place} is not held: {open}, and at what places the new server has the same is not known."
    )
    hint: ClassVar[str] = (
        "Put the old server's relay log back if there is a copy of it, or point the source to the old server again, "
        f"with a new relay-dir, until that place is passed; else {MIGRATE_AGAIN}."
    )


def first_open(places: Sequence[OpenPlace], here: Location, suffix: int) -> OpenPlace | None:
    """Return the first place behind `here` that lies in a sub-directory before the one of that number."""
    found = (one for one in places if here.sort_key < one.place.sort_key and one.place.suffix < suffix)
    return min(found, key=lambda one: one.place.sort_key, default=None)


def check_passed(places: Sequence[OpenPlace], here: Location, newer: LogFile) -> None:
    """Check that nothing is open at `here`, the end of what is held of a log that goes on in the file `newer`.

    Raises OldLogNotHeld.
    """
    lost = first_open(places, here, newer.suffix)
    if lost is not None:
        raise OldLogNotHeld(lost.source, str(here), str(lost.place), lost.what, str(newer))
