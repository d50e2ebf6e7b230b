"""A proxy or a setting truncates results: missing rows are always detected."""

from collections.abc import Callable, Generator
from typing import Any

import pytest

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.copy import keyless, page
from airflow_provider_dm.engine.downstream.copy_progress import load_chunks
from airflow_provider_dm.engine.downstream.frontier import EpochRange, read_frontier
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.table_schema import load_table_schemas
from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.mysql.connection import Connection, connected, query
from airflow_provider_dm.engine.mysql.errors import IncompleteResult
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.blocks import RowBlock, blocks
from airflow_provider_dm.engine.reading.text_rows import packed_rows
from airflow_provider_dm.engine.schema.catalogue import list_tables, read_tables
from airflow_provider_dm.engine.schema.codec import RowReader
from airflow_provider_dm.engine.verify import piece
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.copy.migrations import Migration, assert_same
from tests.integration.verify.test_verification import verified
from tests.jobs import endpoint

MOST = 3


def cut_blocks(connection: Connection, sql: bytes, to_row: RowReader) -> Generator[RowBlock, None, None]:
    """The answer's first rows, and its end."""
    found = [row for block in blocks(connection, sql, to_row) for row in block.cells.rows()][:MOST]
    if found:
        yield RowBlock(Cells.of(found), 100)


def cut_packets(connection: Connection, sql: bytes) -> Generator[tuple[int, list[bytes]], None, None]:
    found = [(width, packet) for width, packets in packed_rows(connection, sql) for packet in packets][:MOST]
    if found:
        yield found[0][0], [packet for _, packet in found]


@pytest.fixture
def schema(source: Server, fresh_schema: FreshSchema) -> str:
    name = fresh_schema(source)
    pairs = ", ".join(f"({a}, {b})" for a in range(9) for b in range(5))
    source.sql(
        "CREATE TABLE keyed (id INT PRIMARY KEY, v INT); CREATE TABLE pairs (a INT, b INT, PRIMARY KEY (a, b));"
        f"INSERT INTO pairs VALUES {pairs}; INSERT INTO keyed SELECT a * 10 + b, a FROM pairs;"
        "CREATE TABLE keyless (v INT); INSERT INTO keyless SELECT a FROM pairs",
        database=name,
    )
    return name


def copied(source: Server, target: Server, schema: str, *tables: str) -> Migration:
    lists = {"one": {"do-dbs": [schema], "do-tables": [{"db-name": schema, "tbl-name": name} for name in tables]}}
    task = {"block-allow-list": lists}
    return Migration.of(target, source, schema, task=task)


def test_paging_continues_until_no_row_is_left(
    source: Server, target: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "blocks", cut_blocks)
    monkeypatch.setattr(page, "FIRST_ROWS", 7)
    result = copied(source, target, schema, "keyed", "pairs").finish()
    assert result["rows"] == 2 * 45
    assert_same(source, target, schema, "keyed", "pairs")


def test_a_table_without_a_key_is_counted(
    source: Server, target: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = copied(source, target, schema, "keyless")
    with monkeypatch.context() as cutting:
        cutting.setattr(keyless, "blocks", cut_blocks)
        migration.stops(IncompleteResult, match="3 of 45 rows were received")
    assert target.sql(f"SELECT COUNT(*) FROM {schema}.keyless") == [(0,)]
    assert migration.finish()["rows"] == 45


@pytest.mark.parametrize("table", ["keyed", "keyless"])
def test_a_comparison_counts_what_it_compares(
    source: Server, target: Server, schema: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = copied(source, target, schema, table)
    migration.finish()
    with monkeypatch.context() as cutting:
        cutting.setattr(piece, "packed_rows", cut_packets)
        with pytest.raises(IncompleteResult, match="3 of 45 rows were received"):
            verified(migration)
    assert verified(migration)["verified"]


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_catalogue_plan_and_frontier_are_whole_or_an_error(
    source: Server, target: Server, schema: str, limit: int
) -> None:
    migration = copied(source, target, schema, "keyed", "pairs", "keyless")
    migration.finish()
    ref = SubtaskRef(migration.meta_schema, "test", "one")
    step = EpochRange(Fence(ref, 1), lo="", hi="")
    names = [TableName(schema, table) for table in ("keyed", "pairs")]
    questions: list[tuple[Server, Callable[[Connection], Any]]] = [
        (source, list_tables),
        (source, lambda connection: read_tables(connection, names)),
        (target, lambda connection: load_chunks(connection, ref)),
        (target, lambda connection: load_table_schemas(connection, ref)),
        (target, lambda connection: read_frontier(connection, step, range(5))),
    ]
    for server, ask in questions:
        with connected(endpoint("one", server)) as connection:
            assert ask(connection)
            query(connection, f"SET SESSION sql_select_limit = {limit}")
            with pytest.raises((IncompleteResult, InvariantBroken)):
                ask(connection)
