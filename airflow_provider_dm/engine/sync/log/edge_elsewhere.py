"""Half an epoch, where another server has taken over and the old one's log is not held up to the epoch's end.

The same transactions lie in the new server's log, maybe in another order, in which what depends on each other is as it
was. If they come first of what is new there, with nothing of what is applied in between, they are the same epoch: what
is folded of them is the same, bucket by bucket. So its end is found there, by the GTID set that was noted before it was
begun, and moves there. Everything else stays open (binlog/open_places.py).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.planned import Epoch
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.repetitions import Repetitions
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.mysql.location import Location, Order, compare
from airflow_provider_dm.engine.relay.durable import RelayDirectoryUnusable
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.sync.log.fallback import unreadable


def edge_in_new_log(readers: Sequence[RelayReader], lo: Location, edge: Location, wanted: str) -> Location | None:
    """Return where the epoch that began at `lo` ends in what is held of the log. `wanted`: the GTID set there.

    None where that is not known, or where nobody has taken over, or its own log is held. It may lie in front of `edge`
    in the same log, if nothing but the beginning of a file is missing. `readers`: of the relay log first.

    Raises RelayDirectoryUnusable, RelayFileGone.
    """
    try:
        held = [reader.files(lo) for reader in readers]
        old_log = (one for files in held for one in files if one.suffix == edge.suffix)
        ends = [Location(one.name, one.size, suffix=one.suffix).sort_key for one in old_log]
        if not (wanted and lo.gtid_set) or max(ends, default="") >= edge.sort_key:
            return None
        return place_of(held[0], lo, wanted) if any(one.suffix > edge.suffix for one in held[0]) else None
    except RelayDirectoryUnusable:
        raise  # maybe for this moment only: without an answer the sync would wait for the old log for good
    except DmError:
        return None  # reading the same files raises it again
    except OSError as error:
        raise unreadable(str(error.filename or readers[0].root), error) from error


def place_of(files: Sequence[LogFile], lo: Location, wanted: str) -> Location | None:
    """Return the place behind `lo` up to which one epoch has all that is missing of a GTID set, and no more.

    None where there is none, or the log has not come so far. Raises what the planner raises.
    """
    goal, here, repetitions = GtidSet.of_text(wanted), lo, Repetitions()
    while True:
        planned = plan_epoch(
            files, here, goal=None, max_bytes=1, range_bytes=sys.maxsize, repetitions=repetitions, bounds_only=True
        )
        if not isinstance(planned, Epoch) or planned.prepared is not None:
            return None
        here, known = planned.hi, GtidSet.of_text(planned.hi.gtid_set)
        if not goal.contains(known):
            return None
        if known.contains(goal):
            break
    whole = plan_epoch(
        files, lo, goal=here, max_bytes=sys.maxsize, range_bytes=sys.maxsize, repetitions=repetitions, bounds_only=True
    )
    return here if isinstance(whole, Epoch) and compare(whole.hi, here) is Order.SAME else None
