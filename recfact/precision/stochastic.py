"""What stochastic rounding does to states: nothing on average, and rarely much.

A stochastic rounding goes up or down at random, so that its mean is exact. In the sequential algorithm the error of a
state is then a sum of rounding errors. Given all before it, each has the mean 0 and lies between two neighbours. Such a
sum is a martingale, which the inequality of Hoeffding (1963) and Azuma (1967) bounds.
"""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.errors import OptionError
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.bounds import SLACK, TINY, Loss, sizes_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.operands import Parts
from recfact.precision.run import Task, pieces_of
from recfact.recurrence import first_kept_rows
from recfact.windows import Full, Window, WindowLike


def stochastic_bound(
    a: Any,
    u: Any,
    format: Any,
    *,
    probability: float = 0.99,
    window: WindowLike = Full(),
    x0: Any = None,
    axis: int = -1,
    offsets: Any = None,
) -> Array:
    """Bound the error that stochastic rounding leaves in each state, with a probability.

    Parameters
    ----------
    a, u, window, x0, axis, offsets
        As for `rounded_solve`; coefficients, inputs and initial state must be numbers of the format.
    format : str, dtype, FloatFormat or Arithmetic
        The number format, or the whole arithmetic, which rounds "stochastic" and with gradual underflow.
    probability : float, default 0.99
        How likely it is that all states of a sequence keep their bounds, at least; above 0 and below 1.

    Returns
    -------
    ndarray of float64
        In the shape of the states, rounded up. With that probability, all states that the sequential algorithm computes
        are nearer than this to the exact ones of the window. Infinite where a result may overflow or be NaN.

    Raises
    ------
    OptionError
        If the arithmetic rounds otherwise, or stores operands in another format; or if the probability isn't between 0
        and 1.
    ShapeError
        If the shapes don't fit together.

    See Also
    --------
    recfact.precision.forward_bound : What holds for all random numbers.

    Notes
    -----
    The expected state is the exact one, unless an operation overflows. Each segment is a sequence of its own.

    Connolly, Higham and Mary (2021) prove that these errors are mean independent, and bound those of products and sums
    by a multiple of sqrt(N) u to first order, where N u is certain. Here the martingale is that of the recurrence
    itself, as Ipsen and Zhou (2020) have it for inner products. Derived on the page on rounding bounds ("Stochastic
    rounding").

    Examples
    --------
    >>> from recfact import precision as pr
    >>> how = pr.Arithmetic("bfloat16", rounding="stochastic", seed=1)
    >>> a, u = [1.0] * 1000, [1.0] * 1000
    >>> error = abs(pr.rounded_solve(a, u, how)[-1] - 1000)
    >>> bool(error < pr.stochastic_bound(a, u, how)[-1] < pr.forward_bound(a, u, how)[-1] / 50)
    True
    """
    how = Arithmetic.of(format).of_given_operands()
    if not isinstance(format, Arithmetic):
        how = replace(how, rounding="stochastic")
    gradual = all(each.subnormals for each in (how.format, how.accumulate)) and how.underflow == "gradual"
    if how.rounding != "stochastic" or not gradual or not how.contained:
        raise OptionError(
            "must round 'stochastic' with gradual underflow, and accumulate in a format that holds its own",
            "format",
            given=str(how),
            advice="pass Arithmetic(..., rounding='stochastic')",
        )
    if not (isinstance(probability, Real) and 0 < probability < 1 and float(probability) < 1):
        raise OptionError("must be a number above 0 and below 1", "probability", given=probability, advice="pass 0.99")
    task = Task.of(how, "sequential", window)
    pieces, axis = pieces_of(a, u, x0, axis, offsets, how)
    found = []
    for piece in pieces:
        factor = _factor(how, float(probability), _roundings(len(piece[1]), task.window))
        sizes, spreads = task.run(Drawn(how.accumulate, how, factor), Drawn(how.format, how, factor), [piece])
        with np.errstate(all="ignore"):
            bounds = spreads * (factor * SLACK)
            found.append(np.where(np.isfinite(sizes) & ~np.isnan(bounds), bounds, np.inf))
    return np.moveaxis(np.concatenate(found), 0, axis)


