"""Damage, aimed and blind.

Two kinds. *Repaired* damage works on events before they are written: sizes, positions and checksums are right again,
so only what an event says is wrong. *Raw* damage works on a file's bytes and repairs nothing. Each mutator takes a dice
and returns the damaged thing; one that finds nothing to damage returns it as it was.
"""

import struct
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from random import Random
from typing import Final

from tests.fuzz import anatomy, codes, writer
from tests.fuzz.fields import Field, Tables, fields_of
from tests.fuzz.writer import Event

Events = list[Event]


def interesting(dice: Random, value: int, size: int) -> int:
    """A number of `size` bytes that lies: near the truth, at an edge, or anything."""
    most = (1 << 8 * size) - 1
    near = (value + 1, value - 1, value * 2, value ^ 1 << dice.randrange(8 * size), value + dice.randint(-16, 16))
    edges = (0, 1, 2, 250, 251, 252, 253, 254, 255, 0x7F, 0x80, 0x7FFF, 0xFFFF, 0x7FFFFFFF, most, most >> 1)
    wild = (dice.randrange(most + 1), dice.randrange(64))
    return dice.choice((*near, *dice.choices(edges, k=3), *wild)) & most


def damaged_bytes(dice: Random, data: bytes, *, keep_length: bool = False) -> bytes:
    """A few blind changes of some bytes."""
    if not data:
        return data
    found = bytearray(data)
    place = dice.randrange(len(found))
    size = min(dice.choice((1, 1, 2, 4, 8, 32)), len(found) - place)
    match dice.randrange(4 if keep_length else 8):
        case 0:
            for _ in range(dice.choice((1, 1, 2, 8))):
                found[dice.randrange(len(found))] ^= 1 << dice.randrange(8)
        case 1:
            found[place] = dice.choice((0, 1, 0x7F, 0x80, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF, dice.randrange(256)))
        case 2:
            found[place : place + size] = dice.randbytes(size)
        case 3:
            other = dice.randrange(len(found) - size + 1)
            found[place : place + size] = found[other : other + size]
        case 4:
            del found[place : place + size]
        case 5:
            found[place:place] = dice.choice((dice.randbytes(size), bytes(size), found[place : place + size]))
        case 6:
            del found[place:]
        case 7:
            found += dice.choice((dice.randbytes(size), bytes(size), bytes(found[-size:])))
    return bytes(found)


# Repaired damage: events in, events out


def _aim(dice: Random, events: Events, tables: Tables, *labels: str) -> Field | None:
    fields = [field for field in fields_of(events, tables) if not labels or field.label in labels]
    if not fields:
        return None
    label = dice.choice(sorted({field.label for field in fields}))  # rare fields as often as common ones
    return dice.choice([field for field in fields if field.label == label])


def _replaced(events: Events, index: int, body: bytes) -> Events:
    return [*events[:index], events[index]._replace(body=body), *events[index + 1 :]]


def _in_field(events: Events, field: Field, value: bytes) -> Events:
    body = events[field.event].body
    return _replaced(events, field.event, body[: field.start] + value + body[field.end :])


def lying_field(dice: Random, events: Events, tables: Tables) -> Events:
    """One field of one event, of the same size but another number."""
    field = _aim(dice, events, tables)
    if field is None:
        return events
    size = min(8, field.end - field.start)
    offset = dice.randrange(field.end - field.start - size + 1)
    start = field.start + offset
    value = int.from_bytes(events[field.event].body[start : start + size], "little")
    number = interesting(dice, value, size).to_bytes(size, "little")
    return _in_field(events, Field(field.event, field.label, start, start + size), number)


def damaged_field(dice: Random, events: Events, tables: Tables) -> Events:
    """One field of one event, blindly, maybe longer or shorter."""
    field = _aim(dice, events, tables)
    if field is None:
        return events
    return _in_field(events, field, damaged_bytes(dice, events[field.event].body[field.start : field.end]))


_LENGTHS: Final = ("cell length", "metadata length", "column count", "row columns", "extra length", "variables length")
_MORE_LENGTHS: Final = ("schema length", "table length", "optional length", "payload field", "packed length", "count")


def lying_length(dice: Random, events: Events, tables: Tables) -> Events:
    """A length or count that is not the one of what follows."""
    field = _aim(dice, events, tables, *_LENGTHS, *_MORE_LENGTHS)
    if field is None:
        return events
    body, size = events[field.event].body, field.end - field.start
    if field.label in ("column count", "row columns", "metadata length", "optional length") and dice.random() < 0.5:
        value = writer.length(dice.choice((0, 1, 250, 251, 255, 4096, 65535, 1 << 20, (1 << 32) - 1, (1 << 63) - 1)))
        return _in_field(events, field, value)
    number = interesting(dice, int.from_bytes(body[field.start : field.end], "little"), min(size, 8))
    return _in_field(events, field, number.to_bytes(min(size, 8), "little") + body[field.start + 8 : field.end])


