"""docs/reference/operators.md: operators, sensors, the task group and event triggers, by docstring and signature."""

from __future__ import annotations

import importlib
import inspect
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from airflow_provider_dm.get_provider_info import get_provider_info
from tests.reference.markdown import cell, head, page, table

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

ABOUT: Final = """\
Classes of `airflow_provider_dm`. All arguments are given by name; those of Airflow's `BaseOperator` (`task_id`,
`retries`, `queue`, …) are accepted, too. [How to use them](../how-to/airflow.md)."""
COLUMNS: Final = ("argument", "meaning", "type", "default", "template")
LITERALS: Final = re.compile(r"\w*Action|Until")
"""Names of types that are literals."""
SHARED: Final = 4
"""Classes whose argument is the same, for it to be shown once."""
Row = tuple[str, ...]
PARAM: Final = re.compile(r":param (?P<name>\w+):(?P<text>.*?)(?=:param|\n\n|$)", re.DOTALL)
NAMES: Final = {"Document": "str | dict", "Sequence[": "list[", "Mapping[": "dict["}
OF_AIRFLOW: Final = {"deferrable": "[operators] default_deferrable"}
"""Defaults that Airflow's configuration decides."""


def operators() -> list[type[BaseOperator]]:
    """Return the operators and sensors that the provider names, in its order."""
    from airflow.sdk import BaseOperator

    info = get_provider_info()
    modules = [m for room in ("operators", "sensors") for entry in info[room] for m in entry["python-modules"]]
    found = []
    for name in modules:
        module = importlib.import_module(name)
        own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == name]
        found += [one for one in own if issubclass(one, BaseOperator) and not one.__name__.startswith("_")]
    return found


def operators_page() -> str:
    from airflow_provider_dm.task_groups.migration import DmMigrationTaskGroup
    from airflow_provider_dm.triggers import events

    documented: list[type] = [*operators(), DmMigrationTaskGroup]
    uses = Counter(row for one in documented for row in _arguments(one))
    # Of two arguments with one name, the one that more classes have.
    most = {row[0]: row for row, used in reversed(uses.most_common()) if used >= SHARED}
    common = [row for row in uses if row in most.values()]
    lines = head("Operators and sensors", ABOUT)
    lines += ["## Arguments of several classes", "", *table(COLUMNS, common)]
    for title, room in (("Operators", ".operators."), ("Sensors", ".sensors.")):
        lines += [f"## {title}", ""]
        for one in operators():
            if room in one.__module__:
                lines += _class(one, common)
    lines += ["## Task group", "", *_class(DmMigrationTaskGroup, common)]
    lines += ["## Event triggers, for an `AssetWatcher`", ""]
    for trigger in (events.RelayAdvancedEventTrigger, events.CaughtUpEventTrigger, events.DdlLockEventTrigger):
        lines += [*_prose(trigger), *table(COLUMNS[:-1], [row[:-1] for row in _arguments(trigger)])]
    return page(lines)


def _class(documented: type, common: Sequence[Row]) -> list[str]:
    lines = _prose(documented)
    rows = _arguments(documented)
    own = [row for row in rows if row not in common]
    lines += table(COLUMNS, own) if own else []
    shared = ", ".join(row[0] for row in rows if row in common)
    return [*lines, f"Arguments of several classes: {shared}.", ""] if shared else lines


def _prose(documented: type) -> list[str]:
    lines = [f"### {documented.__name__}", "", f"`from {documented.__module__} import {documented.__name__}`", ""]
    for part in _doc(documented).split("\n\n"):
        if not part.startswith(":param"):
            lines += [_line(part), ""]
    return lines


def described(documented: type) -> dict[str, str]:
    """Return argument -> its meaning, from the docstring of a class."""
    return {found["name"]: _line(found["text"]) for found in PARAM.finditer(_doc(documented))}


def parameters(documented: type) -> dict[str, inspect.Parameter]:
    """Return the named arguments that classes of this package take, the most derived first."""
    found: dict[str, inspect.Parameter] = {}
    for one in inspect.getmro(documented):
        if one.__module__.startswith("airflow_provider_dm.") and "__init__" in vars(one):
            found = {**inspect.signature(vars(one)["__init__"]).parameters, **found}
    return {name: one for name, one in found.items() if name not in ("self", "kwargs")}


def _arguments(documented: type) -> list[Row]:
    from airflow_provider_dm.operators.base import DmSparkAppOperator

    # The task group passes its arguments on to operators.
    given, templated = (
        parameters(documented),
        getattr(documented, "template_fields", DmSparkAppOperator.template_fields),
    )
    return [
        (f"`{name}`", cell(text), _kind(given[name]), _default(given[name]), "yes" if name in templated else "")
        for name, text in described(documented).items()
    ]


def _kind(one: inspect.Parameter) -> str:
    kind = LITERALS.sub("str", str(one.annotation))
    for name, shown in NAMES.items():
        kind = kind.replace(name, shown)
    return cell(f"`{kind}`")


def _doc(documented: type) -> str:
    doc = inspect.cleandoc(documented.__doc__ or "").replace("``", "`")
    return re.sub(r":class:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", doc)


def _default(one: inspect.Parameter) -> str:
    return "required" if one.default is one.empty else cell(f"`{OF_AIRFLOW.get(one.name, repr(one.default))}`")


def _line(text: str) -> str:
    return " ".join(text.split())
