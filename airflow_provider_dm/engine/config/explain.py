"""Messages for unknown keys and for pydantic's errors, which name the key and its valid values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from pydantic import ValidationError

from airflow_provider_dm.engine.config.base import aliases_of, is_empty
from airflow_provider_dm.engine.config.problems import Path, Problem, one_of, path_text
from airflow_provider_dm.engine.config.shape import Model, field_at, fields_by_key, mappings

_LOOKS: Final = 0.6
_MANY: Final = 12

_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "a number or a duration such as 30s"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "true or false"),
    "string_type": "text",
    "tuple_type": "a list",
}
_MAPPINGS: Final = frozenset({"dict_type", "model_type", "model_attributes_type"})


def unknown_keys(model: Model, data: object, top: str) -> Iterator[Problem]:
    """Yield a problem for each unknown key, and for each field given under two names."""
    for path, inner, mapping in mappings(model, data):
        known = fields_by_key(inner)
        where = path_text(path, top)
        for key in mapping:
            if key not in known:
                yield Problem((*path, key), _unknown(str(key), where, tuple(known)))
        for name in inner.model_fields:
            given = [alias for alias in aliases_of(inner, name) if not is_empty(mapping.get(alias))]
            for other in given[1:]:
                yield Problem((*path, other), f'"{other}" and "{given[0]}" in {where} mean the same: keep one')


def _unknown(key: str, where: str, known: Sequence[str]) -> str:
    choices = f"; it may have {one_of(known)}" if len(known) <= _MANY else ""
    return f'unknown key "{key}" in {where}{did_you_mean(key, known) or choices}'


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """Return the end of a sentence that suggests the most similar valid word; "" if no word is similar.

    >>> did_you_mean("worker_count", ["batch", "worker-count"])
    '; did you mean "worker-count"?'
    """
    matches = get_close_matches(word.lower().replace("_", "-"), known, n=1, cutoff=_LOOKS)
    return f'; did you mean "{matches[0]}"?' if matches else ""


def invalid_values(model: Model, error: ValidationError, top: str) -> Iterator[Problem]:
    """Yield one problem for each error of pydantic, except for those that are reported elsewhere."""
    for detail in error.errors(include_url=False):
        # "[key]" marks a problem of a dictionary's key; our paths contain the key itself.
        path: Path = tuple(part for part in detail["loc"] if part != "[key]")
        # `unknown_keys` reports extra keys; a list can be too short only because its invalid items were dropped.
        if detail["type"] != "extra_forbidden" and not (detail["type"] == "too_short" and detail["input"]):
            yield Problem(path, _sentence(model, path, detail, top))


def _sentence(model: Model, path: Path, detail: Mapping[str, Any], top: str) -> str:
    where = path_text(path[:-1], top)
    if detail["type"] == "missing":
        return f'{where} lacks the key "{path[-1]}"'
    info = field_at(model, path)
    secret = info is None or bool(info.exclude)
    subject = f'"{path[-1]}" in {where}' if path and isinstance(path[-1], str) else path_text(path, top)
    return f"{subject} {_complaint(detail, secret=secret)}"


def _complaint(detail: Mapping[str, Any], *, secret: bool) -> str:
    """Return the predicate of the sentence; it contains the given value unless the key is a secret."""
    context = detail.get("ctx", {})
    given = "" if secret else _given(detail["input"])
    match detail["type"]:
        case kind if kind in _MAPPINGS:
            # A text in its place may be an address with a password.
            given = ", not text" if isinstance(detail["input"], str) else given
            return f"must be a mapping of keys to values{given}"
        case kind if kind in _KINDS:
            return f"must be {_KINDS[kind]}{given}"
        case "enum" | "literal_error":
            choices = _choices(context)
            perhaps = did_you_mean(detail["input"], choices) if isinstance(detail["input"], str) else ""
            return f"must be {one_of(choices)}{given}{perhaps}"
        case "greater_than_equal":
            return f"must be at least {context['ge']}{given}"
        case "less_than_equal":
            return f"must be at most {context['le']}{given}"
        case "too_short":
            return "needs at least one entry"
        case "string_too_short":
            return "must not be empty"
        case "string_too_long":
            return f"must not be longer than {context['max_length']} characters{given}"
        case "value_error":
            reason = str(context["error"])
            return f"cannot be used: {reason}{'' if repr(detail['input']) in reason else given}"
        case _:
            return str(detail["msg"]) if not secret else "is not valid"


def _given(value: object) -> str:
    match value:
        case str():
            return f', not "{value}"'
        case bool() | int() | float():
            return f", not {value}"
        case Mapping():
            return ", not a mapping"
        case list() | tuple():
            return ", not a list"
        case None:
            return ", not empty"
        case _:
            return ""


def _choices(context: Mapping[str, Any]) -> list[str]:
    """Return the choices in pydantic's `'full', 'incremental' or 'all'`, without the empty one (an omitted key)."""
    quoted = str(context.get("expected", "")).replace(" or ", ", ").split(", ")
    return [choice.strip("'") for choice in quoted if choice.strip("'")]
