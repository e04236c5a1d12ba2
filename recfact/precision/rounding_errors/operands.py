"""The named algorithms, run in an arithmetic of one's choice: their own code does in it what it does with numbers.

An arithmetic multiplies, adds and multiply-adds plain arrays of whatever it stands for: numbers rounded to a format,
counts of roundings, or bounds of errors. `Operands` hands it the operations that an algorithm does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from recfact import algorithms
from recfact.arrays import Array
from recfact.checks import choice
from recfact.errors import OptionError
from recfact.precision.rounding_errors.block_products import blocks_by_products
from recfact.recurrence import folded
from recfact.windows import Full, Jagged, Window

ALGORITHMS = (*algorithms.NAMES, "b2p", "materialized")
"""Those of `recfact.algorithms`; "b2p", which is "hierarchical" with a jagged window; and "materialized", the same two
with blocks of L that are formed and multiplied by the inputs, as on tensor cores."""

CASTS = ("L", "g", "v")

Cast = Callable[[str, Array], Array]


class Operations(Protocol):
    """An arithmetic."""

    def multiply(self, x: Array, y: Array) -> Array:
        """Return x y."""

    def add(self, x: Array, y: Array) -> Array:
        """Return x + y."""

    def fma(self, x: Array, y: Array, z: Array) -> Array:
        """Return x y + z, as one operation."""


class Operands(np.ndarray[Any, Any]):
    """An array whose products and sums are those of an arithmetic; see `operands`."""

    operations: Operations
    fused: bool

    __array_priority__ = 1.0

    def __array_finalize__(self, parent: Any) -> None:
        if isinstance(parent, Operands):
            self.operations, self.fused = parent.operations, parent.fused

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [np.asarray(value) for value in inputs]
        if ufunc is np.multiply and method == "__call__" and not options:
            if self.fused:
                return Product(self, *plain)
            return self.like(self.operations.multiply(*plain))
        if ufunc is np.add and method == "__call__" and not options:
            return self.like(self.operations.add(*plain))
        if ufunc is np.multiply and method == "accumulate" and options == {"axis": 0}:
            products = plain[0].copy()
            for row in range(1, len(products)):
                products[row] = self.operations.multiply(products[row - 1], products[row])
            return self.like(products)
        raise TypeError(f"no algorithm here needs numpy.{ufunc.__name__}.{method}")

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if function is np.broadcast_arrays:
            return [self.like(array) for array in function(*map(np.asarray, args))]
        if function is np.concatenate:
            return self.like(function([np.asarray(array) for array in args[0]], *args[1:], **options))
        return super().__array_function__(function, types, args, options)

    def like(self, values: Array) -> Operands:
        """Return plain values as an array of the same arithmetic."""
        return operands(values, self.operations, self.fused)


def operands(values: Array, operations: Operations, fused: bool = False) -> Operands:
    """Return an array whose products and sums are those of an arithmetic.

    With `fused`, a product that is only added to something becomes a fused multiply-add. The array must have more than
    one axis, because its elements have no arithmetic of their own.
    """
    array = np.asarray(values).view(Operands)
    array.operations, array.fused = operations, fused
    return array


class Product:
    """A product that has still to be rounded: alone, if it is kept, or with what is added to it."""

    __array_ufunc__ = None  # so that arrays leave sums with it to it

    def __init__(self, kind: Operands, x: Array, y: Array) -> None:
        self.kind, self.x, self.y = kind, x, y

    def __add__(self, other: Any) -> Operands:
        return self.kind.like(self.kind.operations.fma(self.x, self.y, np.asarray(other)))

    __radd__ = __add__

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return self.kind.operations.multiply(self.x, self.y)


def run_algorithm(
    algorithm: str,
    a: Array,
    u: Array,
    x0: Array | None = None,
    *,
    window: Window,
    cast: Cast | None = None,
) -> Array:
    """Run an algorithm of `ALGORITHMS` along axis 0, in the arithmetic of its operands.

    Parameters
    ----------
    algorithm : str
        One of `ALGORITHMS`.
    a, u : ndarray, shape (n, ...)
        Coefficients and inputs, of one shape and dtype.
    x0 : ndarray, shape (...), optional
        Initial state, folded into the first input.
    window : Full, Uniform, Jagged or str
        What is kept.
    cast : callable, optional
        What "materialized" does to the blocks ("L"), their cumulative products ("g") and the carriers ("v").

    Raises
    ------
    OptionError
        If there is no such algorithm, or it doesn't make that window.
    """
    choice(algorithm, "algorithm", ALGORITHMS)
    if algorithm == "b2p":
        if not isinstance(window, Jagged):
            raise OptionError(
                "must be jagged for algorithm 'b2p'",
                "window",
                given=window,
                instead={"window": Jagged(16)},
                advice="or another algorithm",
            )
        algorithm = "hierarchical"
    if algorithm != "materialized":
        return np.asarray(algorithms.run(algorithm, a, u, x0, window=window))
    if not isinstance(window, Full | Jagged):
        raise OptionError("must be full or jagged for algorithm 'materialized'", "window", given=window)
    block, terms = (algorithms.BLOCK, None) if isinstance(window, Full) else (window.block, window.terms)
    return np.asarray(blocks_by_products(a, folded(a, u, x0), block, terms, cast))


def run_in(
    operations: Operations,
    algorithm: str,
    a: Array,
    u: Array,
    x0: Array | None = None,
    *,
    window: Window,
    fused: bool,
    cast: Cast | None = None,
) -> Array:
    """Run an algorithm on plain arrays in the arithmetic of `operations`; the rest is as for `run_algorithm`."""

    def kept(name: str, values: Array) -> Array:
        plain = np.asarray(values)
        return operands(plain if cast is None else cast(name, plain), operations, fused)

    # Single elements have no arithmetic of their own, so there is an axis more.
    coefficients, inputs = (operands(values[..., None], operations, fused) for values in (a, u))
    start = None if x0 is None else operands(x0[..., None], operations, fused)
    return run_algorithm(algorithm, coefficients, inputs, start, window=window, cast=kept)[..., 0]
