"""Problems of a configuration: all of them are reported together, each with its line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Path = tuple[str | int, ...]
"""Keys and list indexes from the top of a document."""


@dataclass(frozen=True)
class Problem:
    """One sentence about the value at `path`. It never contains the value of a secret key."""

    path: Path
    text: str
    line: int | None = None
    """1-based; None: to be looked up by `path`."""


def path_text(path: Path, top: str) -> str:
    """Return the usual notation of a path; `top` names the whole document.

    >>> path_text(("mysql-instances", 0, "meta"), "the task")
    'mysql-instances[0].meta'
    """
    if not path:
        return top
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return "".join(parts).removeprefix(".")


def one_of(choices: Iterable[str]) -> str:
    """Join the choices for the end of a sentence.

    >>> one_of(["a", "b", "c"])
    'a, b or c'
    """
    *most, last = choices
    return f"{', '.join(most)} or {last}" if most else last
