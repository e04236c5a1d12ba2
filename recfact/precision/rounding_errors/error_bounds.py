"""Bounds of the rounding errors of an algorithm: the algorithm itself, run on bounds instead of numbers.

A number that an algorithm computes stands for an exact one. The pair (size, error) says that the exact one is at most
`size` in magnitude, and that the computed one differs from it by at most `error`. Each operation adds what rounding may
do to it: at most `unit` times its result in the range of normal numbers, and `quantum` below it. Unrolled, the sizes
are the sums of |L_ij| |u_j|, and size + error the same sums with a factor 1 + unit for every rounding on the way from
u_j to x_i: the forward bound with the counts N(i, j) of the algorithm, without its second-order terms.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.checks import boolean, choice
from recfact.containers import without_labels
from recfact.precision.exact.outward import round_up
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.rounding_errors.arithmetic import Arithmetic
from recfact.precision.rounding_errors.operands import ALGORITHMS, run_in
from recfact.precision.rounding_errors.rounded_algorithms import formats_of, operands_of
from recfact.windows import Full, WindowLike, check_window

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
    accumulate: Any = None,
    fma: bool = False,
    x0: Any = None,
    axis: int = -1,
    rounding: str = "nearest-even",
    underflow: str = "gradual",
) -> Array:
    """Bound the rounding errors of every state that `rounded_solve` computes, before it does.

    Parameters
    ----------
    a, u, format, algorithm, window, accumulate, fma, x0, axis, rounding, underflow
        As for `rounded_solve`; coefficients, inputs and initial state must be numbers of the format.

    Returns
    -------
    ndarray of float64
        In the shape of the states, bounds of the distance of the computed states from the exact ones of the window,
        rounded up, if no operation overflows. Infinite where a bound of a size passes the range of float64.

    Raises
    ------
    OptionError
        If there is no such algorithm, or it doesn't make that window, or an option isn't one of its values.
    ShapeError
        If the shapes don't fit together.

    Notes
    -----
    Derived on the page on rounding bounds ("Forward bounds without the matrix").

    Examples
    --------
    >>> forward_bound([0.5] * 3, [1.0] * 3, "float16") <= [0, 0.001, 0.002]
    array([ True,  True,  True])
    """
    storage, inner = formats_of(format, accumulate)
    window = check_window(window)
    choice(algorithm, "algorithm", ALGORITHMS)
    boolean(fma, "fma")
    Arithmetic(inner, rounding, underflow=underflow)  # checks the options
    dtype = np.dtype(np.float64 if storage.fits_float64 else object)
    a, u, x0, axis = without_labels(a, u, x0, axis)
    coefficients, inputs, state = operands_of(a, u, x0, dtype, axis)
    weights, sizes = sizes_of(coefficients), sizes_of(inputs)
    start = None if state is None else sizes_of(state)
    bounds = BoundArithmetic(inner, rounding, underflow)
    with np.errstate(all="ignore"):
        contained = inner.holds(storage)
        if not contained:  # then they are rounded first
            weights, sizes = (
                bounds.cast(pairs, values, inner) for pairs, values in ((weights, coefficients), (sizes, inputs))
            )
            start = None if start is None or state is None else bounds.cast(start, state, inner)
        few = inputs.size <= MOST_CHANNELS * len(inputs)
        if algorithm == "sequential" and isinstance(window, Full) and few and contained:
            x = bounds.sequence(weights, sizes, start, fma)
        else:
            x = run_in(bounds, algorithm, weights, sizes, start, window=window, fused=fma)
        if accumulate is not None:
            x = BoundArithmetic(storage, rounding, underflow).rounded(x)
        return np.moveaxis(x.imag, 0, axis)


class BoundArithmetic:
    """Products and sums of pairs of bounds, which arrays of complex numbers hold as size + i error.

    Parameters
    ----------
    format : FloatFormat
        The format that operations round to.
    rounding, underflow : str
        How.
    """

    def __init__(self, format: FloatFormat, rounding: str, underflow: str) -> None:
        self.underflow = underflow
        self.keeps = underflow == "gradual"  # adding 0 rounds nothing then; a flush takes away what is subnormal
        to_nearest = rounding in ("nearest-even", "nearest-away")
        self.unit = float(format.unit_roundoff) * (1 if to_nearest else 2)
        gradual = format.subnormals and underflow == "gradual"
        smallest = Fraction(format.smallest_subnormal if gradual else format.smallest_normal)
        # What becomes of a result below the normal numbers; sums are exact there if there are subnormals.
        self.quantum = max(round_up(smallest / 2 if gradual and to_nearest else smallest), TINY)
        self.sum_quantum = 0.0 if gradual else self.quantum

    def multiply(self, x: Array, y: Array) -> Array:
        """Return the bounds of x y."""
        return self._rounded(*_product(x, y), self.quantum)

    def add(self, x: Array, y: Array) -> Array:
        """Return the bounds of x + y; adding an exact 0 rounds nothing."""
        size, error = (x.real + y.real) * SLACK, (x.imag + y.imag) * SLACK
        alone = ((_bound(x) == 0) | (_bound(y) == 0)) & self.keeps
        return np.where(alone, x + y, self._rounded(size, error, self.sum_quantum))

    def fma(self, x: Array, y: Array, z: Array) -> Array:
        """Return the bounds of x y + z."""
        size, error = _product(x, y)
        nothing = (size + error == 0) & self.keeps
        return np.where(nothing, z, self._rounded((size + z.real) * SLACK, (error + z.imag) * SLACK, self.quantum))

    def sequence(self, a: Array, u: Array, x0: Array | None, fused: bool) -> Array:
        """Return the bounds of the recurrence, as the sequential algorithm in this arithmetic gives them."""
        x = np.empty(u.shape, dtype=np.complex128)
        for channel in np.ndindex(u.shape[1:]):
            at = (slice(None), *channel)
            size = error = 0.0
            states: list[complex] = []
            for weight, own in zip(a[at].real.tolist(), u[at].real.tolist(), strict=True):
                if states:
                    size, error = self._step(weight, own, size, error, fused)
                elif x0 is None:
                    size, error = own, 0.0
                else:
                    size, error = self._step(weight, own, float(x0[channel].real), 0.0, fused)
                states.append(complex(size, error))
            x[at] = states
        return x

    def _step(self, weight: float, own: float, size: float, error: float, fused: bool) -> tuple[float, float]:
        if weight == 0 or size + error == 0:
            size = error = 0.0
        else:
            size, error = max(weight * size * SLACK, TINY), weight * error * SLACK + 8 * TINY
            if not fused:
                error = (error + max(self.unit * (size + error), self.quantum)) * SLACK
        nothing = size + error == 0
        if self.keeps and (nothing or (own == 0 and not fused)):
            return size + own, error
        size, error = (size + own) * SLACK, error * SLACK
        computed = size + error
        if computed == 0:
            return size, error
        return size, (error + max(self.unit * computed, self.quantum if fused else self.sum_quantum)) * SLACK

    def rounded(self, x: Array) -> Array:
        """Return the bounds of x rounded once more."""
        return self._rounded(x.real, x.imag, self.quantum)

    def cast(self, x: Array, values: Array, format: FloatFormat) -> Array:
        """Return the bounds x of given values, rounded to the format where they aren't its numbers."""
        held = np.asarray(format.round(values, underflow=self.underflow) == values, dtype=bool)
        return np.where(held, x, self.rounded(x))

    def _rounded(self, size: Array, error: Array, quantum: float) -> Array:
        computed = size + error
        lost = np.where(computed == 0, 0.0, np.maximum(self.unit * computed, quantum))
        result = np.empty(size.shape, dtype=np.complex128)
        result.real, result.imag = size, (error + lost) * SLACK
        return result


def sizes_of(values: Array) -> Array:
    """Return the pairs of numbers without errors."""
    sizes = np.abs(values)
    if sizes.dtype == object:  # of numbers that float64 may not hold
        sizes = np.array([round_up(value) for value in sizes.flat]).reshape(sizes.shape)
    return sizes.astype(np.complex128)


def _bound(x: Array) -> Array:
    return np.asarray(x.real + x.imag)


def _product(x: Array, y: Array) -> tuple[Array, Array]:
    """Return size and error of a product before it is rounded; 0 times anything is exact."""
    nothing = (_bound(x) == 0) | (_bound(y) == 0)
    size = x.real * y.real * SLACK
    error = (x.imag * y.real + (x.real + x.imag) * y.imag) * SLACK
    # What underflows in float64 counts as its smallest number.
    return np.where(nothing, 0.0, np.maximum(size, TINY)), np.where(nothing, 0.0, error + 8 * TINY)
