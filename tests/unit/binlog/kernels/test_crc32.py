"""The kernel's checksum is zlib's, for every length around its blocks and for unaligned bytes."""

import random
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from numba import int64, njit

from airflow_provider_dm.engine.binlog.kernels import crc32 as module

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


@pytest.mark.parametrize("kernel", [_checksum, _by_table], ids=["this processor's way", "by table"])
def test_the_checksum_equals_zlibs(kernel: Callable[[np.ndarray, int, int], int]) -> None:
    data = np.frombuffer(BYTES, np.uint8)
    for size in SIZES:
        for start in (0, 1, 5, 8):
            assert kernel(data, start, start + size) == zlib.crc32(BYTES[start : start + size])
