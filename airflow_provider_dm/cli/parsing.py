"""Helpers to add verbs to the command line uniformly."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol

from airflow_provider_dm.cli.errors import UsageError
from airflow_provider_dm.cli.output import Exit, Output


class Parser(argparse.ArgumentParser):
    """A parser whose caller decides how a wrong command line is reported."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(self.format_usage(), f"{self.prog}: error: {message}")

    # The signature is argparse's, whose namespace may be of any type.
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse options before, between and after positional arguments. argparse itself treats an optional positional
        argument as missing when an option precedes it.
        """
        if self._subparsers is not None or self._intermixed:
            return super().parse_known_args(args, namespace)
        self._intermixed = True  # this method is called again, for the options and for the rest
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._intermixed = False

    _intermixed = False


class HelpFormatter(argparse.HelpFormatter):
    """A help formatter that keeps the lines of a multi-line text: examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


def options_after_verb(words: Sequence[str], verbs: Container[str], with_actions: Container[str]) -> list[str]:
    """Return the words with the options that precede the verb moved after it, or after its action.

    >>> options_after_verb(["--json", "-s", "a", "binlog", "list", "shop"], {"binlog"}, {"binlog"})
    ['binlog', 'list', '--json', '-s', 'a', 'shop']
    """
    at = _first(words, lambda word: word in verbs)
    if at is None or words[0] in ("-h", "--help", "--version"):
        return list(words)
    before, verb, after = words[:at], words[at], words[at + 1 :]
    at = _first(after, lambda word: not word.startswith("-")) if verb in with_actions else None
    if at is None:
        return [verb, *before, *after]
    return [verb, after[at], *before, *after[:at], *after[at + 1 :]]


def _first(words: Sequence[str], is_meant: Callable[[str], bool]) -> int | None:
    """Return the index of the first word that `is_meant` and is not an option's value; None if there is none."""
    places = (at for at, word in enumerate(words) if is_meant(word) and (not at or words[at - 1] not in VALUE_OPTIONS))
    return next(places, None)


VALUE_OPTIONS: Final = frozenset({"--meta-url", "--work-dir", "--source", "-s", "--password-env", "--source-file"})
"""Options that may precede a verb and whose value may be the name of a verb."""


VerbFunction = Callable[[argparse.Namespace, Output], Exit]


class Subparsers(Protocol):
    """The part of `ArgumentParser.add_subparsers`'s result that is used here."""

    def add_parser(self, name: str, **options: Any) -> argparse.ArgumentParser: ...


def add_sources(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add -s, which may be repeated: the chosen sources, by default all."""
    parser.add_argument(
        "--source", "-s", metavar="SOURCE-ID", action="append", required=required, default=[], dest="sources"
    )


@dataclass(frozen=True)
class Verbs:
    """The registry of verbs. `shared`: options of all verbs; `described`: the description of each."""

    subparsers: Subparsers
    shared: argparse.ArgumentParser
    described: Mapping[str, str]
    examples: Mapping[str, tuple[str, ...]]

    def add(self, name: str, command: VerbFunction, description: str = "") -> argparse.ArgumentParser:
        """Add a verb; the caller adds its arguments."""
        text = description or self.described[name]
        parser = self.subparsers.add_parser(
            name,
            parents=[self.shared],
            help=text,
            description=text,
            epilog=_listed(self.examples.get(name, ())),
            formatter_class=HelpFormatter,
        )
        parser.set_defaults(command=command)
        return parser

    def below(self, name: str, metavar: str) -> Verbs:
        """Add a verb with actions of its own."""
        text = self.described[name]
        epilog = _listed(self.examples.get(name, ()))
        parser = self.subparsers.add_parser(
            name, help=text, description=text, epilog=epilog, formatter_class=HelpFormatter
        )
        return Verbs(parser.add_subparsers(dest="action", required=True, metavar=metavar), self.shared, {}, {})


def _listed(examples: tuple[str, ...]) -> str | None:
    """Return the examples at the end of a help text. The `%` of argparse's own formats is doubled."""
    return "examples:\n  " + "\n  ".join(examples).replace("%", "%%") if examples else None
