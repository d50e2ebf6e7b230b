"""Operations that numba lacks: access to memory by address, the upper half of a product.

Inside the kernels a buffer is the address of its first byte. Arrays would be passed as seven numbers each and counted
as references: measured, that costs more than the work on a cell. The functions that Python calls take arrays, so that
buffers live as long as the call, and pass on addresses only.

No function here checks bounds: callers have to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types, uint64
from numba.extending import intrinsic

_I64, _I128 = (ir.IntType(bits) for bits in (64, 128))


def loader(kind: ir.Type, loaded: types.Type, docstring: str) -> Callable[..., Any]:
    """Return a function that loads a value from an address of any alignment; integers as 64 bits."""

    def load(_context: Any, address: types.Integer) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = builder.load(builder.inttoptr(arguments[0], kind.as_pointer()))
            value.align = 1
            return builder.zext(value, _I64) if isinstance(kind, ir.IntType) and kind.width < _I64.width else value

        return loaded(types.int64), generate

    load.__doc__ = docstring
    return intrinsic(load)


def storer(kind: ir.Type, stored: types.Type, docstring: str) -> Callable[..., Any]:
    """Return a function that writes a value to an address of any alignment; of integers the lower bits."""

    def store(_context: Any, address: types.Integer, value: types.Type) -> Any:
        def generate(target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            narrow = isinstance(kind, ir.IntType) and kind.width < _I64.width
            value = builder.trunc(arguments[1], kind) if narrow else arguments[1]
            builder.store(value, builder.inttoptr(arguments[0], kind.as_pointer())).align = 1
            return target.get_dummy_value()

        return types.void(types.int64, stored), generate

    store.__doc__ = docstring
    return intrinsic(store)


load1, load2, load4, load8 = (
    loader(ir.IntType(bits), types.uint64, f"{bits} bits at an address, as a little-endian number without sign.")
    for bits in (8, 16, 32, 64)
)
store1, store2, store8 = (
    storer(ir.IntType(bits), types.uint64, f"Write the lower {bits} bits of a number to an address, little-endian.")
    for bits in (8, 16, 64)
)


@intrinsic
def bit_length(_context: Any, value: types.Integer) -> Any:
    """Return how many bits a number has, leading zeros not counted; zero has none."""

    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        leading = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))
        return builder.sub(ir.Constant(_I64, _I64.width), leading)

    return types.int64(types.uint64), generate


@intrinsic
def wide_product(_context: Any, left: types.Integer, right: types.Integer) -> Any:
    """Return (lower, upper) 64 bits of the product of two 64-bit numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right = (builder.zext(argument, _I128) for argument in arguments)
        product = builder.mul(left, right)
        upper = builder.lshr(product, ir.Constant(_I128, 64))
        halves = [builder.trunc(half, _I64) for half in (product, upper)]
        return context.make_tuple(builder, signature.return_type, halves)

    return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64), generate


_ONES = uint64(0x0101010101010101)
TOPS = uint64(0x8080808080808080)
"""The upper bit of each of eight bytes."""


@njit(forceinline=True)
def has_byte(word: Any, byte: Any) -> Any:
    """Return a value other than zero if one of eight bytes is this byte."""
    word ^= byte * _ONES
    return (word - _ONES) & ~word & TOPS


@njit(forceinline=True)
def little(source: int, size: int) -> Any:
    """Read `size` bytes (1 to 8) as a little-endian number."""
    if size == 4:
        return load4(source)
    if size == 8:
        return load8(source)
    if size == 1:
        return load1(source)
    if size == 2:
        return load2(source)
    number = uint64(0)
    for index in range(size):
        number |= load1(source + index) << uint64(8 * index)
    return number


@njit(forceinline=True)
def big(source: int, size: int) -> Any:
    """Read `size` bytes (0 to 8) as a big-endian number."""
    number = uint64(0)
    for index in range(size):
        number = (number << uint64(8)) | load1(source + index)
    return number


@njit(forceinline=True)
def copy(source: int, size: int, out: int) -> int:
    """Copy `size` bytes; return the address after them in `out`."""
    end, behind = source + size, out + size
    if size < 8:
        while source < end:
            store1(out, load1(source))
            source += 1
            out += 1
        return behind
    while source + 8 < end:
        store8(out, load8(source))
        source += 8
        out += 8
    store8(behind - 8, load8(end - 8))  # these may overlap the bytes before
    return behind
