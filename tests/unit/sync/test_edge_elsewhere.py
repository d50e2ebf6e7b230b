"""The end of half an epoch in another server's log: there, or nobody knows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_dm.engine.binlog.planned import Epoch
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.log.edge_elsewhere import place_of
from tests.unit.binlog.failovers import A, B, T, World, keys_of, set_of

APPLIED = [T(A, 1), T(A, 2)]
HALF = [T(A, 3), T(A, 4, rows=2), T(A, 5)]
DDL = T(A, 4, kind="ddl")
NEW = T(B, 6)


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
@pytest.mark.parametrize(
    ("there", "found"),
    [
        ([*APPLIED, *HALF, NEW], True),
        ([*APPLIED, *HALF], True),
        ([*HALF, NEW], True),
        ([*APPLIED, *HALF[:2]], False),
        ([*APPLIED, HALF[0], DDL, HALF[2]], False),
        (APPLIED, False),
    ],
)
def test_an_epoch_ends_where_all_of_it_has_come(flavour: str, there: list[T], found: bool, tmp_path: Path) -> None:
    _check(World(tmp_path, flavour), there, HALF if found else None)


@pytest.mark.parametrize(
    ("there", "found"),
    [
        ([*APPLIED[::-1], *HALF[::-1], NEW], True),
        ([APPLIED[0], HALF[0], APPLIED[1], *HALF[1:]], False),
        ([*APPLIED, HALF[0], T(A, 6), *HALF[1:]], False),
    ],
)
def test_a_replica_may_have_committed_it_in_another_order_but_not_with_others_in_between(
    there: list[T], found: bool, tmp_path: Path
) -> None:
    _check(World(tmp_path, "mysql"), there, HALF[::-1] if found else None)


def _check(world: World, there: list[T], epoch: list[T] | None) -> None:
    old = world.add(A, APPLIED)
    lo = Location(old.name, len(old.data), set_of(APPLIED, world.flavour))
    before = set_of([one for one in APPLIED if one not in there], world.flavour)
    world.add(B, there, before=before)
    place = place_of(world.files, lo, set_of([*APPLIED, *HALF], world.flavour))
    if epoch is None:
        assert place is None
        return
    assert place is not None
    planned = world.plan(lo, goal=replace(place, gtid_set=""))
    assert isinstance(planned, Epoch)
    assert (planned.hi.sort_key, planned.hi.suffix) == (place.sort_key, 2)
    assert keys_of(planned) == [one.key + row for one in epoch for row in range(one.rows)]
