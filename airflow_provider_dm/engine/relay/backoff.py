"""Delays before a relay or a sync retries, from the `checker` configuration of its source."""

from __future__ import annotations

import random
from typing import Final

from airflow_provider_dm.engine.config.source import CheckerConfig

FIRST_PAUSE_SECONDS: Final = 0.2
"""The delay after a first failure: a lost connection is usually available again at once."""


def pause_seconds(checker: CheckerConfig, failures: int) -> float:
    """Return the delay before the next attempt, after this number of consecutive failures.

    FIRST_PAUSE_SECONDS, then from `backoff-min` to `backoff-max`, multiplied by `backoff-factor` with each failure;
    with `backoff-jitter` up to half of it is subtracted at random.

    >>> [pause_seconds(CheckerConfig(backoff_jitter=False), failures) for failures in (1, 2, 3, 4, 99)]
    [0.2, 1.0, 2.0, 4.0, 300.0]
    """
    if failures > 1:
        return backoff_seconds(checker, failures - 2)
    return _jittered(checker, FIRST_PAUSE_SECONDS)


def backoff_seconds(checker: CheckerConfig, steps: int) -> float:
    """Return `backoff-min`, multiplied by `backoff-factor` `steps` times, but at most `backoff-max`.

    >>> [backoff_seconds(CheckerConfig(backoff_jitter=False), steps) for steps in (0, 1, 8, 9, 9999)]
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
