"""What collided and was written over, by name: the last rows of each table, for the status and the log.

Keys are shown as RowsCollide shows them: they are what a person has to look at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

MOST_SHOWN: Final = 20
"""The collisions of one table that the status names: the last ones."""


@dataclass(frozen=True)
class NamedCollision:
    """One row that collided. `key`: the name of the unique key in which it did, with columns and values.

    `missing`: it was to be changed or deleted, and was not there; else another one was, in the way. `other`: the source
    and table that has it, where that is known.
    """

    key: str
    columns: tuple[str, ...]
    values: tuple[str, ...]
    missing: bool = False
    other: str = ""

    def to_json(self, by: str) -> dict[str, Any]:
        """Return it as the status shows it. `by`: the source table whose change it was; "": the only one."""
        said: dict[str, Any] = {
            "key": self.key,
            "columns": list(self.columns),
            "values": list(self.values),
            "was": "missing" if self.missing else "present",
        }
        names = {"by": by, "other": self.other}
        return said | {name: value for name, value in names.items() if value}
