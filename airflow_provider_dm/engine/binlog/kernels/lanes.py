"""Sixteen bytes at a time: a numba type for a 128-bit register, and its operations.

numba has no vectors. As pairs of numbers the same work moves through the general registers at every step, which costs
three times as much as the work itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from airflow_provider_dm.engine.binlog.kernels.machine import loader, storer

_FEATURES: Final = llvm.get_host_cpu_features()
HAS_CLMUL: Final = bool(_FEATURES.get("pclmul", False))
"""x86-64 with PCLMULQDQ and SSSE3, which is all of them since 2010."""

LANE = 16
"""Bytes of a lane."""

_I8, _I32, _I64 = (ir.IntType(bits) for bits in (8, 32, 64))
_WORDS, _BYTES = ir.VectorType(_I64, 2), ir.VectorType(_I8, LANE)
_LOW, _HIGH, _LOW_BY_HIGH = 0x00, 0x11, 0x10  # the halves of the two factors that PCLMULQDQ multiplies

Generate = Callable[[Any, Sequence[Any]], Any]


class Lane(types.Type):
    """Sixteen bytes in a register."""


lane_type: Final = Lane("Lane")


@register_model(Lane)
class _LaneModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _WORDS)


def _generated(generate: Generate) -> Any:
    """Wrap a builder in the signature that numba requires: only the builder and the arguments are used."""
    return lambda _target, builder, _signature, arguments: generate(builder, arguments)


def _same_bytes(builder: Any, byte: Any) -> Any:
    """Repeat a byte sixteen times."""
    one = builder.insert_element(ir.Constant(_BYTES, ir.Undefined), byte, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(_I32, LANE), [0] * LANE))


@intrinsic
def lane_of(_context: Any, low: types.Integer, high: types.Integer) -> Any:
    """Build a lane of two numbers of 64 bits."""

    def generate(builder: Any, halves: Sequence[Any]) -> Any:
        lane = ir.Constant(_WORDS, ir.Undefined)
        for index, half in enumerate(halves):
            lane = builder.insert_element(lane, half, ir.Constant(_I32, index))
        return lane

    return lane_type(types.uint64, types.uint64), _generated(generate)


@intrinsic
def half_of(_context: Any, lane: Any, index: types.Integer) -> Any:
    """Return the lower (0) or upper (1) 64 bits."""
    return types.uint64(lane_type, types.int64), _generated(lambda builder, given: builder.extract_element(*given))


load_lane = loader(_WORDS, lane_type, "Load the sixteen bytes at an address.")
store_lane = storer(_WORDS, lane_type, "Write the sixteen bytes to an address.")


@intrinsic
def both(_context: Any, left: Any, right: Any) -> Any:
    """Return the bits that are set in both."""
    return lane_type(lane_type, lane_type), _generated(lambda builder, given: builder.and_(*given))


@intrinsic
def difference(_context: Any, left: Any, right: Any) -> Any:
    """Return the bits that differ; over GF(2) the sum."""
    return lane_type(lane_type, lane_type), _generated(lambda builder, given: builder.xor(*given))


def _mover(order_of: Callable[[Any, Any], Any], docstring: str) -> Any:
    def move(_context: Any, lane: Any, places: types.Integer) -> Any:
        def generate(builder: Any, given: Sequence[Any]) -> Any:
            kind = ir.FunctionType(_BYTES, [_BYTES, _BYTES])
            shuffle = builder.module.declare_intrinsic("llvm.x86.ssse3.pshuf.b.128", (), kind)
            order = order_of(builder, _same_bytes(builder, builder.trunc(given[1], _I8)))
            return builder.bitcast(builder.call(shuffle, [builder.bitcast(given[0], _BYTES), order]), _WORDS)

        return lane_type(lane_type, types.int64), _generated(generate)

    move.__doc__ = f"{docstring} `places` is 0 to 15, zeros come in. Only where HAS_CLMUL."
    return intrinsic(move)


# PSHUFB takes the four lowest bits of an index, and gives zero where its top bit is set.
_OWN, _OWN_OR_ZERO = ([first + place for place in range(LANE)] for first in (0, 0x80 - LANE))
moved_up = _mover(
    lambda builder, places: builder.sub(ir.Constant(_BYTES, _OWN), places), "Byte i becomes byte i + places."
)
moved_down = _mover(
    lambda builder, places: builder.add(ir.Constant(_BYTES, _OWN_OR_ZERO), places), "Byte i becomes byte i - places."
)


def _multiplier(halves: int, docstring: str) -> Any:
    def product(_context: Any, left: Any, right: Any) -> Any:
        def generate(builder: Any, given: Sequence[Any]) -> Any:
            kind = ir.FunctionType(_WORDS, [_WORDS, _WORDS, _I8])
            multiply = builder.module.declare_intrinsic("llvm.x86.pclmulqdq", (), kind)
            return builder.call(multiply, [*given, ir.Constant(_I8, halves)])

        return lane_type(lane_type, lane_type), _generated(generate)

    product.__doc__ = f"The product of polynomials over GF(2), of 128 bits: {docstring}. Only where HAS_CLMUL."
    return intrinsic(product)


lower_product = _multiplier(_LOW, "of the two lower halves")
upper_product = _multiplier(_HIGH, "of the two upper halves")
crossed_product = _multiplier(_LOW_BY_HIGH, "of the left's lower half and the right's upper one")
