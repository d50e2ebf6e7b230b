"""Tables without a key, copied in pages by one round: the rest of a broken round is removed before the log is read."""

from collections.abc import Sequence

import pytest

from airflow_provider_dm.engine.copy import keyless, page_writing
from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress, advance_chunk, load_chunks
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.session import run_transaction
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.sync.errors import TaskBug
from tests.integration.copy.altering import Kit
from tests.integration.sync.conftest import rows_of

ROWS = 40_000
FILL = (
    "CREATE TABLE log (v int, w varchar(200))",
    "INSERT INTO log SELECT x.id * 1000 + y.id * 100 + z.id * 10 + u.id, REPEAT('w', 200) FROM a x, a y, a z, a u",
    "INSERT INTO log SELECT v, REPEAT('x', 200) FROM log",
    "INSERT INTO log SELECT v, w FROM log",
)
"""Each row is there twice."""
UNIQUE = "ALTER TABLE log ADD UNIQUE KEY u (v, w)"
DEDUPLICATED = (
    "CREATE TABLE other LIKE log",
    "INSERT INTO other SELECT DISTINCT v, w FROM log",
    "DELETE FROM log",
    "INSERT INTO log SELECT v, w FROM other",
    "DROP TABLE other",
)


def chunk_of(kit: Kit, table: str) -> ChunkProgress:
    endpoint, ref = kit.migration.spec.target.resolve(), kit.migration.ref("one")
    (found,) = [one for one in run_transaction(endpoint, lambda tx: load_chunks(tx, ref)) if one.table.table == table]
    return found


def breaks_at(number: int, patch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let the snapshot fail at a page of `log`."""
    pages = iter(range(1_000_000))

    def advance(connection: Connection, fence: Fence, seen: ChunkProgress, **step: object) -> bool:
        if seen.table.table == "log" and next(pages) == number:
            raise error
        return advance_chunk(connection, fence, seen, **step)  # type: ignore[arg-type]

    for module in (keyless, page_writing):
        patch.setattr(module, "advance_chunk", advance)


@pytest.mark.parametrize("ddl", [(), (*DEDUPLICATED, UNIQUE), ("TRUNCATE TABLE log",), ("RENAME TABLE log TO log2",)])
def test_a_copy_that_breaks_off_starts_again(one_kit: Kit, monkeypatch: pytest.MonkeyPatch, ddl: Sequence[str]) -> None:
    """The source's DDL meets no leftovers: a unique key could not be added to rows that it has removed since."""
    one_kit.write(FILL)
    with monkeypatch.context() as patch:
        breaks_at(2, patch, ZeroDivisionError())
        one_kit.migration.stops(TaskBug, match="ZeroDivisionError")
    assert chunk_of(one_kit, "log").is_unresumable
    assert 0 < len(rows_of(one_kit.migration.target, one_kit.schema, "log")) < ROWS
    one_kit.write(("DELETE FROM log WHERE v < 3000", "INSERT INTO log VALUES (1, 'one'), (1, NULL)", *ddl))

    assert one_kit.migration.go().complete

    one_kit.sync()
    one_kit.check()
