"""The kernel's checksum is zlib's, for every length around its blocks and for unaligned bytes."""

import random
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from numba import int64, njit, uint32, uint64

from airflow_provider_dm.engine.binlog.kernels import crc32 as module
from airflow_provider_dm.engine.binlog.kernels.lanes import (
    BLOCK,
    HAS_CLMUL,
    HAS_WIDE_CLMUL,
    LANE,
    difference,
    lane_of,
    load_lane,
)

BYTES = random.Random(3).randbytes(70_000)
SIZES = [*range(200), 255, 256, 1000, 4095, 4096, 4097, 65_537]


@njit
def _checksum(data: np.ndarray, start: int, end: int) -> int:
    source = int64(data.ctypes.data)
    return module.crc32(source + start, source + end)


@njit
def _by_table(data: np.ndarray, start: int, end: int) -> int:
    source = int64(data.ctypes.data)
    return module._by_table(source + start, source + end)


@njit
def _by_lanes(data: np.ndarray, start: int, end: int) -> int:
    return _four_lanes(data, start, end, module._by_lanes)


@njit
def _by_blocks(data: np.ndarray, start: int, end: int) -> int:
    return _four_lanes(data, start, end, module._by_blocks)


@njit
def _four_lanes(data: np.ndarray, start: int, end: int, go_on: Callable[..., tuple[object, int]]) -> int:
    """Fold whole lanes, at least four."""
    source = int64(data.ctypes.data)
    first = difference(load_lane(source + start), lane_of(uint64(0xFFFFFFFF), uint64(0)))
    lane, position = go_on(first, source + start + LANE, source + end)
    while position < source + end:
        lane = difference(module._folded(lane, module._ONE_LOW, module._ONE_HIGH), load_lane(position))
        position += LANE
    return ~module._reduced(lane) & uint32(0xFFFFFFFF)


@pytest.mark.parametrize("kernel", [_checksum, _by_table], ids=["this processor's way", "by table"])
def test_it_is_zlibs(kernel: Callable[[np.ndarray, int, int], int]) -> None:
    data = np.frombuffer(BYTES, np.uint8)
    for size in SIZES:
        for start in (0, 1, 5, 8):
            assert kernel(data, start, start + size) == zlib.crc32(BYTES[start : start + size])


FOUR = [
    pytest.param(_by_lanes, marks=pytest.mark.skipif(not HAS_CLMUL, reason="no PCLMULQDQ here"), id="in four lanes"),
    pytest.param(_by_blocks, marks=pytest.mark.skipif(not HAS_WIDE_CLMUL, reason="no VPCLMULQDQ here"), id="in one"),
]


@pytest.mark.parametrize("kernel", FOUR)
def test_both_ways_of_four_lanes_are_zlibs(kernel: Callable[[np.ndarray, int, int], int]) -> None:
    data = np.frombuffer(BYTES, np.uint8)
    for size in [*range(BLOCK, 6 * BLOCK, LANE), 65_536]:
        for start in (0, 1, 5, 8):
            assert kernel(data, start, start + size) == zlib.crc32(BYTES[start : start + size])
