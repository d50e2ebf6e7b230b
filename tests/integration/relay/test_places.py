"""Places by GTID and by time, asked of real servers."""

import pytest

from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.errors import PlaceNotFound
from airflow_provider_dm.engine.relay.places import find_place
from testbed import Server
from tests.waiting import wait_for


def test_a_location_is_found_by_gtid_set_and_by_time(source: Server, schema: str) -> None:
    endpoint = Endpoint("source", source.host, source.port, source.user, Secret(source.password))

    def here() -> Location:
        with connected(endpoint) as connection:
            return current_location(connection)

    def at(moment: int) -> str:
        ((local_time,),) = source.sql(f"SET time_zone = @@GLOBAL.time_zone; SELECT FROM_UNIXTIME({moment})")
        return str(local_time)

    source.sql(f"CREATE TABLE `{schema}`.t (id INT)")
    before = here()
    source.sql(f"INSERT INTO `{schema}`.t VALUES (1); FLUSH BINARY LOGS")
    wait_for(lambda: _is_begun(source))
    source.sql(f"INSERT INTO `{schema}`.t VALUES (2)")
    middle = here()
    source.sql(f"SET timestamp = 1900000000; INSERT INTO `{schema}`.t VALUES (3)")
    later = here()
    source.sql(f"SET timestamp = 1900003600; INSERT INTO `{schema}`.t VALUES (4)")
    end = here()

    assert [find_place(endpoint, after=place.gtid_set) for place in (before, middle, later, end)] == [
        before,
        middle,
        later,
        end,
    ]
    assert str(find_place(endpoint, at_time=at(1_900_000_000))) == str(middle)
    assert str(find_place(endpoint, at_time=at(1_900_000_001))) == str(later)
    for moment, why in ((at(2_000_000_000), "began earlier"), ("1969-01-01 00:00:00", "does not exist")):
        with pytest.raises(PlaceNotFound, match=why):
            find_place(endpoint, at_time=moment)


def _is_begun(source: Server) -> bool:
    """Return True if the newest file has all that a server writes into it by itself: a MariaDB notes some time after a
    rotation that it needs no older file any more."""
    file = str(source.sql("SHOW BINARY LOGS")[-1][0])
    events = source.sql(f"SHOW BINLOG EVENTS IN '{file}'")
    noted = [str(info) for _, _, kind, _, _, info in events if kind == "Binlog_checkpoint"]
    return not noted or file in noted
