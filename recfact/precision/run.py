"""The algorithms in a number format: their own code, run on numbers that round, or on bounds or counts of roundings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from recfact import algorithms
from recfact.affine import Blocks, carried, products
from recfact.arrays import Array
from recfact.checks import choice
from recfact.errors import OptionError, shown
from recfact.number_types import REALS
from recfact.precision.arithmetic import Arithmetic, Marked, Rounded
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.operands import Operands, Operations, Parts
from recfact.precision.reals import as_rationals, as_reals
from recfact.precision.sequences import Pieces, operands_by_segment, time_first, without_labels_of
from recfact.recurrence import folded
from recfact.windows import Full, Jagged, Window, WindowLike, check_window

ALGORITHMS = (*algorithms.NAMES, "b2p", "materialized", "mixed-precision")
"""Those of `recfact.algorithms`; "b2p", which is "hierarchical" with a jagged window; "materialized", the same two with
blocks of L that are formed and multiplied by the inputs, as on tensor cores; and "mixed-precision", which stores these
blocks and what passes between them in the format of the inputs."""

CASTS = ("L", "g", "v")

NATIVE = {FORMATS[name]: kind.dtype for name, kind in REALS.items()} | {
    fmt: np.dtype(getattr(ml_dtypes, name)) for name, fmt in FORMATS.items() if fmt.signed and hasattr(ml_dtypes, name)
}
"""Formats whose operations, rounded to nearest, are those of a type of NumPy or ml_dtypes, and faster there."""


def rounded_solve(
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
    """Solve the recurrence by a named algorithm with every operation rounded to a number format.

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs. They broadcast, and should be numbers of the format, unless the arithmetic says in
        which format they are stored.
    format : str, dtype, FloatFormat, BlockFormat or Arithmetic
        The number format, or the whole arithmetic.
    algorithm : str, default "sequential"
        ================= ==========================================================================================
        "sequential"      a loop over the steps, or over the steps that a row of the window keeps
        "kogge-stone",    the algorithms of `recfact.algorithms`, in their own order
        "brent-kung",
        "hierarchical"
        "b2p"             "hierarchical" for a jagged window
        "materialized"    forms the blocks of L and multiplies them by the inputs, as tensor cores do
        "mixed-precision" the same, with `casts` stored in the format, and all products and sums in another one that
                          holds it: binary32 unless the arithmetic accumulates in one
        ================= ==========================================================================================

    window : Full, Uniform, Jagged or str
        What is kept.
    casts : sequence of {"L", "g", "v"}
        What "mixed-precision" stores in the format, besides coefficients, inputs and states. "L" are the blocks of L,
        "g" the cumulative products that bring a carrier to its steps, and "v" the carriers. Values that aren't named
        stay in the wider format. The other algorithms don't read `casts`.
    x0 : scalar or array_like, optional
        State before the first step. It broadcasts against the result without `axis`, and is added to the first input.
    axis : int, default -1
        The axis of the result along which the recurrence runs.
    offsets : array_like of int, shape (N + 1,), optional
        Where segments start, and where the last one ends, as for `recfact.solve`.

    Returns
    -------
    ndarray of float64
        The states, in the shape that `a` and `u` broadcast to. They are Fractions if float64 doesn't hold the numbers
        of the format.

    Raises
    ------
    OptionError
        If there is no such algorithm, or if it doesn't make that window or run in that arithmetic.
    ShapeError
        If the shapes don't fit together.

    Notes
    -----
    Kogge and Stone (1973); Brent and Kung (1982); "hierarchical" and "b2p" are Algorithms 2 and 4 of the sliding window
    recurrences paper. The casts of "mixed-precision" are those of the page on rounding bounds ("Mixed precision").

    Examples
    --------
    >>> from recfact import precision as pr
    >>> rounded_solve([0.75] * 4, [1.0] * 4, "float8_e5m2").tolist()
    [1.0, 1.75, 2.0, 2.5]
    >>> a, u = pr.format("bfloat16").round([[0.9] * 6, [1.0] * 6])
    >>> rounded_solve(a, u, "bfloat16", "mixed-precision", window=Jagged(3)).tolist()
    [1.0, 1.8984375, 2.703125, 3.421875, 4.09375, 4.65625]
    """
    task = Task.of(format, algorithm, window, casts)
    pieces, axis = pieces_of(a, u, x0, axis, offsets, task.arithmetic)
    return np.moveaxis(task.states(pieces), 0, axis)


class Task:
    """An algorithm with all its options, after they are checked.

    Parameters
    ----------
    arithmetic : Arithmetic
        The arithmetic.
    algorithm : str
        One of `ALGORITHMS`.
    window : Full, Uniform or Jagged
        A window that it makes.
    casts : sequence of str
        Names among `CASTS`.
    """

    def __init__(self, arithmetic: Arithmetic, algorithm: str, window: Window, casts: Sequence[str] = CASTS) -> None:
        self.arithmetic, self.algorithm, self.window, self.casts = arithmetic, algorithm, window, casts

    @staticmethod
    def of(format: Any, algorithm: str, window: WindowLike, casts: Sequence[str] = CASTS) -> Task:
        """Check a caller's arguments.

        Raises
        ------
        OptionError
            As `rounded_solve`.
        """
        arithmetic, window = Arithmetic.of(format), check_window(window)
        choice(algorithm, "algorithm", ALGORITHMS)
        check_casts(casts)
        if algorithm == "b2p" and not isinstance(window, Jagged):
            raise OptionError(
                "must be jagged for algorithm 'b2p'",
                "window",
                given=window,
                instead={"window": Jagged(16)},
                advice="or another algorithm",
            )
        if algorithm in ("materialized", "mixed-precision") and not isinstance(window, Full | Jagged):
            raise OptionError(f"must be full or jagged for algorithm {algorithm!r}", "window", given=window)
        if algorithm == "mixed-precision":
            arithmetic = mixed(arithmetic)
        return Task(arithmetic, algorithm, window, casts)

    def run(self, inner: Operations, outer: Operations, pieces: Pieces) -> Parts:
        """Run the algorithm along axis 0, in operations of the format that it computes in and of that of its states.

        Parameters
        ----------
        inner, outer : Operations
            The operations in the two formats.
        pieces : list of (a, u, x0)
            Coefficients, inputs and initial state of each segment.

        Returns
        -------
        tuple of ndarray, shape (n, ...)
            The parts by which the operations represent the states, of all segments one behind the other.
        """

        def entered(values: Array, exact: Array | None = None) -> Operands:
            # Single elements of arrays have no arithmetic of their own, so there is an axis more.
            values, how = values[..., None], self.arithmetic
            parts = inner.enter(values, None if exact is None else exact[..., None])
            if not how.contained:  # values that the format of the operations doesn't hold are rounded first
                held = np.asarray(how.accumulate.round(values, underflow=how.underflow) == values, dtype=bool)
                pairs = zip(parts, inner.rounded(parts), strict=True)
                parts = tuple(np.where(held, part, stored).astype(stored.dtype) for part, stored in pairs)
            return Operands(inner, *parts)

        def cast(name: str, values: Operands) -> Operands:
            stored = self.algorithm == "mixed-precision" and name in self.casts
            return Operands(inner, *outer.rounded(values.parts)) if stored else values

        def stored(values: Array) -> Operands:
            how = self.arithmetic
            return entered(values) if how.operands is None else entered(how.stored(values), values)

        found = []
        with np.errstate(all="ignore"):
            for a, u, x0 in pieces:
                start = None if x0 is None else entered(x0)
                x = self._solve(stored(a), stored(u), start, cast).parts
                found.append(x if self.arithmetic.accumulate == self.arithmetic.format else outer.rounded(x))
        return tuple(np.concatenate(parts)[..., 0] for parts in zip(*found, strict=True))

    def _solve(self, a: Any, u: Any, x0: Any, cast: Callable[[str, Any], Any] = lambda _, values: values) -> Any:
        if self.algorithm in algorithms.NAMES or self.algorithm == "b2p":
            name = "hierarchical" if self.algorithm == "b2p" else self.algorithm
            return algorithms.run(name, a, u, x0, window=self.window)
        full = isinstance(self.window, Full)
        block, terms = (algorithms.BLOCK, None) if full else (self.window.block, self.window.terms)  # type: ignore[union-attr]
        return blocks_by_products(a, folded(a, u, x0), block, terms, cast)

    def operations(self, kind: Callable[..., Operations]) -> tuple[Operations, Operations]:
        """Return operations of a class in the two formats of the arithmetic. They share their random numbers."""
        how, random = self.arithmetic, self.arithmetic.random()
        return kind(how.accumulate, how, random), kind(how.format, how, random)

    def states(self, pieces: Pieces) -> Array:
        """Return the states, every operation rounded."""
        native = self._native()
        if native is None:
            (x,) = self.run(*self.operations(Rounded), pieces)
            return x.astype(self.arithmetic.dtype, copy=False)
        with np.errstate(all="ignore"):
            found = []
            for a, u, x0 in pieces:
                start = None if x0 is None else x0.astype(native)
                a, u = self.arithmetic.stored(a), self.arithmetic.stored(u)
                found.append(self._solve(a.astype(native), u.astype(native), start))
            x = np.concatenate(found).astype(np.float64)
        how = self.arithmetic
        return x if how.accumulate == how.format else Rounded(how.format, how).round(x)

    def _native(self) -> Any:
        """Return the number type whose operations are exactly those of the arithmetic, or None."""
        how = self.arithmetic
        plain = (how.fma, how.rounding, how.underflow) == (False, "nearest-even", "gradual")
        return NATIVE.get(how.accumulate) if plain and how.contained and self.algorithm != "mixed-precision" else None

    def overflows(self, pieces: Pieces) -> Array:
        """Return which states depend on an operation that overflows.

        The algorithm runs with one more exponent bit. Results beyond the largest number of the format become NaN. This
        NaN reaches all results that depend on it, except products with 0. So overflows that saturate, or that a
        directed rounding hides, become visible. Infinities are visible anyway, and their products with 0 are NaN.
        """
        (x,) = self.run(*self.operations(Marked), pieces)
        return np.isnan(x.astype(np.float64))


def mixed(arithmetic: Arithmetic) -> Arithmetic:
    """Return the arithmetic of "mixed-precision". If none accumulates in another format, it accumulates in binary32.

    Raises
    ------
    OptionError
        If that doesn't hold every number of the format.
    """
    storage, wide = arithmetic.format, arithmetic.accumulate
    if wide == storage:
        wide = FORMATS["binary32"]
    if not wide.holds(storage):
        required = f"must be a format that holds the numbers of {storage}"
        raise OptionError(required, "accumulate", given=wide.name, advice="pass a wider one")
    return replace(arithmetic, accumulate=wide)


def check_casts(casts: Sequence[str]) -> None:
    """Raise OptionError if a name isn't one of `CASTS`."""
    if not isinstance(casts, list | tuple | set | frozenset) or not all(name in CASTS for name in casts):
        raise OptionError(f"casts must be a sequence of names among {', '.join(map(repr, CASTS))}, got {shown(casts)}")