def other_types(dice: Random, events: Events, tables: Tables) -> Events:
    """Column types of a table map: swapped, or another one, with or without its metadata."""
    field = _aim(dice, events, tables, "types")
    if field is None:
        return events
    body = events[field.event].body
    types = bytearray(body[field.start : field.end])
    a, b = dice.randrange(len(types)), dice.randrange(len(types))
    if dice.random() < 0.5:
        types[a], types[b] = types[b], types[a]
    else:
        types[a] = dice.choice((*anatomy.METADATA_SIZES, dice.randrange(256)))
    changed = _in_field(events, field, bytes(types))
    if dice.random() < 0.5:
        return _with_matching_metadata(dice, changed, field.event)
    return changed


def _with_matching_metadata(dice: Random, events: Events, index: int) -> Events:
    """The metadata block made as long as the types want it."""
    body = events[index].body
    position = 8
    for _ in range(2):
        position += 2 + body[position]
    if position >= len(body) or body[position] > 250:
        return events
    types = body[position + 1 : position + 1 + body[position]]
    start = position + 1 + len(types)
    if start >= len(body) or body[start] > 250:
        return events
    behind = start + 1 + body[start]
    wanted = sum(anatomy.METADATA_SIZES.get(code, 0) for code in types)
    block = body[start + 1 : behind][:wanted]
    block += dice.randbytes(wanted - len(block))
    return _replaced(events, index, body[:start] + writer.length(len(block)) + block + body[behind:])


def other_bitmaps(dice: Random, events: Events, tables: Tables) -> Events:
    """Return which columns are present, NULL or nullable: other bits."""
    field = _aim(dice, events, tables, "present", "nulls", "nullable")
    if field is None:
        return events
    body = events[field.event].body
    value = bytes(byte ^ (1 << dice.randrange(8)) for byte in body[field.start : field.end])
    return _in_field(events, field, dice.choice((value, bytes(len(value)), b"\xff" * len(value))))


def other_value(dice: Random, events: Events, tables: Tables) -> Events:
    """Bytes of a few cells: rows that may be valid, and must then have the values of these bytes."""
    for _ in range(dice.choice((1, 2, 6))):
        field = _aim(dice, events, tables, "cell", "images")
        if field is None:
            break
        cell = events[field.event].body[field.start : field.end]
        events = _in_field(events, field, damaged_bytes(dice, cell, keep_length=True))
    return events


def other_images(dice: Random, events: Events, tables: Tables) -> Events:
    """A row image or cell left out, repeated or moved to another place of its event."""
    field = _aim(dice, events, tables, "nulls")
    if field is None:
        return events
    body = events[field.event].body
    starts = [f.start for f in fields_of(events, tables) if f.event == field.event and f.label == "nulls"]
    cuts = [*starts, len(body)]
    head, images = body[: starts[0]], [body[a:b] for a, b in pairwise(cuts)]
    one = dice.randrange(len(images))
    match dice.randrange(4):
        case 0:
            del images[one]
        case 1:
            images[one:one] = [images[one]] * dice.choice((1, 2, 30))
        case 2:
            dice.shuffle(images)
        case 3:
            images.append(images[one][: dice.randrange(len(images[one]) + 1)])
    return _replaced(events, field.event, head + b"".join(images))


def other_table_id(dice: Random, events: Events, tables: Tables) -> Events:
    """A map or a rows event that speaks of another table."""
    fields = [field for field in fields_of(events, tables) if field.label == "table id"]
    if not fields:
        return events
    one, other = dice.choice(fields), dice.choice(fields)
    number = events[other.event].body[:6] if dice.random() < 0.7 else dice.choice((b"\xff" * 6, dice.randbytes(6)))
    return _in_field(events, one, number)


def damaged_body(dice: Random, events: Events, tables: Tables) -> Events:
    """One event's body, blindly."""
    index = dice.randrange(len(events))
    return _replaced(events, index, damaged_bytes(dice, events[index].body))


def other_order(dice: Random, events: Events, tables: Tables) -> Events:
    """Events removed, repeated, swapped or moved. The format description mostly stays."""
    first = 0 if dice.random() < 0.03 else 1
    if len(events) <= first + 1:
        return events
    found = list(events)
    a, b = dice.randrange(first, len(found)), dice.randrange(first, len(found))
    run = dice.choice((1, 1, 1, 2, 4))
    match dice.randrange(5):
        case 0:
            del found[a : a + run]
        case 1:
            found[b:b] = found[a : a + run]
        case 2:
            found[a], found[b] = found[b], found[a]
        case 3:
            moved = found[a : a + run]
            del found[a : a + run]
            found[b:b] = moved
        case 4:
            found[a:a] = [found[a]] * dice.choice((1, 2, 20))
    return found


