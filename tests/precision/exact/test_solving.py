"""exact.solve and its enclosures against the literal definition in Fractions."""

from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from market import fractions

from recfact import Full, Jagged, Uniform
from recfact.errors import DTypeError, OptionError, RecfactError, ShapeError
from recfact.precision import exact
from recfact.precision.exact import enclosures
from recfact.precision.exact.enclosures import PIECE
from recfact.recurrence import windowed

WINDOWS = (
    Full(),
    Uniform(1),
    Uniform(2),
    Uniform(5),
    Uniform(11),
    Uniform(100),
    Jagged(1, 0),
    Jagged(1),
    Jagged(1, 4),
    Jagged(3, 0),
    Jagged(4),
    Jagged(3, 2),
    Jagged(2, 5),
    Jagged(100),
)


def problem(n, dtype, rng, scale=1.0):
    a = (rng.normal(size=n) * scale).astype(dtype)
    u = (rng.normal(size=n) * 2.0 ** rng.integers(-8, 8, size=n)).astype(dtype)
    if n > 8:
        a[n // 2] = 0
    return a, u


def definition(a, u, window, x0=None):
    """Return the states of the literal definition in Fractions."""
    return windowed(fractions(a), fractions(u), window, None if x0 is None else Fraction(float(x0)))


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("x0", [None, 0.3])
def test_states_are_those_of_fractions(window, dtype, x0, rng):
    for n in (0, 1, 2, 9, 30):
        a, u = problem(n, dtype, rng)
        assert list(exact.solve(a, u, window, x0)) == list(definition(a, u, window, x0))


def test_coefficient_and_input_of_the_first_step():
    assert exact.solve([np.nan, 0.5], [1.0, 1.0])[1] == 1.5  # a[0] isn't read without x0
    assert exact.solve([0.5, 0.5], [1.0, 1.0], x0=2.0)[1] == 2
    with pytest.raises(OptionError, match="finite"):
        exact.solve([np.nan, 0.5], [1.0, 1.0], x0=1.0)


def test_channels_broadcast(rng):
    a, u, x0 = rng.normal(size=(6, 1)), rng.normal(size=(6, 3)), rng.normal(size=3)
    x = exact.solve(a, u, Uniform(3), x0, axis=0)
    assert x.shape == (6, 3)
    for channel in range(3):
        assert list(x[:, channel]) == list(definition(a[:, 0], u[:, channel], Uniform(3), x0[channel]))
    assert exact.solve(np.ones((0, 2)), np.ones((0, 2)), axis=0).shape == (0, 2)


def test_other_scalars_run_the_definition():
    third = Fraction(1, 3)
    assert list(exact.solve([third] * 3, [1, 1, 1])) == [1, 1 + third, 1 + third + third**2]
    a, u = sympy.symbols("a1:4"), sympy.symbols("u1:4")
    assert sympy.expand(exact.solve(a, u)[2] - (a[2] * (a[1] * u[0] + u[1]) + u[2])) == 0
    interval = exact.solve([mpmath.iv.mpf(1) / 3] * 3, [mpmath.iv.mpf(1)] * 3)[2]
    assert interval.a <= mpmath.mpf(13) / 9 <= interval.b
    with pytest.raises(DTypeError):
        list(exact.enclose([third], [third]))


def test_mpf_of_any_precision_is_dyadic():
    context = mpmath.MPContext()
    context.dps = 60
    before = mpmath.mp.prec, mpmath.iv.prec
    x = exact.solve([context.mpf(1) / 3] * 3, [context.mpf(1)] * 3)
    third = Fraction(int(context.mpf(1) / 3 * 2**300), 2**300)
    assert x[2] == 1 + third + third**2
    assert (mpmath.mp.prec, mpmath.iv.prec) == before


def test_exponents_of_a_hundred_thousand_bits(rng):
    n = 20
    tiny, u = [mpmath.ldexp(1, -100000)] * n, [mpmath.mpf(1)] * n
    x = exact.solve(tiny, u)
    assert x[2] == 1 + exact.Dyadic(1, -100000) + exact.Dyadic(1, -200000)
    growing = exact.solve([mpmath.ldexp(1, 100000)] * 3, u[:3])
    assert growing[2].significand.bit_length() == 200001
    for window in (Full(), Uniform(3), Jagged(2)):
        (piece,) = exact.enclose(tiny, u, window, bits=250000)
        for i, state in enumerate(exact.solve(tiny, u, window)):
            error = abs(state - exact.Dyadic(piece.centers[i], -piece.scale))
            assert error <= exact.Dyadic(piece.radii[i], -piece.scale)
    with pytest.raises(OptionError, match="scale"):
        exact.solve([exact.Dyadic(1, 10**12)] * 3, [1] * 3)
    with pytest.raises(OptionError, match="scale"):
        list(exact.enclose([0.5] * 3, [1, exact.Dyadic(1, 10**12), 1]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_no_exact_states_of_infinite_numbers(bad):
    with pytest.raises(OptionError, match="finite"):
        exact.solve([0.5, bad], [1.0, 1.0])
    with pytest.raises(OptionError, match="finite"):
        list(exact.enclose([0.5, 0.5], [1.0, bad]))


def test_shapes_must_fit():
    with pytest.raises(ShapeError, match="broadcast"):
        exact.solve([0.5] * 3, [1.0] * 2)
    with pytest.raises(ShapeError, match="two scalars"):
        exact.solve(0.5, 1.0)
    with pytest.raises(ShapeError, match="one sequence"):
        list(exact.enclose(np.ones((3, 2)), np.ones((3, 2))))
    with pytest.raises(TypeError, match="window"):
        exact.solve([0.5], [1.0], 4)


# --- enclosures -------------------------------------------------------------------------------------------------------


def check(pieces, states):
    """Check that every state lies in its enclosure; return the largest radius."""
    i = largest = 0
    for piece in pieces:
        assert piece.start == i
        for center, radius in zip(piece.centers, piece.radii, strict=True):
            assert abs(states[i] * exact.Dyadic(1, piece.scale) - center) <= radius
            largest = max(largest, radius)
            i += 1
    assert i == len(states)
    return largest


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("bits", [1, 16, 128])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_states_lie_in_their_enclosures(window, bits, scale, rng):
    for n in (0, 1, 2, 9, 40):
        for x0 in (None, -0.7):
            a, u = problem(n, np.float32, rng, scale)
            largest = check(exact.enclose(a, u, window, x0, bits=bits), definition(a, u, window, x0))
            if bits == 128 and scale < 1:
                assert largest < 100


@pytest.mark.parametrize("window", [Full(), Uniform(3), Uniform(20), Jagged(4), Jagged(18), Jagged(5, 3)], ids=str)
def test_pieces_join(window, rng, monkeypatch):
    monkeypatch.setattr(enclosures, "PIECE", 16)
    for n in (31, 32, 33, 48, 70):
        a, u = rng.uniform(-1, 1, n), rng.normal(size=n)
        check(exact.enclose(a, u, window), definition(a, u, window))


def test_states_that_grow_are_held_to_fewer_bits():
    n = 3 * PIECE
    a, u = np.full(n, 2.0**8), np.ones(n)
    a[2 * PIECE + 10 :] = 2.0**-8
    pieces = list(exact.enclose(a, u, bits=32))
    assert pieces[0].scale > pieces[1].scale > pieces[2].scale
    assert max(piece.centers[0].bit_length() for piece in pieces) < 6000
    check(pieces, exact.solve(a, u))


def test_bits_that_inputs_lose_are_in_the_radius():
    # Once the states have few bits, a shift turns each of these inputs into -1: the worst that it can do.
    a = np.concatenate([np.full(5 * PIECE, 2.0), np.full(PIECE, 1 - 2.0**-53)])
    u = np.r_[1.0, np.full(len(a) - 1, -(2.0**-60))]
    check(exact.enclose(a, u, bits=1), exact.solve(a, u))


def test_a_radius_of_zero_is_exact():
    (piece,) = exact.enclose([0.5] * 20, [1.0] * 20, bits=64)
    assert piece.radii == [0] * 20
    (piece,) = exact.enclose([0.5, 0.1, 0.1, 0.0, 0.5], [1.0] * 5, bits=64)
    assert [radius > 0 for radius in piece.radii] == [False, False, True, False, False]


def test_memory_is_bounded(rng):
    a, u = rng.uniform(0, 1, 20 * PIECE), rng.normal(size=20 * PIECE)
    for piece in exact.enclose(a, u):
        assert len(piece) <= PIECE
        assert max(center.bit_length() for center in piece.centers) < 400


@given(*[st.integers(-(2**20), 2**20), st.integers(0, 2**12)] * 2, st.integers(0, 30), *[st.floats(-1, 1)] * 2)
def test_products_of_balls_lie_in_theirs(m, dm, x, dx, shift, p, q):
    center, radius = enclosures.times((m, dm, shift), x, dx)
    exact_product = (m + Fraction(p) * dm) * (x + Fraction(q) * dx) / 2**shift
    assert abs(exact_product - center) <= radius
    for a in (m - dm, m + dm):
        for y in (x - dx, x + dx):
            assert abs(Fraction(a * y, 2**shift) - center) <= radius


def test_inputs_that_are_rounded_widen_a_radius():
    assert enclosures.advance([(1, 0, 0)] * 2, [3, 4], (5, 0), extra=1) == [(8, 1), (12, 4)]
    assert enclosures.advance([(1, 0, 0)] * 2, [3, 4], (5, 0)) == [(8, 0), (12, 0)]


@pytest.mark.parametrize("bad", [[[0.5], [0.5, 0.5]], [0.5, None], ["x", "y"], [{}, {}]])
def test_what_is_no_array_of_numbers_is_refused(bad):
    with pytest.raises(RecfactError):
        exact.solve(bad, [1.0, 1.0])
