"""DM's documents as tables, for users at a terminal. Pure: documents in, `rich` renderables out.

A list of objects is a table with a column for each key that has a value in any of them; the status of subtasks, which
is nested, has fixed columns. Everything else is a line `key: value`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

Json = Mapping[str, Any]

_STYLES: Final = {
    "Running": "green",
    "Finished": "green",
    "Paused": "yellow",
    "Stopped": "yellow",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
    "no": "red",
}
"""Colours of words that fill a whole cell."""

_TITLES: Final = {"taskName": "task", "taskStatus": "status", "errorMsg": "found", "instruction": "what to do"}
_LEFT_OUT: Final = frozenset({"op", "result", "error"})
"""Keys of a document that its tables, or the error on stderr, already show."""


def tables_of(body: Json) -> Iterator[RenderableType]:
    """Yield the parts of a document, from top to bottom."""
    for key, value in body.items():
        if key in _LEFT_OUT or value in ("", None):
            continue
        if key == "msg":
            yield Text(str(value))
        elif key == "sources" and any("subTaskStatus" in one for one in value):
            yield from _status(value)
        elif isinstance(value, list) and all(isinstance(one, Mapping) for one in value):
            if value or not body.get("msg"):
                yield table_of_rows(value) if value else Text(f"no {key}")
        elif isinstance(value, Mapping):
            yield Text(", ".join(f"{name}: {_text(inner)}" for name, inner in value.items()))
        else:
            yield Text(f"{key}: {_text(value)}")
    if body.get("result") and all(value in ("", None) for key, value in body.items() if key not in _LEFT_OUT):
        yield Text("done")


def table_of_rows(rows: Sequence[Json]) -> Table:
    """Return a table of these objects, without columns that are empty in all of them."""
    keys = dict.fromkeys(key for row in rows for key, value in row.items() if _text(value))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for key in keys:
        table.add_column(_TITLES.get(key, key), overflow="fold")
    for row in rows:
        texts = [_text(row.get(key)) for key in keys]
        table.add_row(*(Text(text, style=_STYLES.get(text, "")) for text in texts))
    return table


def _status(sources: Sequence[Json]) -> Iterator[RenderableType]:
    """Yield the subtasks and relays of sources, then their errors with the remedies."""
    yield table_of_rows([row for source in sources for row in _rows(source)])
    for source in sources:
        relay = (source.get("sourceStatus") or {}).get("relayStatus") or {}
        name = str((source.get("sourceStatus") or {}).get("source", ""))
        for unit in ({"name": "relay", **relay}, *source.get("subTaskStatus", ())):
            for error in (unit.get("result") or {}).get("errors", ()):
                text = f"{error['Message'].removesuffix(error['Workaround']).rstrip()} {error['Workaround']}".strip()
                yield Text(f"{name}, {unit['name']}: {error['ErrCode']} {text}", style="red")
            for group in (unit.get("sync") or {}).get("unresolvedGroups", ()):
                waits = f", and wait {group['waits']}" if group["waits"] else ""
                yield Text(f"{name}, {unit['name']}: rows of {group['target']} are held back{waits}", style="yellow")


def _rows(one: Json) -> Iterator[Json]:
    """Yield a row for each subtask of a source; for a source without subtasks, one for its relay."""
    status = one.get("sourceStatus") or {}
    relay = status.get("relayStatus") or {}
    whole = {"source": status.get("source") or one.get("msg", ""), "relay": relay.get("stage", "")}
    subtasks: Sequence[Json] = one.get("subTaskStatus") or ({},)
    for subtask in subtasks:
        sync = subtask.get("sync") or {}
        lag = sync.get("secondsBehindMaster")
        yield {
            **whole,
            "task": subtask.get("name", ""),
            "unit": subtask.get("unit", ""),
            "stage": subtask.get("stage", ""),
            "applied": sync.get("syncerBinlog", ""),
            "source's end": sync.get("masterBinlog") or relay.get("masterBinlog", ""),
            "lag": "" if lag is None else f"{lag} s",
            "changes/s": sync.get("recentRps", ""),
            "synced": sync.get("synced", ""),
        }


def _text(value: Any) -> str:
    """Return the text of a cell.

    >>> _text(True), _text(None), _text(["a", "b"]), _text({"a": 1})
    ('yes', '', 'a, b', '{"a": 1}')
    """
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case list() | tuple() if all(isinstance(one, str) for one in value):
            return ", ".join(value)
        case list() | tuple() | dict():
            return json.dumps(value, default=str)
        case _:
            return str(value)
