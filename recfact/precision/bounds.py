"""Bounds of the rounding errors of an algorithm: the algorithm itself, run on bounds instead of numbers.

**Before it runs.** A number that an algorithm computes represents an exact number. The pair (size, error) says two
things: the magnitude of the exact number is at most `size`, and the computed number differs from it by at most `error`.
Each operation adds its rounding error: at most `unit` times its result in the range of normal numbers, and `quantum`
below it. Written out, the sizes are the sums of |L_ij| |u_j|. The numbers size + error are the same sums with a factor
1 + unit for every rounding on the way from u_j to x_i. So this is the forward bound with the counts N(i, j) of the
algorithm, without its second-order terms.

**While it runs.** The pair (value, radius) is a computed number and a bound of its distance from the exact one. A
rounding adds at most `unit` times its result (Wilkinson 1963; Higham 2002, section 3.3). So the bound is for the given
inputs: it sees cancellation, and products that were exact zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.errors import DTypeError
from recfact.precision.arithmetic import Arithmetic, Rounded
from recfact.precision.exact.outward import round_up
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.operands import Parts
from recfact.precision.run import CASTS, Task, pieces_of
from recfact.precision.sequences import Pieces
from recfact.windows import Full, WindowLike

MOST_CHANNELS = 16
"""Fewer sequences than these are bounded faster one by one, in a loop over Python's floats, than all together."""

SLACK = 1 + 2.0**-49
"""Covers the roundings of ten operations of float64 in a row."""

TINY = 2.0**-1074
"""The smallest float64, which covers what an operation loses to underflow."""


def forward_bound(
    a: Any,
    u: Any,
    format: Any,
    algorithm: str = "sequential",
    *,
    window: WindowLike = Full(),
    casts: Sequence[str] = CASTS,
    x0: Any = None,
    axis: int = -1,
    offsets: Any = None,
) -> Array:
    """Bound the rounding errors of every state that `rounded_solve` computes, before it does.

    Parameters
    ----------
    a, u, format, algorithm, window, casts, x0, axis, offsets
        As for `rounded_solve`. Coefficients, inputs and initial state must be numbers of the format. If the arithmetic
        stores coefficients and inputs in another format, the bounds are those of the distance from the states of the
        given numbers. Tensor cores truncate their sums, so an arithmetic that rounds "toward-zero" describes them, if
        they sum in the order of "mixed-precision".

    Returns
    -------
    ndarray of float64
        Bounds of the distance between the computed states and the exact states of the window, in the shape of the
        states. They are rounded up, and include underflow. They hold if no operation overflows. They are infinite where
        the bound of a size is beyond the range of float64.

    Raises
    ------
    OptionError
        If there is no such algorithm, or if it doesn't make that window or run in that arithmetic.
    ShapeError
        If the shapes don't fit together.

    Notes
    -----
    Derived on the page on rounding bounds ("Forward bounds without the matrix" and "Mixed precision").

    Examples
    --------
    >>> forward_bound([0.5] * 3, [1.0] * 3, "float16") <= [0, 0.001, 0.002]
    array([ True,  True,  True])
    """
    task = Task.of(format, algorithm, window, casts)
    pieces, axis = pieces_of(a, u, x0, axis, offsets, task.arithmetic)
    return np.moveaxis(forward_bounds(task, pieces), 0, axis)


def forward_bounds(task: Task, pieces: Pieces) -> Array:
    """Return the bounds of `forward_bound` along axis 0, for arguments that have been checked."""
    how = task.arithmetic
    few = all(u.size <= MOST_CHANNELS * len(u) for _, u, _ in pieces)
    if (
        task.algorithm == "sequential"
        and isinstance(task.window, Full)
        and how.format == how.accumulate
        and few
        and how.operands is None
    ):
        loss = Loss(how.format, how)
        return np.concatenate([sequential_bounds(loss, how.fma, *piece) for piece in pieces])
    _, errors = task.run(*task.operations(Bounded), pieces)
    return np.where(np.isnan(errors), np.inf, errors)


def running_bound(
    a: Any,
    u: Any,
    format: Any,
    algorithm: str = "sequential",
    *,
    window: WindowLike = Full(),
    casts: Sequence[str] = CASTS,
    x0: Any = None,
    axis: int = -1,
    offsets: Any = None,
) -> tuple[Array, Array]:
    """Solve with every operation rounded, as `rounded_solve` does, and bound the errors on the way.

    Parameters
    ----------
    a, u, format, algorithm, window, casts, x0, axis, offsets
        As for `forward_bound`.

    Returns
    -------
    x : ndarray of float64
        The computed states.
    bound : ndarray of float64, shape of `x`
        Bounds of their distances from the exact states of the window, rounded up. They are infinite where a state
        depends on an operation that overflowed. An operation that gave the largest number of the format counts as one
        that overflowed, because it may have.

    Raises
    ------
    OptionError, ShapeError
        As for `rounded_solve`.
    DTypeError
        If float64 doesn't hold the numbers of the formats.

    Notes
    -----
    Wilkinson (1963); Higham (2002), section 3.3.

    Examples
    --------
    >>> x, bound = running_bound([0.5, 0.75, 0.75], [1.0, 1.0, 2**-10], "float16")
    >>> x.tolist(), bound.tolist()[0], bool(bound[2] <= 2**-8)
    ([1.0, 1.75, 1.3134765625], 0.0, True)
    """
    task = Task.of(format, algorithm, window, casts)
    for each in (task.arithmetic.format, task.arithmetic.accumulate):
        if not each.fits_float64:
            raise DTypeError(f"running bounds need a format whose numbers float64 holds, got {each}")
    pieces, axis = pieces_of(a, u, x0, axis, offsets, task.arithmetic)
    x, bound = task.run(*task.operations(Running), pieces)
    bound = np.where(np.isfinite(x) & ~np.isnan(bound), bound, np.inf)
    return np.moveaxis(x, 0, axis), np.moveaxis(bound, 0, axis)


