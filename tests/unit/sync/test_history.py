"""The recent past of a sync: complete for six hours, bounded, and with its peaks."""

import itertools

from airflow_provider_dm.engine.sync.progress import CheckpointHistory

BEAT = 2


def test_the_history_covers_six_hours_in_at_most_130_points() -> None:
    history, day = CheckpointHistory(), 24 * 3600
    for now in range(0, day, BEAT):
        history.note(now, 500.0 if now == day - 3600 else 1.0, 3.0)
    points = history.points()
    times = [time for time, _, _ in points]
    assert times == sorted(set(times))
    assert len(points) <= 130
    assert day - times[0] >= 6 * 3600 - 240
    steps = {later - time for time, later in itertools.pairwise(times)}
    assert max(steps) <= 240 + 15
    assert times[-1] - times[-2] == 15
    assert max(lag for _, lag, _ in points if lag is not None) == 500.0  # a peak an hour ago is not averaged away


def test_an_unknown_lag_stays_unknown_until_one_is_known() -> None:
    history = CheckpointHistory()
    history.note(0, None, 1.0)
    assert history.points() == [(0, None, 1.0)]
    history.note(1, 4.0, 0.0)
    history.note(2, None, 0.0)
    assert history.points() == [(0, 4.0, 1.0)]
