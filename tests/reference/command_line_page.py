"""docs/reference/cli.md: every verb of `dmctl` with its options, from its parsers."""

import argparse
import inspect
import re
from collections.abc import Iterator
from typing import Final

from airflow_provider_dm.cli.main import parser
from airflow_provider_dm.cli.output import Exit
from airflow_provider_dm.cli.unsupported_verbs import UNSUPPORTED, refuse
from airflow_provider_dm.cli.verbs import VERBS
from tests.reference.markdown import cell, head, page, table

ABOUT: Final = """\
`dmctl VERB …`, or with Airflow `airflow dm VERB …`. [How to run a migration with it](../how-to/dmctl.md). Options may
precede or follow the verb; `-s` and the like may be repeated. DM's verbs answer with DM's JSON document, on a terminal
with tables."""
OF_MANY: Final = ("json", "verbose", "meta_url", "work_dir", "password_env")
"""The options of many verbs, by their names in argparse."""


def command_line_page() -> str:
    lines = head("Command line", ABOUT)
    common = {one.dest: one for one in _actions(_parser_of("run")) if one.dest in OF_MANY}
    lines += ["## Options of many verbs", "", *table(("option", "meaning"), [_row(common[name]) for name in OF_MANY])]
    lines += ["## Exit codes", "", *table(("code", "meaning"), _exit_codes())]
    lines += ["## Verbs", ""]
    for verb in VERBS:
        if verb not in UNSUPPORTED:
            lines += _verb(verb)
    lines += ["## Verbs of DM that are refused", ""]
    lines += table(("verb", "instead"), [(f"`{verb}`", cell(instead)) for verb, instead in UNSUPPORTED.items()])
    return page(lines)


def _verb(verb: str) -> list[str]:
    own = _parser_of(verb)
    actions = [one for one in own._actions if isinstance(one, argparse._SubParsersAction)]
    lines = [f"### {verb}", "", cell(f"{VERBS[verb].help[0].upper()}{VERBS[verb].help[1:]}."), ""]
    shown: list[tuple[str, argparse.ArgumentParser]] = [(verb, own)]
    if actions:
        choices = actions[0].choices.items()
        shown = [(f"{verb} {name}", one) for name, one in choices if one.get_default("command") is not refuse]
    lines += ["```", *(f"dmctl {_usage(name, below)}" for name, below in shown), "```", ""]
    options: dict[str, tuple[str, str]] = {}
    for _name, below in shown:
        for one in _actions(below):
            if one.dest not in OF_MANY and one.help:
                options.setdefault(one.dest, _row(one))
    return [*lines, *(table(("argument", "meaning"), options.values()) if options else ())]


def _parser_of(verb: str) -> argparse.ArgumentParser:
    top = parser([verb])
    below = next(one for one in top._actions if isinstance(one, argparse._SubParsersAction))
    found: argparse.ArgumentParser = below.choices[verb]
    return found


def _actions(of: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    return (one for one in of._actions if not isinstance(one, argparse._HelpAction))


def _usage(name: str, of: argparse.ArgumentParser) -> str:
    own = [one for one in _actions(of) if one.dest not in OF_MANY]
    positional = [_positional(one) for one in own if not one.option_strings]
    options = [f"{_shortest(one)}{_value(one)}" for one in own if one.option_strings]
    required = [one.required for one in own if one.option_strings]
    given = [option if must else f"[{option}]" for option, must in zip(options, required, strict=True)]
    return " ".join([name, *positional, *given])


def _positional(one: argparse.Action) -> str:
    shown = str(one.metavar or "|".join(one.choices or ()) or one.dest.upper())
    if " | " in shown:
        return shown
    return {"?": f"[{shown}]", "*": f"[{shown} …]", "+": f"{shown} …"}.get(str(one.nargs), shown)


def _shortest(one: argparse.Action) -> str:
    return min(one.option_strings, key=len)


def _value(one: argparse.Action) -> str:
    if one.nargs == 0:
        return ""
    return f" {one.metavar or '|'.join(map(str, one.choices or ())) or one.dest.upper()}"


def _row(one: argparse.Action) -> tuple[str, str]:
    name = ", ".join(f"`{option}{_value(one)}`" for option in one.option_strings) or f"`{_positional(one)}`"
    meaning = (one.help or "") % {"default": one.default}
    return cell(name), cell(meaning)


def _exit_codes() -> Iterator[tuple[str, str]]:
    """Yield each exit code and the comment beside it."""
    comments = dict(re.findall(r"^ +(\w+) = \d+(?:  # (.*))?$", inspect.getsource(Exit), re.MULTILINE))
    return ((str(one.value), cell(comments[one.name] or one.name.lower())) for one in Exit)
