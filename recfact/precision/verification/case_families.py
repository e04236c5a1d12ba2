"""Coefficients and inputs to verify bounds on, random and adversarial, as numbers of a format.

Each family draws real numbers. `draw` rounds them to the format, so every case is exact in it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from recfact.arrays import Array
from recfact.checks import choice
from recfact.precision.formats.float_format import FloatFormat
from recfact.recurrence import forward

Pair = tuple[Array, Array]


def _gates(rng: np.random.Generator, _fmt: FloatFormat, shape: tuple[int, int]) -> Pair:
    return 1 / (1 + np.exp(-rng.standard_normal(shape))), rng.standard_normal(shape)


def _uniform(rng: np.random.Generator, _fmt: FloatFormat, shape: tuple[int, int]) -> Pair:
    return rng.uniform(-1, 1, shape), rng.uniform(-1, 1, shape)


def _near_one(rng: np.random.Generator, fmt: FloatFormat, shape: tuple[int, int]) -> Pair:
    """Return the few numbers of the format around 1, whose products lose most, and inputs of one sign."""
    return 1 + rng.integers(-4, 3, shape) * float(fmt.epsneg), rng.uniform(1, 2, shape)


def _constant(rng: np.random.Generator, fmt: FloatFormat, shape: tuple[int, int]) -> Pair:
    """Return the largest number below 1 at each step, with a constant input. Sequential states then stagnate."""
    return np.full(shape, float(fmt.largest_below_one)), np.broadcast_to(rng.uniform(0.5, 1, shape[1]), shape)


def _alternating(rng: np.random.Generator, _fmt: FloatFormat, shape: tuple[int, int]) -> Pair:
    signs = np.where(np.arange(shape[0]) % 2, -1.0, 1.0)[:, None]
    return signs * rng.uniform(0.5, 1, shape), np.roll(signs, 1) * rng.uniform(0.5, 1, shape)


def _zeros(rng: np.random.Generator, _fmt: FloatFormat, shape: tuple[int, int]) -> Pair:
    a, u = rng.standard_normal(shape), rng.standard_normal(shape)
    return np.where(rng.random(shape) < 0.4, 0.0, a), np.where(rng.random(shape) < 0.4, 0.0, u)


def _denormal(rng: np.random.Generator, fmt: FloatFormat, shape: tuple[int, int]) -> Pair:
    """Return inputs of a few of the smallest numbers, so that products underflow."""
    inputs = rng.integers(-9, 10, shape) * float(fmt.smallest_subnormal)
    return rng.uniform(-1, 1, shape), inputs


def _underflowing(rng: np.random.Generator, fmt: FloatFormat, shape: tuple[int, int]) -> Pair:
    """Return coefficients so small that products of some of them underflow while the inputs are large."""
    depth = -(fmt.emin - fmt.fraction_bits)
    a = np.ldexp(rng.uniform(-1, 1, shape), -rng.integers(0, max(depth, 0) + 1, shape))
    return a, np.ldexp(rng.uniform(-1, 1, shape), rng.integers(0, max(fmt.emax, 0) + 1, shape))


def _growing(rng: np.random.Generator, _fmt: FloatFormat, shape: tuple[int, int]) -> Pair:
    return rng.uniform(1, 1.5, shape), rng.uniform(0, 1, shape)


def _codes(rng: np.random.Generator, fmt: FloatFormat, shape: tuple[int, int]) -> Pair:
    """Return random numbers of the format. All codes are equally likely."""

    def numbers() -> Array:
        codes = rng.integers(0, fmt.max_code, shape, dtype=np.uint64, endpoint=True)
        return np.asarray(fmt.decode(codes) * rng.choice([-1.0, 1.0], shape))

    return numbers(), numbers()


def _cancellation(rng: np.random.Generator, fmt: FloatFormat, shape: tuple[int, int]) -> Pair:
    """Return inputs that cancel most of the state at every other step."""
    a, u = rng.uniform(0.5, 1.5, shape), rng.uniform(0.5, 1, shape)
    for i in range(1, shape[0], 2):
        u[i] = -fmt.round(a[i], overflow="saturate") * forward(a[:i], u[:i])[-1]
    return a, u


def _witnesses(rng: np.random.Generator, fmt: FloatFormat, shape: tuple[int, int]) -> Pair:
    """Return constant coefficients, and inputs whose only state is one 1: what a window loses of it is all there is."""
    n, channels = shape
    a = np.broadcast_to(fmt.round(rng.uniform(0.25, 1, channels), overflow="saturate"), shape)
    u, at = np.zeros(shape), rng.integers(0, max(n - 1, 1), channels)
    u[at, np.arange(channels)] = 1
    if n > 1:
        u[at + 1, np.arange(channels)] = -a[0]
    return a, u


FAMILIES: dict[str, Callable[[np.random.Generator, FloatFormat, tuple[int, int]], Pair]] = {
    "gates": _gates,
    "uniform": _uniform,
    "near one": _near_one,
    "constant": _constant,
    "alternating": _alternating,
    "zeros": _zeros,
    "denormal": _denormal,
    "underflowing": _underflowing,
    "growing": _growing,
    "codes": _codes,
    "cancellation": _cancellation,
    "witnesses": _witnesses,
}
"""What each family draws, of a generator, a format and a shape (n, channels)."""


def draw(family: str, fmt: FloatFormat, n: int, channels: int, seed: int) -> Pair:
    """Return the coefficients and inputs of a family, numbers of a format.

    Parameters
    ----------
    family : str
        One of `FAMILIES`.
    fmt : FloatFormat
        A format whose numbers float64 holds.
    n, channels : int
        Number of steps, and of sequences.
    seed : int
        Seed of the random numbers. The same arguments give the same numbers.

    Returns
    -------
    a, u : ndarray of float64, shape (n, channels)
        Finite numbers. If the format has no sign, they are magnitudes. If it has no zero, its smallest number stands
        for zeros.

    Raises
    ------
    OptionError
        If there is no such family.

    Examples
    --------
    >>> from recfact import precision as pr
    >>> a, u = draw("near one", pr.format("bfloat16"), n=3, channels=2, seed=0)
    >>> a.shape, float(a.min()), float(a.max())
    ((3, 2), 0.984375, 1.0)
    """
    make = FAMILIES[choice(family, "family", tuple(FAMILIES))]
    with np.errstate(over="ignore", under="ignore"):
        pair = make(np.random.default_rng(seed), fmt, (n, channels))
    rounded = (fmt.round(x if fmt.signed else np.abs(x), overflow="saturate") for x in pair)
    a, u = (np.ascontiguousarray(x) for x in rounded)
    return a, u
