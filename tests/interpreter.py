"""An interpreter of the engine's kernels of rows: their own code, run by Python on scalars of a test's choice.

A kernel is Python. Here its source runs as it stands, with its helpers, and so do the generators of the
tiles' machine code, for which `Machine` stands in for the registers. So what a test finds out about the scalars speaks
of the engine's own order of arithmetic, on every window, in either direction, and on several threads.

    with interpreted(symbols := Symbols()):
        x = solve(symbols.coefficients(n), symbols.inputs(n))
    symbols.states(x)

An algebra says what the numbers in memory stand for and how to multiply and add them: `Symbols` or `Floats`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ctypes import c_double, c_float, c_int64, c_uint8, c_uint64, memmove, memset
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import islice
from math import frexp, inf, isfinite
from threading import Lock
from types import FunctionType, MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from recfact.cpu.addresses import address
from recfact.cpu.compilation import Kernel
from recfact.cpu.language import Helper, Operation
from recfact.cpu.numbers import Lanes
from recfact.cpu.types import Tuple
from recfact.cpu.vectors import Registers

CELLS = {"float32": c_float, "float64": c_double}


@dataclass(frozen=True)
class Product:
    """The product of the coefficients of the steps ``start + 1 .. stop``, and how many roundings went into it."""

    start: int | None
    stop: int | None
    rounded: int = 0
    type = None  # generators ask for it to make constants


@dataclass(frozen=True)
class State:
    """A state at the step `stop`: by the step of each input that is in it, how often that term was rounded.

    The term of input j is its product with the coefficients of the steps ``j + 1 .. stop``. The initial state is the
    input of step -1.
    """

    stop: int | None
    terms: dict[int, int]

    def __sub__(self, other: "State") -> int:
        assert other is self, "states are subtracted only to see whether they are finite"
        return 0


class Wrong:
    """What comes of factors and sums that aren't terms of the recurrence; lanes may form it that are left out later."""

    type = None
    terms: Mapping[int, int] = MappingProxyType({-2: 0})

    def __init__(self, why: str) -> None:
        self.why = why

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(self.why)


class Symbols:
    """Products and states as symbols; what is no term of the recurrence becomes `Wrong`, which no state may be.

    Memory holds their numbers in `known`. The first two are nothing and one.
    """

    zero = State(None, {})
    one = Product(None, None)

    def __init__(self) -> None:
        self.known: list[Any] = [self.zero, self.one]
        self.lock = Lock()

    def load(self, number: float) -> Any:
        return self.known[int(number)]

    def store(self, symbol: Any) -> float:
        if symbol is self.zero or symbol is self.one:
            return float(symbol is self.one)
        with self.lock:
            self.known.append(symbol)
            return float(len(self.known) - 1)

    def coefficients(self, n: int, dtype: Any = np.float64, reverse: bool = False) -> Any:
        """Return n coefficients as they lie in memory; in reverse, that of step t stands at n - t."""
        steps = range(n) if not reverse else range(n, 0, -1)
        return np.array([self.store(Product(t - 1, t)) for t in steps], dtype)

    def inputs(self, n: int, dtype: Any = np.float64, reverse: bool = False) -> Any:
        """Return n inputs as they lie in memory."""
        return np.array([self.store(State(t, {t: 0})) for t in range(n)], dtype)[:: -1 if reverse else 1].copy()

    def initial(self) -> float:
        """Return an initial state."""
        return self.store(State(-1, {-1: 0}))

    def multiply(self, x: Any, y: Any) -> Any:
        if isinstance(x, Wrong) or isinstance(y, Wrong):
            return x if isinstance(x, Wrong) else y
        if x is self.one or y is self.one:  # a scale may be 1, and states are scaled
            return y if x is self.one else x
        if isinstance(x, State) and isinstance(y, State):
            return Wrong("a state is no factor")
        if isinstance(x, State) or isinstance(y, State):
            product, state = (y, x) if isinstance(x, State) else (x, y)
            return self.fma(product, state, self.zero)  # rounded once as well
        if y.stop == x.start:
            x, y = y, x
        if x.stop != y.start:
            return Wrong(f"{x} and {y} don't follow each other")
        return Product(x.start, y.stop, x.rounded + y.rounded + 1)

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        if not y.terms:
            return z
        for value in (x, y, z):
            if isinstance(value, Wrong):
                return value
        if isinstance(x, State):
            return Wrong("a state is no factor")
        if x is self.one and not z.terms:
            return y
        start, stop, rounded = (y.stop, y.stop, 0) if x is self.one else (x.start, x.stop, x.rounded)
        if start != y.stop:
            return Wrong(f"{x} can't follow {y}")
        if z.terms and z.stop != stop:
            return Wrong(f"{z} is no state of step {stop}")
        if y.terms.keys() & z.terms.keys():
            return Wrong(f"an input enters {z} twice")
        terms = {j: count + rounded + 1 for j, count in y.terms.items()}
        return State(stop, terms | {j: count + 1 for j, count in z.terms.items()})

    def number(self, value: float) -> Any:
        return {0.0: self.zero, 1.0: self.one}[value]


