"""Channels that don't lie next to each other in memory: some of their steps are copied to where they do.

Many short rows, or pieces of a few long channels, are stretches of numbers that lie far apart in memory. Vectors hold
one number of each channel. So a block of several numbers of several stretches is transposed in registers on its way to
the scratch area. The states are transposed back on their way to memory. In between, the kernels of channels work as
always. Moving numbers rounds nothing, so the bits of the result don't change.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir

from recfact.cpu import types
from recfact.cpu.compilation import apart, helper
from recfact.cpu.language import operation
from recfact.cpu.numbers import I64, LINE, Lanes, pointer, prefetch, put_bits
from recfact.cpu.operations import single, size

PIECE = 16  # bytes of a run that are moved at once; in scratch memory a line is moved at once


class Strides(NamedTuple):
    """Bytes from one step, one group of channels and one channel to the next."""

    time: int
    group: int
    lane: int


class Block:
    """The columns of a block in registers, as integers.

    Parameters
    ----------
    builder
        The LLVM builder.
    itemsize : int
        Bytes of a number.

    Attributes
    ----------
    columns, rows : int
        Numbers of a run in a block, and runs.
    """

    def __init__(self, builder: Any, itemsize: int) -> None:
        self.b = builder
        self.columns, self.rows = PIECE // itemsize, LINE // itemsize
        self.number = ir.IntType(8 * itemsize)
        self.piece = ir.VectorType(self.number, self.columns)
        self.line = ir.VectorType(self.number, self.rows)

    def at(self, kind: Any, base: Any, step: Any, index: int) -> Any:
        """Return the pointer to number `index` of some `step` bytes apart."""
        return pointer(self.b, kind, base, self.b.mul(step, ir.Constant(I64, index)))

    def read(self, kind: Any, base: Any, step: Any, index: int) -> Any:
        """Load a piece or a line."""
        loaded = self.b.load(self.at(kind, base, step, index))
        loaded.align = 1
        return loaded

    def write(self, value: Any, base: Any, step: Any, index: int) -> None:
        """Store a piece or a line."""
        self.b.store(value, self.at(value.type, base, step, index)).align = 1

    def pick(self, x: Any, y: Any, lanes: list[int]) -> Any:
        """Pick numbers from x (0 ..) and from y (the indices behind those of x)."""
        return self.b.shuffle_vector(x, y, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))

    def joined(self, pieces: list[Any]) -> Any:
        """Return four pieces as a line."""
        low, high = (self.pick(pieces[k], pieces[k + 1], list(range(2 * self.columns))) for k in (0, 2))
        return self.pick(low, high, list(range(4 * self.columns)))

    def part(self, line: Any, index: int) -> Any:
        """Return one of the four pieces of a line."""
        return self.pick(line, line, list(range(index * self.columns, (index + 1) * self.columns)))

    def exchanged(self, lines: list[Any]) -> list[Any]:
        """Exchange rows and columns in each piece. There are as many lines as a piece has numbers.

        A step alternates the numbers of two lines whose distance is half the number of lines. It moves the highest bit
        of a number's place to the lowest.
        """
        half = self.columns // 2
        count = self.columns
        while count > 1:
            mixed = []
            for x, y in zip(lines[:half], lines[half:], strict=True):
                for start in (0, half):
                    pairs = [
                        (at + k, self.rows + at + k)
                        for at in range(start, self.rows, self.columns)
                        for k in range(half)
                    ]
                    mixed.append(self.pick(x, y, [lane for pair in pairs for lane in pair]))
            lines = mixed
            count //= 2
        return lines


@operation
def columns(lanes: Any) -> Any:
    """Return how many numbers of a run are in a block."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        return ir.Constant(I64, PIECE // lanes.itemsize)

    return types.int64(lanes), codegen


