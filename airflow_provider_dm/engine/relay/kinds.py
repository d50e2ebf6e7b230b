"""What the kinds of binlog events are to the relay: almost all are bytes, a few decide something.

The relay stores kinds that it does not know, as a copy has to; whoever reads rows stops at them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from airflow_provider_dm.engine.binlog import events
from airflow_provider_dm.engine.binlog.gtid_events import gtid_list, previous_gtids
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.relay.packets import GTID, PLAIN, SPECIAL

HEARTBEATS: Final = frozenset({events.HEARTBEAT, events.HEARTBEAT_V2})

_CARRIED: Final[dict[int, Callable[[bytes, str], GtidSet]]] = {
    events.PREVIOUS_GTIDS: previous_gtids,
    events.MARIADB_GTID_LIST: gtid_list,
}
"""PREVIOUS_GTIDS and GTID_LIST: the whole set, at the start of a file."""

_SPECIAL: Final = {events.ROTATE, events.FORMAT_DESCRIPTION, events.START_ENCRYPTION, *HEARTBEATS, *_CARRIED}

ACTIONS: Final = bytes(SPECIAL if kind in _SPECIAL else GTID if kind in events.GTIDS else PLAIN for kind in range(256))
"""The pull loop's action for each event type."""


def carried_set(kind: int) -> Callable[[bytes, str], GtidSet] | None:
    """Return the reader of the GTID set in an event's body, for the kinds that carry one; else None."""
    return _CARRIED.get(kind)
