"""`extra-args` of a mydumper: the flags of dumpling that DM accepts, and their meaning for our copy.

Flags for speed, chunks or locks take effect, or the copy does not need them; flags that choose which rows are read, or
as of which time, are not supported (`TaskConfig.unsupported`)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.config.pattern import is_name
from airflow_provider_dm.engine.config.units import Consistency

_LONG: Final = {
    "-t": "--threads",
    "-r": "--rows",
    "-F": "--filesize",
    "-s": "--statement-size",
    "-B": "--database",
    "-W": "--no-views",
}
_CONSISTENCY: Final = "--consistency"
_NO_LOCKS: Final = "--no-locks"
"""Mydumper's flag, equivalent to `--consistency none` in DM."""
_WITH_VALUE: Final = frozenset({"--threads", "--rows", "--filesize", "--statement-size", "--loglevel"})
_SWITCHES: Final = frozenset(
    {_NO_LOCKS, "--no-views", "--escape-backslash", "--transactional-consistency", "--skip-tz-utc"}
)
"""Switches for our normal behaviour; only `--no-views=false` would need a change: it requests views."""
_NUMBERS: Final = frozenset({"--threads", "--rows"})


@dataclass(frozen=True)
class DumpArguments:
    """The parsed `extra-args`. `threads`, `rows`, `consistency`: None if not given; `selecting`: flags that choose
    what is read; `databases`: those of `-B`, empty if it is not given.
    """

    threads: int | None = None
    rows: int | None = None
    consistency: Consistency | None = None
    databases: tuple[str, ...] = ()
    selecting: tuple[str, ...] = ()

    def narrowing(self, do_dbs: Sequence[str]) -> tuple[str, ...]:
        """Return the flags by which a copy would read less than the sync. `-B` is not one of them if it names every
        schema of the block-allow list, as DM's own task files do.

        >>> parse_extra_args("-B one,two").narrowing(["two"])
        ()
        """
        if not self.databases or (do_dbs and {*do_dbs} <= {*self.databases} and all(map(is_name, do_dbs))):
            return self.selecting
        return ("-B", *self.selecting)


def parse_extra_args(text: str) -> DumpArguments:
    """Parse the arguments as DM does: the last occurrence of a flag counts. Unknown arguments are in `selecting`.

    >>> parse_extra_args("-t8 --rows=1000 --no-views")
    DumpArguments(threads=8, rows=1000, consistency=None, databases=(), selecting=())
    >>> parse_extra_args("-B test -T test.t1 --consistency lock").consistency
    <Consistency.LOCK: 'lock'>
    >>> parse_extra_args("-B test -T test.t1")
    DumpArguments(threads=None, rows=None, consistency=None, databases=('test',), selecting=('-T',))
    """
    try:
        words = iter(shlex.split(text))
    except ValueError:
        return DumpArguments(selecting=(text,))
    numbers: dict[str, int] = {}
    consistency: Consistency | None = None
    databases: list[str] = []
    selecting: list[str] = []
    for word in words:
        flag, value = _flag(word, words)
        if flag == "--database" and value:
            databases += value.split(",")
        elif flag in _NUMBERS and value.isdecimal():
            numbers[flag] = int(value)
        elif flag == _CONSISTENCY and value.lower() in set(Consistency):
            consistency = Consistency(value.lower())
        elif flag == _NO_LOCKS:
            consistency = Consistency.NONE
        elif not _is_harmless(flag, value):
            selecting.append(_shown(word, flag, value))
    threads, rows = (numbers.get(flag) or None for flag in ("--threads", "--rows"))
    return DumpArguments(threads, rows, consistency, tuple(databases), tuple(selecting))


def _flag(word: str, rest: Iterator[str]) -> tuple[str, str]:
    """Return the long name of a flag, and its value: `-t 8`, `-t8`, `-t=8`, `--threads 8` and `--threads=8`."""
    if word.startswith("-") and not word.startswith("--"):
        short, attached = word[:2], word[2:]
        flag, sign, value = _LONG.get(short, short), attached[:1], attached.removeprefix("=")
    else:
        flag, sign, value = word.partition("=")
    if sign or not word.startswith("-") or flag in _SWITCHES:
        return flag, value
    return flag, next(rest, "")


def _is_harmless(flag: str, value: str) -> bool:
    if flag == "--no-views":
        return value.lower() in ("", "true", "t", "1")
    return flag in _SWITCHES or (flag in _WITH_VALUE - _NUMBERS and value != "")


def _shown(word: str, flag: str, value: str) -> str:
    if flag in _WITH_VALUE | _SWITCHES | {_CONSISTENCY}:
        return f"{flag} {value}".rstrip()
    return word[:2] if word[:1] == "-" != word[1:2] else flag
