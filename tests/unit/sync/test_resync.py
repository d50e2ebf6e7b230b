"""The re-sync's way through the log, where it is not there."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_provider_dm.engine.binlog.planner import Planned, UpToDate
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync import resync
from airflow_provider_dm.engine.sync.fallback import RelaySilent
from airflow_provider_dm.engine.sync.resync import _Lane

LO, STOP = Location("bin.000001", 4), Location("bin.000001", 900)


class Short:
    """A relay log that nobody pulls on, and that ends in front of the stop."""

    looked = 0

    def plan(self, lo: Location, **_: object) -> Planned:
        return UpToDate(lo)

    def idle(self, here: Location, seconds: float) -> None:
        self.looked += 1
        if self.looked == 3:
            raise RelaySilent("a", str(here), "it has ended")


def test_a_log_that_nobody_pulls_on_is_not_waited_for_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resync, "WAIT_SECONDS", 0.0)
    shared = SimpleNamespace(share=lambda plan: plan, slots=1)
    size = SimpleNamespace(limit=1, range_bytes=lambda slots: 1)
    of = SimpleNamespace(runner=shared, stop=threading.Event(), size=size)
    lane = _Lane(cast(Any, of), cast(Any, Short()), cast(Any, None), STOP, LO, None)
    with pytest.raises(RelaySilent, match="has ended"):
        lane.run()