@operation
def runs(lanes: Any) -> Any:
    """Return how many runs are in a block."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        return ir.Constant(I64, LINE // lanes.itemsize)

    return types.int64(lanes), codegen


@operation
def gather_block(lanes: Any, source: Any, run: Any, target: Any, row: Any) -> Any:
    """Copy a block of runs, `run` bytes apart, to a table. Its rows, `row` bytes apart, have a number of each run."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        _, source, run, target, row = args
        block = Block(builder, lanes.itemsize)
        pieces = [block.read(block.piece, source, run, index) for index in range(block.rows)]
        lines = [block.joined(pieces[k :: block.columns]) for k in range(block.columns)]
        for k, line in enumerate(block.exchanged(lines)):
            block.write(line, target, row, k)

    return types.void(lanes, *[types.int64] * 4), codegen


@operation
def scatter_block(lanes: Any, source: Any, row: Any, target: Any, run: Any) -> Any:
    """Copy a block of a table, with rows `row` bytes apart, to runs. This is the inverse of `gather_block`."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        _, source, row, target, run = args
        block = Block(builder, lanes.itemsize)
        lines = block.exchanged([block.read(block.line, source, row, k) for k in range(block.columns)])
        for index in range(block.rows):
            block.write(block.part(lines[index % block.columns], index // block.columns), target, run, index)

    return types.void(lanes, *[types.int64] * 4), codegen


@operation
def move_number(lanes: Any, source: Any, target: Any) -> Any:
    """Copy one number."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        block = Block(builder, lanes.itemsize)
        zero = ir.Constant(I64, 0)
        block.write(block.read(block.number, args[1], zero, 0), args[2], zero, 0)

    return types.void(lanes, types.int64, types.int64), codegen


@operation
def move_line(lanes: Any, source: Any, target: Any, streams: Any) -> Any:
    """Copy a line. If it `streams`, the line goes past the caches, to a multiple of 16 bytes."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        _, source, target, streams = args
        zero = ir.Constant(I64, 0)
        line = Block(builder, lanes.itemsize).read(ir.VectorType(I64, LINE // 8), source, zero, 0)
        with builder.if_else(streams) as (past, through):
            with past:
                put_bits(builder, Lanes(lanes.storage, lanes.count, True), target, zero, line)
            with through:
                put_bits(builder, Lanes(lanes.storage, lanes.count), target, zero, line)

    return types.void(lanes, types.int64, types.int64, types.boolean), codegen


@operation
def fetch_line(address: Any) -> Any:
    """Ask for the line of memory at an address. The address need not be valid."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        prefetch(builder, args[0])

    return types.void(types.int64), codegen


@helper
def magnitude(step: int) -> int:
    """Return the absolute value of an integer."""
    return -step if step < 0 else step


@helper
def adjoin(lanes: Any, strides: Strides, steps: int, groups: int) -> bool:
    """Return whether the numbers of `steps` steps and `groups` groups of a channel are a run in memory."""
    one: int = size(single(lanes))
    if magnitude(strides.time) == one:
        return groups == 1 or magnitude(strides.group) == steps * one
    across: bool = magnitude(strides.group) == one and magnitude(strides.time) == groups * one
    return across


@helper
def turned(lanes: Any, strides: Strides, steps: int, groups: int, channels: int) -> Strides:
    """Return the strides of a copy of `steps` steps in which channels lie next to each other."""
    one: int = size(single(lanes))
    if adjoin(lanes, strides, steps, groups):
        return Strides(strides.time * channels, strides.group * channels, one)
    return Strides(groups * channels * one, channels * one if groups > 1 else 0, one)


@helper
def lowest(strides: Strides, steps: int, groups: int) -> int:
    """Return the offset from the first number of a channel to its lowest address in memory."""
    return min(strides.time * (steps - 1), 0) + min(strides.group * (groups - 1), 0)


@helper
def copy_start(lanes: Any, strides: Strides, steps: int, groups: int, channels: int, area: int) -> int:
    """Return the address of the first number of a copy that begins at the address `area`."""
    if adjoin(lanes, strides, steps, groups):
        area -= lowest(strides, steps, groups) * channels
    return area