def blocks_by_products(
    a: Any, u: Any, block: int, terms: int | None, cast: Callable[[str, Any], Any] = lambda _, values: values
) -> Any:
    """Solve by blocks whose local solve is a product with the materialized block of L.

    Columns of a block are cumulative products of its coefficients, and rows are multiplied by the inputs from left to
    right. Carriers and reconstruction are those of `recfact.algorithms.hierarchical`. This is the order of the paper's
    Algorithm 4 on tensor cores, except within a row, where the hardware chooses the order.

    Parameters
    ----------
    a, u : array, shape (n, ...)
        Coefficients and inputs.
    block : int
        Number of steps in a block. The last block may be shorter.
    terms : int or None
        Number of terms of the carrier operator to keep, as in `recfact.algorithms.hierarchical`. None keeps all.
    cast : callable
        Is applied, with a name, to the values that a mixed-precision kernel stores in the format of the inputs. "L" are
        columns of the blocks from the second entry below the diagonal on (those above are coefficients). "g" are the
        cumulative products from the second on. "v" are the carriers that are passed on.
    """
    blocks = Blocks.of(len(u), block)
    coefficients, inputs = blocks.split(a, 1).swapaxes(0, 1), blocks.split(u, 0).swapaxes(0, 1)
    w = inputs.copy()
    for column in range(len(inputs) if len(u) else 0):
        entries = products(coefficients[column + 1 :])
        entries[1:] = cast("L", entries[1:])
        if column == 0:
            w[1:] = entries * inputs[0]
        else:
            w[column] = inputs[column] + w[column]
            w[column + 1 :] = entries * inputs[column] + w[column + 1 :]
    g = products(coefficients)
    g[1:] = cast("g", g[1:])
    v = cast("v", w[-1])
    if terms != 0:
        w[:, 1:] = g[:, 1:] * carried(g[-1], v, terms)[:-1] + w[:, 1:]
    return blocks.join(w.swapaxes(0, 1))


def pieces_of(a: Any, u: Any, x0: Any, axis: Any, offsets: Any, arithmetic: Arithmetic) -> tuple[Pieces, int]:
    """Return a caller's arrays as coefficients, inputs and initial state of each segment, and where time was."""
    a, u, x0, axis = without_labels_of(a, u, x0, axis, offsets)
    dtype = arithmetic.dtype
    coefficients, inputs = time_first(_numbers(a, "a", dtype), _numbers(u, "u", dtype), axis)
    state = None if x0 is None else _numbers(x0, "x0", dtype)
    return operands_by_segment(coefficients, inputs, state, axis, offsets), axis


def _numbers(values: Any, name: str, dtype: Any) -> Array:
    """Return real numbers as an array of a dtype. Numbers that are too large for it become infinite."""
    reals = as_reals(values, name)
    if reals.dtype == object:
        reals = as_rationals(reals)
    try:
        with np.errstate(all="ignore"):
            return reals.astype(dtype)
    except OverflowError:
        raise OptionError(f"{name} must hold numbers that fit into {np.dtype(dtype)}; scale or replace them") from None
