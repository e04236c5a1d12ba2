"""Blocks side by side: windows solved with one block in each lane of a vector.

A truncated recurrence consists of blocks that depend on their neighbours only. As many consecutive blocks as a vector
has lanes are transposed into scratch memory, step k of all of them next to each other; then every step is one vector
operation, and the result is transposed back. What passes from block to block is a shift by one lane.

The scratch is an array of accumulators, ``lanes.count`` numbers a step. Addresses and strides are in bytes; a step
stride may be negative, which is how the transposed recurrence runs.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from recfact.cpu.vectors import (
    Lanes,
    address,
    all_true,
    first_lanes,
    fma,
    load,
    load_masked,
    splat,
    store,
    store_masked,
    transpose,
)

_intp = types.intp


def _lane_rows(b: Any, lanes: Lanes, base: Any, stride: Any) -> list[Any]:
    return [address(b, base, b.mul(stride, ir.Constant(stride.type, row))) for row in range(lanes.count)]


def _lane_masks(b: Any, lanes: Lanes, left: Any, block: Any, width: Any) -> list[Any]:
    """Return, for each block, the mask of its numbers that exist: `left` counts them from the first block's start."""
    masks = []
    for row in range(lanes.count):
        exist = b.sub(left, b.mul(block, ir.Constant(block.type, row)))
        masks.append(first_lanes(b, lanes, b.select(b.icmp_signed("<", exist, width), exist, width)))
    return masks


def make_gather(lanes: Lanes) -> Any:
    """Return ``gather(source, stride, scratch)``: transpose the first lanes.count steps of each block to scratch."""
    scratch = lanes.accumulators

    @intrinsic  # type: ignore[untyped-decorator]
    def gather(typing: Any, source: Any, stride: Any, target: Any) -> Any:
        def codegen(context: Any, b: Any, sig: Any, args: Any) -> Any:
            source, stride, target = args
            rows = [load(b, lanes, at) for at in _lane_rows(b, lanes, source, stride)]
            for k, column in enumerate(transpose(b, lanes, rows)):
                store(b, scratch, column, address(b, target, k * 64))
            return context.get_dummy_value()

        return types.void(_intp, _intp, _intp), codegen

    return gather


def make_gather_masked(lanes: Lanes) -> Any:
    """Return ``gather_masked(source, stride, scratch, left, block, fill)``: the same where numbers may be missing."""
    scratch = lanes.accumulators

    @intrinsic  # type: ignore[untyped-decorator]
    def gather_masked(typing: Any, source: Any, stride: Any, target: Any, left: Any, block: Any, fill: Any) -> Any:
        def codegen(context: Any, b: Any, sig: Any, args: Any) -> Any:
            source, stride, target, left, block, fill = args
            masks = _lane_masks(b, lanes, left, block, ir.Constant(left.type, lanes.count))
            padding = splat(b, lanes, fill)
            rows = [
                b.select(mask, load_masked(b, lanes, at, mask, 0.0), padding)
                for at, mask in zip(_lane_rows(b, lanes, source, stride), masks, strict=True)
            ]
            for k, column in enumerate(transpose(b, lanes, rows)):
                store(b, scratch, column, address(b, target, k * 64))
            return context.get_dummy_value()

        return types.void(_intp, _intp, _intp, _intp, _intp, lanes.number), codegen

    return gather_masked


def make_scatter(lanes: Lanes) -> Any:
    """Return ``scatter(scratch, target, stride)``: the inverse of gather."""
    scratch = lanes.accumulators

    @intrinsic  # type: ignore[untyped-decorator]
    def scatter(typing: Any, source: Any, target: Any, stride: Any) -> Any:
        def codegen(context: Any, b: Any, sig: Any, args: Any) -> Any:
            source, target, stride = args
            columns = [load(b, scratch, address(b, source, k * 64)) for k in range(lanes.count)]
            for row, at in zip(transpose(b, lanes, columns), _lane_rows(b, lanes, target, stride), strict=True):
                store(b, lanes, row, at)
            return context.get_dummy_value()

        return types.void(_intp, _intp, _intp), codegen

    return scatter


def make_scatter_masked(lanes: Lanes) -> Any:
    """Return ``scatter_masked(scratch, target, stride, left, block, width)``: writes `width` steps, if they exist."""
    scratch = lanes.accumulators

    @intrinsic  # type: ignore[untyped-decorator]
    def scatter_masked(typing: Any, source: Any, target: Any, stride: Any, left: Any, block: Any, width: Any) -> Any:
        def codegen(context: Any, b: Any, sig: Any, args: Any) -> Any:
            source, target, stride, left, block, width = args
            columns = [load(b, scratch, address(b, source, k * 64)) for k in range(lanes.count)]
            masks = _lane_masks(b, lanes, left, block, width)
            addresses = _lane_rows(b, lanes, target, stride)
            for row, at, mask in zip(transpose(b, lanes, columns), addresses, masks, strict=True):
                store_masked(b, lanes, row, at, mask)
            return context.get_dummy_value()

        return types.void(_intp, _intp, _intp, _intp, _intp, _intp), codegen

    return scatter_masked


