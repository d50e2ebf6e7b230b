import pytest

from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.errors import NotSupportedYet, Reaction
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.shard.pessimistic import ShardDdl, coordinate


def test_a_shards_ddl_stops_its_source_at_that_location():
    alter = parse("ALTER TABLE orders ADD x INT", 0, "a")
    news = ShardDdl(
        "shop", "mysql-01", Location("mysql-bin.000003", 120), alter, "ALTER TABLE orders ADD", "it concerns a.orders"
    )

    with pytest.raises(
        NotSupportedYet, match=r"\[DM-6050 upstream\] .*ALTER TABLE orders ADD.*mysql-bin\.000003:120"
    ) as no:
        coordinate(news)

    assert no.value.reaction is Reaction.STOP
