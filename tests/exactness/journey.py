"""One sample from one source to one target, and whether every cell arrived as it was.

1. Rows are written at the source. Every cell by SELECT is the cell from the binlog.
2. The target's table is created as the product does it, if it does. Our statements put the rows from the binlog into
   it, as literals and, where it has that, by bulk execution. Both servers return the same text of each cell.
3. Some rows are changed at the source: the images before are the rows of step 1, the images after go to the target as
   UPSERTs. Both servers return the same text again.
4. Rows are deleted at the target by their whole image, as it is done for tables without a key: each finds its row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from airflow_provider_dm.engine.ddl.create_like import ServerPair, create_table_like
from airflow_provider_dm.engine.ddl.errors import CannotCreateTarget
from airflow_provider_dm.engine.downstream.row_statements import Dialect, Verb, delete_image
from airflow_provider_dm.engine.downstream.session import execute
from airflow_provider_dm.engine.downstream.tuples import write_values
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.guarded import GuardedConnection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import TableMapping, map_table
from airflow_provider_dm.engine.schema.catalogue import create_statement
from airflow_provider_dm.engine.schema.codec import Row, row_literals
from testbed import Server
from tests.exactness import oracle
from tests.exactness.sorts import Sample
from tests.integration.binlog.reading import definition, here, logged, raw_rows, session

STATEMENT_BYTES: Final = 4 << 20
CHANGED: Final = 5
"""One row in so many is changed, one is deleted."""
SHOWN: Final = 60


@dataclass(frozen=True)
class Outcome:
    """`cells`: how many were brought to the target and asked of both servers."""

    sample: str
    cells: int
    differences: tuple[str, ...]


@dataclass(frozen=True)
class Journey:
    """`schema` exists on both servers and is the journey's own."""

    source: Server
    target: Server
    schema: str

    def of(self, sample: Sample, dice: Random, rows: int) -> Outcome:
        """Takes one sample there. Both tables are dropped at the end."""
        name = TableName(self.schema, sample.name)
        upstream, downstream = session(self.source), session(self.target)
        query(upstream, "SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO'")
        query(upstream, f"CREATE TABLE {name.quoted()} {sample.definition(self.source.flavour)}")
        query(downstream, self.creation(sample, name, upstream))
        trip = _Trip(self, sample, name, upstream, downstream)
        try:
            return Outcome(sample.name, *trip.run(dice, rows))
        finally:
            for connection in (upstream, downstream):
                query(connection, f"DROP TABLE {name.quoted()}")
                connection.close()

    def creation(self, sample: Sample, name: TableName, upstream: Connection) -> str:
        """The product's own statement for the target's table, or ours where it leaves that to a user."""
        ours = Flavour(self.source.flavour), Flavour(self.target.flavour)
        table = definition(upstream, name)
        try:
            return create_table_like(
                create_statement(upstream, name), table, name, ServerPair(*ours), collation="utf8mb4_bin"
            ).sql
        except CannotCreateTarget:
            there = sample.definition(self.target.flavour, there=ours[0] is not ours[1])
            return f"CREATE TABLE {name.quoted()} {there}"


