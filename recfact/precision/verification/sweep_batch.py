"""Verification of many short sequences of one format at once, the unit of work of a sweep, or of one of them alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from recfact.arrays import Array
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.exact.balls import Balls, float_balls
from recfact.precision.exact.measured import Measured, measure, truncation_error
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.verification.case_families import draw
from recfact.precision.verification.computations import compute, rounding_bound, task_of
from recfact.precision.verification.result import Verification, quotients
from recfact.precision.verification.verify import sum_of_bounds, truncation_bounds, verify
from recfact.recurrence import first_kept_rows
from recfact.windows import Full, Window


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to compute states: the algorithm, the window and the arithmetic.

    Parameters
    ----------
    algorithm : str
        The algorithm that computes the states.
    window : Full, Uniform, Jagged or str
        What is kept.
    arithmetic : Arithmetic
        The arithmetic.
    """

    algorithm: str
    window: Window
    arithmetic: Arithmetic


@dataclass(frozen=True, slots=True)
class Case:
    """One sequence of a sweep, which its seed can draw again.

    Parameters
    ----------
    variant : Variant
        How its states are computed.
    family : str
        The family of the sequence.
    n, channels, seed : int
        The arguments of `draw`.
    channel : int
        The index of the sequence among those drawn.
    """

    variant: Variant
    family: str
    n: int
    channels: int
    seed: int
    channel: int

    def inputs(self) -> tuple[Array, Array]:
        """Return its coefficients and inputs, of shape (n,)."""
        a, u = draw(self.family, self.variant.arithmetic.format, self.n, self.channels, self.seed)
        return a[:, self.channel], u[:, self.channel]

    def verify(self) -> Verification:
        """Verify it by itself."""
        a, u = self.inputs()
        how = self.variant
        return verify(a, u, window=how.window, format=how.arithmetic, algorithm=how.algorithm)


ERRORS = ("truncation", "rounding", "total")

