"""The channels path against the definition: bit for bit where it is a plain loop, within the proved bound elsewhere."""

import os
from fractions import Fraction
from math import isfinite

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recfact.cpu import channels
from recfact.recurrence import windowed
from recfact.windows import Full, Jagged, Uniform

DTYPES = [np.dtype(t) for t in ("float32", "float64", "complex64", "complex128", "float16", ml_dtypes.bfloat16)]

# Windows that are followed by plain loops, and those that slide because their loops would be too many.
PLAIN = [Full(), Uniform(1), Uniform(3), Uniform(8), Jagged(4), Jagged(3, 0), Jagged(2, 3), Jagged(1, 7), Jagged(50)]
LONG = [Uniform(9), Uniform(12), Jagged(2, 8), Jagged(3, 9)]


def solve(a, u, x0=None, reverse=False, window=Full(), threads=1):
    x = np.empty(np.broadcast_shapes(a.shape, u.shape), dtype=u.dtype)
    channels.solve_into(a, u, x, x0, reverse=reverse, window=window, threads=threads)
    return x


# The definition in the engine's arithmetic: the loops of recfact.recurrence over numbers whose a * x + u is fused.


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
    """A real or complex number of NumPy with ``*`` and ``+`` as the definition uses them, fused."""

    def __init__(self, value, factor=None):
        self.value = value
        self.factor = factor

    def __mul__(self, other):
        return Number(other.value, factor=self.value)

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

    def numbers(array):
        return np.array([Number(value) for value in array.astype(dtype).ravel()], dtype=object).reshape(array.shape)

    with np.errstate(all="ignore"):
        x = windowed(numbers(a), numbers(u), window, None if x0 is None else numbers(x0)[()], reverse)
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


@settings(max_examples=80)
@given(problem=problems(), window=st.sampled_from(PLAIN))
def test_plain_loops_bit_for_bit(problem, window):
    """Every dtype, shape, window of few blocks and direction; NaN, infinities and signed zeros included."""
    a, u, x0, reverse = problem
    assert_same(solve(a, u, x0, reverse, window), to_storage(defined(a, u, x0, reverse, window), u.dtype))


def error_bound(a, u, x0, reverse, window):
    """Bound |x - x~| of a sliding window and of the plain loop together, by the number of roundings.

    A term passes d steps. In the plain loop it is rounded d + 1 times. Sliding, it is rounded once for each step of
    its product, once for each later term of its suffix and once more: fewer than d + span times. A complex step rounds
    twice where a real one rounds once, and |re| + |im| bounds its parts. Products below the smallest number lose at
    most eta a step, which the factors before and after, at most `growth` in all, magnify.
    """
    kind = np.finfo(real_type(u.dtype))
    unit, eta = float(kind.eps) / 2, float(kind.smallest_subnormal)
    rounds = 2 if u.dtype.kind == "c" else 1
    span = window.lags if isinstance(window, Uniform) else window.block * (window.terms + 1)

    def sizes(array):
        wide = array.astype(np.complex128)
        return abs(wide.real) + abs(wide.imag)

    with np.errstate(all="ignore"):
        a, u = np.broadcast_arrays(sizes(a), sizes(u))
        x0 = None if x0 is None else sizes(x0)
        gamma = [rounds * count * unit / (1 - rounds * count * unit) for count in (span + 1, 2 * span)]
        reach = windowed(a, u, window, x0, reverse)
        ones = np.ones_like(a)
        # A product that takes in NaN or infinity isn't used.
        factors = np.where(np.isfinite(a), np.maximum(a, 1), 1)
        growth = 2 ** windowed(ones, np.log2(factors), Uniform(2 * span), None, reverse)
        entries = windowed(ones, u, window, x0, reverse)
        return sum(gamma) * reach + 2 * span * eta * growth**2 * (1 + entries)


@settings(max_examples=80)
@given(problem=problems(most=45), window=st.sampled_from(LONG))
def test_long_windows_within_the_bound_and_with_exact_special_values(problem, window):
    a, u, x0, reverse = problem
    if u.dtype.itemsize == 2:
        u, a = u.astype(np.float32), a.astype(np.float32)
    x, exact = solve(a, u, x0, reverse, window), defined(a, u, x0, reverse, window)
    special = ~np.isfinite(exact)
    np.testing.assert_array_equal(np.isfinite(x), ~special)
    assert_same(np.where(special, x, 0), np.where(special, exact, 0))
    error = abs(parts(np.where(special, 0, x)).astype(np.float64) - parts(np.where(special, 0, exact)))
    error = error.max(axis=-1) if u.dtype.kind == "c" else error
    # The bound is NaN, and says nothing, where the sizes of finite numbers overflow.
    assert not (error > error_bound(a, u, x0, reverse, window)).any()
