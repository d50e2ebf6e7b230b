"""The meaning of each byte of an event's body, so that damage can be aimed: wrong numbers, swapped types.

Labels are best effort: where a body does not continue as it should, labelling ends, and the rest is one field.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from airflow_provider_dm.engine.schema.model import Table
from tests.fuzz import anatomy, codes
from tests.fuzz.anatomy import Malformed, Map
from tests.fuzz.writer import Event

Tables = Mapping[tuple[bytes, bytes], Table]


class Field(NamedTuple):
    """`body[start:end]` of event number `event`."""

    event: int
    label: str
    start: int
    end: int


_known: dict[tuple[Event, ...], tuple[Tables, list[Field]]] = {}
_MOST_KNOWN: Final = 256
"""Many more than there are seeds, which most damage begins with."""


def fields_of(events: Sequence[Event], tables: Tables) -> Sequence[Field]:
    """Every labelled field of every event, in order; known of logs that were asked for before."""
    key = tuple(events)
    known = _known.get(key)
    if known is None or known[0] != tables:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        known = _known[key] = (tables, _found_fields(events, tables))
    return known[1]


def _found_fields(events: Sequence[Event], tables: Tables) -> list[Field]:
    found: list[Field] = []
    maps: dict[bytes, Map] = {}
    for index, event in enumerate(events):
        try:
            for label, start, end in _labelled(event, maps, tables):
                if start < end <= len(event.body):
                    found.append(Field(index, label, start, end))
        except (Malformed, IndexError):
            pass
    return found


_Labels = Iterator[tuple[str, int, int]]


def _labelled(event: Event, maps: dict[bytes, Map], tables: Tables) -> _Labels:
    code, body = event.code, event.body
    if code == codes.TABLE_MAP:
        yield from _map(body)
        maps[body[:6]] = anatomy.read_map(body)
    elif code in anatomy.ROWS:
        yield from _rows(code, body, maps, tables)
    elif code in (codes.QUERY, codes.QUERY_COMPRESSED):
        yield from _query(code, body)
    elif code in _LAYOUTS:
        position = 0
        for label, size in _LAYOUTS[code]:
            yield label, position, position + size
            position += size
        yield "rest", position, len(body)
    elif code == codes.PAYLOAD:
        yield from _payload(body)
    else:
        yield "body", 0, len(body)


_LAYOUTS = {
    codes.FORMAT: (("version", 2), ("server version", 50), ("created", 4), ("header size", 1), ("sizes", 42)),
    codes.GTID: (("flags", 1), ("uuid", 16), ("number", 8), ("clock kind", 1), ("clock", 16), ("times", 7)),
    codes.ANONYMOUS_GTID: (("flags", 1), ("uuid", 16), ("number", 8)),
    codes.MARIADB_GTID: (("number", 8), ("domain", 4), ("flags", 1)),
    codes.PREVIOUS_GTIDS: (("count", 8), ("uuid", 16), ("ranges", 8), ("first", 8), ("last", 8)),
    codes.GTID_LIST: (("count", 4), ("domain", 4), ("server", 4), ("number", 8)),
    codes.ROTATE: (("position", 8),),
    codes.CHECKPOINT: (("length", 4),),
    codes.XID: (("number", 8),),
}


def _length_size(first: int) -> int:
    return {0xFC: 3, 0xFD: 4, 0xFE: 9}.get(first, 1)


def _number(body: bytes, position: int) -> tuple[int, int]:
    """(value, position after it) of a length."""
    size = _length_size(body[position])
    return (int.from_bytes(body[position + 1 : position + size], "little") if size > 1 else body[position]), (
        position + size
    )


def _map(body: bytes) -> _Labels:
    yield "table id", 0, 6
    yield "map flags", 6, 8
    position = 8
    for part in ("schema", "table"):
        yield f"{part} length", position, position + 1
        yield f"{part} name", position + 1, position + 1 + body[position]
        position += 2 + body[position]
    count, behind = _number(body, position)
    yield "column count", position, behind
    yield "types", behind, behind + count
    position = behind + count
    size, behind = _number(body, position)
    yield "metadata length", position, behind
    yield "metadata", behind, behind + size
    position = behind + size
    yield "nullable", position, position + (count + 7) // 8
    position += (count + 7) // 8
    while position < len(body):
        yield "optional kind", position, position + 1
        size, behind = _number(body, position + 1)
        yield "optional length", position + 1, behind
        yield "optional value", behind, behind + size
        position = behind + size


def _rows(code: int, body: bytes, maps: Mapping[bytes, Map], tables: Tables) -> _Labels:
    head = anatomy.read_rows_head(code, body)
    yield "table id", 0, 6
    yield "rows flags", 6, 8
    position = 8
    if code in anatomy.WITH_EXTRA:
        yield "extra length", 8, 10
        position = 8 + int.from_bytes(body[8:10], "little")
    _, behind = _number(body, position)
    yield "row columns", position, behind
    yield "present", behind, head.start
    if code in anatomy.COMPRESSED_ROWS:
        yield "packed head", head.start, head.start + 1
        yield "packed length", head.start + 1, head.start + 1 + (body[head.start] & 7)
        yield "packed", head.start + 1 + (body[head.start] & 7), len(body)
        return
    table_map = maps.get(head.number)
    table = tables.get(table_map.name) if table_map else None
    if table_map is None or table is None or code == codes.PARTIAL_UPDATE:
        yield "images", head.start, len(body)
        return
    forms, start = table_map.forms(table), head.start
    while start < len(body):
        cells, end = anatomy.cells(forms, body, start)
        yield "nulls", start, start + (len(forms) + 7) // 8
        for form, cell in zip(forms, cells, strict=True):
            if cell is not None:
                if form.prefix:
                    yield "cell length", cell[0] - form.prefix, cell[0]
                yield "cell", *cell
        start = end


def _query(code: int, body: bytes) -> _Labels:
    yield "thread", 0, 4
    yield "seconds", 4, 8
    yield "schema length", 8, 9
    yield "error", 9, 11
    yield "variables length", 11, 13
    schema = 13 + int.from_bytes(body[11:13], "little")
    yield "variables", 13, schema
    yield "schema name", schema, schema + body[8]
    yield ("packed" if code == codes.QUERY_COMPRESSED else "sql"), schema + body[8] + 1, len(body)


def _payload(body: bytes) -> _Labels:
    position = 0
    while body[position]:
        yield "payload kind", position, position + 1
        size, behind = _number(body, position + 1)
        yield "payload field length", position + 1, behind
        yield "payload field", behind, behind + size
        position = behind + size
    yield "packed", position + 1, len(body)