_CODES: Final = (*range(43), *range(160, 173))
_TURNS: Final = {30: (23, 31, 32), 31: (24, 30, 32), 32: (25, 30, 31), 23: (30, 24, 25), 24: (31, 23), 25: (32, 23)}


def other_code(dice: Random, events: Events, tables: Tables) -> Events:
    """An event with another type code."""
    index = dice.randrange(1, len(events)) if len(events) > 1 else 0
    code = events[index].code
    turned = dice.choice(_TURNS[code]) if code in _TURNS and dice.random() < 0.6 else dice.choice(_CODES)
    changed = events[index]._replace(code=turned if dice.random() < 0.9 else dice.randrange(256))
    return [*events[:index], changed, *events[index + 1 :]]


def other_header(dice: Random, events: Events, tables: Tables) -> Events:
    """Flags, timestamp or server id of an event."""
    index = dice.randrange(len(events))
    event = events[index]
    changed = dice.choice(
        (
            event._replace(flags=dice.randrange(65536)),
            event._replace(timestamp=dice.choice((0, 1, (1 << 32) - 1))),
            event._replace(server_id=dice.getrandbits(32)),
        )
    )
    return [*events[:index], changed, *events[index + 1 :]]


def inside(dice: Random, events: Events, tables: Tables) -> Events:
    """Something packed: unpacked, damaged, packed again; or only what it says about its size."""
    packed = [i for i, event in enumerate(events) if event.code in PACKED]
    if not packed:
        return events
    index = dice.choice(packed)
    return _replaced(events, index, PACKED[events[index].code](dice, events[index].body, tables))


def _inside_rows(dice: Random, body: bytes, tables: Tables) -> bytes:
    for start in range(8, len(body)):
        if body[start] & 0xF8 == 0x80:
            try:
                data = anatomy.unpack_mariadb(body[start:])
            except anatomy.Malformed:
                continue
            if dice.random() < 0.2:
                return body[:start] + bomb_of_mariadb(dice)
            return body[:start] + writer.packed_by_mariadb(
                damaged_bytes(dice, data), dice.choice((None, None, 0, 1 << 31))
            )
    return body


def _inside_payload(dice: Random, body: bytes, tables: Tables) -> bytes:
    try:
        data = anatomy.unpack_payload(body)
        spans = list(anatomy.split(data, 0, 0))
    except anatomy.Malformed:
        return body
    if dice.random() < 0.15:
        return bomb_of_mysql(dice)
    if dice.random() < 0.2:
        return writer.payload(damaged_bytes(dice, data), lie=dice.choice((None, 0, 1, 1 << 40, (1 << 64) - 1))).body
    events = [
        Event(s.code, data[s.position + 19 : s.end], s.flags, *struct.unpack_from("<I", data, s.position))
        for s in spans
    ]
    changed = dice.choice(WITH_EVENTS)(dice, events, tables)
    kind = dice.choice((0, 0, 0, 255, 1))
    return writer.payload(writer.assemble(changed, checksum=False, position=0, inner=True), kind=kind).body


PACKED: Final[dict[int, Callable[[Random, bytes, Tables], bytes]]] = {
    codes.PAYLOAD: _inside_payload,
    **dict.fromkeys(range(165, 172), _inside_rows),
}

BOMBS: Final = (200 << 20, 700 << 20, 3 << 30)
"""Bytes that bombs unpack to; the larger ones are more than a case may have."""
_BLOCK: Final = 128 << 10


