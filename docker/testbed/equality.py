"""Whether tables hold the same rows: a second opinion that shares no code with what it judges.

    shards = (Place(one, "shop_00.orders"), Place(two, "shop_01.orders"))
    report = compare([Comparison(shards, Place(target, "shop.orders"))])
    assert report.equal, report

Plain SQL and PyMySQL, one full read of each side; nothing of `airflow_provider_dm` is imported. Both sides must be
quiet.

What is compared. A row becomes canonical bytes: its columns in the order of their names, each a NULL flag, a length and
the value; text as utf8mb4, temporal values as UTC text with all their digits, integers as integers (no zerofill),
floating point by its exact bits, everything else as the bytes the server sends. The rows of a table are a multiset: of
every row two keyed 64-bit hashes are added modulo 2^64, and counted, so equal duplicates never cancel out (with XOR
they would). Several source tables that were merged add up to one target table.

Rows go to 256 classes by their hash. When classes differ, both sides are read again and only the rows of those classes
are kept, so the first differing rows can be shown with a bounded memory.

What this cannot see: anything that is not a row (indexes, defaults, AUTO_INCREMENT), nor the order of columns. A column
that only one side has is reported as a difference."""

import hashlib
import marshal
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

import pymysql
from pymysql.cursors import SSCursor

CLASSES: Final = 256
KEY: Final = b"row equality of the testbed"
MODULUS: Final = 1 << 64

HASHES: Final = struct.Struct("<QQ")

ZEROFILLED: Final = frozenset({"tinyint zerofill", "smallint zerofill", "mediumint zerofill", "int zerofill"}) | {
    "bigint zerofill"
}
FLOATS: Final = frozenset({"float", "double"})

Cells = tuple[bytes | None, ...]


@dataclass(frozen=True)
class Place:
    """A table on a server. `server`: host, port, user, password as PyMySQL names them (`Server.client_config()`)."""

    server: Mapping[str, Any]
    table: str
    """`schema.table`; a schema whose name has a dot cannot be written here."""

    @property
    def schema(self) -> str:
        return self.table.split(".", 1)[0]

    @property
    def name(self) -> str:
        return self.table.split(".", 1)[1]

    def __str__(self) -> str:
        return f"{self.table}@{self.server.get('host')}:{self.server.get('port')}"


@dataclass(frozen=True)
class Comparison:
    """Source tables whose rows together must be the rows of the target table."""

    sources: tuple[Place, ...]
    target: Place


@dataclass(frozen=True)
class DifferingRow:
    """A row that the two sides have not equally often."""

    in_sources: int
    in_target: int
    row: dict[str, str]


@dataclass(frozen=True)
class TableReport:
    """One target table. `problem` is set where rows could not be compared at all."""

    target: str
    equal: bool
    source_rows: int = 0
    target_rows: int = 0
    differing: tuple[DifferingRow, ...] = ()
    """The first ones only."""
    problem: str = ""

    def __str__(self) -> str:
        head = f"{self.target}: {'equal' if self.equal else 'NOT EQUAL'}, {self.source_rows} rows in the sources, "
        lines = [f"{head}{self.target_rows} in the target", *([self.problem] if self.problem else [])]
        lines += [f"  {row.in_sources}x in sources, {row.in_target}x in target: {row.row}" for row in self.differing]
        return "\n".join(lines)


@dataclass(frozen=True)
class Report:
    """All tables of one comparison."""

    tables: tuple[TableReport, ...]

    @property
    def equal(self) -> bool:
        return all(table.equal for table in self.tables)

    @property
    def rows(self) -> int:
        """Rows in the target tables."""
        return sum(table.target_rows for table in self.tables)

    def __str__(self) -> str:
        return "\n".join(str(table) for table in self.tables)


def compare(comparisons: Sequence[Comparison], *, show: int = 10) -> Report:
    """Compare every table completely; of each unequal one, `show` differing rows are listed."""
    return Report(tuple(compare_table(comparison, show=show) for comparison in comparisons))


def compare_table(comparison: Comparison, *, show: int = 10) -> TableReport:
    """Compare one target table with the sum of its sources."""
    target = comparison.target
    try:
        shapes = [_Shape.of(place) for place in (*comparison.sources, target)]
    except LookupError as error:
        return TableReport(str(target), equal=False, problem=str(error))
    for shape in shapes[:-1]:
        if shape.names != shapes[-1].names:
            problem = f"columns differ: {shape.place} has {shape.names}, {target} has {shapes[-1].names}"
            return TableReport(str(target), equal=False, problem=problem)
    with ThreadPoolExecutor(len(shapes)) as pool:
        *sides, there = pool.map(_summary, shapes)
    here = _Summary()
    for side in sides:
        here.add_all(side)
    unequal = {number for number in range(CLASSES) if here.of_class(number) != there.of_class(number)}
    differing = _differing_rows(shapes, unequal, show) if unequal else ()
    return TableReport(str(target), not unequal, here.rows, there.rows, differing)