@dataclass(frozen=True)
class Float:
    """A float that keeps its type."""

    value: Any
    type = None

    def __eq__(self, other: object) -> bool:
        return bool(self.value == getattr(other, "value", other))

    def __sub__(self, other: "Float") -> Any:
        return self.value - other.value

    def __hash__(self) -> int:
        return hash(self.value)


class Floats:
    """float32 or float64 with a fused multiply-add, rounded from exact Fractions."""

    def __init__(self, dtype: Any) -> None:
        self.kind = np.dtype(dtype).type
        self.zero, self.one = Float(self.kind(0)), Float(self.kind(1))
        self.digits, self.smallest = (24, -149) if self.kind is np.float32 else (53, -1074)

    def load(self, number: float) -> Float:
        return Float(self.kind(number))

    def store(self, number: Float) -> float:
        return float(number.value)

    def nearest(self, exact: Fraction) -> Any:
        """Return the number nearest to a Fraction other than zero, ties to even."""
        try:
            unit = Fraction(2) ** max(frexp(float(exact))[1] - self.digits, self.smallest)
            return self.kind(float(round(exact / unit) * unit))
        except OverflowError:
            return self.kind(inf if exact > 0 else -inf)

    def fma(self, x: Float, y: Float, z: Float) -> Float:
        x, y, z = x.value, y.value, z.value
        if not (isfinite(x) and isfinite(y)):
            return Float(x * y + z)
        if not isfinite(z):
            return Float(z)
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        return Float(self.nearest(exact) if exact else x * y + z)

    def multiply(self, x: Float, y: Float) -> Float:
        return Float(x.value * y.value)

    def number(self, value: float) -> Float:
        return Float(self.kind(value))