class _Trip:
    def __init__(
        self, journey: Journey, sample: Sample, name: TableName, upstream: Connection, downstream: Connection
    ) -> None:
        self.journey, self.sample, self.name = journey, sample, name
        self.upstream, self.downstream = upstream, downstream
        self.table = definition(upstream, name)
        self.mapping: TableMapping = map_table(self.table, definition(downstream, name))
        self.flavour = Flavour(journey.target.flavour)
        bulk = isinstance(downstream, GuardedConnection) and downstream.executes_bulk
        self.dialects = [Dialect(CAPABILITIES[self.flavour], executes_bulk=one) for one in sorted({False, bulk})]
        self.differences: list[str] = []
        self.cells = 0

    def run(self, dice: Random, count: int) -> tuple[int, tuple[str, ...]]:
        written = self.written(self.inserts(self.sample.rows(dice, count)))
        inserted = [after for before, after in written if before is None and after is not None]
        self.same_by_both_paths(inserted)
        for dialect in self.dialects:
            query(self.downstream, f"DELETE FROM {self.name.quoted()}")
            self.apply(inserted, Verb.INSERT, dialect)
            self.same_on_both_servers()
        changed = self.written(self.updates(dice, len(inserted)))
        known = {row[0]: row for row in inserted}
        for before, after in changed:
            if before is not None and before != known.get(before[0]):
                self.differ([f"row {before[0]!r}: its image before a change is not the row"])
            if after is not None:
                known[after[0]] = after
        self.same_by_both_paths(list(known.values()))
        self.apply([after for _, after in changed if after is not None], Verb.UPSERT, dice.choice(self.dialects))
        self.same_on_both_servers()
        self.remove(dice.sample(list(known.values()), max(1, len(known) // CHANGED)))
        return self.cells, tuple(self.differences)

    # At the source

    def inserts(self, rows: Sequence[Sequence[str]]) -> Iterator[str]:
        names = ", ".join(name for name, _ in self.sample.given())
        head = f"INSERT INTO {self.name.quoted()} ({names}) VALUES "
        yield from _batches(head, (f"({', '.join(row)})" for row in rows), "")

    def updates(self, dice: Random, count: int) -> Iterator[str]:
        given = self.sample.given()
        names = [name for name, _ in given]
        head = f"INSERT INTO {self.name.quoted()} (id, {', '.join(names)}) VALUES "
        tail = " ON DUPLICATE KEY UPDATE " + ", ".join(f"{name} = VALUES({name})" for name in names)
        chosen = dice.sample(range(1, count + 1), max(1, count // CHANGED))
        rows = (f"({number}, {', '.join(sort.value(dice) for _, sort in given)})" for number in sorted(chosen))
        yield from _batches(head, rows, tail)

    def written(self, statements: Iterator[str]) -> list[tuple[Row | None, Row | None]]:
        """Execute them and return their part of the log."""
        lo = here(self.upstream)
        for sql in statements:
            query(self.upstream, sql)
        changes = logged(self.journey.source, self.table, lo, here(self.upstream))
        return [(change.before, change.after) for change in changes]

    # At the target

    def apply(self, rows: Sequence[Row], verb: Verb, dialect: Dialect) -> None:
        literals = row_literals(self.table, self.flavour)
        self.cells += len(rows) * len(self.table.columns)
        self.downstream.begin()
        for statement in write_values(self.mapping, rows, verb, literals, dialect=dialect):
            execute(self.downstream, statement)
        self.downstream.commit()

    def remove(self, rows: Sequence[Row]) -> None:
        literals = row_literals(self.table, self.flavour)
        self.downstream.begin()
        for row in rows:
            found = execute(self.downstream, delete_image(self.mapping, literals(row), 1))
            if found != 1:
                self.differ([f"row {row[0]!r}: {found} rows are its image"])
        self.downstream.commit()

    # Comparing

    def same_by_both_paths(self, decoded: Sequence[Row]) -> None:
        selected = raw_rows(self.upstream, self.table)
        self.differ(self.compare(decoded, selected, "log", "SELECT"))

    def same_on_both_servers(self) -> None:
        documents = frozenset(column.name for column in self.table.columns if column.data_type == "json")
        as_utf8 = self.flavour is Flavour.TIDB
        ours, theirs = (
            oracle.cells(server, self.name.schema, self.name.table, documents=documents, as_utf8=as_utf8)
            for server in (self.journey.source, self.journey.target)
        )
        if self.flavour is not Flavour.MYSQL:
            ours = oracle.without_minus_zero(ours)
        self.differ(self.compare(ours, theirs, "source", "target"))

    def compare(self, ours: Sequence[Row], theirs: Sequence[Row], one: str, other: str) -> Iterator[str]:
        if len(ours) != len(theirs):
            yield f"{len(ours)} rows ({one}), {len(theirs)} rows ({other})"
        for left, right in zip(ours, theirs, strict=False):
            if left == right:
                continue
            for column, a, b in zip(self.table.columns, left, right, strict=True):
                if a != b:
                    where = f"row {left[0]!r} {column.name} {column.column_type[:40]}"
                    yield f"{where}: {one} {_shown(a)}, {other} {_shown(b)}"

    def differ(self, found: Sequence[str] | Iterator[str]) -> None:
        place = f"{self.journey.source.flavour}->{self.journey.target.flavour} {self.sample.name}"
        self.differences += [f"{place}: {one}" for one in found]


def _shown(cell: bytes | None) -> str:
    if cell is None:
        return "NULL"
    return repr(cell) if len(cell) <= SHOWN else f"{cell[:SHOWN]!r}… of {len(cell)}"


def _batches(head: str, rows: Iterator[str], tail: str) -> Iterator[str]:
    batch: list[str] = []
    size = 0
    for row in rows:
        if batch and size + len(row) > STATEMENT_BYTES:
            yield head + ", ".join(batch) + tail
            batch, size = [], 0
        batch.append(row)
        size += len(row)
    if batch:
        yield head + ", ".join(batch) + tail
