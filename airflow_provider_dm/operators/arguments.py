"""Checks of operators' rendered arguments: a template or a run's parameter can produce any value. A value with a wrong
format fails the task before the operator acts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow_provider_dm.hooks.errors import ArgumentUnusable

_MEMORY: Final = re.compile(r"[1-9]\d*([kmgtp]b?)?", re.IGNORECASE)


def text_argument(value: Any, argument: str) -> str:
    """Return `value`, a string that is not empty. Raises ArgumentUnusable."""
    if not isinstance(value, str) or not value.strip():
        raise ArgumentUnusable(argument, f"it is {_shown(value)}; it has to be a string")
    return value


def chosen(value: Any, argument: str, known: Sequence[str]) -> str:
    """Return `value`, which is one of `known`. Raises ArgumentUnusable."""
    if value not in known:
        raise ArgumentUnusable(argument, f"it is {_shown(value)}; it has to be one of {', '.join(known)}")
    return str(value)


def texts(value: Any, argument: str) -> tuple[str, ...]:
    """Return a list of strings. A single string is rejected: Python would read it as a list of letters.

    Raises ArgumentUnusable.
    """
    return tuple(text_argument(item, argument) for item in listed(value, argument))


def listed(value: Any, argument: str) -> Sequence[Any]:
    """Return a list of any values; None becomes an empty list. Raises ArgumentUnusable."""
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ArgumentUnusable(argument, f"it is {_shown(value)}; it has to be a list")
    return value


def conn_ids_by_source(value: Any, known: Sequence[str]) -> Mapping[str, str]:
    """Return the argument `source_conn_ids`: some of the `known` sources with their connections, which are not None.

    Raises ArgumentUnusable.
    """
    argument = "source_conn_ids"
    given = {name: item for name, item in _mapping(value, argument).items() if item is not None}
    for name in given:
        if name not in known:
            raise ArgumentUnusable(argument, f"it names {name!r}, which is not one of {', '.join(known)}")
    return {name: text_argument(text, f"{argument}.{name}") for name, text in given.items()}


def spark_settings(value: Any) -> dict[str, str]:
    """Return the Spark configuration with all values as strings. Raises ArgumentUnusable."""
    conf = {}
    for key, one in _mapping(value, "spark_conf").items():
        if isinstance(one, bool):
            conf[str(key)] = str(one).lower()
        elif isinstance(one, str | int | float):
            conf[str(key)] = str(one)
        else:
            raise ArgumentUnusable(f"spark_conf.{key}", f"it is {_shown(one)}; it has to be a string or a number")
    return conf


def memory(value: Any) -> str:
    """Return a size of memory, as Spark writes sizes. Raises ArgumentUnusable."""
    if not isinstance(value, str) or not _MEMORY.fullmatch(value):
        raise ArgumentUnusable("driver_memory", f"it is {_shown(value)}; it has to be a size such as '1g' or '1500m'")
    return value


def _mapping(value: Any, argument: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ArgumentUnusable(argument, f"it is {_shown(value)}; it has to be a mapping")
    return value


def _shown(value: Any) -> str:
    """Return a short description of any value for an error message."""
    if value is None or value == "":
        return "empty"
    shown = repr(value)
    return f"the {type(value).__name__} {shown if len(shown) <= 60 else shown[:60] + '…'}"
