"""How often an algorithm rounds each term of a state, and bounds of rounding errors from these counts alone.

**Counts** come from the algorithm itself, run on counts instead of numbers. The computed state is
sum_j L_ij u_j (1 + d_1) (1 + d_2) ... (1 + d_N), with one factor for each rounding on the way from u_j to x_i. If
nothing underflows or overflows, its error is at most sum_j |L_ij| |u_j| gamma_N(i, j) with gamma_N = N u / (1 - N u)
(Higham 2002, section 3.1).

**Bounds from counts** are for algorithms that can't be run on bounds: the engine. They only use four properties of the
algorithm. Products of coefficients only grow by neighbouring coefficients. An input enters a state once. The sums of a
step are formed one after the other. And the term of an input goes through N(i, j) roundings. A product of m
coefficients takes m - 1 roundings in any order, and multiplying a state by it is the m-th. The roundings of N(i, j)
beyond i - j are those of sums. So if nothing underflows, each term has a relative error of (1 + u)^N(i, j) - 1.

**Underflow.** Each rounding may then add an error of up to eta. There are two cases. (1) A sum at step q, or a product
in it, gets the error. It acts as if input q had this error. The number of such sums is that of the term that goes
through all of them. It is at most the largest N(i, j) - (i - j) of an input j <= q. (2) A product of the coefficients
from p + 1 to q gets the error. This happens at most i - j - 1 times in the term of input j. The term loses
eta |L_iq| |L_pj| |u_j|, without the coefficients between p and q. Several such losses in one term add up to at most
exp((i - j) eta g) times this, where g is the largest product of neighbours. For k losses lie side by side in at most
binomial(i - j, k) ways, and the product left between two of them is at most g.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.checks import boolean, choice, positive_integer
from recfact.errors import OptionError
from recfact.number_types import REALS
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.bounds import SLACK, TINY, Bounded, Loss, sizes_of
from recfact.precision.exact.outward import enclose_value
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.operands import Parts
from recfact.precision.run import ALGORITHMS, CASTS, Task, check_casts, pieces_of
from recfact.recurrence import first_kept_rows
from recfact.windows import Full, Window, WindowLike, check_window

ABSENT = -1
"""The mark of a term that isn't in a state."""

MOST_STEPS = 1 << 16  # whose counts take 34 GB


def factor_counts(
    algorithm: str, n: int, *, window: WindowLike = Full(), fma: bool = False, format: Any = "float32"
) -> Array:
    """Return how often the term of input j in state i has been rounded.

    Parameters
    ----------
    algorithm : str
        An algorithm of `rounded_solve`, or "engine" for what `recfact.solve` runs.
    n : int
        Number of steps.
    window : Full, Uniform, Jagged or str
        What is kept.
    fma : bool, default False
        Whether a product and the sum it is added to are rounded together. The engine always does so.
    format : str, dtype or FloatFormat, default "float32"
        The number type of the engine, because its order depends on it. The other algorithms don't read it.

    Returns
    -------
    ndarray of int, shape (n, n)
        N(i, j), and -1 where input j isn't in state i.

        For "engine" it is an upper bound for one sequence. It is i - j + 7, or i - j + 6 in double precision without a
        window. It is one more for each 32 steps of a uniform window, or for each step of a jagged window of more than 8
        blocks of 2 to 7 steps. In a uniform window of at most 96 lags (1024 for halves) it is at least the number of
        steps of the window, less one.

    Raises
    ------
    OptionError
        If there is no such algorithm, or it doesn't make that window.

    Notes
    -----
    This takes O(n) times the operations of the algorithm.

    The counts are those of factors 1 + delta as in Higham (2002), section 3.1. Their values are derived on the page on
    rounding bounds ("Counting roundings").

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
    """Return how often "mixed-precision" rounds a term to the format of the inputs.

    Parameters
    ----------
    n : int
        Number of steps.
    window : Full or Jagged
        What is kept.
    casts : sequence of {"L", "g", "v"}
        What is stored in the format of the inputs, as in `rounded_solve`. The states always are.

    Returns
    -------
    ndarray of int, shape (n, n)
        The number of casts of the term of input j in state i, or -1 where it isn't in it.

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
    return _run("mixed-precision", n, check_window(window), False, per_operation=0, per_cast=1, casts=casts)


def _steps(n: Any) -> int:
    return positive_integer(n, "n", least=0, most=MOST_STEPS)


def _run(algorithm: str, n: int, window: Window, fma: bool, per_operation: int, per_cast: int, casts: Any) -> Array:
    # Column j follows the term of input j.
    task = Task.of(Arithmetic("bfloat16", fma=fma), algorithm, window, casts)
    counting = Counting(fma, per_operation), Counting(fma, per_operation, per_cast)
    (counts,) = task.run(*counting, [(np.ones((n, n)), np.eye(n), None)])
    return counts


