"""The definition in the CPU engine's arithmetic: the loops of recfact.recurrence with one rounding a step.

x = defined(a, u, window=Jagged(4))         # what a plain loop of fused multiply-adds finds, exactly rounded
assert_same(x, ...)                         # bit for bit, but for the bits of NaN
"""

from fractions import Fraction
from math import isfinite

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from recfact.cpu import channels
from recfact.recurrence import windowed
from recfact.windows import Full

DTYPES = [np.dtype(t) for t in ("float32", "float64", "complex64", "complex128", "float16", ml_dtypes.bfloat16)]


def solve(a, u, x0=None, reverse=False, window=Full(), threads=1):
    """The channels path."""
    x = np.empty(np.broadcast_shapes(a.shape, u.shape), dtype=u.dtype)
    channels.solve_into(a, u, x, x0, reverse=reverse, window=window, threads=threads)
    return x


def real_type(dtype):
    return np.zeros((), dtype).real.dtype


def nearest(exact, kind):
    """The float32 or float64 nearest to a Fraction that isn't zero, ties to even."""
    try:
        near = kind(float(exact))
    except OverflowError:
        return kind(np.inf if exact > 0 else -np.inf)
    if kind is np.float64 or not isfinite(near):
        return near
    # Rounded twice so far; a neighbour may be nearer.
    near_by = [np.nextafter(near, kind(-np.inf)), near, np.nextafter(near, kind(np.inf))]
    return min(filter(isfinite, near_by), key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.int32)) & 1))


def fused(a, x, u):
    """a x + u of reals, rounded once."""
    if not (isfinite(a) and isfinite(x)):
        return a * x + u
    if not isfinite(u):
        return u
    exact = Fraction(float(a)) * Fraction(float(x)) + Fraction(float(u))
    return nearest(exact, type(u)) if exact else a * x + u


class Number:
    """A real or complex number of NumPy with ``*`` and ``+`` as the definition uses them, fused.

    A fused product of complex numbers isn't symmetric, so a number knows whether it is a coefficient: transposes have
    them on the right.
    """

    def __init__(self, value, factor=None, coefficient=False):
        self.value = value
        self.factor = factor
        self.coefficient = coefficient

    def __mul__(self, other):
        factor, state = (self, other) if self.coefficient else (other, self)
        return Number(state.value, factor=factor.value)

    def __add__(self, other):
        a, x, u = self.factor, self.value, other.value
        if not np.iscomplexobj(u):
            return Number(fused(a, x, u))
        real = fused(a.real, x.real, fused(-a.imag, x.imag, u.real))
        imag = fused(a.real, x.imag, fused(a.imag, x.real, u.imag))
        value = np.empty((), dtype=u.dtype)
        value.real, value.imag = real, imag
        return Number(value[()])


def defined(a, u, x0=None, reverse=False, window=Full()):
    """What the channels path must find, before the result is rounded to its storage."""
    dtype = np.dtype(np.float32) if u.dtype.itemsize == 2 else u.dtype

    def numbers(array, coefficient=False):
        values = [Number(value, coefficient=coefficient) for value in array.astype(dtype).ravel()]
        return np.array(values, dtype=object).reshape(array.shape)

    with np.errstate(all="ignore"):
        x = windowed(numbers(a, True), numbers(u), window, None if x0 is None else numbers(x0)[()], reverse)
    return np.array([number.value for number in x.ravel()], dtype=dtype).reshape(x.shape)


def to_storage(x, dtype):
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def parts(x):
    """Real and imaginary parts as a last axis; halves as float32."""
    if x.dtype.kind == "c":
        return np.stack([x.real, x.imag], axis=-1)
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def assert_same(x, y):
    """Assert the same numbers: the same bits, but for those of NaN."""
    x, y = parts(x), parts(y)
    np.testing.assert_array_equal(np.isnan(x), np.isnan(y))
    x, y = np.where(np.isnan(x), 0, x), np.where(np.isnan(y), 0, y)
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(np.signbit(x), np.signbit(y))


def make_numbers(rng, kind, shape, dtype):
    """Return coefficients or inputs of a named kind."""
    real = real_type(dtype)
    huge = float(ml_dtypes.finfo(dtype).max) if dtype.itemsize == 2 else float(np.finfo(real).max)
    special = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, huge, -huge, np.inf, -np.inf, np.nan])

    def draw():
        match kind:
            case "normal":
                return rng.standard_normal(shape)
            case "decaying":
                return rng.uniform(-1, 1, shape)
            case "growing":
                return rng.uniform(1, 1e4, shape)
            case "resets":
                return rng.standard_normal(shape) * rng.integers(0, 2, shape)
            case "spoilt":
                return np.where(rng.random(shape) < 0.05, rng.choice(special, shape), rng.standard_normal(shape))
            case "special":
                return rng.choice(special, shape)

    values = draw()
    if dtype.kind == "c":
        values = values.astype(dtype)
        values.imag = draw()
    return to_storage(values, dtype)


KINDS = ["normal", "decaying", "growing", "resets", "spoilt", "special"]


@st.composite
def problems(draw, most=14):
    """Draw (a, u, x0, reverse): broadcast, scalar and vector channels, over all number types."""
    dtype = draw(st.sampled_from(DTYPES))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(0, most))
    # 17 channels take one vector and an overlapping one, or several; fewer that aren't next to each other go singly.
    shape = draw(st.sampled_from([(), (1,), (17,), (2, 17), (3, 1), (0,), (2, 0)]))
    a_shape = draw(st.sampled_from([(n, *shape), (n, *[1] * len(shape)), (n, *shape[:-1], 1)[: len(shape) + 1]]))
    u_shape = draw(st.sampled_from([(n, *shape), (n, *shape), (n, *[1] * len(shape))]))
    a = make_numbers(rng, draw(st.sampled_from(KINDS)), a_shape, dtype)
    u = make_numbers(rng, draw(st.sampled_from(KINDS)), u_shape, dtype)
    reverse = draw(st.booleans())
    x0 = None
    if not reverse and draw(st.booleans()):
        x0 = make_numbers(rng, "spoilt", np.broadcast_shapes(a_shape, u_shape)[1:], dtype)
        x0 = x0.astype(np.float32) if dtype.itemsize == 2 else x0
    return a, u, x0, reverse