class Machine(Registers):
    """The registers of a tile, and the builder of their code: a vector is a list of an algebra's scalars."""

    def __init__(self, lanes: Lanes, algebra: Any) -> None:
        self.lanes = lanes
        self.count = lanes.count
        self.lane_bytes = lanes.state.itemsize
        self.algebra = algebra
        self.zero, self.one = [algebra.zero] * self.count, [algebra.one] * self.count
        self.b = self.each = self
        self.exchanges, self.row_bytes = True, lanes.count * lanes.itemsize
        self.writes = True

    def splat(self, value: Any) -> Any:
        return [value] * self.count

    def lane(self, x: Any, index: int) -> Any:
        return x[index]

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        return [*map(self.algebra.fma, x, y, z)] if isinstance(x, list) else self.algebra.fma(x, y, z)

    def fmul(self, x: Any, y: Any) -> Any:
        return [*map(self.algebra.multiply, x, y)] if isinstance(x, list) else self.algebra.multiply(x, y)

    def multiply(self, x: Any, y: Any) -> Any:
        return self.fmul(x, y)

    def checked(self, x: Any, checks: Any) -> Any:
        return checks + self.fma(x, self.zero, self.zero)

    def vanishes(self, x: Any) -> list[bool]:
        return [bool(number == self.algebra.zero) for number in x]

    def scalars(self, step: Any) -> Any:
        return step[:1]

    def step(self, x: Any, index: int) -> Any:
        return [x[index]] * self.count

    def shuffle(self, x: Any, y: Any, indices: Any) -> Any:
        return [(x + y)[index] for index in indices]

    def test(self, word: int, positions: Any) -> list[bool]:
        return [bool(word >> position & 1) for position in positions]

    def repeat(self, count: int, body: Any, values: Any) -> Any:
        for turn in range(count):
            values = body(turn, values)
        return values

    def index(self, value: int) -> int:
        return value

    def not_(self, condition: bool) -> bool:
        return not condition

    def nonzero(self, word: int) -> bool:
        return word != 0

    def trailing_zeros(self, word: int) -> int:
        return (word & -word).bit_length() - 1 if word else 64

    def mul(self, x: int, y: int) -> int:
        return x * y

    def add(self, x: int, y: int) -> int:
        return x + y

    def or_(self, x: Any, y: Any) -> Any:
        return [p or q for p, q in zip(x, y, strict=True)] if isinstance(x, list) else x | y

    def and_(self, x: int, y: int) -> int:
        return x & y

    def shl(self, word: int, distance: int) -> int:
        return word << distance & (1 << 64) - 1

    def lshr(self, word: int, distance: int) -> int:
        return (word & (1 << 64) - 1) >> distance

    def load_number(self, address: int, number: int) -> Any:
        return read(self.algebra, Lanes(self.lanes.state.storage, 1), address + number * self.lanes.state.itemsize)

    def store_number(self, x: Any, address: int, number: int) -> None:
        write(self.algebra, Lanes(self.lanes.state.storage, 1), address + number * self.lanes.state.itemsize, x)

    def all_finite(self, checks: Any) -> bool:
        return all(check == self.algebra.zero for check in checks)

    def at(self, base: int, offset: Any) -> int:
        return base + offset

    def load(self, address: int) -> Any:
        return read(self.algebra, self.lanes, address)

    def store(self, x: Any, address: int) -> None:
        if self.writes:
            write(self.algebra, self.lanes, address, x)

    def load_accumulators(self, address: int) -> Any:
        return read(self.algebra, self.lanes.state, address)

    def store_accumulators(self, x: Any, address: int) -> None:
        if self.writes:
            write(self.algebra, self.lanes.state, address, x)

    def fcmp_ordered(self, relation: str, x: Any, y: Any) -> bool:
        return x == y

    def decaying_product(self, factor: Any, total: Any) -> Any:
        return self.fmul(factor, total)  # which never becomes so small here that it sticks

    def rescaled(self, product: Any, scale: Any) -> Any:
        return product, scale  # no state here shows the digits of so small a product

    def select(self, condition: Any, x: Any, y: Any) -> Any:
        if isinstance(condition, list):
            return [p if flag else q for flag, p, q in zip(condition, x, y, strict=True)]
        return x if condition else y

    @contextmanager
    def if_then(self, condition: bool, likely: bool) -> Iterator[None]:
        self.writes = condition
        yield
        self.writes = True


class Several(Machine):
    """The registers of a tile of several channels: a list has the numbers as they lie in memory."""

    def __init__(self, tile: Any, algebra: Any) -> None:
        super().__init__(tile, algebra)
        self.each, self.exchanges = Machine(tile, algebra), False
        self.each.zero, self.each.one = self.zero[: tile.channels], self.one[: tile.channels]
        self.numbers = Lanes(tile.storage, tile.count * tile.channels)
        self.zero, self.one = self.zero * tile.channels, self.one * tile.channels

    def splat(self, value: Any) -> Any:
        return list(value)

    def scalars(self, step: Any) -> Any:
        return step

    def step(self, x: Any, index: int) -> Any:
        return x[index * self.lanes.channels :][: self.lanes.channels]

    def every_step(self, step: Any) -> Any:
        return step * self.count

    def shuffle(self, x: Any, y: Any, indices: Any) -> Any:
        return [number for index in indices for number in self.step(x + y, index)]

    def load(self, address: int) -> Any:
        return read(self.algebra, self.numbers, address)

    def store(self, x: Any, address: int) -> None:
        if self.writes:
            write(self.algebra, self.numbers, address, x)


