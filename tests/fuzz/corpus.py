"""The undamaged logs: every kind of event and column type, of both flavours, made at run time from one fixed seed.

A `Seed` is a log of a few small transactions over one or two tables. `SEEDS` are made once for each process; what each
of them must decode to is known (`Seed.expected`), and tests/fuzz/test_seeds.py holds the engine to it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from random import Random
from typing import Final

from airflow_provider_dm.engine.binlog.rows import RowChange
from airflow_provider_dm.engine.schema.model import Table
from tests.fuzz import codes, writer
from tests.fuzz.anatomy import Span, split
from tests.fuzz.values import some_value, table, value
from tests.fuzz.writer import Event, Log, Row, Sample

MANY: Final = ",".join(f"'m{number}'" for number in range(300))
BITS: Final = ",".join(f"'s{number}'" for number in range(64))

THEMES: Final[dict[str, Table]] = {
    "integers": table(
        "integers",
        *("int", "tinyint", "smallint", "mediumint", "bigint", "int unsigned", "tinyint unsigned", "smallint unsigned"),
        *("mediumint unsigned", "bigint unsigned"),
        "int(10) unsigned zerofill",
    ),
    "numbers": table(
        "numbers",
        "int",
        *("decimal(65,30)", "decimal(5,0)", "decimal(30,30)", "decimal(18,9)", "decimal(10,2) unsigned"),
        *("decimal(1,1)", "float", "double", "bit(1)", "bit(9)", "bit(64)", "year"),
    ),
    "times": table(
        "times",
        "int",
        *("date", "time", "time(1)", "time(3)", "time(6)", "datetime", "datetime(2)", "datetime(5)", "datetime(6)"),
        *("timestamp", "timestamp(1)", "timestamp(4)", "timestamp(6)"),
    ),
    "old_times": table("old_times", "int", "date", "time", "datetime", "timestamp"),
    "texts": table(
        "texts",
        "int",
        *("char(10)", "char(255)", "varchar(20)", "varchar(300)", "tinytext", "text", "mediumtext", "longtext"),
    ),
    "latin": table(
        "latin",
        "int",
        "char(100)",
        "varchar(200)",
        "text",
        charsets=dict.fromkeys(("char(100)", "varchar(200)", "text"), "latin1"),
    ),
    "bytes": table(
        "bytes",
        "int",
        *("binary(5)", "binary(255)", "varbinary(10)", "varbinary(300)", "tinyblob", "blob", "mediumblob", "longblob"),
    ),
    "choices": table(
        "choices",
        "int",
        "enum('a','it''s','c d')",
        f"enum({MANY})",
        "set('a','b','c')",
        f"set({BITS})",
        "set('1','2','3','4','5','6','7','8','9')",
    ),
    "documents": table("documents", "int", "json", "varchar(20)", "json"),
    "geometries": table("geometries", "int", "geometry", "point"),
    "vectors": table("vectors", "int", "vector(3)"),
    "byte_vectors": table("byte_vectors", "int", "vector(12 bytes)"),
    "addresses": table("addresses", "int", "uuid", "inet4", "inet6"),
    "squeezed": table(
        "squeezed",
        "int",
        *("varchar(100) COMPRESSED", "varbinary(300) COMPRESSED", "text COMPRESSED", "longblob COMPRESSED"),
    ),
    "charsets": table(
        "charsets",
        "int",
        "char(10)",
        "varchar(20)",
        "text",
        "tinytext",
        charsets={"char(10)": "gbk", "varchar(20)": "utf16", "text": "swe7", "tinytext": "sjis"},
    ),
    "narrow": table("narrow", "int"),
    "wide": table("wide", "int", *["tinyint"] * 299),
}
OTHER: Final = table("other", "int", "varchar(20)", schema="elsewhere")
"""A table that no task selects."""
TABLES: Final = tuple(THEMES.values())
ONLY: Final = {
    **dict.fromkeys(("documents", "vectors"), "mysql"),
    **dict.fromkeys(("byte_vectors", "addresses", "squeezed"), "mariadb"),
}
"""Themes that one flavour's servers write."""


@dataclass(frozen=True, eq=False)
class Seed:
    """One undamaged log and its contents. `boundaries`: positions between transactions."""

    name: str
    flavour: str
    log: Log
    expected: tuple[RowChange, ...]
    boundaries: tuple[int, ...]

    @cached_property
    def data(self) -> bytes:
        """The file."""
        return self.log.data()

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """Return where its events lie."""
        return tuple(split(self.data, 4 if self.log.checksum else 0))

    @cached_property
    def rows(self) -> frozenset[RowChange]:
        """Return what may come out of it and of the file after it."""
        return frozenset(self.expected) | frozenset(follower(self.flavour).expected)


