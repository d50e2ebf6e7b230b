"""One piece of one table, read by one task: its sums, or the rows of a focus that are to be looked at."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import quote
from airflow_provider_dm.engine.reading.keyset import KeyOrder
from airflow_provider_dm.engine.reading.source_session import source_connection, with_retries
from airflow_provider_dm.engine.reading.text_rows import Cells, packed_rows, split_row
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.verify.row_bytes import RowForm
from airflow_provider_dm.engine.verify.sums import Focus, Sums, hash_rows, in_focus


@dataclass(frozen=True)
class Piece:
    """Rows of `table` on the server called `server` whose first key column lies between `low` and `high`."""

    server: str
    table: Table
    form: RowForm
    key: tuple[int, ...]
    """Where, in a row as `form` selects it, the columns stand that name a row to a person."""
    low: int | None = None
    high: int | None = None

    def select(self) -> bytes:
        order = KeyOrder.of(self.table)
        condition = b"TRUE"
        if order is not None and self.low is not None and self.high is not None:
            column = quote(order.columns[0].name).encode()
            condition = b"%b BETWEEN %d AND %d" % (column, self.low, self.high)
        return b"SELECT %b FROM %b WHERE %b" % (
            *(self.form.select.encode(), self.table.name.quoted().encode(), condition),
        )


@dataclass(frozen=True)
class FoundRow:
    """A row of an unequal class: its hash, and its key (or the whole row of a table without one)."""

    hash: tuple[int, int]
    key: Cells


@dataclass(frozen=True)
class SumPieces:
    """A task: (piece, focus) -> sums. Knows how to log in, so it travels as code."""

    servers: dict[str, Endpoint]

    def __call__(self, work: tuple[Piece, Focus]) -> Sums:
        """Raises what reading raises."""
        piece, focus = work
        endpoint = self.servers[piece.server]

        def attempt() -> Sums:
            sums, pack = Sums.zero(), piece.form.packer()
            with closing(packed_rows(source_connection(endpoint), piece.select())) as batches:
                for _, packets in batches:
                    sums.add(hash_rows(map(pack, packets)), focus)
            return sums

        return with_retries(endpoint, attempt)


@dataclass(frozen=True)
class FindRows:
    """A task: (piece, focus) -> its rows, for foci that hold few."""

    servers: dict[str, Endpoint]
    most: int

    def __call__(self, work: tuple[Piece, Focus]) -> list[FoundRow]:
        """At most `most` rows. Raises what reading raises."""
        piece, focus = work
        endpoint = self.servers[piece.server]

        def attempt() -> list[FoundRow]:
            found: list[FoundRow] = []
            pack = piece.form.packer()
            with closing(packed_rows(source_connection(endpoint), piece.select())) as batches:
                for width, packets in batches:
                    packed = list(map(pack, packets))
                    hashes = hash_rows(packed)
                    for number in in_focus(hashes, focus).nonzero()[0]:
                        cells = split_row(packed[number], width)
                        pair = (int(hashes[number, 0]), int(hashes[number, 1]))
                        found.append(FoundRow(pair, tuple(cells[position] for position in piece.key)))
                    if len(found) >= self.most:
                        break
            return found

        return with_retries(endpoint, attempt)
