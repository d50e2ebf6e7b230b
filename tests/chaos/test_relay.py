"""Thirty-two deaths and cuts in the normal run; `docker/local chaos relay --kills 200` does more of the same."""

import pytest

from testbed import Server
from tests.chaos.relay import DEEDS, torment
from tests.conftest import FreshSchema

pytestmark = [pytest.mark.server, pytest.mark.timeout(300)]
EACH = 8


@pytest.mark.parametrize("gtid", [False, True], ids=["position", "gtid"])
def test_the_files_are_the_upstreams_whatever_dies(source: Server, fresh_schema: FreshSchema, gtid: bool) -> None:
    deeds = list(DEEDS[:EACH])
    assert {"kill", "cut", "drop", "freeze"} == set(deeds)
    done = torment(source, schema=fresh_schema(source), gtid=gtid, deeds=deeds, seed=1 + gtid)
    assert done.total() == EACH
