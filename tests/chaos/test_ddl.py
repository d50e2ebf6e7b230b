"""Two rounds in the normal run, 4 histories of all four pairs of flavours, in two modes and by two rules of safe mode;
`docker/local chaos ddl` plays more, and DDL during loads. Both are without Spark, whose workers and drivers die in
test_moves.py; there rows are also copied."""

import pytest

from testbed import Server
from tests.chaos.ddl import DURING_DDL, play_round
from tests.chaos.ways import ALWAYS, PAST, Way
from tests.conftest import FreshSchema
from tests.nursery import Nursery

pytestmark = [pytest.mark.server, pytest.mark.computes, pytest.mark.timeout(1800)]


LIVES = 1


@pytest.mark.parametrize(
    ("kind", "faults", "way"),
    [
        ("mariadb", (DURING_DDL[0], "driver", "target"), Way("every change", ALWAYS, extra=True)),
        ("mysql", (DURING_DDL[0], "target", "relay"), Way("whole transactions", PAST, extra=False)),
    ],
)
def test_tables_and_rows_follow_after_any_crash(
    kind: str,
    faults: tuple[str, ...],
    way: Way,
    driver_nursery: Nursery,
    request: pytest.FixtureRequest,
    mariadb_source: Server,
    mysql_source: Server,
    fresh_schema: FreshSchema,
) -> None:
    sources = {"a": mysql_source, "b": mariadb_source}
    done = play_round(
        request.getfixturevalue(f"{kind}_target"),
        sources,
        schema=fresh_schema(*sources.values()),
        seed=2,
        faults=faults,
        plain=True,
        way=way,
        nursery=driver_nursery,
        lives=LIVES,
    )
    assert done["histories"] == 2 * LIVES
    assert done["tables compared"] > LIVES
    assert done["DDL"] > 4 * LIVES