def _roundings(steps: int, window: Window) -> int:
    """Return how many roundings all states of a sequence take together, at most."""
    lags = np.ones(steps) if isinstance(window, Full) else np.arange(steps) - first_kept_rows(steps, window)
    return int(2 * lags.sum()) + steps + 2


def _factor(how: Arithmetic, probability: float, roundings: int) -> float:
    """Return how many of its roots of squared ranges an error reaches at most, after any of so many roundings."""
    bits = how.accumulate.fraction_bits
    # Draws have 53 bits, and sums may be rounded to float64 on the way: means are exact to this share of a range.
    off = 2.0 ** (bits - 51) if bits <= 25 else 2.0**-52
    return math.sqrt(math.log(2 * roundings / (1 - probability)) / 2) + off * math.sqrt(roundings)


class Drawn:
    """Operations of which one operand is exact, on a size and the root of the squared ranges of its rounding errors.

    Parameters
    ----------
    format : FloatFormat
        The format that they round to.
    arithmetic : Arithmetic
        How.
    factor : float
        The error of a result is at most so many of its roots.
    """

    def __init__(self, format: FloatFormat, arithmetic: Arithmetic, factor: float) -> None:
        self.loss, self.fused, self.factor = Loss(format, arithmetic), arithmetic.fma, factor
        self.largest = float(format.max) if format.fits_float64 else math.inf
        self.saturates = format.overflow == "saturate"

    def enter(self, values: Array, _exact: Array | None = None, /) -> Parts:
        """Return the parts of exact numbers."""
        sizes = sizes_of(values)
        return sizes, np.zeros(sizes.shape)

    def rounded(self, x: Parts) -> Parts:
        """Return the parts of x, rounded once more."""
        return self._drawn(x, self.loss.quantum)

    def multiply(self, x: Parts, y: Parts) -> Parts:
        """Return the parts of x y."""
        return self._drawn(self._product(x, y), self.loss.quantum)

    def add(self, x: Parts, y: Parts) -> Parts:
        """Return the parts of x + y; adding an exact 0 rounds nothing."""
        total = x[0] + y[0], x[1] + y[1]
        alone = _is_zero(x) | _is_zero(y)
        return tuple(np.where(alone, *pair) for pair in zip(total, self._drawn(total, 0.0), strict=True))

    def fma(self, x: Parts, y: Parts, z: Parts) -> Parts:
        """Return the parts of x y + z."""
        size, spread = self._product(x, y)
        total = self._drawn((size + z[0], spread + z[1]), self.loss.quantum)
        return tuple(np.where(_is_zero((size, spread)), *pair) for pair in zip(z, total, strict=True))

    def _drawn(self, x: Parts, quantum: float) -> Parts:
        """Return the parts of a result that goes to one of its two neighbours."""
        size, spread = x[0] * SLACK, x[1] * SLACK
        computed = (size + self.factor * spread) * SLACK
        own = np.where(computed == 0, 0.0, np.maximum(self.loss.unit * computed, quantum))
        own = np.where(computed > self.largest, np.inf, own)
        return size, np.hypot(spread, own) * SLACK

    def _product(self, x: Parts, y: Parts) -> Parts:
        """Return the parts of a product of which one factor is exact, before it is rounded."""
        nothing = _is_zero(x) | _is_zero(y)
        if not self.saturates:  # 0 times what overflowed is NaN
            nothing &= np.isfinite(sum((*x, *y)))
        # A number that underflows in float64 counts as its smallest one.
        size, spread = x[0] * y[0] + TINY, x[0] * y[1] + y[0] * x[1]
        return np.where(nothing, 0.0, size), np.where(nothing | (x[1] + y[1] == 0), 0.0, spread + TINY)


def _is_zero(x: Parts) -> Array:
    return np.asarray(x[0] + x[1] == 0)
