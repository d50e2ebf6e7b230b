"""The models of the exactly-once protocol, for as many histories as one likes: of rows, of DDL, of loads in rounds.

They are tests/unit/sync/frontier_world.py, ddl_world.py and rounds_world.py.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from typing import Any, Final

from airflow_provider_dm.engine.merge.collision import RowsCollide
from tests.unit.sync import rounds_world
from tests.unit.sync.ddl_engine import engine_in_the_world
from tests.unit.sync.ddl_world import World as DdlWorld
from tests.unit.sync.frontier_world import COLLIDING, MODES, SHARED, SINGLE, World

_MODES: Final[dict[str, dict[str, bool]]] = {"": {}, **{f"{name}: ": mode for name, mode in MODES.items()}}
KINDS: Final[dict[str, dict[str, Any]]] = {
    mode + name: options | keys
    for mode, keys in _MODES.items()
    for name, options in (SINGLE | SHARED | COLLIDING).items()
}
COLLISIONS: Final = frozenset(mode + name for mode in _MODES for name in COLLIDING)
PIECE: Final = 50
"""Histories of one call."""


def play_ddl(histories: int, *, seed: int) -> int:
    """Play so many histories of DDL, in all processors. Gives how many went wrong, and prints each."""
    return _play(_ddl_piece, histories, seed)


def play_rounds(histories: int, *, seed: int) -> int:
    """Play so many histories of loads in rounds, in all processors. Gives how many went wrong, and prints each."""
    return _play(_rounds_piece, histories, seed)


def _play(piece: Callable[[int, int], list[str]], histories: int, seed: int) -> int:
    first = seed * 1_000_000
    starts = range(first, first + histories, PIECE)
    ends = [min(start + PIECE, first + histories) for start in starts]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        wrong = [one for some in pool.map(piece, starts, ends) for one in some]
    for one in wrong[:10]:
        print(f"  {one}", file=sys.stderr, flush=True)
    return len(wrong)


def _ddl_piece(start: int, end: int) -> list[str]:
    logging.disable(logging.ERROR)  # the engine tells of each accident
    found = []
    with engine_in_the_world():
        for seed in range(start, end):
            world = DdlWorld(seed)
            try:
                world.play()
            except Exception as error:  # noqa: BLE001 (this is what is looked for)
                found.append(f"seed {seed}: {type(error).__name__}: {error}")
            else:
                found += [f"seed {seed}: {different[:5]}" for different in [world.differences()] if different]
    return found


def _rounds_piece(start: int, end: int) -> list[str]:
    found = []
    ways = [(kind, mode) for kind in rounds_world.KINDS for mode in rounds_world.MODES]
    with rounds_world.engine_in_the_world():
        for seed in range(start, end):
            kind, mode = ways[seed % len(ways)]
            try:
                rounds_world.World(seed, **rounds_world.KINDS[kind], **rounds_world.MODES[mode]).run()
            except Exception as error:  # noqa: BLE001 (this is what is looked for)
                found.append(f"seed {seed} of {kind}, {mode}: {type(error).__name__}: {error}")
    return found


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
            if kind not in COLLISIONS:
                yield f"seed {seed}: rows collide"
        except Exception as error:  # noqa: BLE001 (this is what is looked for)
            yield f"seed {seed}: {type(error).__name__}: {error}"
        else:
            if kind in COLLISIONS:
                yield f"seed {seed}: a collision that nobody noticed"
            elif found := world.differences():
                yield f"seed {seed}: {found[:5]}"
