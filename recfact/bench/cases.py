"""The timed cases: calls of `solve`, each beside a call that moves as many bytes without a recurrence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from recfact.arrays import Array, to_torch
from recfact.bench.timing import Call
from recfact.gradients.products import vjp
from recfact.number_types import HALVES, DType
from recfact.solve import solve
from recfact.windows import Full, Jagged, Uniform, Window

MULTIPLY = "np.multiply(a, u, out=x)"
COPY = "np.copyto(x, u)"

Make = Callable[[int], tuple["partial[Any]", Call]]


@dataclass(frozen=True)
class Case:
    """A call of `solve` and its limit.

    Parameters
    ----------
    name : str
        What is solved.
    at_most : float or None
        The limit of the ratio of the two times, or None.
    against : str
        The other call.
    make : callable
        ``make(numbers)`` returns both calls. Their arrays have about `numbers` numbers in all.
    cores : int
        How many processors the case needs.
    """

    name: str
    at_most: float | None
    against: str
    make: Make
    cores: int = 1


def all_cases() -> Iterator[Case]:
    """Make the cases, in the order of the table."""
    yield from whole_recurrences()
    yield from windows_of_one_sequence()
    yield from many_sequences()
    yield from other_calls()


def whole_recurrences() -> Iterator[Case]:
    """Make the cases of one sequence without a window."""
    for dtype in ("float32", "float64"):
        yield sequence(1.15, dtype)
        yield sequence(1.25, dtype, "reversed", reverse=True)
        yield sequence(1.25, dtype, "with x0", x0=1.0)
        yield sequence(1.15, dtype, "flipped", step=-1)
    yield sequence(1.25, "complex64")
    yield sequence(1.25, "complex128")
    for half in HALVES:
        yield Case(f"one sequence, {half}", 1.0, "solve in float32", partial(halves, half))
    for steps, at_most in ((8000, 1.15), (80, 1.25), (4, 1.5)):
        name = f"one sequence, segments of about {steps} steps, float32"
        yield Case(name, at_most, MULTIPLY, partial(segments, steps))


def windows_of_one_sequence() -> Iterator[Case]:
    """Make the cases of one sequence and a window."""
    for dtype in ("float32", "float64"):
        for block in (3, 16, 52, 154, 1000):
            yield windowed(1.25, dtype, Jagged(block))
        yield windowed(1.25, dtype, Jagged(52, 0))
        for block in (52, 1000):
            yield windowed(1.5, dtype, Jagged(block, 2))
            yield windowed(1.75, dtype, Jagged(block, 3))
        for lags in (3, 9, 32, 53, 1000):
            yield windowed(1.6, dtype, Uniform(lags))
    yield sequence(1.25, "float32", "Jagged(52)", "reversed", window=Jagged(52), reverse=True)
    for dtype in ("complex64", "complex128"):
        yield windowed(1.6, dtype, Jagged(16))
        yield windowed(2.2, dtype, Uniform(9))


def many_sequences() -> Iterator[Case]:
    """Make the cases of sequences next to each other, and of rows one after the other."""
    for channels in (16, 64, 256):
        name = f"a shared by {channels} channels, time first, float32"
        yield Case(name, 1.15, COPY, partial(shared, channels, Full()))
    windows: tuple[tuple[float, Window], ...] = ((1.15, Jagged(16)), (1.3, Uniform(9)))
    for at_most, window in windows:
        name = f"a shared by 64 channels, time first, {window}, float32"
        yield Case(name, at_most, COPY, partial(shared, 64, window))
    yield table(1.15, 64)
    for at_most, window in windows:
        yield table(at_most, 64, window)
    for channels in (2, 3, 5):
        yield table(1.25, channels)
        yield table(1.6, channels, Jagged(16))
        yield table(1.6, channels, Uniform(9))
    yield Case("64 sequences, time last, float32", 1.15, MULTIPLY, partial(own, (64, -1), 1, Full()))
    for steps in (2, 3, 5, 8, 20, 100):
        name = f"sequences of {steps} steps, time last, float32"
        yield Case(name, 1.5, MULTIPLY, partial(own, (-1, steps), 1, Full()))


def other_calls() -> Iterator[Case]:
    """Make the cases of other ways to call `solve`, and of gradients."""
    yield Case("one sequence, without out=, float32", None, "solve(a, u, out=x)", new_states)
    name = "channels, time last in the shape and not in memory, without out=, float32"
    yield Case(name, 1.1, "solve of the same numbers, time first", views)
    # Making a State takes 0.05 ms, a tenth of such a solve. For the sums of a jagged window the last blocks are solved
    # once more, side by side, and most of the time is spent in Python.
    windows: tuple[tuple[Window, float], ...] = ((Full(), 1.15), (Jagged(16), 1.5))
    for window, at_most in windows:
        name = f"one sequence of 2^20 steps, return_state, {window}, float32"
        yield Case(name, at_most, "solve(a, u, out=x)", partial(with_state, window))
    for window, _ in windows:
        at_most = 2.3 if window == Full() else 4.0
        rest = f"{window}, float32"
        layer = partial(gradients_of_layer, window)
        yield Case(f"gradients, a shared by 16 channels, time second, {rest}", at_most, MULTIPLY, layer)
        one = partial(gradients_of_one, window)
        yield Case(f"gradients, one sequence, {rest}", at_most, MULTIPLY, one)
        yield Case(f"gradients, one sequence, without out=, {rest}", None, MULTIPLY, partial(new_gradients, window))
    for name, decaying in {"decaying": True, "all |a| = 1": False}.items():
        against = "np.multiply split over two threads"
        yield Case(f"two threads, {name}, float32", 1.25, against, partial(two_threads, decaying), 2)


def sequence(at_most: float, dtype: str, *words: str, **options: Any) -> Case:
    """Make a case of one sequence, named by its options in words."""
    name = ", ".join(["one sequence", *words, dtype])
    return Case(name, at_most, MULTIPLY, partial(one_sequence, dtype, **options))


def windowed(at_most: float, dtype: str, window: Window) -> Case:
    """Make a case of one sequence and a window."""
    return sequence(at_most, dtype, str(window), window=window)


def table(at_most: float, channels: int, window: Window = Full()) -> Case:
    """Make a case of channels with coefficients of their own, next to each other."""
    name = ", ".join([f"{channels} channels", "time first", *([] if window == Full() else [str(window)]), "float32"])
    return Case(name, at_most, MULTIPLY, partial(own, (-1, channels), 0, window))


def inputs(shape: Sequence[int], dtype: DType | str = "float32") -> tuple[Array, Array, Array]:
    """Return coefficients in [0.5, 1), inputs in [-0.5, 0.5), and memory for the states whose pages are touched.

    The parts of complex coefficients lie in [0.35, 0.7) each, and their magnitudes in [0.5, 1).
    """
    rng = np.random.default_rng(20)
    x = np.zeros(shape, dtype)
    parts = (*x.shape[:-1], -1) if x.dtype.kind == "c" else x.shape
    a, u = (rng.random(x.view(x.real.dtype).shape, dtype=x.real.dtype.type) for _ in range(2))
    a *= 0.5
    a += 0.5
    u -= 0.5
    if x.dtype.kind == "c":
        a *= np.sqrt(0.5)
    return a.view(x.dtype).reshape(parts), u.view(x.dtype).reshape(parts), x


def one_sequence(dtype: DType | str, numbers: int, step: int = 1, **options: Any) -> tuple[partial[Any], partial[Any]]:
    """Solve one sequence on one thread, from its last number in memory to its first if `step` is -1."""
    a, u, x = (array[::step] for array in inputs((numbers,), dtype))
    return partial(solve, a, u, out=x, threads=1, **options), partial(np.multiply, a, u, out=x)


def segments(steps: int, numbers: int) -> tuple[partial[Any], partial[Any]]:
    """Solve segments of random lengths that take `steps` steps on average."""
    cuts = np.random.default_rng(21).integers(0, numbers, numbers // steps, endpoint=True)
    offsets = np.sort(np.concatenate([[0], cuts, [numbers]]))
    return one_sequence("float32", numbers, offsets=offsets)


def new_states(numbers: int) -> tuple[partial[Any], partial[Any]]:
    """Solve one sequence into new memory, which the system first has to provide."""
    with_out, _ = one_sequence("float32", numbers)
    return partial(solve, *with_out.args, threads=1), with_out


def own(shape: tuple[int, int], axis: int, window: Window, numbers: int) -> tuple[partial[Any], partial[Any]]:
    """Solve sequences with coefficients of their own. A -1 in `shape` follows from `numbers`."""
    whole = tuple(numbers // -int(np.prod(shape)) if size < 0 else size for size in shape)
    a, u, x = inputs(whole)
    return partial(solve, a, u, axis=axis, window=window, out=x, threads=1), partial(np.multiply, a, u, out=x)


def views(numbers: int) -> tuple[partial[Any], partial[Any]]:
    """Solve channels that lie next to each other, where the shape has time last, into new memory."""
    a, u, _ = (array.reshape(8, -1, 256) for array in inputs((numbers - numbers % 2048,)))
    turned = (array.transpose(0, 2, 1) for array in (a, u))
    return partial(solve, *turned, threads=1), partial(solve, a, u, axis=1, threads=1)


def with_state(window: Window, numbers: int) -> tuple[partial[Any], partial[Any]]:
    """Solve one sequence, and return what continues it."""
    alone, _ = one_sequence("float32", min(numbers, 1 << 20), window=window)
    return partial(alone, return_state=True), alone


def gradients_of_layer(window: Window, numbers: int) -> tuple[partial[Any], partial[Any]]:
    """Find gradients of batches of 512 steps of 16 heads, whose 16 features share a coefficient."""
    a, g, u = inputs((8, min(512, numbers // 2048), 16, 16))
    return gradients(a[..., :1].copy(), u, g, 1, window)


def gradients_of_one(window: Window, numbers: int) -> tuple[partial[Any], partial[Any]]:
    """Find gradients of one sequence."""
    a, g, u = inputs((numbers,))
    return gradients(a, u, g, 0, window)


def new_gradients(window: Window, numbers: int) -> tuple[partial[Any], partial[Any]]:
    """Find gradients of one sequence in new memory, which the system first has to provide."""
    with_out, multiply = gradients_of_one(window, numbers)
    options = {name: value for name, value in with_out.keywords.items() if name != "out"}
    return partial(vjp, *with_out.args, **options), multiply


def gradients(a: Array, u: Array, g: Array, axis: int, window: Window) -> tuple[partial[Any], partial[Any]]:
    """Find the gradients of a sum of known states, in existing memory."""
    u += g[::-1]
    options: dict[str, Any] = {"axis": axis, "window": window}
    out = np.zeros_like(a), np.zeros_like(u)
    backward = partial(vjp, a, u, g, x=solve(a, u, **options), out=out, **options)
    return backward, partial(np.multiply, a, u, out=np.zeros_like(u))


def tensor_calls() -> tuple[Call, Call]:
    """Solve 100 numbers in tensors, with and without gradients to come."""
    from recfact.torch import solve as solve_tensors  # raises MissingExtraError without PyTorch

    a, u = (to_torch(array) for array in inputs((100,))[:2])
    return partial(solve_tensors, a.clone().requires_grad_(), u.clone().requires_grad_()), partial(solve, a, u)


def shared(channels: int, window: Window, numbers: int) -> tuple[partial[Any], partial[Any]]:
    """Solve channels that share their coefficients."""
    a, u, x = inputs((numbers // channels, channels))
    a = a[:, :1].copy()
    return partial(solve, a, u, axis=0, window=window, out=x, threads=1), partial(np.copyto, x, u)


def halves(dtype: DType, numbers: int) -> tuple[partial[Any], partial[Any]]:
    """Solve in a number type of two bytes."""
    a, u, x = inputs((numbers,))
    short = [array.astype(dtype) for array in (a, u, x)]
    return partial(solve, *short[:2], out=short[2], threads=1), partial(solve, a, u, out=x, threads=1)


def two_threads(decaying: bool, numbers: int) -> tuple[partial[Any], Call]:
    """Solve one sequence on two threads. Products of its coefficients vanish, or they never do."""
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
