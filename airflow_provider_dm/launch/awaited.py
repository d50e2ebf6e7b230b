"""The answer to the question whether what a sensor awaits has come true, for all sensors and their triggers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Met:
    """It has come true. `value`: the sensor's result."""

    value: Any = None


@dataclass(frozen=True)
class NotYet:
    """It may still come true. `why`: for the log. `locks`: DDL locks that a user may look at, as `dmctl` shows them."""

    why: str
    locks: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Broken:
    """A user has to act first. The fields are those of `NotYet`."""

    why: str
    locks: tuple[dict[str, Any], ...] = ()


Awaited = Met | NotYet | Broken

UNKNOWN: Final = NotYet("the metadata DB does not answer")
