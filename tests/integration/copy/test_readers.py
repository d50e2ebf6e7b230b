"""Loads whose readers, or one of whose sources, end before their round."""

import threading
from collections.abc import Generator

import pytest

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.copy import keyless, read_round, source_load
from airflow_provider_dm.engine.copy.errors import SnapshotLost
from airflow_provider_dm.engine.copy.page_writing import ChunkJob
from airflow_provider_dm.engine.copy.snapshot_reader import SnapshotReader
from airflow_provider_dm.engine.copy.source_load import SourceLoad
from airflow_provider_dm.engine.downstream.row_statements import Dialect
from airflow_provider_dm.engine.mysql.errors import AccessDenied
from airflow_provider_dm.engine.reading.errors import SchemaChangedDuringCopy
from airflow_provider_dm.engine.sync.runner import LocalRunner
from testbed import Server
from tests.before import before
from tests.conftest import FreshSchema
from tests.integration.copy.migrations import Migration, assert_same

TABLES = (
    "CREATE TABLE one (v INT); CREATE TABLE two (v INT);"
    "INSERT INTO one VALUES (1), (2), (3), (4), (5), (6), (7), (8); INSERT INTO two SELECT v + 10 FROM one"
)


@pytest.fixture
def migration(source: Server, target: Server, fresh_schema: FreshSchema) -> Migration:
    schema = fresh_schema(source)
    source.sql(TABLES, database=schema)
    return Migration.of(target, source, schema, runner=LocalRunner(2))


def test_a_keyless_table_of_a_lost_reader_is_copied_again(
    migration: Migration, source: Server, target: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other reader has listed the table before, as one that nothing is copied of."""
    lost, pieces = threading.Event(), keyless._pieces

    def loses(reader: SnapshotReader, job: ChunkJob, dialect: Dialect) -> Generator[Cells, None, None]:
        if job.mapping.source.name.table == "one":
            assert lost.wait(60)
        for number, some in enumerate(pieces(reader, job, dialect)):
            yield some
            if job.mapping.source.name.table == "two" and number == 0 and not lost.is_set():
                lost.set()
                raise SnapshotLost("one", "it is lost here")

    monkeypatch.setattr(keyless, "PAGE_ROWS", 1)
    monkeypatch.setattr(keyless, "_pieces", loses)
    schema = str(migration.schemas["one"][0])

    result = migration.finish()

    assert lost.is_set()
    assert result["sources"]["one"]["rounds"] == 2
    assert_same(source, target, schema, "one", "two")


def test_readers_that_always_lose_their_snapshots_end_the_load(
    migration: Migration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a copy that breaks off writes some rows each time: they are removed again."""

    def loses(reader: SnapshotReader, job: ChunkJob, dialect: Dialect) -> Generator[Cells, None, None]:
        yield next(pieces(reader, job, dialect))
        raise SnapshotLost("one", "it is lost here")

    pieces = keyless._pieces
    monkeypatch.setattr(keyless, "PAGE_ROWS", 1)
    monkeypatch.setattr(keyless, "_pieces", loses)
    monkeypatch.setattr(source_load, "ROUND_FAILURES", 2)
    migration.stops(SnapshotLost, match="it is lost here")


def test_an_error_that_stops_all_readers_is_raised_at_once(
    migration: Migration, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_arguments: object) -> SnapshotReader:
        raise AccessDenied("one", "not from there")

    monkeypatch.setattr(read_round, "snapshot_reader", denied)
    migration.stops(AccessDenied, match="not from there")


def test_without_a_log_a_table_that_is_dropped_stops_the_load(
    migration: Migration, source: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = str(migration.schemas["one"][0])
    before(monkeypatch, SourceLoad, "run", lambda _: source.sql(f"DROP TABLE {schema}.two"))
    migration.stops(SchemaChangedDuringCopy, match="it was dropped or renamed")


def test_a_source_that_stops_stops_the_others(
    mysql_source: Server,
    mariadb_source: Server,
    mariadb_target: Server,
    fresh_schema: FreshSchema,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pause that is taken back meets the one source between two rounds, and the other one not at all."""
    sources = {"one": mysql_source, "two": mariadb_source}
    schemas = {}
    for name, server in sources.items():
        schemas[name] = [fresh_schema(server)]
        server.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)", database=schemas[name][0])
    migration = Migration(mariadb_target, sources, schemas, f"{schemas['one'][0]}_meta")
    follows, patience = SourceLoad._follow, threading.Event()

    def is_stopped(load: SourceLoad) -> bool:
        if load.loading.source.id == "one":
            return False
        while not load.stop():
            assert not patience.wait(0.1)
        return follows(load)

    monkeypatch.setattr(SourceLoad, "_follow", is_stopped)
    assert not migration.go().complete
