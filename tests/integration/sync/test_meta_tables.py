"""The tables of the meta-schema are created once, by the first process, and those of another release are refused."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_provider_dm.engine.downstream import meta_tables
from airflow_provider_dm.engine.downstream.errors import MetaTablesOfAnotherRelease
from airflow_provider_dm.engine.downstream.meta_definitions import TABLES
from airflow_provider_dm.engine.downstream.meta_tables import VERSION, ensure_meta_tables
from airflow_provider_dm.engine.downstream.session import close_target, fresh_target
from airflow_provider_dm.engine.errors import DmError
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.copy.migrations import Migration, assert_same
from tests.jobs import endpoint


@pytest.mark.parametrize("found", ["no schema", "no table", "half of the tables", "all but the version"])
def test_the_first_process_creates_the_tables_and_the_others_wait(
    target: Server, unique_database: str, found: str
) -> None:
    here = endpoint("target", target)
    if found != "no schema":
        target.sql(f"CREATE DATABASE `{unique_database}`")
    if found in ("half of the tables", "all but the version"):
        ensure_meta_tables(here, unique_database)
        target.sql("DELETE FROM dm_version", database=unique_database)
    if found == "half of the tables":
        for name in list(TABLES)[len(TABLES) // 2 :]:
            target.sql(f"DROP TABLE `{name}`", database=unique_database)

    def ensure(_number: int) -> None:
        ensure_meta_tables(here, unique_database)
        close_target(here)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(ensure, range(6)))

    assert {name for (name,) in target.sql("SHOW TABLES", database=unique_database)} == set(TABLES)
    assert target.sql("SELECT version FROM dm_version", database=unique_database) == [(VERSION,)]


def test_a_run_that_creates_the_tables_is_awaited(
    target: Server, unique_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = endpoint("target", target)
    monkeypatch.setattr(meta_tables, "LOCK_SECONDS", 1)
    with fresh_target(here) as another:
        meta_tables._lock(another, unique_database)
        with pytest.raises(DmError, match="Try again later"):
            ensure_meta_tables(here, unique_database)
    ensure_meta_tables(here, unique_database)
    close_target(here)
    assert target.sql("SELECT version FROM dm_version", database=unique_database) == [(VERSION,)]


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_tables_of_another_release_are_refused(
    source: Server, target: Server, fresh_schema: FreshSchema, version: int
) -> None:
    """The remedy is another meta-schema, and empty target tables."""
    schema = fresh_schema(source, target)
    source.sql("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)", database=schema)
    ensure_meta_tables(endpoint("target", target), f"{schema}_meta")
    target.sql(f"UPDATE {schema}_meta.dm_version SET version = {version}")

    with pytest.raises(MetaTablesOfAnotherRelease, match=f"{schema}_meta have version {version}"):
        Migration.of(target, source, schema).finish()

    Migration(target, {"one": source}, {"one": [schema]}, f"{schema}_meta2").finish()
    assert_same(source, target, schema, "t")
