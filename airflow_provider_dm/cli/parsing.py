"""How a verb joins the command line: one small helper, so that all verbs look alike."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from airflow_provider_dm.cli.output import Exit, Output


class UsageError(Exception):
    """A wrong command line. The arguments are the usage of the verb, and what is wrong."""


class Parser(argparse.ArgumentParser):
    """A parser that leaves it to its caller how a wrong command line is answered."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(self.format_usage(), f"{self.prog}: error: {message}")


Command = Callable[[argparse.Namespace, Output], Exit]


class Subparsers(Protocol):
    """The object that `ArgumentParser.add_subparsers` returns, as far as it is used here."""

    def add_parser(self, name: str, **options: Any) -> argparse.ArgumentParser: ...


def add_sources(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add -s, which may be repeated: the sources that are meant, by default all."""
    parser.add_argument(
        "--source", "-s", metavar="SOURCE-ID", action="append", required=required, default=[], dest="sources"
    )


@dataclass(frozen=True)
class Verbs:
    """The place where verbs are added. `shared`: the options of all of them; `described`: what is said of each."""

    subparsers: Subparsers
    shared: argparse.ArgumentParser
    described: Mapping[str, str]

    def add(self, name: str, command: Command, description: str = "") -> argparse.ArgumentParser:
        """Add a verb; the caller adds its arguments."""
        said = description or self.described[name]
        parser = self.subparsers.add_parser(name, parents=[self.shared], help=said, description=said)
        parser.set_defaults(command=command)
        return parser

    def below(self, name: str, metavar: str) -> Verbs:
        """Add a verb that has verbs of its own."""
        said = self.described[name]
        parser = self.subparsers.add_parser(name, help=said, description=said)
        return Verbs(parser.add_subparsers(dest="action", required=True, metavar=metavar), self.shared, {})
