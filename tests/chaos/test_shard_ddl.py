"""Two rounds in the normal run, with 30 deaths, of all four pairs of flavours; `docker/local chaos shard-ddl`
plays more."""

import pytest

from testbed import Server
from tests.chaos.dying import STEPS
from tests.chaos.shard_ddl import play_round
from tests.conftest import FreshSchema
from tests.nursery import Nursery

pytestmark = [pytest.mark.server, pytest.mark.computes, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_shards_make_their_ddl_after_any_crash(
    kind: str,
    driver_nursery: Nursery,
    request: pytest.FixtureRequest,
    mariadb_source: Server,
    mysql_source: Server,
    fresh_schema: FreshSchema,
) -> None:
    first, second = ("front", "behind") if kind == "mariadb" else ("behind", "front")
    deaths = [f"{second} {step} 1" for step in list(STEPS)[::2]] + [f"{first} {step} 0" for step in STEPS]
    done = play_round(
        request.getfixturevalue(f"{kind}_target"),
        {"a": mariadb_source, "b": mysql_source},
        schema=fresh_schema(mariadb_source, mysql_source),
        seed=3,
        nursery=driver_nursery,
        deaths=deaths,
        faults=(),
        families=3,
        seconds=1.0,
        patience=2.0,
    )
    assert sum(count for what, count in done.items() if what.startswith("died")) == len(deaths)
    assert done["DDL locks"] >= 3 * 2