MANY = 8
"""Roundings of the size of a state, or of the smallest number, that a bound is made of where errors add up."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences of one format and length, from several families, for several ways to compute their states.

    Parameters
    ----------
    format : FloatFormat
        The number format.
    n, channels, seed : int
        Number of steps, number of sequences of each family, and seed of the random numbers.
    families : tuple of str
        The families.
    variants : tuple of Variant
        How the states are computed.
    """

    format: FloatFormat
    n: int
    channels: int
    seed: int
    families: tuple[str, ...]
    variants: tuple[Variant, ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """The results of a batch for one variant and one family.

    Parameters
    ----------
    cases : int
        Number of sequences.
    nonfinite : int
        Number of sequences with an overflow or NaN in a state. No bound of rounding applies from that state on.
    ratios : tuple of float
        The largest quotients of truncation, rounding and total error and their bounds, rounded up.
    accumulated : float
        The largest quotient of rounding error and bound, among states with a bound of at least `MANY` roundings of
        their size.
    worst : Case
        The sequence with the largest quotient of its rounding error.
    broken : tuple of (str, Case)
        The errors that exceeded their bounds.
    """

    variant: Variant
    family: str
    cases: int
    nonfinite: int
    ratios: tuple[float, ...]
    accumulated: float
    worst: Case
    broken: tuple[tuple[str, Case], ...]


def run_batch(batch: Batch) -> list[Tally]:
    """Verify the sequences of a batch.

    The exact states are first enclosed in float64 (`float_balls`). Sequences that this leaves undecided are measured
    again in integers, one by one.

    Returns
    -------
    list of Tally
        One for each variant and family.
    """
    drawn = [draw(family, batch.format, batch.n, batch.channels, batch.seed) for family in batch.families]
    a, u = (np.concatenate(parts, axis=1) for parts in zip(*drawn, strict=True))
    windows: dict[Window, _Exact] = {}
    full = _Exact.of(a, u, Full())
    unit, smallest = float(batch.format.unit_roundoff), float(batch.format.smallest_subnormal) / 2
    tallies = []
    for variant in batch.variants:
        if variant.window not in windows:
            windows[variant.window] = _Exact.of(a, u, variant.window)
        kept = windows[variant.window]
        task = task_of(variant.algorithm, variant.window, variant.arithmetic)
        x, lost = compute(task, [(a, u, None)])
        bound = np.where(lost, np.inf, rounding_bound(task, [(a, u, None)]))
        x = np.where(lost, 0.0, x)
        near, far = kept.states.distance(x), full.states.distance(x)
        rounding = _compare(near, bound, _measure(a, u, x, variant.window))
        total = _compare(far, sum_of_bounds(kept.cut, bound), _measure(a, u, x, Full()))
        many = bound >= MANY * np.maximum(unit * kept.sizes, smallest)
        tallies += _tallies(batch, variant, lost, (kept.truncation, rounding, total), many)
    return tallies


@dataclass(frozen=True, slots=True)
class _Compared:
    """The quotient of error and bound for every state, and whether an error exceeds its bound in a channel."""

    ratios: Array
    broken: Array


@dataclass(frozen=True, slots=True)
class _Exact:
    """The exact states of a window, the sums of their terms' sizes, and what the window leaves out with its bounds."""

    states: Balls
    sizes: Array
    cut: Array
    truncation: _Compared

    @staticmethod
    def of(a: Array, u: Array, window: Window) -> _Exact:
        states = float_balls(a, u, window)
        sizes = float_balls(np.abs(a), np.abs(u), window).centers
        cut = np.zeros(u.shape)
        if isinstance(window, Full):
            return _Exact(states, sizes, cut, _Compared(cut, np.zeros(u.shape[1], dtype=bool)))
        # They depend only on the largest coefficient and input. Many channels of a narrow format share these.
        extremes = np.stack([np.max(np.abs(a[1:]), axis=0, initial=0), np.max(np.abs(u), axis=0)])
        _, first, kind = np.unique(extremes, axis=1, return_index=True, return_inverse=True)
        cut = np.stack([truncation_bounds(a[:, channel], u[:, channel], window) for channel in first], axis=1)
        cut = cut[:, kind.ravel()]  # NumPy 2.0 returns a row
        full = float_balls(a, u, Full())
        both = Balls(states.centers, (states.radii + full.radii) * (1 + 2.0**-50))
        upper = both.distance(full.centers)
        upper[first_kept_rows(len(u), window) == 0] = 0.0  # both states are the same expression there
        truncation = _compare(upper, cut, lambda c: truncation_error(a[:, c], u[:, c], window))
        return _Exact(states, sizes, cut, truncation)


def _measure(a: Array, u: Array, x: Array, window: Window) -> Callable[[int], Measured]:
    return lambda channel: measure(a[:, channel], u[:, channel], x[:, channel], window)


def _compare(upper: Array, bound: Array, again: Callable[[int], Measured]) -> _Compared:
    """Compare errors up to `upper` with their bounds; where that isn't within, `again` measures a channel in integers.

    An infinite bound says nothing.
    """
    upper, broken = upper.copy(), np.zeros(upper.shape[1], dtype=bool)
    silent = np.isinf(bound)
    for channel in np.flatnonzero(~((upper <= bound) | silent).all(axis=0)):
        measured = again(int(channel))
        upper[:, channel] = measured.upper
        broken[channel] = not measured.within(bound[:, channel]).all()
    return _Compared(np.where(silent, 0.0, quotients(upper, bound)), broken)


def _tallies(batch: Batch, variant: Variant, lost: Array, errors: tuple[_Compared, ...], many: Array) -> list[Tally]:
    """Summarize a variant family by family. `many` marks the states where rounding errors add up."""
    rounding = errors[ERRORS.index("rounding")].ratios
    accumulated = np.where(many, rounding, 0.0)

    def case(family: str, channel: int) -> Case:
        return Case(variant, family, batch.n, batch.channels, batch.seed, channel)

    tallies = []
    for number, family in enumerate(batch.families):
        own = slice(number * batch.channels, (number + 1) * batch.channels)
        broken = tuple(
            (name, case(family, int(channel)))
            for name, error in zip(ERRORS, errors, strict=True)
            for channel in np.flatnonzero(error.broken[own])
        )
        tallies.append(
            Tally(
                variant,
                family,
                cases=batch.channels,
                nonfinite=int(np.count_nonzero(lost[:, own].any(axis=0))),
                ratios=tuple(float(error.ratios[:, own].max()) for error in errors),
                accumulated=float(accumulated[:, own].max()),
                worst=case(family, int(np.argmax(rounding[:, own].max(axis=0)))),
                broken=broken,
            )
        )
    return tallies
