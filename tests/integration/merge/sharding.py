"""Queries of the tests of shard DDL on a merged table and its locks."""

from airflow_provider_dm.engine.sync.sync_result import SyncResult
from tests.integration.merge.conftest import Shops


class Died(Exception):
    """The process was killed."""


def columns(shops: Shops) -> list[str]:
    found = shops.target.sql(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = 'o' "
        "ORDER BY ordinal_position",
        [shops.schema],
    )
    return [name for (name,) in found]


def keys(shops: Shops) -> set[str]:
    """Return the names of the merged table's keys, but for the primary key."""
    found = shops.target.sql(
        "SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = %s AND table_name = 'o' "
        "AND index_name <> 'PRIMARY'",
        [shops.schema],
    )
    return {name for (name,) in found}


def locks(shops: Shops) -> list[tuple[str, int, list[str]]]:
    return [
        (one["owner"], one["number"], [info["source"] for info in one["infos"]]) for one, _ in shops.store.ddl_locks()
    ]


def waiting_for(result: SyncResult) -> list[str]:
    return [str(one["waits"]) for one in result.unresolved_groups]
