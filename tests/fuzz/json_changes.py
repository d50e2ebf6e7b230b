"""Partial updates of a JSON document, as a server logs them: to bytes and back, and applied.

Format: MySQL's `sql-common/json_diff.h`.
"""

import json
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from tests.fuzz.json_value import DEPTH, BadJson, Document, read, written

REPLACE, INSERT, REMOVE = range(3)
Leg: TypeAlias = str | int


@dataclass(frozen=True)
class Change:
    """One step of a partial update."""

    operation: int
    path: tuple[Leg, ...]
    value: Document = None


def length(number: int) -> bytes:
    return bytes([number]) if number < 251 else b"\xfc" + struct.pack("<H", number)


def written_changes(changes: list[Change]) -> bytes:
    """Return them as they follow their length in an after image."""
    found = bytearray()
    for change in changes:
        path = "$" + "".join(_leg(leg) for leg in change.path)
        found += bytes([change.operation]) + length(len(path.encode())) + path.encode()
        if change.operation != REMOVE:
            value = written(change.value)
            found += length(len(value)) + value
    return bytes(found)


def _leg(leg: Leg) -> str:
    if isinstance(leg, int):
        return f"[{leg}]"
    return f".{leg}" if re.fullmatch(r"[A-Za-z_]\w*", leg, re.ASCII) else f".{json.dumps(leg, ensure_ascii=False)}"


_LEGS: Final = re.compile(r'\.("(?:[^"\\]|\\.)*")|\.([^."\[\]]+)|\[(\d+)\]', re.DOTALL)


def read_changes(data: bytes) -> Iterator[Change]:
    """Raises BadJson."""
    at = 0

    def taken(size: int) -> bytes:
        nonlocal at
        if at + size > len(data):
            raise BadJson("a change that is cut short")
        at += size
        return data[at - size : at]

    def sized() -> bytes:
        first = taken(1)[0]
        if first < 251:
            return taken(first)
        if first not in (0xFC, 0xFD, 0xFE):
            raise BadJson("no length")
        return taken(int.from_bytes(taken({0xFC: 2, 0xFD: 3, 0xFE: 8}[first]), "little"))

    while at < len(data):
        operation = taken(1)[0]
        if operation > REMOVE:
            raise BadJson("no operation")
        try:
            path = sized().decode()
        except UnicodeDecodeError as error:
            raise BadJson(str(error)) from error
        yield Change(operation, _read_path(path), None if operation == REMOVE else read(sized()))


def _read_path(path: str) -> tuple[Leg, ...]:
    legs: list[Leg] = []
    at = 1
    while match := _LEGS.match(path, at):
        try:
            legs.append(json.loads(match[1], strict=False) if match[1] else int(match[3]) if match[3] else match[2])
        except ValueError as error:
            raise BadJson(str(error)) from error
        at = match.end()
    if not path.startswith("$") or at != len(path) or not legs:
        raise BadJson(f"the path {path!r}")
    return tuple(legs)


def changed(document: Document, changes: Iterable[Change]) -> Document:
    """The document after the changes, which may share values with the one before. Raises BadJson where one does not
    fit."""
    document = _copy(document)
    for change in changes:
        if len(change.path) > DEPTH:
            raise BadJson("too deep")
        parent: Document = document
        for leg in change.path[:-1]:
            parent = _child(parent, leg)
        last = change.path[-1]
        if isinstance(parent, dict) and isinstance(last, str):
            if (last in parent) == (change.operation == INSERT):
                raise BadJson("a change that does not fit")
            if change.operation == REMOVE:
                del parent[last]
            else:
                parent[last] = change.value
                in_order = sorted(parent.items(), key=lambda pair: (len(pair[0].encode()), pair[0].encode()))
                parent.clear()
                parent.update(in_order)
        elif isinstance(parent, list) and isinstance(last, int):
            if change.operation == INSERT:
                parent.insert(last, change.value)
            elif last >= len(parent):
                raise BadJson("a change that does not fit")
            elif change.operation == REMOVE:
                del parent[last]
            else:
                parent[last] = change.value
        else:
            raise BadJson("a change of what is no container")
    return document


def _child(document: Document, leg: Leg) -> Document:
    if isinstance(document, dict) and isinstance(leg, str) and leg in document:
        return document[leg]
    if isinstance(document, list) and isinstance(leg, int) and leg < len(document):
        return document[leg]
    raise BadJson("a place that is not there")


def _copy(document: Document) -> Document:
    match document:
        case list():
            return [_copy(value) for value in document]
        case dict():
            return {key: _copy(value) for key, value in document.items()}
    return document
