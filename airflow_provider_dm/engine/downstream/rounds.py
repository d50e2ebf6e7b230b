"""A round of a load, as the target records it: while it is open, pages are written, and the frontier rests at L.

L is a location of the source's log. All readers of a round have snapshots of the source at L. Coverage (the keys of a
source table whose rows the target has) grows in rounds only. Each step is one transaction:

    open     every bucket of the frontier is at L -> `round` = n in the chunks of the tables that are read
    page     its chunk has this round, this generation and these rows (`copy_progress.advance_chunk`)
    close    `round` = 0 in all chunks

The load is complete when no chunk is left; the driver records it (`subtask.complete_load`) after it has examined
waiting rows. `close` waits for pages that are being committed, as they lock their chunks; later pages find no chunk of
their round. So the frontier moves only when no page can follow. A claim closes the round of a crashed run (claim.py).

For example round 3 of a table in two chunks, at L = 700; the reader of chunk 1 is frozen when the driver closes it:

    open     frontier 700 in all buckets     chunk 0: round 3, 0 rows    chunk 1: round 3, 0 rows
    page                                     chunk 0: round 3, 500 rows
    close                                    chunk 0: round 0, 500 rows  chunk 1: round 0, 0 rows
    epoch    700 -> 900, for the first 500 rows only
    page     by the frozen reader: chunk 1 is not in round 3, so nothing is written
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_dm.engine.downstream.copy_progress import CHUNKS, OF_SOURCE_TABLE
from airflow_provider_dm.engine.downstream.frontier import extent, read_whole_frontier
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName


@dataclass(frozen=True)
class Round:
    """A round. `number`: above 0, and unique in its generation.

    `births`: the tables that are read in it, with their identities (`reading.births.Birth` as text).
    """

    number: int
    births: Mapping[TableName, str]


def open_round(connection: Connection, fence: Fence, at: str, opened: Round) -> None:
    """Allow readers to write pages of these tables, inside a transaction. `at`: L, as `Location.sort_key`.

    Raises Fenced, TargetWentBack, and InvariantBroken if a bucket is at another position.
    """
    fence.check(connection)
    rows = read_whole_frontier(connection, fence.ref)
    if not rows or extent(rows) != (at, at):
        raise InvariantBroken(f"a round is opened while all buckets are at {at}", f"{set(rows and extent(rows))}")
    for name, birth in opened.births.items():
        CHUNKS.update(
            connection,
            fence.ref,
            "round = %s, birth = %s",
            (opened.number, birth),
            f"{OF_SOURCE_TABLE} AND done = 0",
            name,
        )


def close_round(connection: Connection, fence: Fence) -> bool:
    """Close the round, if one is open, inside a transaction. Return True if all keys are covered.

    Raises Fenced or TargetWentBack.
    """
    fence.check(connection)
    CHUNKS.update(connection, fence.ref, "round = 0", ())
    ((left,),) = CHUNKS.select(connection, fence.ref, "COUNT(*)", "done = 0")
    return not left
