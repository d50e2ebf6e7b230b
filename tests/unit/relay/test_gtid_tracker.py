"""Heads of GTID events fold to the same set as their transactions one by one, in whatever order they come."""

from random import Random
from uuid import UUID

import pytest

from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.relay.gtid_tracker import HEAD_SIZE, GtidTracker, fold
from tests.unit.binlog.building import Log

UUIDS = [UUID(int=number) for number in (7, 1 << 100)]


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
@pytest.mark.parametrize("seed", range(20))
def test_many_transactions_at_once_equal_each_one_added(flavour: str, seed: int) -> None:
    dice, log = Random(seed), Log(flavour)
    expected, heads = GtidSet.empty(Flavour(flavour)), []
    for _ in range(dice.randrange(60)):
        uuid, number, domain, server = dice.choice(UUIDS), dice.randint(1, 25), dice.randrange(3), dice.randint(1, 3)
        start = log.gtid(sequence=number, uuid=uuid, domain=domain, server_id=server)
        heads.append(bytes(log.data[start:][:HEAD_SIZE]))
        text = f"{uuid}:{number}" if flavour == "mysql" else f"{domain}-{server}-{number}"
        expected = expected.union(GtidSet.parse(text, Flavour(flavour)))
    assert fold(heads, Flavour(flavour)) == expected


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_the_last_transaction_counts_only_at_a_boundary(flavour: str) -> None:
    log, empty = Log(flavour), GtidSet.empty(Flavour(flavour))
    tracker = GtidTracker(Flavour(flavour), empty)
    tracker.saw([bytes(log.data[log.gtid() :]) for _ in range(2)])
    texts = [f"{one}" for one in (tracker.complete(boundary=False), tracker.complete(boundary=True))]
    assert [text.rpartition(":" if flavour == "mysql" else "-")[2] for text in texts] == (
        ["1", "1-2"] if flavour == "mysql" else ["1", "2"]
    )
