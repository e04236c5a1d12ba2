"""Running error bounds: an algorithm bounds the rounding errors of its states while it computes them.

Each number is a pair, the computed value and a bound of how far it is from the exact one. A rounding adds at most
`unit` times what it returns (Wilkinson 1963; Higham 2002, section 3.3), so the bound speaks of these very inputs: it
sees cancellation, and products that were exact zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.checks import boolean, choice
from recfact.containers import without_labels
from recfact.errors import DTypeError
from recfact.precision.rounding_errors.arithmetic import Arithmetic
from recfact.precision.rounding_errors.error_bounds import SLACK, TINY, BoundArithmetic
from recfact.precision.rounding_errors.operands import ALGORITHMS, run_in
from recfact.precision.rounding_errors.rounded_algorithms import operands_of
from recfact.windows import Full, WindowLike, check_window


def running_bound(
    a: Any,
    u: Any,
    format: Any,
    algorithm: str = "sequential",
    *,
    window: WindowLike = Full(),
    fma: bool = False,
    x0: Any = None,
    axis: int = -1,
    rounding: str = "nearest-even",
    underflow: str = "gradual",
    seed: Any = None,
) -> tuple[Array, Array]:
    """Solve with every operation rounded, as `rounded_solve` does, and bound the errors on the way.

    Parameters
    ----------
    a, u, format, algorithm, window, fma, x0, axis, rounding, underflow, seed
        As for `rounded_solve`; coefficients, inputs and initial state must be numbers of the format.

    Returns
    -------
    x : ndarray of float64
        The computed states.
    bound : ndarray of float64, shape of `x`
        Bounds of their distances from the exact states of the window, rounded up. Infinite where a state depends on an
        operation that overflowed, or gave the largest number of the format, which may be all that is left of that.

    Raises
    ------
    OptionError, ShapeError
        As for `rounded_solve`.
    DTypeError
        If float64 doesn't hold the numbers of the format.

    Notes
    -----
    Wilkinson (1963); Higham (2002), section 3.3.

    Examples
    --------
    >>> x, bound = running_bound([0.5, 0.75, 0.75], [1.0, 1.0, 2**-10], "float16")
    >>> x.tolist(), bound.tolist()[0], bool(bound[2] <= 2**-8)
    ([1.0, 1.75, 1.3134765625], 0.0, True)
    """
    arithmetic = Arithmetic(format, rounding, underflow=underflow, seed=seed)
    choice(algorithm, "algorithm", ALGORITHMS)
    window = check_window(window)
    if arithmetic.dtype != np.float64:
        raise DTypeError(f"running bounds need a format whose numbers float64 holds, got {arithmetic.format}")
    a, u, x0, axis = without_labels(a, u, x0, axis)
    coefficients, inputs, state = (
        None if values is None else values.astype(complex) for values in operands_of(a, u, x0, np.float64, axis)
    )
    pairs = RunningArithmetic(arithmetic)
    with np.errstate(all="ignore"):
        x = run_in(pairs, algorithm, coefficients, inputs, state, window=window, fused=boolean(fma, "fma"))  # type: ignore[arg-type]
    held = np.isfinite(x.real) & ~np.isnan(x.imag)
    return np.moveaxis(x.real.copy(), 0, axis), np.moveaxis(np.where(held, x.imag, np.inf), 0, axis)


class RunningArithmetic:
    """Products and sums of computed values and the bounds of their errors, as complex numbers value + i bound.

    Parameters
    ----------
    arithmetic : Arithmetic
        What computes the values.
    """

    def __init__(self, arithmetic: Arithmetic) -> None:
        self.arithmetic = arithmetic
        limits = BoundArithmetic(arithmetic.format, arithmetic.rounding, arithmetic.underflow)
        self.unit, self.quantum, self.sum_quantum = limits.unit, limits.quantum, limits.sum_quantum
        self.largest = float(arithmetic.format.max)

    def multiply(self, x: Array, y: Array) -> Array:
        """Return the pair of x y."""
        value = self.arithmetic.multiply(x.real, y.real)
        return self._pair(value, self._product(x, y), self.quantum, _nothing(x, y))

    def add(self, x: Array, y: Array) -> Array:
        """Return the pair of x + y."""
        value = self.arithmetic.add(x.real, y.real)
        exact = ((x == 0) | (y == 0)) & (self.sum_quantum == 0)
        return self._pair(value, x.imag + y.imag, self.sum_quantum, exact)

    def fma(self, x: Array, y: Array, z: Array) -> Array:
        """Return the pair of x y + z, rounded once."""
        value = self.arithmetic.fma(x.real, y.real, z.real)
        exact = _nothing(x, y) & ((z == 0) | (self.sum_quantum == 0))
        return self._pair(value, self._product(x, y) + z.imag, self.quantum, exact)

    def _product(self, x: Array, y: Array) -> Array:
        """Bound the error that the factors bring into a product."""
        error = np.abs(x.real) * y.imag + np.abs(y.real) * x.imag + x.imag * y.imag
        return np.where((x.imag == 0) & (y.imag == 0) | _nothing(x, y), 0.0, error * SLACK + 3 * TINY)

    def _pair(self, value: Array, error: Array, quantum: float, exact: Array) -> Array:
        lost = np.where(np.abs(value) < self.largest, np.maximum(self.unit * np.abs(value), quantum), np.inf)
        pair = np.empty(np.shape(value), dtype=complex)
        pair.real = value
        pair.imag = np.where(exact, error, (error + lost) * SLACK)
        return pair


def _nothing(x: Array, y: Array) -> Array:
    return np.asarray((x == 0) | (y == 0))
