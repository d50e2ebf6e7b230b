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

    def has_changed(self) -> bool:
        """Return True if the file has another size than `size` now, or no longer exists."""
        try:
            return Path(self.path).stat().st_size != self.size
        except OSError:
            return True

    def __str__(self) -> str:
        return f"{Path(self.path).parent.name}/{self.name}"
