"""docs/reference/errors.md: every error of the product, by the areas of their codes."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from itertools import chain
from typing import Final

import airflow_provider_dm
import spark_apps
from airflow_provider_dm.engine.errors import DmError, DownstreamError, Reaction, UpstreamError
from tests.reference.markdown import cell, first_paragraph, head, page, table

AREAS: Final = {
    "1": "DM-1xxx: configuration and files",
    "2": "DM-2xxx: connections and servers",
    "3": "DM-3xxx: the binlog",
    "4": "DM-4xxx: relay log, locations, failover",
    "5": "DM-5xxx: tables, filters, routes",
    "6": "DM-6xxx: sync, DDL, target",
    "7": "DM-7xxx: full migration, verification, precheck",
    "8": "DM-8xxx: metadata DB, runs, locks",
    "9": "DM-9xxx: launching, command line, Airflow",
}
ABOUT: Final = """\
A message is `[CODE SCOPE] what happened. What to do.`; `{…}` is a value in it. Find a code with
your browser's search, or by the link `errors.md#dm-6032`.

- **Scope** is the side with the cause: *upstream* (a source), *downstream* (the target), *internal* (files, machine,
  this package).
- **Reaction**: *retry*: the error may pass; a sync, an app or Airflow repeats the work automatically. *stop*: a user
  has to decide; nothing after the location of the error is applied. *fenced*: a newer run has taken over; this one
  ends."""
PACKAGES: Final = (airflow_provider_dm, spark_apps)
AIRFLOW_FLOOR: Final = ("hooks", "operators", "sensors", "triggers")


def every_error() -> list[type[DmError]]:
    """All that the packages define, except the bases of each side. The Airflow floor has its few in `hooks.errors`,
    which imports no Airflow."""
    for module in chain.from_iterable(pkgutil.walk_packages(one.__path__, f"{one.__name__}.") for one in PACKAGES):
        floor = module.name.split(".")[1]
        runs_at_import = "__main__" in module.name or ".migrations" in module.name
        if (floor not in AIRFLOW_FLOOR or module.name.endswith("hooks.errors")) and not runs_at_import:
            importlib.import_module(module.name)
    names = {package.__name__ for package in PACKAGES}
    defined = {kind for kind in _below(DmError) if kind.__module__.split(".")[0] in names}
    return sorted(defined - {UpstreamError, DownstreamError}, key=lambda kind: kind.__name__)


def errors_page() -> str:
    coded = sorted((kind for kind in every_error() if kind.code != DmError.code), key=lambda kind: kind.code)
    lines = head("Errors", ABOUT)
    for digit, title in AREAS.items():
        rows = [_row(kind) for kind in coded if kind.code.startswith(f"DM-{digit}")]
        lines += [f"## {title}", "", *table(("code", "what happened", "cause", "what to do", "scope, reaction"), rows)]
    return page(lines)


def _row(kind: type[DmError]) -> tuple[str, ...]:
    happened = _filled(kind.what) if kind.what not in ("", DmError.what) else first_paragraph(kind)
    cause = first_paragraph(kind)
    reaction: object = kind.reaction  # of a few it is a property: the instance decides
    reacts = reaction.value if isinstance(reaction, Reaction) else "retry, then stop"
    anchor = f'<a id="{kind.code.lower()}"></a>'
    return (
        f"{anchor}{kind.code}",
        cell(happened),
        "" if cause == happened else cell(cause),
        cell(_filled(kind.hint)) or "what the error in the message asks for",
        f"{kind.scope.value}, {reacts}",
    )


def _filled(template: str) -> str:
    """Return a template with the names of its fields, without their formats.

    >>> _filled("{text!r} has {stored:#010x}; `meta: {{binlog-pos: 4}}`.")
    '{text} has {stored}; `meta: {binlog-pos: 4}`.'
    """
    if template == "{remedy}":
        return "named in the message"
    plain = re.sub(r"(?<!\{)\{(\w+)(?:![rs])?(?::[^{}]*)?\}", r"{\1}", template)
    return plain.replace("{{", "{").replace("}}", "}")


def _below(kind: type[DmError]) -> Iterator[type[DmError]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)
