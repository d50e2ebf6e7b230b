"""Sixteen deaths and cuts in the normal run; `docker/local chaos relay --kills 200` does more of the same."""

import pytest

from testbed import Server
from tests.chaos.relay import DEEDS, torment
from tests.conftest import FreshSchema

pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]
EACH = 8


def test_the_files_are_the_upstreams_whatever_dies(source: Server, fresh_schema: FreshSchema) -> None:
    """MariaDB's relay asks by GTID, MySQL's by file and position; test_source_dies.py has the other ways."""
    gtid = source.flavour == "mariadb"
    deeds = list(DEEDS[:EACH])
    assert {"kill", "cut", "drop", "freeze"} == set(deeds)
    done = torment(source, schema=fresh_schema(source), gtid=gtid, deeds=deeds, seed=1 + gtid)
    assert done.total() == EACH
