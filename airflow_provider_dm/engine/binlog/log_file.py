"""A file of the log for its readers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class LogFile:
    """A file of the relay directory. `size`: published bytes; `last`: it still grows; `server_uuid`: its writer."""

    path: str
    suffix: int
    name: str
    size: int
    last: bool
    server_uuid: str = ""

    def __str__(self) -> str:
        return f"{Path(self.path).parent.name}/{self.name}"
