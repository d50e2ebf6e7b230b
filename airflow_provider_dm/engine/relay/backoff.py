"""How long a relay waits before it tries again: the `checker` of its source says."""

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
    pause = checker.backoff_min
    for _ in range(failures - 2):
        if pause >= checker.backoff_max:
            break
        pause *= checker.backoff_factor
        if checker.backoff_factor == 1:
            break
    pause = min(pause, checker.backoff_max) if failures > 1 else FIRST_PAUSE_SECONDS
    return pause * random.uniform(0.5, 1.0) if checker.backoff_jitter else pause  # not for secrets
