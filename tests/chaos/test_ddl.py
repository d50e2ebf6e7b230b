"""One round in the normal run; `docker/local chaos ddl --rounds 50` does more of the same."""

import pytest

from testbed import Server
from tests.chaos.ddl import AMID_DDL, play_round
from tests.conftest import FreshSchema

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.timeout(600)]


def test_tables_and_rows_follow_whatever_dies(
    mariadb_target: Server, mariadb_source: Server, mysql_source: Server, fresh_schema: FreshSchema
) -> None:
    sources = {"a": mysql_source, "b": mariadb_source}
    done = play_round(
        mariadb_target, sources, schema=fresh_schema(*sources.values()), seed=2, deeds=(AMID_DDL, "target")
    )
    assert done["tables compared"] > 0
    assert done["DDL"] > 20
