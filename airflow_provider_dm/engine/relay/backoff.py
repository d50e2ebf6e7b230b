"""How long a relay or a sync waits before it tries again: the `checker` of its source says."""

from __future__ import annotations

import random
from typing import Final

from airflow_provider_dm.engine.config.source import CheckerConfig

FIRST_PAUSE_SECONDS: Final = 0.2
"""A connection that was lost is made again at once; what comes to nothing then is waited for."""


def pause_seconds(checker: CheckerConfig, failures: int) -> float:
    """Return the pause before the next attempt, after so many failures in a row.

    FIRST_PAUSE_SECONDS, then from `backoff-min` to `backoff-max`, times `backoff-factor` with each failure; with
    `backoff-jitter` half of it is left to chance.

    >>> [pause_seconds(CheckerConfig(backoff_jitter=False), failures) for failures in (1, 2, 3, 4, 99)]
    [0.2, 1.0, 2.0, 4.0, 300.0]
    """
    if failures > 1:
        return lengthened(checker, failures - 2)
    return _jittered(checker, FIRST_PAUSE_SECONDS)


def lengthened(checker: CheckerConfig, steps: int) -> float:
    """Return `backoff-min`, times `backoff-factor` as often as `steps` says, and `backoff-max` at most.

    >>> [lengthened(CheckerConfig(backoff_jitter=False), steps) for steps in (0, 1, 8, 9, 9999)]
    [1.0, 2.0, 256.0, 300.0, 300.0]
    """
    pause = checker.backoff_min
    for _ in range(steps):
        if pause >= checker.backoff_max or checker.backoff_factor == 1:
            break
        pause *= checker.backoff_factor
    return _jittered(checker, min(pause, checker.backoff_max))


def _jittered(checker: CheckerConfig, pause: float) -> float:
    return pause * random.uniform(0.5, 1.0) if checker.backoff_jitter else pause  # not for secrets
