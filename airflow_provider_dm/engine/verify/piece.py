"""One piece of a table, read by one Spark task: the sums of its rows, or the rows whose hashes are in a focus."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass

from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.errors import IncompleteResult
from airflow_provider_dm.engine.reading.keyset import KeyOrder
from airflow_provider_dm.engine.reading.source_session import source_connection, with_retries
from airflow_provider_dm.engine.reading.text_rows import TextCells, packed_rows, split_row
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.verify.row_bytes import RowForm
from airflow_provider_dm.engine.verify.sums import HashFocus, Sums, hash_rows, in_focus


@dataclass(frozen=True)
class TablePiece:
    """Rows of `table` on the server called `server` whose first key column is between `low` and `high`; None: open."""

    server: str
    table: Table
    form: RowForm
    key: tuple[int, ...]
    """Positions, in a row as `form` selects it, of the columns by which reports identify the row."""
    low: int | None = None
    high: int | None = None

    def packed_rows(self, connection: Connection) -> Generator[tuple[int, list[bytes]], None, None]:
        """Yield (number of columns, packets) of all rows, and check their number against COUNT(*) in the same snapshot.

        Raises IncompleteResult after the last packet, and pymysql's errors. Closes an unexhausted connection.
        """
        rows = counted = 0
        finished = False
        try:
            query(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            ((counted,),) = query(connection, f"SELECT COUNT(*) {self._rest()}")
            with closing(packed_rows(connection, f"SELECT {self.form.select} {self._rest()}".encode())) as batches:
                for width, packets in batches:
                    rows += len(packets)
                    yield width, packets
            query(connection, "ROLLBACK")
            finished = True
        finally:
            if not finished and connection.open:  # otherwise later reads would use this snapshot
                connection.close()
        if rows != counted:
            raise IncompleteResult(f"rows of {self.table.name}", rows, int(counted))

    def _rest(self) -> str:
        rest = f"FROM {self.table.name.quoted()}"
        order = KeyOrder.of(self.table)
        if order is None:
            return rest
        (limits,) = order.steps(None, self.low, self.high)
        return f"{rest} WHERE {limits.decode()}"


@dataclass(frozen=True)
class FoundRow:
    """A row of an unequal class: its hash, and its key (or the whole row of a table without one)."""

    hash: tuple[int, int]
    key: TextCells


@dataclass(frozen=True)
class SumPieces:
    """A Spark task: (piece, focus) -> sums. It contains the endpoints, so it is serialized with the job's code."""

    servers: dict[str, Endpoint]

    def __call__(self, work: tuple[TablePiece, HashFocus]) -> Sums:
        """Return the sums of the piece's rows that are in the focus. Raises the errors of `with_retries`."""
        piece, focus = work
        endpoint = self.servers[piece.server]

        def attempt() -> Sums:
            sums, pack = Sums.zero(), piece.form.packer()
            with closing(piece.packed_rows(source_connection(endpoint))) as batches:
                for _, packets in batches:
                    sums.add(hash_rows(map(pack, packets)), focus)
            return sums

        return with_retries(endpoint, attempt)


@dataclass(frozen=True)
class FindRows:
    """A Spark task: (piece, focus) -> the rows in the focus, for foci that contain few rows."""

    servers: dict[str, Endpoint]
    most: int

    def __call__(self, work: tuple[TablePiece, HashFocus]) -> list[FoundRow]:
        """Return the piece's rows that are in the focus. Reading stops after the batch in which their number reaches
        `most`. Raises the errors of `with_retries`.
        """
        piece, focus = work
        endpoint = self.servers[piece.server]

        def attempt() -> list[FoundRow]:
            rows: list[FoundRow] = []
            pack = piece.form.packer()
            with closing(piece.packed_rows(source_connection(endpoint))) as batches:
                for width, packets in batches:
                    packed = list(map(pack, packets))
                    hashes = hash_rows(packed)
                    for number in in_focus(hashes, focus).nonzero()[0]:
                        cells = split_row(packed[number], width)
                        pair = (int(hashes[number, 0]), int(hashes[number, 1]))
                        rows.append(FoundRow(pair, tuple(cells[position] for position in piece.key)))
                    if len(rows) >= self.most:
                        break
            return rows

        return with_retries(endpoint, attempt)
