"""The recurrence itself, as plain loops over any scalar.

These loops are the definition with which everything else in recfact is compared. They run on NumPy arrays of any dtype,
``object`` arrays included. So the scalar may be a float, a complex number, a ``Fraction``, an ``mpf``, an interval or a
sympy symbol. The recurrence runs along axis 0, and every other axis is a channel.

Indices: ``a[0]`` is the paper's a_1, so ``x[0] = a[0] * x0 + u[0]`` and L[i, j] = a[i] a[i-1] ... a[j+1].

Scalars need not commute (matrices of one size, quaternions, operators). The transpose then has the same products at
[j, i] and multiplies from the right: (L^T u)[j] = sum_i u[i] L[i, j]. So it is the row u L. The transpose of a product
is then the product of the transposes in reverse order, and v (L u) = (L^T v) u.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.windows import Window, blocks_and_terms


def forward(a: Array, u: Array, x0: Any = None) -> Array:
    """Solve x[i] = a[i] x[i-1] + u[i] from the first row to the last.

    Parameters
    ----------
    a : ndarray, shape (n, ...)
        Coefficients. ``a[0]`` multiplies `x0` and is not read without it.
    u : ndarray, shape (n, ...)
        Inputs. They broadcast against `a`.
    x0 : scalar or ndarray, shape (...), optional
        State before the first step, by default zero.

    Returns
    -------
    ndarray, shape (n, ...)
        The states.
    """
    a, u = np.broadcast_arrays(a, u)
    x = np.empty_like(u, dtype=np.result_type(a, u), order="C", subok=False)
    if len(x) == 0:
        return x
    x[0] = u[0] if x0 is None else a[0] * x0 + u[0]
    for i in range(1, len(x)):
        x[i] = a[i] * x[i - 1] + u[i]
    return x


def backward(a: Array, u: Array) -> Array:
    """Solve x[i] = x[i+1] a[i+1] + u[i] from the last row to the first: the transpose of `forward`.

    Parameters and result are those of `forward`. ``a[0]`` is not read. Coefficients multiply from the right, which
    matters for scalars that don't commute.
    """
    a, u = np.broadcast_arrays(a, u)
    x = np.empty(u.shape, dtype=np.result_type(a, u))
    if len(x) == 0:
        return x
    x[-1] = u[-1]
    for i in range(len(x) - 2, -1, -1):
        x[i] = x[i + 1] * a[i + 1] + u[i]
    return x


class Opposite:
    """A scalar whose products are taken in the opposite order, so that transposes multiply from the left.

    Parameters
    ----------
    scalar : scalar
        The scalar. Python's 0 and 1 may be used together with it.
    """

    __slots__ = ("scalar",)

    def __init__(self, scalar: Any) -> None:
        self.scalar = scalar

    def __mul__(self, other: Any) -> "Opposite":
        return Opposite(plain(other) * self.scalar)

    def __add__(self, other: Any) -> "Opposite":
        return Opposite(self.scalar + plain(other))

    __rmul__, __radd__ = __mul__, __add__


def plain(scalar: Any) -> Any:
    """Return the scalar of an `Opposite`. Other scalars are returned unchanged."""
    return scalar.scalar if isinstance(scalar, Opposite) else scalar


def transposed(run: Callable[[Array, Array], Array], a: Array, u: Array) -> Array:
    """Apply the transpose of an algorithm, which is the algorithm itself, run from the end.

    Parameters
    ----------
    run : callable
        Solves the recurrence of coefficients and inputs along axis 0 from a zero state, without reading the first
        coefficient.
    a, u : ndarray, shape (n, ...)
        Coefficients and inputs, as for `backward`.
    """
    a, u = np.concatenate([a[:1], a[:0:-1]]), u[::-1]
    if type(u) is not np.ndarray or u.dtype != object:
        return run(a, u)[::-1]
    states = run(*(np.asarray(np.frompyfunc(Opposite, 1, 1)(array)) for array in (a, u)))
    return np.asarray(np.frompyfunc(plain, 1, 1)(states))[::-1]


def first_kept(i: int, window: Window) -> int:
    """Return the smallest j such that the window keeps the input u[j] in x[i]."""
    block, terms = blocks_and_terms(window)
    return max(0, i // block - terms) * block


def first_kept_rows(n: int, window: Window) -> Array:
    """Return `first_kept` of each of n rows, shape (n,)."""
    block, terms = blocks_and_terms(window)
    # Cut to n, because there may be more terms than any integer of NumPy's.
    return np.asarray(np.maximum(np.arange(n) // block - min(terms, n), 0) * block)


def folded(a: Array, u: Array, x0: Any) -> Array:
    """Return the inputs with an initial state added to the first, u[0] + a[0] x0, or unchanged without one.

    Parameters are those of `forward`. `a` and `u` have one shape.
    """
    if x0 is None or len(u) == 0:
        return u
    state = x0[()] if isinstance(x0, np.ndarray) else x0  # not all scalars multiply by an array that holds one
    u = u.copy()
    u[0] = a[0] * state + u[0]
    return u


def windowed(a: Array, u: Array, window: Window, x0: Any = None, reverse: bool = False) -> Array:
    """Solve the truncated recurrence by its literal definition: a loop per row over the inputs that the window keeps.

    The initial state is added to the first input, u[0] + a[0] x0, and leaves the window together with it. With
    `reverse` the transpose of the same truncated operator is applied, as `backward` applies that of the whole operator.
    This takes O(n w) time for a window of w rows.

    Parameters and result are those of `forward` and `backward`.
    """
    a, u = np.broadcast_arrays(a, u)
    n = len(u)
    x = np.empty(u.shape, dtype=np.result_type(a, u))
    u = folded(a, u if x0 is None else u.astype(x.dtype), x0)
    if not reverse:
        for i in range(n):
            j = first_kept(i, window)
            state = u[j]
            for k in range(j + 1, i + 1):
                state = a[k] * state + u[k]
            x[i] = state
        return x
    for j in range(n):
        last = j
        while last + 1 < n and first_kept(last + 1, window) <= j:
            last += 1
        state = u[last]
        for k in range(last - 1, j - 1, -1):
            state = state * a[k + 1] + u[k]
        x[j] = state
    return x
