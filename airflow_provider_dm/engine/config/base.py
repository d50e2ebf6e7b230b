"""Base of all configuration models: they are strict, and define how empty keys and plain numbers are read.

DM reads YAML by Go's rules: a key without a value counts as missing, and a number is accepted as text
(`tidb_skip_utf8_check: 1`). Both rules apply here, whether a model is built from a file or from a dictionary."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_UNIT_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class Strict(BaseModel):
    """A frozen model that rejects unknown keys. Fields may be given by DM's key (alias) or by their name."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)


def kebab(name: str) -> str:
    """Return DM's key for a Python name.

    >>> kebab("worker_count")
    'worker-count'
    """
    return name.replace("_", "-")


class DmModel(Strict):
    """A mapping in one of DM's files. A key is the field's name with hyphens, unless the field defines another one."""

    model_config = ConfigDict(alias_generator=kebab, coerce_numbers_to_str=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_is_not_given(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if not _is_unset(cls, key, value)}


def aliases_of(model: type[Strict], field: str) -> tuple[str, ...]:
    """Return the keys by which a file may give `field`, DM's present name first."""
    info = model.model_fields[field]
    declared = info.validation_alias or info.alias or field
    choices = getattr(declared, "choices", [declared])
    return tuple(str(choice) for choice in choices)


def _is_unset(model: type[Strict], key: str, value: Any) -> bool:
    """Return True if a known key has no value; DM's exports also write the older name of a key beside it, empty."""
    for field in model.model_fields:
        names = aliases_of(model, field)
        if key == field or key in names:
            return value is None or (len(names) > 1 and is_empty(value))
    return False


def is_empty(value: Any) -> bool:
    return value is None or value in ("", {}, [])


def one_or_many(value: Any) -> Any:
    """Wrap a single text in a list, so that it is not split into its characters."""
    return [value] if isinstance(value, str) else value


def empty_is(default: str) -> BeforeValidator:
    """Build a validator that replaces "" by the default: DM's exports write "" for values that were not given."""
    return BeforeValidator(lambda value: default if value == "" else value)


def _entries(value: Any) -> Any:
    return {key: {} if entry is None else entry for key, entry in value.items()} if isinstance(value, dict) else value


Entries = BeforeValidator(_entries)
"""For a section of named entries: an entry without content consists of defaults, as in DM."""

Names = Annotated[tuple[str, ...], BeforeValidator(one_or_many)]


def seconds(value: Any) -> Any:
    """Convert a Go duration ("1h30m", "250ms") to seconds; empty text is None, other values are left to the field.

    >>> seconds("1m30s")
    90.0
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not text:
        return None
    if _DURATION_PART.sub("", text) == "":
        return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _DURATION_PART.findall(text))
    return value


Seconds = Annotated[float, BeforeValidator(seconds)]
"""A duration: a Go duration text or a number of seconds."""

OptionalSeconds = Annotated[float | None, BeforeValidator(seconds)]

Lowered = BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value)
"""For words that DM accepts in upper and lower case."""
