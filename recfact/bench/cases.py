"""What is timed: calls of `solve`, each beside a call that moves as many bytes without a recurrence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.bench.timing import Call
from recfact.number_types import HALVES, DType
from recfact.solve import solve
from recfact.windows import Jagged, Uniform

MULTIPLY = "np.multiply(a, u, out=x)"


@dataclass(frozen=True)
class Case:
    """A call of `solve` and what it is held to.

    Parameters
    ----------
    name : str
        What is solved.
    at_most : float or None
        What the ratio of the two times is held to, if to anything.
    against : str
        The other call.
    make : callable
        ``make(numbers)`` returns both calls, on arrays of `numbers` numbers in all.
    cores : int
        How many processors the case needs.
    """

    name: str
    at_most: float | None
    against: str
    make: Callable[[int], tuple[Call, Call]]
    cores: int = 1


def all_cases() -> Iterator[Case]:
    """Make the cases, in the order of the table."""
    for dtype in ("float32", "float64"):
        yield Case(f"one sequence, {dtype}", 1.15, MULTIPLY, partial(one_sequence, dtype))
    options: dict[str, dict[str, Any]] = {
        "reversed": {"reverse": True},
        "with x0": {"x0": 1.0},
        "Jagged(16)": {"window": Jagged(16)},
        "Uniform(32)": {"window": Uniform(32)},
    }
    for name, option in options.items():
        for dtype in ("float32", "float64"):
            yield Case(f"one sequence, {name}, {dtype}", 1.25, MULTIPLY, partial(one_sequence, dtype, **option))
    yield Case("one sequence, without out=, float32", None, "solve(a, u, out=x)", new_states)
    for channels in (16, 64, 256):
        name = f"a shared by {channels} channels, time first, float32"
        yield Case(name, 1.15, "np.copyto(x, u)", partial(shared, channels))
    yield Case("64 sequences, time last, float32", 1.15, MULTIPLY, partial(own, (64, -1), 1))
    yield Case("64 channels, time first, float32", 1.15, MULTIPLY, partial(own, (-1, 64), 0))
    for half in HALVES:
        yield Case(f"one sequence, {half}", 1.0, "solve in float32", partial(halves, half))
    for name, decaying in {"decaying": True, "all |a| = 1": False}.items():
        against = "np.multiply split over two threads"
        yield Case(f"two threads, {name}, float32", 1.25, against, partial(two_threads, decaying), cores=2)


def inputs(shape: tuple[int, ...], dtype: str = "float32") -> tuple[Array, Array, Array]:
    """Return decaying coefficients in [0.5, 1), inputs in [-0.5, 0.5), and room for the states, its pages touched."""
    rng = np.random.default_rng(20)
    a, u = (rng.random(shape, dtype=np.dtype(dtype).type) for _ in range(2))
    a *= 0.5
    a += 0.5
    u -= 0.5
    return a, u, np.zeros(shape, dtype)


def one_sequence(dtype: str, numbers: int, **options: Any) -> tuple[partial[Any], partial[Any]]:
    """Solve one contiguous sequence on one thread."""
    a, u, x = inputs((numbers,), dtype)
    return partial(solve, a, u, out=x, threads=1, **options), partial(np.multiply, a, u, out=x)


def new_states(numbers: int) -> tuple[Call, Call]:
    """Solve one sequence into memory that the system first has to find."""
    with_out, _ = one_sequence("float32", numbers)
    return partial(solve, *with_out.args, threads=1), with_out


def own(shape: tuple[int, int], axis: int, numbers: int) -> tuple[Call, Call]:
    """Solve channels with coefficients of their own; the length of time is -1 in `shape`."""
    a, u, x = (array.reshape(shape) for array in inputs((numbers,)))
    return partial(solve, a, u, axis=axis, out=x, threads=1), partial(np.multiply, a, u, out=x)


def shared(channels: int, numbers: int) -> tuple[Call, Call]:
    """Solve channels that share their coefficients."""
    a, u, x = inputs((numbers // channels, channels))
    a = a[:, :1].copy()
    return partial(solve, a, u, axis=0, out=x, threads=1), partial(np.copyto, x, u)


def halves(dtype: DType, numbers: int) -> tuple[Call, Call]:
    """Solve in a number type of two bytes."""
    a, u, x = inputs((numbers,))
    short = [array.astype(dtype) for array in (a, u, x)]
    return partial(solve, *short[:2], out=short[2], threads=1), partial(solve, a, u, out=x, threads=1)


def two_threads(decaying: bool, numbers: int) -> tuple[Call, Call]:
    """Solve one sequence on two threads, with products of coefficients that vanish, or that never do."""
    a, u, x = inputs((numbers,))
    if not decaying:
        np.copysign(1, u, out=a)
    pool = ThreadPoolExecutor(2)
    middle = numbers // 2
    pieces = [(a[part], u[part], x[part]) for part in (slice(middle), slice(middle, None))]

    def multiply() -> None:
        list(pool.map(np.multiply, *zip(*pieces, strict=True)))

    return partial(solve, a, u, out=x, threads=2), multiply


def short_call() -> Call:
    """Solve 1000 numbers in float32, as a user types it."""
    a, u, _ = inputs((1000,))
    return partial(solve, a, u)
