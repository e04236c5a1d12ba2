"""How often an algorithm rounds each term of a state: the algorithm itself, run on counts instead of numbers.

The computed state is sum_j L_ij u_j (1 + d_1) (1 + d_2) ... (1 + d_N) with one factor for each rounding on the way from
u_j to x_i, so its error is at most sum_j |L_ij| |u_j| gamma_N(i, j) with gamma_N = N u / (1 - N u), where nothing
underflows or overflows (Higham 2002, section 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.checks import boolean, choice, positive_integer
from recfact.errors import OptionError, shown
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.rounding_errors.operands import ALGORITHMS, CASTS, run_in
from recfact.recurrence import first_kept_rows
from recfact.windows import Full, Jagged, Uniform, Window, WindowLike, blocks_and_terms, check_window

ABSENT = -1
"""What stands for a term that isn't in a state."""

MOST_STEPS = 1 << 16  # whose counts take 34 GB

_ENGINE = {"binary32": 7, "bfloat16": 7, "binary16": 7, "binary64": 6}
"""The most that the engine rounds a term more often than it is multiplied, by the format; tests/cpu/test_tiles.py runs
the engine's own code on symbols to prove it."""

_ENGINE_JAGGED, _ENGINE_UNIFORM = 7, 8

_SUB_TILE = 32  # steps in the shorter of the engine's sub-tiles, each of which is one more addend in a long band

FOLLOWED = 8
"""Blocks of a window that the engine follows by plain loops where it solves sequences side by side. In windows of more,
each lag may be one more addend."""


def factor_counts(
    algorithm: str, n: int, *, window: WindowLike = Full(), fma: bool = False, format: Any = "float32"
) -> Array:
    """Return how many roundings the term of input j has been through when it is in state i.

    Parameters
    ----------
    algorithm : str
        An algorithm of `rounded_solve`, or "engine", what `recfact.solve` runs.
    n : int
        Number of steps.
    window : Full, Uniform, Jagged or str
        What is kept.
    fma : bool, default False
        Whether products and the sums they go into are rounded together. The engine does so in any case.
    format : str, dtype or FloatFormat, default "float32"
        The number type of the engine, on which its order depends; the other algorithms don't read it.

    Returns
    -------
    ndarray of int, shape (n, n)
        N(i, j), and -1 where input j isn't in state i. For "engine" an upper bound of those of one sequence: i - j + 7,
        i - j + 6 in double precision without a window, and one more for each 32 steps of a uniform window, or for each
        step of a jagged window of more than 8 blocks of 2 to 7 steps.

    Raises
    ------
    OptionError
        If there is no such algorithm, or it doesn't make that window.

    Notes
    -----
    Takes O(n) times the operations of the algorithm.

    Counts of factors 1 + delta as in Higham (2002), section 3.1; what they come to is derived on the page on rounding
    bounds ("Counting roundings").

    Examples
    --------
    >>> factor_counts("sequential", 4)
    array([[ 0, -1, -1, -1],
           [ 2,  1, -1, -1],
           [ 4,  3,  1, -1],
           [ 6,  5,  3,  1]])
    >>> factor_counts("kogge-stone", 4, fma=True)[3]
    array([3, 3, 2, 2])
    """
    n = _steps(n)
    window = check_window(window)
    choice(algorithm, "algorithm", (*ALGORITHMS, "engine"))
    boolean(fma, "fma")
    if algorithm == "engine":
        return engine_counts(n, window, format_of(format).name)
    return _run(algorithm, n, window, fma, per_operation=1, per_cast=0, casts=())


def cast_counts(n: int, *, window: WindowLike, casts: Sequence[str] = CASTS) -> Array:
    """Return how often "materialized" rounds a term to the format of the inputs if it accumulates in a wider one.

    Parameters
    ----------
    n : int
        Number of steps.
    window : Full or Jagged
        What is kept.
    casts : sequence of {"L", "g", "v"}
        What is stored in the format of the inputs, as in `mixed_precision_solve`; the states always are.

    Returns
    -------
    ndarray of int, shape (n, n)
        The number of casts of the term of input j in state i, -1 where it isn't in it.

    Raises
    ------
    OptionError
        If a name isn't one of the casts, `n` is out of range, or the window isn't made of blocks.

    Notes
    -----
    Derived on the page on rounding bounds ("Mixed precision").

    Examples
    --------
    >>> from recfact import Jagged
    >>> cast_counts(6, window=Jagged(3))[5]
    array([4, 3, 3, 2, 1, 1])
    """
    n = _steps(n)
    check_casts(casts)
    counts = _run("materialized", n, check_window(window), False, per_operation=0, per_cast=1, casts=casts)
    return np.where(counts == ABSENT, ABSENT, counts + 1)


def check_casts(casts: Sequence[str]) -> None:
    """Raise OptionError if a name isn't one of `CASTS`."""
    if not isinstance(casts, list | tuple | set | frozenset) or not all(name in CASTS for name in casts):
        raise OptionError(f"casts must be a sequence of names among {', '.join(map(repr, CASTS))}, got {shown(casts)}")


def _steps(n: Any) -> int:
    return positive_integer(n, "n", least=0, most=MOST_STEPS)


def _run(
    algorithm: str, n: int, window: Window, fma: bool, per_operation: int, per_cast: int, casts: Sequence[str]
) -> Array:
    counting = Counting(per_operation)
    # Channel j follows the term of input j.
    coefficients = np.zeros((n, n), dtype=np.int64)
    inputs = np.where(np.eye(n, dtype=bool), 0, ABSENT)

    def cast(name: str, counts: Array) -> Array:
        return np.where(counts == ABSENT, ABSENT, counts + per_cast * (name in casts))

    return run_in(counting, algorithm, coefficients, inputs, window=window, fused=fma, cast=cast)


class Counting:
    """Arithmetic of counts: a product has been through the roundings of both factors and one more."""

    def __init__(self, per_operation: int = 1) -> None:
        self.per_operation = per_operation

    def multiply(self, x: Array, y: Array) -> Array:
        """Return the count of x y."""
        return np.where((x == ABSENT) | (y == ABSENT), ABSENT, x + y + self.per_operation)

    def add(self, x: Array, y: Array) -> Array:
        """Return the counts of the terms of x + y; each is in one of the two."""
        either = np.maximum(x, y)
        return np.where(either == ABSENT, ABSENT, either + self.per_operation)

    def fma(self, x: Array, y: Array, z: Array) -> Array:
        """Return the counts of the terms of x y + z, rounded once."""
        product = np.where((x == ABSENT) | (y == ABSENT), ABSENT, x + y)
        return self.add(product, z)


def engine_counts(n: int, window: Window, name: str, several: bool = False) -> Array:
    """Return the counts of the engine for one sequence, or for several in any layout."""
    if name not in _ENGINE:
        raise OptionError(f"the engine computes in {', '.join(_ENGINE)}, got {name}; pass one of them as format")
    if isinstance(window, Jagged) and window.block == 1:
        window = Uniform(window.terms + 1)
    extra = _ENGINE[name] if isinstance(window, Full) else _ENGINE_JAGGED
    if isinstance(window, Uniform):
        extra = _ENGINE_UNIFORM + -(-min(window.lags, n) // _SUB_TILE)
    block, terms = blocks_and_terms(window)
    if terms >= FOLLOWED and several:
        extra = _ENGINE_JAGGED + min(block * (terms + 1), n)
    steps = np.arange(n)
    lags = steps[:, None] - steps
    return np.where((lags >= 0) & (steps >= first_kept_rows(n, window)[:, None]), lags + extra, ABSENT)