def read(algebra: Any, lanes: Lanes, address: int) -> Any:
    """Return the scalars that numbers in memory stand for; a list if the lanes are many."""
    cell = CELLS[lanes.storage]
    if lanes.count == 1:
        return algebra.load(cell.from_address(address).value)
    return [algebra.load(number) for number in (cell * lanes.count).from_address(address)]


def write(algebra: Any, lanes: Lanes, address: int, value: Any) -> None:
    """Put the numbers that stand for scalars into memory."""
    cells = (CELLS[lanes.storage] * lanes.count).from_address(address)
    cells[:] = [algebra.store(scalar) for scalar in (value if lanes.count > 1 else [value])]


def put_integer(address: int, index: int, value: int) -> None:
    """Put a 64-bit integer into memory."""
    c_uint64.from_address(address + 8 * index).value = value & (1 << 64) - 1


def load_slice(algebra: Any, runs: Any, address: int, stride: int) -> Any:
    """Return four vectors of consecutive steps of all runs."""
    rows = [read(algebra, Lanes(runs.storage, len(runs.order)), address + run * stride) for run in range(runs.count)]
    return [[row[k] for row in rows] for k in runs.order]


def store_slice(algebra: Any, runs: Any, address: int, stride: int, *vectors: Any) -> None:
    """Write what `load_slice` reads."""
    for run in range(runs.count):
        row = [vectors[k][run] for k in runs.order]
        write(algebra, Lanes(runs.storage, len(row)), address + run * stride, row)


def each(operation: Any, *values: Any) -> Any:
    """Apply an operation to scalars, or to each of the scalars in vectors."""
    return [*map(operation, *values)] if isinstance(values[0], list) else operation(*values)


def operations(algebra: Any) -> dict[str, Any]:
    """Return what the operations of kernels do, by name, but for those of tiles."""
    return {
        "accumulator": lambda lanes: lanes.state,
        "single": lambda lanes: Lanes(lanes.storage, 1),
        "size": lambda lanes: lanes.count * lanes.itemsize,
        "width": lambda lanes: lanes.count,
        "integer": lambda address, index: c_int64.from_address(address + 8 * index).value,
        "load": lambda lanes, address, offset: read(algebra, lanes, address + offset),
        "put_integer": put_integer,
        "mark": lambda address: memset(address, 1, 1),
        "marked": lambda tile, address: sum(
            bool(byte) << place for place, byte in enumerate((c_uint8 * tile.steps).from_address(address))
        ),
        "store": lambda lanes, address, offset, value: write(algebra, lanes, address + offset, value),
        "drain": lambda lanes: None,
        "fma": lambda lanes, x, y, z: each(algebra.fma, x, y, z),
        "number": lambda lanes, value: algebra.number(value),
        "tile_steps": lambda tile: tile.steps,
        "runs_in_reverse": lambda tile: tile.reverse,
        "fetch_tile": lambda tile, address: None,
        "units": lambda tile: tile.units,
        "vanishes": lambda lanes, value: value == algebra.zero,
        "all_nan": lambda lanes, value: value != value,
        "nought": lambda lanes: [algebra.zero] * lanes.count,
        "multiply": lambda lanes, x, y: each(algebra.multiply, x, y),
        "no_scale": lambda lanes: [algebra.one] * lanes.count if lanes.count > 1 else algebra.one,
        "rescaled": lambda lanes, product, scale: (product, scale),  # none here is so small, as in `Machine`
        "scaled": lambda lanes, scale, value: each(algebra.multiply, scale, value),
        "unscaled": lambda lanes, scale: True,
        "checked": lambda lanes, x, checks: each(lambda own, total: algebra.fma(own, algebra.zero, total), x, checks),
        "all_finite": lambda lanes, value: all(
            x == algebra.zero or x - x == 0 for x in (value if isinstance(value, list) else [value])
        ),
        "load_shared": lambda lanes, address, offset: (
            [read(algebra, Lanes(lanes.storage, 1), address + offset)] * lanes.count
        ),
        "x_side": lambda runs: runs.side("x"),
        "u_side": lambda runs: runs.side("u"),
        "a_side": lambda runs: runs.side("a"),
        "load_slice": partial(load_slice, algebra),
        "store_slice": partial(store_slice, algebra),
        "fetch": lambda runs, address: None,
        "lead": lambda runs: 0,
        "is_streamed": lambda runs: runs.streams,
        "copy_line": lambda target, source: memmove(target, source, 64),
        "send_line": lambda target, source: memmove(target, source, 64),
        "entered": lambda runs, vector, before: [before, *vector[:-1]],
        "channels_of": lambda tile: tile.channels,
        "load_each": lambda tile, address, step: tuple(
            read(algebra, Lanes(tile.state.storage, 1), address + step * k) for k in range(tile.channels)
        ),
        "store_each": lambda tile, address, step, values: [
            write(algebra, Lanes(tile.state.storage, 1), address + step * k, value) for k, value in enumerate(values)
        ],
    }


