"""The growing end of one source's relay log, as the loop asks for it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from airflow_provider_dm.engine.binlog.planner import Planned, UpToDate, plan_epoch
from airflow_provider_dm.engine.errors import DmError, Reaction, Scope
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.reader import RelayReader

SILENT_SECONDS: Final = 60.0
"""How long nothing may come before the loop asks whether anybody pulls, and how old a relay's sign of life may be."""


@dataclass(eq=False)
class RelaySilent(DmError):
    """Nothing new comes, and nobody pulls."""

    source: str
    here: str
    why: str

    code: ClassVar[str] = "DM-6041"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    reaction: ClassVar[Reaction] = Reaction.RETRY
    what: ClassVar[str] = "the relay of {source} is not pulling: {why}. The sync stands at {here}."
    hint: ClassVar[str] = "Start the relay (DmRelayOperator, or `dmctl start-relay`) and look at its log."


@dataclass(frozen=True)
class Tail:
    """Plans over what the relay has published so far."""

    reader: RelayReader

    @classmethod
    def of(cls, relay_dir: str) -> Tail:
        return cls(RelayReader(Path(relay_dir)))

    def plan(self, lo: Location, *, goal: Location | None, limit: int | None, range_bytes: int) -> Planned:
        """The next piece behind `lo`; `limit` in bytes, None: all up to the goal. Raises what reader and planner do."""
        files = self.reader.files(lo)
        if not files:
            return UpToDate(lo)
        return plan_epoch(files, lo, goal=goal, max_bytes=limit or sys.maxsize, range_bytes=range_bytes)


def check_relay(store: MetaStore, source: str, here: Location) -> None:
    """Raises RelaySilent where no relay of this source has lately said that it is well."""
    status = store.relay_status(source)
    if status is None:
        raise RelaySilent(source, str(here), "none has ever reported")
    if status.error is not None:
        raise RelaySilent(source, str(here), str(status.error.get("Message", "it has an error")))
    age = status.heartbeat_age_seconds
    if age is None or age > SILENT_SECONDS:
        raise RelaySilent(source, str(here), f"its last sign of life is {age or 0:.0f} s old")