@cache
def zstd_bomb(first: bytes, zeros: int, says: int | None, last: bytes = b"") -> bytes:
    """One zstd frame (RFC 8878) of `first`, zeros in run-length blocks, and `last`. `says`: the header's size."""
    if says is None:
        head = b"\x00\x50"  # a window of 1 MiB, no content size
    else:
        head = b"\xe0" + struct.pack("<Q", says)  # a single segment with eight bytes of content size
    blocks = [_block(0, len(first)) + first] if first else []
    blocks += [(zeros // _BLOCK) * (_block(1, _BLOCK) + b"\0"), _block(1, zeros % _BLOCK) + b"\0"]
    blocks.append(_block(0, len(last), last=True) + last)
    return b"\x28\xb5\x2f\xfd" + head + b"".join(blocks)


def _block(kind: int, size: int, *, last: bool = False) -> bytes:
    return (last | kind << 1 | size << 3).to_bytes(3, "little")


def bomb_of_mysql(dice: Random) -> bytes:
    """A payload of few bytes that unpacks to hundreds of megabytes, honest about it or not: zeros, or a large event."""
    size, first = dice.choice(BOMBS), b""
    if dice.random() < 0.6:
        code = dice.choice((codes.QUERY, codes.TABLE_MAP, codes.ROWS_QUERY, codes.WRITE, codes.UPDATE))
        first = struct.pack("<IBIIIH", writer.NOW, code, 7, min(size, (1 << 32) - 1), 0, 0)
    packed = zstd_bomb(first, size - len(first), dice.choice((None, None, None, size, 1 << 62, 100)))
    if dice.random() < 0.2:
        packed = packed[:1000]  # the header claims gigabytes that do not exist
    return writer.payload_of(packed, dice.choice((size, size, size, 100, 0, 1 << 62, None)))


@cache
def zlib_bomb() -> bytes:
    """A zlib stream of a GiB of zeros: one piece, ended by a full flush, again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    adler = (1 << 30) % 65521 << 16 | 1
    return b"\x78\x9c" + piece * 1024 + b"\x03\x00" + adler.to_bytes(4, "big")


def bomb_of_mariadb(dice: Random) -> bytes:
    """The same for MariaDB's records, whose length has four bytes at most."""
    says = dice.choice((1 << 30, 100, 0, (1 << 32) - 1))
    return b"\x84" + says.to_bytes(4, "big") + zlib_bomb()


WithEvents = Callable[[Random, Events, Tables], Events]
WITH_EVENTS: Final[Sequence[WithEvents]] = (
    lying_field,
    damaged_field,
    lying_length,
    lying_length,
    other_types,
    other_bitmaps,
    other_value,
    other_value,
    other_value,
    other_value,
    other_images,
    other_images,
    other_table_id,
    damaged_body,
    other_order,
    other_order,
    other_code,
    other_header,
)
"""What may happen to any log; `inside` happens to those that hold something packed."""


# Raw damage: a file's bytes in, bytes out

_HEADER_FIELDS: Final = ((0, 4), (4, 1), (5, 4), (9, 4), (13, 4), (17, 2))


def lying_header(dice: Random, data: bytes, spans: Sequence[anatomy.Span]) -> bytes:
    """One field of an event's header, its size more often than others."""
    if not spans:
        return data
    offset, size = dice.choice((*_HEADER_FIELDS, (9, 4), (9, 4), (9, 4)))
    start = dice.choice(spans).position + offset
    value = interesting(dice, int.from_bytes(data[start : start + size], "little"), size)
    return data[:start] + value.to_bytes(size, "little") + data[start + size :]


def wrong_checksum(dice: Random, data: bytes, spans: Sequence[anatomy.Span]) -> bytes:
    """The stored checksum itself (or the last bytes of an event)."""
    if not spans:
        return data
    end = dice.choice(spans).end
    return data[: end - 4] + dice.choice((dice.randbytes(4), bytes(4), b"\xff" * 4)) + data[end:]


def truncated(dice: Random, data: bytes, spans: Sequence[anatomy.Span]) -> bytes:
    """Cut the log off in an event, in a header, or between two events."""
    if not spans:
        return data
    span = dice.choice(spans)
    return data[: dice.choice((span.end, span.position + dice.randrange(19), dice.randrange(span.position, span.end)))]


def damaged_anywhere(dice: Random, data: bytes, spans: Sequence[anatomy.Span]) -> bytes:
    """Blindly, anywhere in the file."""
    return damaged_bytes(dice, data)


def flipped(dice: Random, data: bytes, spans: Sequence[anatomy.Span]) -> bytes:
    """One to four bits of one event."""
    if not spans:
        return data
    span = dice.choice(spans)
    found = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        found[dice.randrange(span.position, span.end)] ^= 1 << dice.randrange(8)
    return bytes(found)


WithBytes = Callable[[Random, bytes, Sequence[anatomy.Span]], bytes]
WITH_BYTES: Final[Sequence[WithBytes]] = (
    flipped,
    flipped,
    flipped,
    lying_header,
    lying_header,
    wrong_checksum,
    truncated,
    damaged_anywhere,
    damaged_anywhere,
)


def repaired(data: bytes) -> bytes:
    """Every event's checksum made right, as far as events can be walked and the file says that it has checksums."""
    found = bytearray(data)
    try:
        size = int.from_bytes(data[13:17], "little")
        checksum = bool(data[4 + size - 5])
        for span in anatomy.split(data, 4 if checksum else 0):
            if checksum or span.code == codes.FORMAT:
                crc = zlib.crc32(found[span.position : span.end - 4])
                found[span.end - 4 : span.end] = crc.to_bytes(4, "little")
    except (anatomy.Malformed, IndexError):
        pass
    return bytes(found)