@helper
def move_run(lanes: Any, source: int, target: int, length: int, streams: bool) -> None:
    """Copy `length` bytes."""
    lines = length // LINE * LINE
    for at in range(0, lines, LINE):
        move_line(lanes, source + at, target + at, streams)
    for at in range(lines, length, size(single(lanes))):
        move_number(lanes, source + at, target + at)


@apart
def turn_in(
    lanes: Any, memory: int, strides: Strides, steps: int, groups: int, channels: int, less: int, area: int, ahead: int
) -> None:
    """Copy `steps` steps, except the first few, to an area in which channels lie next to each other.

    `memory` is the address of the first number, and `less` the number of steps that are left out. In runs of several
    groups whose steps adjoin each other, `less` is at most 1, and only the number at the end is left out. The memory
    `ahead` bytes further on is fetched for the next copy.
    """
    one = size(single(lanes))
    row = channels * one
    if adjoin(lanes, strides, steps, groups):
        left_out = less if magnitude(strides.time) == one else less * groups
        count = steps * groups - left_out
        memory += lowest(strides, steps, groups)
        if strides.time > 0:
            memory += left_out * one
            area += left_out * row
        whole, blocks = count // columns(lanes) * columns(lanes), channels // runs(lanes) * runs(lanes)
        for channel in range(0, blocks, runs(lanes)):
            quarter = memory + channel * strides.lane + ahead
            for k in range(0, whole, columns(lanes)):
                # Four blocks are a line of each run.
                place = quarter + k % runs(lanes) // columns(lanes) * (runs(lanes) // 4 * strides.lane)
                for run in range(runs(lanes) // 4):
                    fetch_line(place + k * one + run * strides.lane)
                place, copied = memory + channel * strides.lane + k * one, area + channel * one + k * row
                gather_block(lanes, place, strides.lane, copied, row)
        for k in range(count):
            for channel in range(blocks if k < whole else 0, channels):
                move_number(lanes, memory + channel * strides.lane + k * one, area + channel * one + k * row)
    else:
        for i in range(less, steps):
            for group in range(groups):
                for channel in range(channels):
                    place = memory + i * strides.time + group * strides.group + channel * strides.lane
                    move_number(lanes, place, area + (i * groups + group) * row + channel * one)


@apart
def turn_back(
    lanes: Any,
    memory: int,
    strides: Strides,
    steps: int,
    groups: int,
    channels: int,
    less: int,
    area: int,
    spare: int,
    streams: bool,
) -> None:
    """Copy states from an area back to memory, the inverse of `turn_in`. Runs are whole in a `spare` area on the way.

    If it `streams`, runs that follow each other without gaps are written past the caches.
    """
    one = size(single(lanes))
    row = channels * one
    if adjoin(lanes, strides, steps, groups):
        left_out = less if magnitude(strides.time) == one else less * groups
        count = steps * groups - left_out
        memory += lowest(strides, steps, groups)
        if strides.time > 0:
            memory += left_out * one
            area += left_out * row
        whole, blocks = count // columns(lanes) * columns(lanes), channels // runs(lanes) * runs(lanes)
        run = count * one
        for channel in range(0, blocks, runs(lanes)):
            for k in range(0, whole, columns(lanes)):
                scatter_block(lanes, area + channel * one + k * row, row, spare + channel * run + k * one, run)
        for k in range(count):
            for channel in range(blocks if k < whole else 0, channels):
                move_number(lanes, area + channel * one + k * row, spare + channel * run + k * one)
        if strides.lane == run:
            move_run(lanes, spare, memory, channels * run, streams)
        else:
            for channel in range(channels):
                move_run(lanes, spare + channel * run, memory + channel * strides.lane, run, False)
    else:
        for i in range(less, steps):
            for group in range(groups):
                for channel in range(channels):
                    place = memory + i * strides.time + group * strides.group + channel * strides.lane
                    move_number(lanes, area + (i * groups + group) * row + channel * one, place)