class Loss:
    """The most that a rounding to a format takes away.

    Parameters
    ----------
    format : FloatFormat
        The format.
    arithmetic : Arithmetic
        How it rounds.

    Attributes
    ----------
    unit : float
        At most so much of what is rounded, or of what comes of it, in the range of normal numbers.
    quantum, sum_quantum : float
        What becomes of a result below the normal numbers; sums are exact there if there are subnormals.
    keeps : bool
        Whether adding 0 rounds nothing; a flush takes away what is subnormal.
    """

    def __init__(self, format: FloatFormat, arithmetic: Arithmetic) -> None:
        self.keeps = arithmetic.underflow == "gradual"
        to_nearest = arithmetic.rounding in ("nearest-even", "nearest-away")
        self.unit = float(format.unit_roundoff) * (1 if to_nearest else 2)
        gradual = format.subnormals and self.keeps
        smallest = Fraction(format.smallest_subnormal if gradual else format.smallest_normal)
        self.quantum = max(round_up(smallest / 2 if gradual and to_nearest else smallest), TINY)
        self.sum_quantum = 0.0 if gradual else self.quantum


class Bounded:
    """Operations on pairs of a size and an error.

    Parameters
    ----------
    format : FloatFormat
        The format that they round to.
    arithmetic : Arithmetic
        How.
    _random : object
        Isn't used: bounds hold for all random numbers.
    """

    def __init__(self, format: FloatFormat, arithmetic: Arithmetic, _random: object = None) -> None:
        self.loss, self.fused = Loss(format, arithmetic), arithmetic.fma

    def enter(self, values: Array, exact: Array | None = None, /) -> Parts:
        """Return the pairs of numbers, without errors but for those of storing them."""
        if exact is not None:
            return sizes_of(exact), distances(values, exact)
        sizes = sizes_of(values)
        return sizes, np.zeros(sizes.shape)

    def rounded(self, x: Parts) -> Parts:
        """Return the bounds of x rounded once more."""
        return self._rounded(x[0], x[1], self.loss.quantum)

    def multiply(self, x: Parts, y: Parts) -> Parts:
        """Return the bounds of x y."""
        size, error = self._product(x, y)
        return self._rounded(size, error, self.loss.quantum)

    def add(self, x: Parts, y: Parts) -> Parts:
        """Return the bounds of x + y; adding an exact 0 rounds nothing."""
        size, error = x[0] + y[0], x[1] + y[1]
        total = self._rounded(size * SLACK, error * SLACK, self.loss.sum_quantum)
        if not self.loss.keeps:
            return total
        alone = (x[0] + x[1] == 0) | (y[0] + y[1] == 0)
        return np.where(alone, size, total[0]), np.where(alone, error, total[1])

    def fma(self, x: Parts, y: Parts, z: Parts) -> Parts:
        """Return the bounds of x y + z."""
        size, error = self._product(x, y)
        total = self._rounded((size + z[0]) * SLACK, (error + z[1]) * SLACK, self.loss.quantum)
        nothing = (size + error == 0) & self.loss.keeps
        return np.where(nothing, z[0], total[0]), np.where(nothing, z[1], total[1])

    def _product(self, x: Parts, y: Parts) -> Parts:
        """Return size and error of a product before it is rounded; 0 times anything is exact."""
        bound = x[0] + x[1]
        nothing = (bound == 0) | (y[0] + y[1] == 0)
        # A number that underflows in float64 counts as its smallest one.
        size = np.maximum(x[0] * y[0] * SLACK, TINY)
        error = (x[1] * y[0] + bound * y[1]) * SLACK + 8 * TINY
        return np.where(nothing, 0.0, size), np.where(nothing, 0.0, error)

    def _rounded(self, size: Array, error: Array, quantum: float) -> Parts:
        computed = size + error
        lost = np.where(computed == 0, 0.0, np.maximum(self.loss.unit * computed, quantum))
        return size, (error + lost) * SLACK


