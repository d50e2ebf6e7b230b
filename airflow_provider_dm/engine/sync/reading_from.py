"""What a tail reads: the relay log, or what is pulled from the upstream, and when it looks whether it may go back."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.upstream import UpstreamLog

RETURN_SECONDS: Final = 5.0
"""Between two looks whether the relay log can serve again, at first."""
LONGEST_RETURN_SECONDS: Final = 60.0


@dataclass(frozen=True)
class FromRelay:
    """The state of reading the relay log."""

    left_at: Location | None = None
    """Where the upstream's files were left for it: they may still be being read."""


@dataclass
class FromUpstream:
    """The state of reading what is pulled from the upstream, until a look shows that the relay log can serve again."""

    log: UpstreamLog
    why: DmError
    """What is wrong with the relay log."""
    failed_at: Location | None
    """Where it was left for what it says, not for its silence: what is wrong lies behind it."""
    pulled: bool = True
    """It grows. False: an earlier run has left it, and its server is gone."""
    return_pause: float = RETURN_SECONDS
    return_at: float = field(default_factory=lambda: time.monotonic() + RETURN_SECONDS)

    def looks_back(self, lo: Location) -> bool:
        """Tell whether it is time to look; never where the relay log could not serve, or nobody would get past that."""
        stuck = self.failed_at is not None and lo.sort_key == self.failed_at.sort_key
        return not stuck and time.monotonic() >= self.return_at

    def looked_in_vain(self) -> None:
        self.return_pause = min(self.return_pause * 1.5, LONGEST_RETURN_SECONDS)
        self.return_at = time.monotonic() + self.return_pause


Reading = FromRelay | FromUpstream
