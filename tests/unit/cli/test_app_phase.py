"""The number of restarts of an app of `dmctl run`."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_provider_dm.cli import app_phase
from airflow_provider_dm.cli.app_phase import APP_ATTEMPTS, run_app
from airflow_provider_dm.engine.errors import DmError, ReportedError
from airflow_provider_dm.engine.meta.errors import MetaUnreachable
from airflow_provider_dm.launch.errors import RunLost, SparkAppFailed

AWAY = MetaUnreachable("sqlite://", "gone")
AWAY_FOR_THE_APP = SparkAppFailed("verify", "r", ReportedError.of(AWAY))
DIED = RunLost("verify", "1", "killed")


@pytest.mark.parametrize(
    ("ends", "patience", "attempts"),
    [
        ([DIED, DIED], 300.0, 3),
        ([DIED] * APP_ATTEMPTS, 300.0, None),
        ([AWAY] * 20, 300.0, 21),
        ([AWAY_FOR_THE_APP] * 20 + [DIED], 300.0, 22),
        ([AWAY] * 20, -1.0, None),
    ],
)
def test_a_short_outage_of_the_metadata_db_costs_no_attempt(
    ends: list[DmError], patience: float, attempts: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attempt(_: object, *__: object) -> dict[str, Any]:
        made.append(None)
        for error in left:
            raise error
        return {}

    made: list[None] = []
    left: Iterator[DmError] = iter(ends)
    monkeypatch.setattr(app_phase, "_attempt", attempt)
    monkeypatch.setattr(app_phase, "METADATA_SECONDS", patience)
    interrupts = SimpleNamespace(requested=lambda: False, wait=lambda _: None)
    context = cast(Any, SimpleNamespace(interrupts=interrupts))

    if attempts is None:
        with pytest.raises(DmError):
            run_app(context, "verify", "caught-up")
        assert len(made) == APP_ATTEMPTS
    else:
        assert run_app(context, "verify", "caught-up") == {}
        assert len(made) == attempts
