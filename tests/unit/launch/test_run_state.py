"""The table of a run's ends, and what each means for the process that waits for the run."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.meta.records import Run, Stage
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.launch.errors import RunLost, SparkAppFailed
from airflow_provider_dm.launch.run_state import START_SECONDS, run_end
from airflow_provider_dm.launch.submit import AppOutcome

NOW = datetime.now(UTC)
RUN = Run("r", "shop", "incremental_sync", Holder("i", "1", "h"), Stage.RUNNING, NOW, NOW, 1.0)
ENDED = replace(RUN, finished_at=NOW, result={"rows": 1})
ERROR = {"ErrCode": "DM-6032", "Message": "no such column."}


def end_of(run: Run | None, *, launcher_ended: bool = True, waited: float = 9.0) -> AppOutcome | DmError | None:
    return run_end("r", "incremental_sync", run, launcher_ended=launcher_ended, waited_seconds=waited)


@pytest.mark.parametrize(
    ("run", "launcher_ended", "waited", "end"),
    [
        (None, False, 1.0, type(None)),
        (None, True, 1.0, RunLost),
        (None, False, START_SECONDS, RunLost),
        (RUN, False, 999.0, type(None)),
        (RUN, True, 999.0, RunLost),
        (replace(RUN, heartbeat_age_seconds=31.0), False, 999.0, RunLost),
        (replace(ENDED, stage=Stage.FINISHED), True, 9.0, AppOutcome),
        (replace(ENDED, stage=Stage.STOPPED), True, 9.0, AppOutcome),
        (replace(ENDED, stage=Stage.PAUSED, error=ERROR), True, 9.0, SparkAppFailed),
    ],
)
def test_the_end_of_a_run_follows_from_its_row_and_its_launcher(
    run: Run | None, launcher_ended: bool, waited: float, end: type
) -> None:
    assert isinstance(end_of(run, launcher_ended=launcher_ended, waited=waited), end)


@pytest.mark.parametrize(
    ("error", "reaction"),
    [
        (ERROR | {"Reaction": "stop"}, Reaction.STOP),
        (ERROR | {"Reaction": "retry"}, Reaction.RETRY),
        (ERROR | {"Reaction": "fenced"}, Reaction.FENCED),
        (None, Reaction.RETRY),  # it is gone
    ],
)
def test_an_end_without_a_result_is_an_error_with_a_reaction(error: dict[str, str] | None, reaction: Reaction) -> None:
    end = end_of(RUN if error is None else replace(ENDED, stage=Stage.PAUSED, error=error))
    assert isinstance(end, DmError)
    assert end.reacts() is reaction
    assert end.workaround()


def test_a_stop_is_no_error() -> None:
    assert end_of(replace(ENDED, stage=Stage.FINISHED)) == AppOutcome({"rows": 1})
    assert end_of(replace(ENDED, stage=Stage.STOPPED)) == AppOutcome({"rows": 1}, finished=False)
