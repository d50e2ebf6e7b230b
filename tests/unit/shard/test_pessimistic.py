"""A DDL of one shard that the others cannot make with it stops the sync where it is."""

import pytest

from airflow_provider_dm.engine.errors import NotSupportedYet, Reaction
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.shard.errors import ShardDdlNotSupported


def test_a_shards_ddl_stops_its_source_at_that_location():
    place = Location("mysql-bin.000003", 120)

    no = ShardDdlNotSupported.of("shop", "mysql-01", place, "ALTER TABLE orders ADD", "it is renamed")

    assert isinstance(no, NotSupportedYet)
    assert no.reaction is Reaction.STOP
    with pytest.raises(NotSupportedYet, match=r"\[DM-6050 upstream\] .*ALTER TABLE orders ADD.*mysql-bin\.000003:120"):
        raise no
