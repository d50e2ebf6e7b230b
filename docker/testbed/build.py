"""A server program that can be started here, from any origin, as a value for `servers.py`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Initialisation(NamedTuple):
    """The command that fills an empty data directory, and what it reads from its standard input."""

    argv: list[str]
    stdin: str = ""


@dataclass(frozen=True)
class Build:
    """`argv`: how the server is called, up to the options that a call adds. `initialise` takes an empty folder.

    None: the server itself fills one when it starts.
    """

    version: str
    argv: tuple[str, ...]
    initialise: Callable[[Path], Initialisation] | None