class _Maker:
    """A log that grows by transactions."""

    def __init__(self, flavour: str, dice: Random, *, packed: bool = False) -> None:
        self.flavour = flavour
        self.dice = dice
        self.packed = packed
        self.number = 0
        self.table_id = 90
        self.events: list[Event] = []
        self.starts: list[int] = []
        """Numbers of the events at which something outside of a transaction begins."""
        self.expected: list[RowChange] = []
        self.outside(writer.format_description(flavour, checksum=True))

    def outside(self, *events: Event) -> None:
        for event in events:
            self.starts.append(len(self.events))
            self.events.append(event)

    def transaction(self, *inner: Iterable[Event], how: str = "gtid", end: str = "xid") -> None:
        """Statements between what opens and what closes a transaction."""
        self.starts.append(len(self.events))
        self.number += 1
        events = [event for statement in inner for event in statement]
        closing = writer.xid() if end == "xid" else writer.query(b"COMMIT")
        if self.flavour == "mariadb":
            self.events += [writer.gtid("mariadb", self.number, group=self.number % 2 == 0), *events, closing]
            return
        opening = {"gtid": writer.gtid("mysql", self.number), "anonymous": writer.anonymous(self.number)}
        opening["tagged"] = writer.tagged_gtid(self.number)
        begin = writer.query(b"BEGIN", variables=writer.STATUS if self.dice.random() < 0.5 else b"")
        whole = [begin, *events, closing]
        if self.packed:
            kind = 255 if self.number % 3 == 0 else 0
            whole = [writer.payload(writer.assemble(whole, checksum=False, position=0, inner=True), kind=kind)]
        self.events += [opening[how], *whole]

    def rows(
        self, sample: Sample, kind: str, count: int, *, version: int = 0, detail: str = "minimal", extra: bytes = b"",
        pieces: int = 1, squeezed: bool = False, wanted: bool = True,
    ) -> Iterator[Event]:  # fmt: skip
        """One statement on one table: its text, its map and its rows in one or more events."""
        self.table_id += 1
        version = version or (2 if self.flavour == "mysql" else 1)
        text = b"/* what the session sent */"
        if self.dice.random() < 0.4:
            note = Event(codes.ROWS_QUERY, bytes([len(text)]) + text)
            yield note if self.flavour == "mysql" else Event(codes.ANNOTATE, text)
        yield writer.table_map(sample, self.table_id, detail=detail)
        for piece in range(pieces):
            rows = self._rows(sample.table, kind, count)
            if wanted:
                self._expect(sample.table, kind, rows)
            event = writer.rows_event(
                sample, kind, rows, self.table_id, version=version, extra=extra, last=piece == pieces - 1
            )
            yield writer.compressed(event) if squeezed else event

    def _rows(self, its: Table, kind: str, count: int) -> list[Row]:
        images = count * (2 if kind == "update" else 1)
        key = its.columns[0]
        return [
            (some_value(key, self.dice), *(value(column, self.dice) for column in its.columns[1:]))
            for _ in range(images)
        ]

    def _expect(self, its: Table, kind: str, rows: list[Row]) -> None:
        index = TABLES.index(its)
        if kind == "update":
            pairs = zip(rows[::2], rows[1::2], strict=True)
            self.expected += [RowChange(index, before, after) for before, after in pairs]
        elif kind == "insert":
            self.expected += [RowChange(index, None, row) for row in rows]
        else:
            self.expected += [RowChange(index, row, None) for row in rows]

    def seed(self, name: str, *, checksum: bool) -> Seed:
        log = Log(tuple(self.events), True)
        if not checksum:
            log = writer.without_checksums(log, self.flavour)
        positions, position = [], 4
        for event in log.events:
            positions.append(position)
            position += 19 + len(event.body) + (4 if checksum or event.code == codes.FORMAT else 0)
        boundaries = tuple(positions[start] for start in self.starts)
        return Seed(f"{self.flavour}/{name}", self.flavour, log, tuple(self.expected), boundaries)


def _theme(flavour: str, theme: str, dice: Random) -> _Maker:
    """Three transactions on one table: inserts, updates, deletes."""
    made = _Maker(flavour, dice)
    sample = Sample(THEMES[theme], old_times=theme.startswith("old"))
    made.outside(writer.previous_gtids(0) if flavour == "mysql" else writer.gtid_list(0))
    rows = 1 if theme == "wide" else 2
    details = ("minimal", "full", "none" if flavour == "mariadb" else "minimal")
    for kind, detail in zip(("insert", "update", "delete"), details, strict=True):
        made.transaction(made.rows(sample, kind, rows, detail=detail))
    made.outside(writer.rotate(b"mysql-bin.000002"))
    return made


