"""The models of the exactly-once protocol, for as many histories as one likes: of DDL, of loads in rounds and the sync.

They are tests/unit/sync/ddl_world.py and rounds_world.py.
"""

import logging
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from tests.unit.sync import rounds_world
from tests.unit.sync.ddl_engine import engine_in_the_world
from tests.unit.sync.ddl_world import World as DdlWorld

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
