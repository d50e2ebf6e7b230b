"""What `purge` of a source.yaml wants to remove from its relay log at a given moment."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.config.source import PurgeConfig
from airflow_provider_dm.engine.relay.purge import BeforeTime, FreeSpace, PurgeRequest

GIGABYTE: Final = 1 << 30
HOUR: Final = 3600.0


def requests_of(config: PurgeConfig, *, free_bytes: int, now: float) -> tuple[PurgeRequest, ...]:
    """Return the purge requests of source.yaml at `now` (seconds since 1970). None with `interval: 0`, as in DM."""
    requests: list[PurgeRequest] = []
    missing = config.remain_space * GIGABYTE - free_bytes
    if config.interval and missing > 0:
        requests.append(FreeSpace(missing))
    if config.interval and config.expires:
        requests.append(BeforeTime(now - config.expires * HOUR))
    return tuple(requests)


def requests_for(config: PurgeConfig, root: Path) -> tuple[PurgeRequest, ...]:
    """Return the present purge requests of source.yaml for the relay log in `root`. Raises OSError."""
    disk = os.statvfs(root)
    return requests_of(config, free_bytes=disk.f_bavail * disk.f_frsize, now=time.time())
