"""Sixteen deaths and cuts in the normal run; `docker/local chaos relay --kills 200` does more of the same."""

import pytest

from testbed import Server
from tests.chaos.relay import FAULTS, torment
from tests.conftest import FreshSchema

pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]
EACH = 8


def test_the_files_are_the_upstreams_after_any_crash(source: Server, fresh_schema: FreshSchema) -> None:
    """MariaDB's relay asks by GTID, then by position; MySQL's by position (test_source_dies.py: by GTID)."""
    ways = [True, False] if source.flavour == "mariadb" else [False]
    each, schema = EACH // len(ways), fresh_schema(source)
    assert {"kill", "cut", "drop", "freeze"} == set(FAULTS[:EACH])
    for number, gtid in enumerate(ways):
        faults = list(FAULTS[number * each : (number + 1) * each])
        assert torment(source, schema=schema, gtid=gtid, faults=faults, seed=1 + gtid).total() == each
