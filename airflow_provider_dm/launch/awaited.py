"""The result of one poll by a sensor or its trigger: the awaited condition is met, not met yet, or broken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Met:
    """The condition is met. `value`: the sensor's result."""

    value: Any = None


@dataclass(frozen=True)
class NotYet:
    """The condition is not met yet. `why`: for the log. `locks`: unresolved DDL locks, as `dmctl` shows them."""

    why: str
    locks: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Broken:
    """A user has to act before the condition can be met. The fields are those of `NotYet`."""

    why: str
    locks: tuple[dict[str, Any], ...] = ()


Awaited = Met | NotYet | Broken

UNKNOWN: Final = NotYet("the metadata DB does not answer")
