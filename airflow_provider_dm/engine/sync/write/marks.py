"""Marks of rows: numbers that represent the values of unique keys.

A NULL equals no value and has no mark. If it is unknown which values the target compares as equal (a collation without
a known form, prefixes, expressions), all values of the key share one *loose* mark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeAlias

import xxhash

from airflow_provider_dm.engine.schema.codec import Row, Transform
from airflow_provider_dm.engine.sync.plan.bucket import form_of, image_digest
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart, places_of

Mark: TypeAlias = int
MarkOf: TypeAlias = Callable[[Row], Mark | None]


@dataclass(frozen=True)
class ValueMarks:
    """The marks of one table's rows. `strict`: equal marks mean the same value, or texts with the same fold. `loose`:
    equal marks may mean different values."""

    strict: tuple[MarkOf, ...]
    loose: tuple[MarkOf, ...]
    repeats: bool
    """True if rows have no key: the loose mark is that of an image, which can occur several times."""


@lru_cache(maxsize=1024)
def marks_of(part: TargetPart) -> ValueMarks:
    """Return the functions from a row of the part to its marks; a function returns None for a row without a mark."""
    mapping = part.mapping
    index = places_of(mapping)
    strict: list[MarkOf] = []
    loose: list[MarkOf] = []
    for number, key in enumerate(mapping.target.unique_keys):
        values = part.known_values(key)
        if values is None:
            loose.append(_whole_table(b"%d" % number))
            continue
        columns = tuple(index[name.lower()] for name in key.columns)
        by_form = _mark(b"%d=" % number, columns, _forms(part, values))
        if len(values) == len(columns):
            strict.append(by_form)
        else:
            loose.append(by_form)
            strict.append(_mark(b"%d:" % number, columns, [(column, None) for column in columns]))
    if part.key is None:
        loose.append(partial(image_digest, b"image"))
    return ValueMarks(tuple(strict), tuple(loose), part.key is None)


@lru_cache(maxsize=1024)
def further_marks(part: TargetPart) -> tuple[MarkOf, ...]:
    """Return for each of `part.unique` the function from the values of its columns to their mark, or None if one is
    NULL. Values that the target may compare as equal have equal marks; marks of other tables and keys differ."""
    marks = []
    for number, key in enumerate(part.further_keys):
        name, values = f"{part.name.schema}\0{part.name.table}\0{number}=".encode(), part.known_values(key)
        places = {column: place for place, column in enumerate(part.unique[number])}
        forms = None if values is None else [(places[column], form) for column, form in _forms(part, values)]
        marks.append(_whole_table(name) if forms is None else _mark(name, tuple(places.values()), forms))
    return tuple(marks)


def _forms(part: TargetPart, columns: tuple[int, ...]) -> list[tuple[int, Transform | None]]:
    return [(column, form_of(part, column)) for column in columns]


def _mark(name: bytes, columns: tuple[int, ...], pairs: list[tuple[int, Transform | None]]) -> MarkOf:
    """Return the mark of these columns of a row. `pairs`: the columns whose forms are in the mark; None: the bytes."""
    digest = xxhash.xxh64_intdigest
    if len(columns) == len(pairs) == 1:
        (number, form) = pairs[0]

        def of_one(row: Row) -> Mark | None:
            value = row[number]
            return None if value is None else digest(name + (value if form is None else form(value)))

        return of_one

    def of_several(row: Row) -> Mark | None:
        data = name
        for number in columns:
            if row[number] is None:
                return None
        for number, form in pairs:
            value = row[number] or b""
            value = value if form is None else form(value)
            data += b"%d:%b" % (len(value), value)
        return digest(data)

    return of_several


def _whole_table(name: bytes) -> MarkOf:
    mark = xxhash.xxh64_intdigest(name)
    return lambda _row: mark