def _shapes(flavour: str, dice: Random) -> _Maker:
    """Return what else happens around rows."""
    made = _Maker(flavour, dice)
    numbers, narrow, other = Sample(THEMES["choices"]), Sample(THEMES["narrow"]), Sample(OTHER)
    made.outside(writer.previous_gtids(7) if flavour == "mysql" else writer.gtid_list(7))
    if flavour == "mysql":
        made.outside(writer.previous_gtids(7, tag=b"audit"), Event(codes.VIEW_CHANGE, b"\0" * 52))
    else:
        made.outside(writer.checkpoint(b"mysql-bin.000001"))
    made.transaction(
        made.rows(narrow, "insert", 3, pieces=2), made.rows(other, "delete", 1, wanted=False), end="commit"
    )
    made.transaction(
        made.rows(numbers, "update", 1, version=1, detail="full"),
        [writer.query(b"SAVEPOINT `s`")],
        made.rows(narrow, "delete", 1),
        how="anonymous",
    )
    both = [*_together(made, numbers, narrow, dice)]
    made.transaction(both, how="tagged")
    made.transaction([writer.query(b"ROLLBACK TO `s`")], made.rows(narrow, "insert", 1, extra=b"\1\0\5\0"))
    made.transaction([], end="commit")
    return made


def _together(made: _Maker, one: Sample, two: Sample, dice: Random) -> Iterator[Event]:
    """A statement on two tables: both maps first, and an event of no table that ends it."""
    version = 2 if made.flavour == "mysql" else 1
    yield writer.table_map(one, 7)
    yield writer.table_map(two, 8)
    for sample, number in ((one, 7), (two, 8)):
        rows = made._rows(sample.table, "insert", 1)
        made._expect(sample.table, "insert", rows)
        yield writer.rows_event(sample, "insert", rows, number, version=version, last=False)
    yield writer.end_of_statement(version)


def _statements(flavour: str, dice: Random) -> _Maker:
    """DDL between rows, and a table that is made with its rows."""
    made = _Maker(flavour, dice)
    sample = Sample(THEMES["narrow"])
    made.transaction(made.rows(sample, "insert", 1))
    made.number += 1
    made.outside(writer.gtid(flavour, made.number, standalone=True))
    made.events.append(writer.query(b"ALTER TABLE narrow ADD INDEX (c0)", variables=writer.STATUS))
    made.transaction(made.rows(sample, "insert", 1))
    create = writer.query(b"CREATE TABLE `narrow` (c0 INT) START TRANSACTION")
    made.transaction([create], made.rows(sample, "insert", 2))
    made.transaction(made.rows(sample, "delete", 1))
    made.outside(Event(codes.STOP, b""))
    return made


def _packed(flavour: str, theme: str, dice: Random) -> _Maker:
    """Compressed: MySQL packs transactions, MariaDB packs rows and texts."""
    made = _Maker(flavour, dice, packed=flavour == "mysql")
    sample = Sample(THEMES[theme])
    squeezed = flavour == "mariadb"
    for kind in ("insert", "update", "delete"):
        note = writer.query(b"SAVEPOINT `a long name that is worth it`")
        made.transaction(
            [writer.compressed(note) if squeezed else note],
            made.rows(sample, kind, 2, squeezed=squeezed, version=2 if squeezed and kind == "delete" else 0),
        )
    made.outside(writer.rotate(b"mysql-bin.000002"))
    return made


def _decrypted(dice: Random) -> _Maker:
    """Return it as a server sends it that encrypts its files: only the checksums say that it is read as it is."""
    made = _Maker("mariadb", dice)
    made.outside(Event(codes.START_ENCRYPTION, bytes([1, 1, 0, 0, 0, *range(12)])), writer.gtid_list(0))
    for kind in ("insert", "update", "delete"):
        made.transaction(made.rows(Sample(THEMES["narrow"]), kind, 1))
    made.outside(writer.rotate(b"mysql-bin.000002"))
    return made


def _made(flavour: str) -> Iterator[tuple[str, _Maker]]:
    def dice(name: str) -> Random:
        return Random(f"{flavour}/{name}")

    for theme in THEMES:
        if ONLY.get(theme, flavour) != flavour:
            continue
        yield theme, _theme(flavour, theme, dice(theme))
    for turn in range(3):
        yield f"shapes{turn}", _shapes(flavour, dice(f"shapes{turn}"))
        yield f"statements{turn}", _statements(flavour, dice(f"statements{turn}"))
    for theme in ("numbers", "bytes", "narrow"):
        yield f"packed-{theme}", _packed(flavour, theme, dice(f"packed-{theme}"))


@lru_cache(maxsize=1)
def seeds() -> tuple[Seed, ...]:
    """All of them, each with and without checksums."""
    found = []
    for flavour in ("mysql", "mariadb"):
        for name, made in _made(flavour):
            found.append(made.seed(name, checksum=True))
            bare = made.seed(name, checksum=False)
            found.append(replace(bare, name=f"{bare.name}/bare"))
    found.append(_decrypted(Random("decrypted")).seed("decrypted", checksum=True))
    return tuple(found)


@lru_cache(maxsize=4)
def follower(flavour: str) -> Seed:
    """A small log that comes after the one that is tested."""
    made = _Maker(flavour, Random("following"))
    made.transaction(made.rows(Sample(THEMES["narrow"]), "insert", 1))
    return made.seed("following", checksum=True)
