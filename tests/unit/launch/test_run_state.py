"""The table of a run's states, and what each means for the process that waits for the run."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.meta.records import Holder, Run, Stage
from airflow_provider_dm.launch.run_state import (
    START_SECONDS,
    Failed,
    Finished,
    Gone,
    RunState,
    Stopped,
    Working,
    outcome_of,
    run_state,
)

NOW = datetime.now(UTC)
RUN = Run("r", "shop", "incremental_sync", Holder("i", "1", "h"), Stage.RUNNING, NOW, NOW, 1.0)
ENDED = replace(RUN, finished_at=NOW, result={"rows": 1})
ERROR = {"ErrCode": "DM-6032", "Message": "no such column."}


@pytest.mark.parametrize(
    ("run", "launcher_ended", "waited", "state"),
    [
        (None, False, 1.0, Working),
        (None, True, 1.0, Gone),
        (None, False, START_SECONDS, Gone),
        (RUN, False, 999.0, Working),
        (RUN, True, 999.0, Gone),
        (replace(RUN, heartbeat_age_seconds=31.0), False, 999.0, Gone),
        (replace(ENDED, stage=Stage.FINISHED), True, 9.0, Finished),
        (replace(ENDED, stage=Stage.STOPPED), True, 9.0, Stopped),
        (replace(ENDED, stage=Stage.PAUSED, error=ERROR), True, 9.0, Failed),
    ],
)
def test_the_row_of_a_run_and_its_launcher_decide(
    run: Run | None, launcher_ended: bool, waited: float, state: type[RunState]
) -> None:
    assert isinstance(run_state(run, launcher_ended=launcher_ended, waited_seconds=waited), state)


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
    run = RUN if error is None else replace(ENDED, stage=Stage.PAUSED, error=error)
    with pytest.raises(DmError) as raised:
        outcome_of(run_state(run, launcher_ended=True, waited_seconds=9.0), "incremental_sync", "r")
    assert raised.value.reacts() is reaction
    assert raised.value.workaround()


def test_a_stop_is_no_error() -> None:
    stopped = run_state(replace(ENDED, stage=Stage.STOPPED), launcher_ended=True, waited_seconds=9.0)
    assert not outcome_of(stopped, "incremental_sync", "r").finished