def sizes_of(values: Array) -> Array:
    """Return the magnitudes of numbers as float64, rounded up."""
    sizes = np.abs(values)
    if sizes.dtype == object:  # of numbers that float64 may not hold
        return np.array([round_up(value) for value in sizes.flat], dtype=np.float64).reshape(sizes.shape)
    return sizes.astype(np.float64)


def distances(values: Array, exact: Array) -> Array:
    """Return how far stored numbers are from those that they stand for as float64, rounded up."""
    apart = values - exact
    if apart.dtype == object:
        return sizes_of(apart)
    return np.where(apart == 0, 0.0, np.nextafter(np.abs(apart), np.inf))


def sequential_bounds(loss: Loss, fused: bool, a: Array, u: Array, x0: Array | None) -> Array:
    """Return the errors of `Bounded` for the sequential algorithm, in a loop over Python's floats."""
    weights, sizes = sizes_of(a), sizes_of(u)
    start = None if x0 is None else sizes_of(x0)
    errors = np.empty(sizes.shape)
    for channel in np.ndindex(sizes.shape[1:]):
        at = (slice(None), *channel)
        size, error = (0.0 if start is None else float(start[channel])), 0.0
        found: list[float] = []
        for weight, own in zip(weights[at].tolist(), sizes[at].tolist(), strict=True):
            if found or start is not None:
                size, error = _step(loss, fused, weight, own, size, error)
            else:
                size = own
            found.append(error)
        errors[at] = found
    return np.where(np.isnan(errors), np.inf, errors)


def _step(loss: Loss, fused: bool, weight: float, own: float, size: float, error: float) -> tuple[float, float]:
    if weight == 0 or size + error == 0:
        size = error = 0.0
    else:
        size, error = max(weight * size * SLACK, TINY), weight * error * SLACK + 8 * TINY
        if not fused:
            error = (error + max(loss.unit * (size + error), loss.quantum)) * SLACK
    nothing = size + error == 0
    if loss.keeps and (nothing or (own == 0 and not fused)):
        return size + own, error
    size, error = (size + own) * SLACK, error * SLACK
    computed = size + error
    if computed == 0:
        return size, error
    return size, (error + max(loss.unit * computed, loss.quantum if fused else loss.sum_quantum)) * SLACK


class Running:
    """Operations on pairs of a computed value and the radius that the exact one is within.

    Parameters
    ----------
    format : FloatFormat
        The format that they round to.
    arithmetic : Arithmetic
        How.
    random : numpy.random.Generator, optional
        The random numbers of the run.
    """

    def __init__(self, format: FloatFormat, arithmetic: Arithmetic, random: np.random.Generator | None = None) -> None:
        self.values, self.fused = Rounded(format, arithmetic, random), arithmetic.fma
        self.loss, self.largest = Loss(format, arithmetic), float(format.max)

    def enter(self, values: Array, exact: Array | None = None, /) -> Parts:
        """Return given numbers, which have no error but that of storing them."""
        (entered,) = self.values.enter(values)
        return entered, np.zeros(entered.shape) if exact is None else distances(values, exact)

    def rounded(self, x: Parts) -> Parts:
        """Return the pair of x rounded once more."""
        (value,) = self.values.rounded(x[:1])
        return self._pair(value, x[1], self.loss.quantum, (value == x[0]) & (np.abs(value) < self.largest))

    def multiply(self, x: Parts, y: Parts) -> Parts:
        """Return the pair of x y."""
        (value,) = self.values.multiply(x[:1], y[:1])
        return self._pair(value, self._product(x, y), self.loss.quantum, _nothing(x, y))

    def add(self, x: Parts, y: Parts) -> Parts:
        """Return the pair of x + y."""
        (value,) = self.values.add(x[:1], y[:1])
        alone = (_is_zero(x) | _is_zero(y)) & (self.loss.sum_quantum == 0)
        return self._pair(value, x[1] + y[1], self.loss.sum_quantum, alone)

    def fma(self, x: Parts, y: Parts, z: Parts) -> Parts:
        """Return the pair of x y + z, rounded once."""
        (value,) = self.values.fma(x[:1], y[:1], z[:1])
        exact = _nothing(x, y) & (_is_zero(z) | (self.loss.sum_quantum == 0))
        return self._pair(value, self._product(x, y) + z[1], self.loss.quantum, exact)

    def _product(self, x: Parts, y: Parts) -> Array:
        """Bound the error that the factors bring into a product."""
        error = np.abs(x[0]) * y[1] + np.abs(y[0]) * x[1] + x[1] * y[1]
        return np.where((x[1] == 0) & (y[1] == 0) | _nothing(x, y), 0.0, error * SLACK + 3 * TINY)

    def _pair(self, value: Array, error: Array, quantum: float, exact: Array) -> Parts:
        lost = np.where(np.abs(value) < self.largest, np.maximum(self.loss.unit * np.abs(value), quantum), np.inf)
        return value, np.where(exact, error, (error + lost) * SLACK)


def _is_zero(x: Parts) -> Array:
    return np.asarray((x[0] == 0) & (x[1] == 0))


def _nothing(x: Parts, y: Parts) -> Array:
    return _is_zero(x) | _is_zero(y)