class Counting:
    """Operations on counts: a product has the roundings of both factors and one more.

    Parameters
    ----------
    fused : bool
        Whether a product that is added to something is rounded only with the sum.
    per_operation, per_cast : int
        The number of roundings of an operation, and of storing a number.
    """

    def __init__(self, fused: bool, per_operation: int = 1, per_cast: int = 0) -> None:
        self.fused, self.per_operation, self.per_cast = fused, per_operation, per_cast

    def enter(self, values: Array, _exact: Array | None = None, /) -> Parts:
        """Return the counts of exact numbers, and that a 0 isn't there."""
        return (np.where(values == 0, ABSENT, 0),)

    def rounded(self, x: Parts) -> Parts:
        """Return the counts of numbers that are stored."""
        return (np.where(x[0] == ABSENT, ABSENT, x[0] + self.per_cast),)

    def multiply(self, x: Parts, y: Parts) -> Parts:
        """Return the count of x y."""
        return (self._product(x[0], y[0], self.per_operation),)

    def add(self, x: Parts, y: Parts) -> Parts:
        """Return the counts of the terms of x + y; each is in one of the two."""
        either = np.maximum(x[0], y[0])
        return (np.where(either == ABSENT, ABSENT, either + self.per_operation),)

    def fma(self, x: Parts, y: Parts, z: Parts) -> Parts:
        """Return the counts of the terms of x y + z, rounded once."""
        return self.add((self._product(x[0], y[0], 0),), z)

    def _product(self, x: Array, y: Array, roundings: int) -> Array:
        return np.where((x == ABSENT) | (y == ABSENT), ABSENT, x + y + roundings)


def engine_counts(n: int, window: Window, name: str, several: bool = False) -> Array:
    """Return the counts of the engine for one sequence, or for several in any layout."""
    if name not in REALS:
        raise OptionError(f"the engine computes in {', '.join(REALS)}, got {name}; pass one of them as format")
    from recfact.cpu.roundings import extra_roundings, least_roundings  # which import llvmlite

    dtype = REALS[name].dtype
    extra = extra_roundings(dtype, window, n, several)
    steps = np.arange(n)
    lags = steps[:, None] - steps
    counts = np.maximum(lags + extra, least_roundings(dtype, window, n))
    return np.where((lags >= 0) & (steps >= first_kept_rows(n, window)[:, None]), counts, ABSENT)


def engine_bound(
    a: Any,
    u: Any,
    format: Any,
    *,
    window: WindowLike = Full(),
    x0: Any = None,
    axis: int = -1,
    offsets: Any = None,
) -> Array:
    """Bound the rounding errors of every state that `recfact.solve` computes on the CPU, in any layout.

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs. They must be numbers of the format. They broadcast.
    format : str, dtype or FloatFormat
        binary32, binary64, binary16 or bfloat16.
    window : Full, Uniform, Jagged or str
        What is kept.
    x0 : scalar or array_like, optional
        State before the first step. It broadcasts against the result without `axis`.
    axis : int, default -1
        The axis of the result along which the recurrence runs.
    offsets : array_like of int, shape (N + 1,), optional
        Where segments start, and where the last one ends, as for `recfact.solve`.

    Returns
    -------
    ndarray of float64
        Bounds of the distance between the computed states and the exact states of the window, in the shape of the
        states. They are rounded up. They hold if no state overflows.

    Raises
    ------
    OptionError
        If the engine doesn't compute in the format.

    Notes ----- Several sequences may lie in memory in any order. In windows of more than 8 lags this order decides how
    often a state is rounded. The bound is then that of the order with the most roundings.

    Derived on the page on the engine ("Rounding"), from counts as in Higham (2002), section 3.1.

    Examples
    --------
    >>> engine_bound([0.5] * 3, [1.0] * 3, "float16") <= [0.0005, 0.0008, 0.0009]
    array([ True,  True,  True])
    """
    arithmetic, window = Arithmetic(format).of_given_operands(), check_window(window)
    pieces, axis = pieces_of(a, u, x0, axis, offsets, arithmetic)
    several = offsets is not None or any(inputs.size != len(inputs) for _, inputs, _ in pieces)
    bounds = [engine_bounds(*piece, arithmetic.format, window, several) for piece in pieces]
    return np.moveaxis(np.concatenate(bounds), 0, axis)


