"""Sixteen deaths and cuts in the normal run; `docker/local chaos relay --kills 200` does more of the same."""

import pytest

from testbed import Server
from tests.chaos.relay import FAULTS, torment
from tests.conftest import FreshSchema

pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]
EACH = 8


def test_the_files_are_the_upstreams_after_any_crash(source: Server, fresh_schema: FreshSchema) -> None:
    """MariaDB's relay asks by GTID, MySQL's by file and position; test_source_dies.py has the other ways."""
    gtid = source.flavour == "mariadb"
    faults = list(FAULTS[:EACH])
    assert {"kill", "cut", "drop", "freeze"} == set(faults)
    done = torment(source, schema=fresh_schema(source), gtid=gtid, faults=faults, seed=1 + gtid)
    assert done.total() == EACH
