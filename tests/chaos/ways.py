"""The settings of a round of real histories: mode, rule of safe mode, columns that only the target has.

load      the task copies all in rounds, and the log continues from there
past      the target was filled by another task, and the log begins before that: rows overlap it up to where the log
          ended when the task began, and some log time after; there the last one to write a merged row wins, so no row
          moves from one table to another
always    `safe-mode: true`, also of a merged table, of whose rows the last one to be written wins
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

from tests.unit.sync.ddl_ways import MODES

LOAD: Final = "load"
PAST: Final = "past"
ALWAYS: Final = "always"
SAFE: Final = (LOAD, PAST, ALWAYS)
EXTRA: Final = "extra_column"


@dataclass(frozen=True)
class Way:
    """The way of one round. `extra`: plain tables of the target get a column of their own."""

    mode: str
    safe: str
    extra: bool

    @classmethod
    def of(cls, seed: int, safe: str | None = None) -> Way:
        """Choose one: rounds of neighbouring seeds have other modes and other rules, unless one is given."""
        modes = list(MODES)
        chance = random.Random(f"way {seed}")
        return cls(modes[seed % len(modes)], safe or SAFE[seed // 2 % len(SAFE)], chance.random() < 0.5)

    def __str__(self) -> str:
        return f"{self.mode}, {self.safe}" + (", a column more in the target" if self.extra else "")

    @property
    def last_wins(self) -> bool:
        """Rows of merged tables are written over, so what moves from one source to another may be lost."""
        return self.safe == ALWAYS

    @property
    def shards_alter(self) -> bool:
        """Shards make DDL; the product refuses it while rows of the merged table may be those of others before us, and
        with `safe-mode: true`."""
        return self.safe == LOAD

    @property
    def syncer(self) -> dict[str, Any]:
        """DM's keys of the syncer."""
        always = {"safe-mode": True} if self.safe == ALWAYS else {}
        soon = {"safe-mode-duration": "5s", "checkpoint-flush-interval": 1} if self.safe == PAST else {}
        return {**MODES[self.mode], **always, **soon}
