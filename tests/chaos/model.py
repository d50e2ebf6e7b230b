"""The model of the exactly-once protocol (tests/unit/sync/frontier_world.py), for as many histories as one likes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from typing import Any, Final

from airflow_provider_dm.engine.merge.collision import RowsCollide
from tests.unit.sync.frontier_world import COLLIDING, SHARED, SINGLE, World

KINDS: Final[dict[str, dict[str, Any]]] = {**SINGLE, **SHARED, **COLLIDING}
PIECE: Final = 50
"""Histories of one call."""


def play(histories: int, *, seed: int) -> int:
    """Play so many histories of all kinds together, in all processors. Gives how many went wrong, and prints each."""
    each, more = divmod(histories, len(KINDS))
    wrong = 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for number, kind in enumerate(KINDS):
            first, count = seed * 1_000_000, each + (number < more)
            starts = range(first, first + count, PIECE)
            ends = [min(start + PIECE, first + count) for start in starts]
            found = [one for some in pool.map(_piece, repeat(kind), starts, ends) for one in some]
            wrong += len(found)
            print(f"{kind}: {count} histories, {len(found)} wrong", flush=True)
            for one in found[:10]:
                print(f"  {one}", file=sys.stderr, flush=True)
    return wrong


def _piece(kind: str, start: int, end: int) -> list[str]:
    return list(_wrong(kind, range(start, end)))


def _wrong(kind: str, seeds: range) -> Iterator[str]:
    for seed in seeds:
        world = World(seed, **KINDS[kind])
        try:
            world.run()
        except RowsCollide:
            if kind not in COLLIDING:
                yield f"seed {seed}: rows collide"
        except Exception as error:  # noqa: BLE001 (this is what is looked for)
            yield f"seed {seed}: {type(error).__name__}: {error}"
        else:
            if kind in COLLIDING:
                yield f"seed {seed}: a collision that nobody noticed"
            elif found := world.differences():
                yield f"seed {seed}: {found[:5]}"