def engine_bounds(a: Array, u: Array, x0: Array | None, storage: FloatFormat, window: Window, several: bool) -> Array:
    """Return the bounds of `engine_bound` along axis 0, for `several` sequences solved together or for a single one."""
    counts = engine_counts(len(u), window, storage.name, several)
    before = int(x0 is not None and len(u) > 0)
    if x0 is not None and before:  # a step more, before the first
        a, u = np.concatenate([a[:1], a]), np.concatenate([x0[None], u])
        first = np.where(counts[:, :1] == ABSENT, ABSENT, counts[:, :1] + 1)
        counts = np.pad(np.concatenate([first, counts], axis=1), ((1, 0), (0, 0)), constant_values=ABSENT)
    inner = storage if storage.fraction_bits >= 23 else FORMATS["binary32"]
    sizes, errors = counted_bounds(a, u, counts, inner, losses=2)  # some products that underflow are rounded down
    if inner is not storage:
        _, errors = Bounded(storage, Arithmetic(storage)).rounded((sizes, errors))
    return errors[before:]


def counted_bounds(a: Array, u: Array, counts: Any, fmt: FloatFormat, losses: int = 1) -> tuple[Array, Array]:
    """Bound sizes and rounding errors of states along axis 0 by the counts of roundings of their terms.

    Parameters
    ----------
    a, u : ndarray, shape (n, ...)
        Coefficients and inputs, numbers of the format.
    counts : ndarray of int, shape (n, n)
        N(i, j), as `factor_counts` returns them.
    fmt : FloatFormat
        The format that operations are rounded to, to nearest.
    losses : int
        A product of coefficients that underflows is wrong by at most so many times half of the smallest number.

    Returns
    -------
    sizes, errors : ndarray of float64, shape (n, ...)
        The sizes are ``sum_j |L_ij| |u_j|``. The errors are ``sum_j |L_ij| |u_j| ((1 + u)^N(i, j) - 1)`` with the unit
        roundoff u, and what underflow may add. They are rounded up, and hold if nothing overflows. They are infinite
        beyond the range of float64, which products of neighbouring coefficients beyond the range of the format can
        cause.

    Notes
    -----
    This takes O(n^2), while `forward_bound` takes O(n) for most algorithms. But it takes any counts, so also those of
    the engine. For underflow it assumes that each sum of a state loses half of the smallest number. It assumes the same
    of each product of coefficients; a term has one product less than its lag. The loss of a product is multiplied by
    the coefficients after it and by the state before it.

    Higham (2002), section 3.1; derived on the page on rounding bounds, equation (1).
    """
    weights, inputs = sizes_of(a), sizes_of(u)
    n, loss = len(inputs), Loss(fmt, Arithmetic(fmt))
    eta = loss.quantum + loss.sum_quantum
    distinct, places = np.unique(np.maximum(counts, 0), return_inverse=True)
    factors = np.array([_factor(fmt, int(count)) for count in distinct])[places.reshape(n, n)]
    channels = (...,) + (None,) * (inputs.ndim - 1)

    # Row i of |L_ij| |u_j|, of |L_ij|, of the largest |L_pj| with p <= i, and of the largest |L_iq| |L_pj| with p <= q.
    terms, products, before, apart = (np.zeros(inputs.shape) for _ in range(4))
    sizes, total = np.zeros(inputs.shape), np.zeros(inputs.shape)
    with np.errstate(all="ignore"):
        for i in range(n):
            seen, row = slice(i), slice(i + 1)
            for part in (terms, products, apart):
                part[seen] = _product(part[seen], weights[i])
            terms[i], products[i], before[i], apart[i] = inputs[i], 1, 1, 1
            np.maximum(before[seen], products[seen], out=before[seen])
            np.maximum(apart[seen], before[seen], out=apart[seen])

            kept, lags = counts[i, row] != ABSENT, i - np.arange(i + 1)
            extra = np.maximum.accumulate(np.where(kept, np.maximum(counts[i, row] - lags, 0), 0))
            added = (extra * eta)[channels]
            cut = (np.maximum(lags - 1, 0) * (losses * eta))[channels]
            several = np.exp(np.max(lags) * losses * eta * before[row].max(axis=0) * SLACK)
            lost = _product(inputs[row] + added, _product(cut, apart[row] * several)) + _product(added, products[row])
            factor = factors[i, row][channels]
            errors = _product(terms[row], factor) + _product(lost, 1 + np.max(factor))
            sizes[i], total[i] = _total(terms[row], kept), _total(errors, kept)
    return sizes, total


def _factor(fmt: FloatFormat, count: int) -> float:
    """Return (1 + u)^count - 1, rounded up."""
    return enclose_value(lambda _, unit: (1 + unit) ** count - 1, Fraction(fmt.unit_roundoff))[1]


def _product(x: Array, y: Array) -> Array:
    """Return x y, rounded up; 0 times anything is 0."""
    return np.where((x == 0) | (y == 0), 0.0, x * y * SLACK + TINY)


def _total(parts: Array, kept: Array) -> Array:
    """Return the sum of the parts that are kept, rounded up."""
    own = parts[kept]
    return np.asarray(np.sum(own, axis=0) * (1 + len(own) * 2.0**-52) * SLACK)