@dataclass
class _Summary:
    """The number of rows, and the two sums of hashes, per class."""

    counts: list[int] = field(default_factory=lambda: [0] * CLASSES)
    sums: list[int] = field(default_factory=lambda: [0] * CLASSES)
    other_sums: list[int] = field(default_factory=lambda: [0] * CLASSES)

    @property
    def rows(self) -> int:
        return sum(self.counts)

    def of_class(self, number: int) -> tuple[int, int, int]:
        return self.counts[number], self.sums[number] % MODULUS, self.other_sums[number] % MODULUS

    def add_all(self, other: "_Summary") -> None:
        for mine, theirs in ((self.counts, other.counts), (self.sums, other.sums), (self.other_sums, other.other_sums)):
            mine[:] = [a + b for a, b in zip(mine, theirs, strict=True)]


@dataclass(frozen=True)
class _Shape:
    """The way one table is read: its columns, sorted by name, and what makes each cell canonical."""

    place: Place
    names: tuple[str, ...]
    types: tuple[str, ...]

    @classmethod
    def of(cls, place: Place) -> "_Shape":
        with closing(_connect(place)) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT column_name, CONCAT(data_type, IF(column_type LIKE '%zerofill%', ' zerofill', '')) "
                "FROM information_schema.columns "
                f"WHERE table_schema = {connection.escape(place.schema)} "
                f"AND table_name = {connection.escape(place.name)}"
            )
            found = sorted((name.decode().lower(), kind.decode().lower()) for name, kind in cursor.fetchall())
        if not found:
            raise LookupError(f"{place} does not exist")
        return cls(place, tuple(name for name, _ in found), tuple(kind for _, kind in found))

    def select(self) -> str:
        cells = ", ".join(
            # A FLOAT as such is sent with six digits; as a DOUBLE it is sent with all.
            f"{_quoted(name)} + 0e0" if kind in FLOATS else _quoted(name)
            for name, kind in zip(self.names, self.types, strict=True)
        )
        return f"SELECT {cells} FROM {_quoted(self.place.schema)}.{_quoted(self.place.name)}"

    def canonicals(self) -> list[tuple[int, Callable[[bytes], bytes]]]:
        """Return (column, function) for those columns whose sent bytes are not canonical yet."""
        by_type: dict[str, Callable[[bytes], bytes]] = dict.fromkeys(ZEROFILLED, _canonical_integer)
        by_type |= dict.fromkeys(FLOATS, _canonical_float)
        return [(index, by_type[kind]) for index, kind in enumerate(self.types) if kind in by_type]

    def rows(self) -> Iterator[Cells]:
        canonicals = self.canonicals()
        with closing(_connect(self.place)) as connection, connection.cursor(SSCursor) as cursor:
            cursor.execute(self.select())
            while batch := cursor.fetchmany(1000):
                yield from (_canonical(cells, canonicals) for cells in batch) if canonicals else batch


def _summary(shape: _Shape) -> _Summary:
    summary = _Summary()
    counts, sums, other_sums = summary.counts, summary.sums, summary.other_sums
    for row in shape.rows():
        first, second = _hashes(row)
        number = first % CLASSES
        counts[number] += 1
        sums[number] += first
        other_sums[number] += second
    return summary


def _differing_rows(shapes: Sequence[_Shape], unequal: set[int], show: int) -> tuple[DifferingRow, ...]:
    """Return the first rows, in the order of their bytes, that the two sides have not equally often."""
    *sources, target = shapes
    here: Counter[Cells] = Counter()
    for shape in sources:
        here.update(row for row in shape.rows() if _hashes(row)[0] % CLASSES in unequal)
    there = Counter(row for row in target.rows() if _hashes(row)[0] % CLASSES in unequal)
    rows = sorted((row for row in here.keys() | there.keys() if here[row] != there[row]), key=_canonical_row)
    return tuple(
        DifferingRow(here[row], there[row], {n: _shown(v) for n, v in zip(target.names, row, strict=True)})
        for row in rows[:show]
    )


def _hashes(row: Cells) -> tuple[int, int]:
    return HASHES.unpack(hashlib.blake2b(_canonical_row(row), digest_size=16, key=KEY).digest())


def _canonical_row(row: Cells) -> bytes:
    """Write the row by `marshal` in its version 1: for NULL a mark, for a value another, its length and its bytes."""
    return marshal.dumps(row, 1)


def _canonical(cells: Cells, canonicals: list[tuple[int, Callable[[bytes], bytes]]]) -> Cells:
    row = list(cells)
    for index, canonical in canonicals:
        cell = row[index]
        if cell is not None:
            row[index] = canonical(cell)
    return tuple(row)


def _canonical_integer(cell: bytes) -> bytes:
    return b"%d" % int(cell)


def _canonical_float(cell: bytes) -> bytes:
    return struct.pack(">d", float(cell))


def _shown(cell: bytes | None) -> str:
    return "NULL" if cell is None else repr(cell[:60])[1:] + ("…" if len(cell) > 60 else "")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _connect(place: Place) -> "pymysql.connections.Connection[Any]":
    """Connect so that every cell arrives as bytes: no decoder, no unicode; text in utf8mb4, time in UTC."""
    ours = "time_zone = '+00:00', sql_mode = ''"
    theirs = place.server.get("init_command")
    login = {**place.server, "init_command": f"{theirs}, {ours}" if theirs else f"SET {ours}"}
    return pymysql.connect(
        **login, charset="utf8mb4", use_unicode=False, autocommit=None, conv={}, connect_timeout=10, ssl_disabled=True
    )
