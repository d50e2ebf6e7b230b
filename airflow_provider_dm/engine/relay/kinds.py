"""The kinds of binlog events for the relay: most are only bytes, a few have an effect.

The relay stores unknown kinds, because it copies the log; readers of rows stop at them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from airflow_provider_dm.engine.binlog import events
from airflow_provider_dm.engine.binlog.gtid_events import gtid_list, previous_gtids
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.relay.packets import GTID, PLAIN, SPECIAL

HEARTBEATS: Final = frozenset({events.HEARTBEAT, events.HEARTBEAT_V2})

CARRIED: Final[dict[int, Callable[[bytes, str], GtidSet]]] = {
    events.PREVIOUS_GTIDS: previous_gtids,
    events.MARIADB_GTID_LIST: gtid_list,
}
"""Parsers of the set in an event's body, by kind: all that was committed before the start of a file."""

_SPECIAL: Final = {events.ROTATE, events.FORMAT_DESCRIPTION, events.START_ENCRYPTION, *HEARTBEATS, *CARRIED}

ACTIONS: Final = bytes(SPECIAL if kind in _SPECIAL else GTID if kind in events.GTIDS else PLAIN for kind in range(256))
"""The pull loop's action for each event type."""
