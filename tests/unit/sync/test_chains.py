"""Changes of a row that are joined before they are values fold to what they fold to one by one."""

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import int64, njit

from airflow_provider_dm.engine.binlog.changes import Batch
from airflow_provider_dm.engine.binlog.kernels.chains import key_hash
from airflow_provider_dm.engine.binlog.planned import ByteRange
from airflow_provider_dm.engine.sync.errors import BrokenChain
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.write import tasks
from airflow_provider_dm.engine.sync.write.chains import Chains
from airflow_provider_dm.engine.sync.write.compactor import Compactor, FoldedChanges
from tests.unit.sync.test_change import NOWHERE, plan_of
from tests.unit.sync.test_encoded import ONE, THREE, TWO, Held, ranges_of

TEXT_KEY = replace(
    ONE,
    columns=(ONE.columns[0], replace(ONE.columns[1], nullable=False)),
    unique_keys=(replace(ONE.unique_keys[0], columns=("note", "id"), prefixes=(None, None)),),
)
TABLES = (TEXT_KEY, TWO, THREE)
KEYS = 12


def history(chance: random.Random, *, lies: float) -> Iterator[tuple[int, Held | None, Held | None]]:
    """Yield changes as (table, before, after): of rows as they are, or (`lies`) as they are not."""
    rows: dict[tuple[int, int], Held] = {}
    for number in range(300):
        table, key = chance.randrange(len(TABLES)), chance.randrange(KEYS)
        before, after = rows.get((table, key)), (key, b"%d" % chance.randrange(3))
        if before is None:
            yield table, None, after
        elif chance.random() < lies:
            yield table, (key, b"lie %d" % number), after
        elif chance.random() < 0.3:
            yield table, before, None
            del rows[table, key]
            continue
        elif chance.random() < 0.3 and (table, key + KEYS) not in rows:  # another key
            after = (key + KEYS, after[1])
            yield table, before, after
            rows[table, key + KEYS] = after
            del rows[table, key]
            continue
        else:
            yield table, before, after
        rows[table, key] = after


def folded(plan: SyncPlan, ranges: list[ByteRange], *, joined: list[int] | None = None) -> FoldedChanges | str:
    """Fold the ranges, by way of chains if `joined` is a list: it gets the changes that each batch is shorter."""
    compactor = Compactor(plan)
    chains = replace(Chains.of(compactor, plan), fewest=1)

    def take(batch: Batch) -> Batch:
        taken = chains.take(batch)
        if joined is not None:
            joined.append(len(batch) - len(taken))
        return taken

    try:
        for one in ranges:
            compactor.add_all(tasks._changes(plan, NOWHERE, one, take if joined is not None else None))
    except BrokenChain as error:
        return error.code
    return compactor.folded


@cache
def compiled_hash() -> Any:
    """Compile it once, and not for each session that collects this module."""
    return njit("uint64(Array(uint8, 1, 'C', readonly=True), int64, int64)")(
        lambda data, start, size: key_hash(int64(data.ctypes.data) + start, size)
    )


@pytest.mark.parametrize("size", range(1, 25))
def test_similar_keys_are_spread_over_the_slots(size: int) -> None:
    """Keys of whole words that differ in their last letters, as numbers of eight digits, are not one slot."""
    text = b"".join(b"%0*d" % (size, number) for number in range(10 ** min(size, 3)))
    hash_of = compiled_hash()
    hashes = {hash_of(np.frombuffer(text, np.uint8), start, size) & 0xFFFF for start in range(0, len(text), size)}

    assert len(hashes) > 0.9 * len(text) // size


@pytest.mark.parametrize("lies", [0.0, 0.002])
def test_joined_changes_mean_the_same(tmp_path: Path, lies: float) -> None:
    outcomes = set()
    for seed in range(60):
        plan, changes = plan_of(*TABLES), history(random.Random(seed), lies=lies)
        ranges = ranges_of(([change] for change in changes), TABLES, tmp_path, range_bytes=1 << 20)
        joined: list[int] = []

        one_by_one = folded(plan, ranges)

        assert folded(plan, ranges, joined=joined) == one_by_one
        assert lies or sum(joined) > 50
        outcomes.add(isinstance(one_by_one, str))
    assert outcomes == ({True, False} if lies else {False})