def _loop(b: Any, steps: Any, carried: list[Any], body: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
    """Run `body(index, carried) -> carried` for index 0 .. steps-1 and return what it carried last."""
    slots = [cgutils.alloca_once_value(b, value) for value in carried]
    with cgutils.for_range(b, steps) as loop:
        for slot, value in zip(slots, body(loop.index, [b.load(slot) for slot in slots]), strict=True):
            b.store(value, slot)
    return [b.load(slot) for slot in slots]


def make_run(lanes: Lanes, write: bool) -> Any:
    """Return ``run(a, u, x, steps, stride, state)``: the plain steps of all blocks at once.

    ``state`` is the address of the states that enter the blocks; those that leave them take their place. Without
    `write` the states between aren't stored and ``x`` isn't used.
    """
    lanes = lanes.accumulators

    @intrinsic  # type: ignore[untyped-decorator]
    def run(typing: Any, a: Any, u: Any, x: Any, steps: Any, stride: Any, state: Any) -> Any:
        def codegen(context: Any, b: Any, sig: Any, args: Any) -> Any:
            a, u, x, steps, stride, state = args

            def step(index: Any, carried: list[Any]) -> list[Any]:
                offset = b.mul(index, stride)
                value = fma(
                    b, load(b, lanes, address(b, a, offset)), carried[0], load(b, lanes, address(b, u, offset))
                )
                if write:
                    store(b, lanes, value, address(b, x, offset))
                return [value]

            store(b, lanes, _loop(b, steps, [load(b, lanes, state)], step)[0], state)
            return context.get_dummy_value()

        return types.void(_intp, _intp, _intp, _intp, _intp, _intp), codegen

    return run


def make_suffix_sums(lanes: Lanes) -> Any:
    """Return ``suffix_sums(a, u, sums, steps, stride, sums_stride)``: what the later inputs of a block add up to.

    From the last step to the first, ``sums`` takes S_k, the state at the block's end due to the inputs after step k:
    S_last = 0 and S_{k-1} = S_k + r_k u_k with r_last = 1, r_{k-1} = r_k a_k.
    """
    lanes = lanes.accumulators

    @intrinsic  # type: ignore[untyped-decorator]
    def suffix_sums(typing: Any, a: Any, u: Any, sums: Any, steps: Any, stride: Any, sums_stride: Any) -> Any:
        def codegen(context: Any, b: Any, sig: Any, args: Any) -> Any:
            a, u, sums, steps, stride, sums_stride = args

            def step(index: Any, carried: list[Any]) -> list[Any]:
                total, product = carried
                offset = b.mul(index, stride)
                store(b, lanes, total, address(b, sums, b.mul(index, sums_stride)))
                total = fma(b, product, load(b, lanes, address(b, u, offset)), total)
                return [total, b.fmul(product, load(b, lanes, address(b, a, offset)))]

            _loop(b, steps, [lanes.constant(0.0), lanes.constant(1.0)], step)
            return context.get_dummy_value()

        return types.void(_intp, _intp, _intp, _intp, _intp, _intp), codegen

    return suffix_sums


def make_window_run(lanes: Lanes) -> Any:
    """Return ``window_run(a, u, x, sums, steps, stride, sums_stride) -> finite``: x_k = w_k + g_k S_k.

    ``w`` is the block's own solution, ``g`` the product of its coefficients up to step k and ``sums`` holds the suffix
    sums S of the block before. The result says whether every x is finite.
    """
    lanes = lanes.accumulators

    @intrinsic  # type: ignore[untyped-decorator]
    def window_run(typing: Any, a: Any, u: Any, x: Any, sums: Any, steps: Any, stride: Any, sums_stride: Any) -> Any:
        def codegen(context: Any, b: Any, sig: Any, args: Any) -> Any:
            a, u, x, sums, steps, stride, sums_stride = args
            zero = lanes.constant(0.0)

            def step(index: Any, carried: list[Any]) -> list[Any]:
                local, product, checks = carried
                offset = b.mul(index, stride)
                coefficient = load(b, lanes, address(b, a, offset))
                local = fma(b, coefficient, local, load(b, lanes, address(b, u, offset)))
                product = b.fmul(product, coefficient)
                before = load(b, lanes, address(b, sums, b.mul(index, sums_stride)))
                value = fma(b, product, before, local)
                store(b, lanes, value, address(b, x, offset))
                return [local, product, fma(b, value, zero, checks)]

            checks = _loop(b, steps, [zero, lanes.constant(1.0), zero], step)[2]
            return all_true(b, b.fcmp_ordered("==", checks, zero))

        return types.boolean(_intp, _intp, _intp, _intp, _intp, _intp, _intp), codegen

    return window_run