def run_generator(operation: Any, algebra: Any, tile: Any, *args: Any) -> Any:
    """Run the code generator of an operation of a tile on a machine."""
    signature, codegen = operation.define(tile, *args)
    machine = (Several if tile.channels > 1 else Machine)(tile, algebra)
    generator = with_globals(
        codegen,
        Registers=lambda *_: machine,
        registers_of=lambda *_: machine,
        ir=SimpleNamespace(Constant=lambda kind, value: algebra.number(value)),
    )
    found = generator(machine, machine, (tile, *args))
    if tile.channels == 1:
        return found
    parts = iter(found)
    items = [len(kind.items) if isinstance(kind, Tuple) else 0 for kind in signature.return_type.items]
    return [[*islice(parts, count)] if count else next(parts) for count in items]


def with_globals(function: FunctionType, **replaced: Any) -> FunctionType:
    """Return a function with some of its global names bound to something else."""
    names = function.__globals__ | replaced
    return FunctionType(function.__code__, names, closure=function.__closure__)


class Interpreter:
    """Runs kernels with the scalars of an algebra.

    Parameters
    ----------
    algebra
        `Symbols` or `Floats`.
    """

    def __init__(self, algebra: Any) -> None:
        self.algebra = algebra
        self.operations = operations(algebra)
        self.translated = cache(self.translated)

    def translated(self, function: FunctionType) -> FunctionType:
        """Return a function whose helpers and operations are those of the interpreter."""
        names = {
            name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__
        }
        return with_globals(function, **{name: self.callable(value) for name, value in names.items()})

    def callable(self, value: Any) -> Any:
        """Return what stands for a global name's value."""
        if isinstance(value, Helper):
            return self.translated(value.function)
        if isinstance(value, Operation):
            return self.operations.get(value.define.__name__) or partial(run_generator, value, self.algebra)
        return value

    def compiled(self, kernel: Kernel, lanes: Lanes) -> Any:
        """Return what stands for a compiled kernel."""
        function = self.translated(kernel.function)

        def run(*arguments: Any) -> Any:
            tables = [np.array([*map(address, given)]) for given in arguments[:1] if isinstance(given, tuple)]
            given = [*tables, *arguments[len(tables) :]]
            return function(lanes, *(address(value) if isinstance(value, np.ndarray) else value for value in given))

        return run


COMPILED = Kernel.__getitem__

INTERPRETERS: list[Interpreter] = []
"""Those that run kernels now, the last one first."""


def runnable(kernel: Kernel, lanes: Any) -> Any:
    """Return a kernel as the interpreter runs it, or as it is compiled if none is at work."""
    return INTERPRETERS[-1].compiled(kernel, lanes) if INTERPRETERS else COMPILED(kernel, lanes)


@contextmanager
def interpreted(algebra: Any, span: int | None = None) -> Iterator[None]:
    """Let the CPU engine run its kernels by the interpreter, in spans of so many steps instead of its own many."""
    if Kernel.__getitem__ is COMPILED:
        Kernel.__getitem__ = runnable  # for good: Python 3.13.0 sees only the first thousand changes of a class
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr("interpreter.INTERPRETERS", [*INTERPRETERS, Interpreter(algebra)])
        if span is not None:
            patch.setattr("recfact.cpu.limits.SPAN", span)
            patch.setattr("recfact.cpu.limits.WORTH_THREADS", 1)
        yield
