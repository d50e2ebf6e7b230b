"""One round in the normal run; `docker/local chaos moves --rounds 30` does more of the same."""

import pytest

from testbed import Server
from tests.chaos.moves import play_round
from tests.conftest import FreshSchema

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.timeout(1800)]


def test_rows_that_move_arrive_after_any_crash(
    mysql_target: Server, mariadb_source: Server, mysql_source: Server, fresh_schema: FreshSchema
) -> None:
    sources = {"a": mariadb_source, "b": mysql_source}
    done = play_round(mysql_target, sources, schema=fresh_schema(*sources.values()), seed=2)
    assert done["rows compared"] > 0
    assert sum(count for fault, count in done.items() if "killed" in fault) >= 4
