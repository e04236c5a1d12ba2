"""Magnitudes of complex numbers, against squares in Fractions, and products of long lists."""

from fractions import Fraction

import numpy as np
import pytest

from recfact.precision.exact import scaled
from recfact.precision.exact.scaled import Scaled, scaled_moduli, upper_moduli

TINY, HUGE = 5e-324, 1.7e308
CORNERS = [0.0, TINY, 3 * TINY, 2.0**-1022, 1e-160, 1e-17, 1 - 2.0**-53, 1.0, 1 + 2.0**-52, 3.0, 4.0, 1e160, HUGE]


def exact(part):
    return Fraction(*part.as_integer_ratio())


def square(z):
    return exact(z.real) ** 2 + exact(z.imag) ** 2


SOME = pytest.mark.parametrize("count", [1000, pytest.param(4000, marks=pytest.mark.slow)])


def numbers(dtype, rng, count):
    """Return numbers of all directions and sizes, and all pairs of some corners."""
    limits = np.finfo(dtype)
    part = limits.dtype.type
    random = rng.standard_normal((2, count)).astype(part)
    scale = rng.integers(limits.minexp - limits.nmant, limits.maxexp, count)
    spread = rng.integers(-80, 80, count)
    with np.errstate(all="ignore"):
        sizes = [*random, *np.ldexp(random, scale), np.ldexp(random[0], spread), random[1]]
        x, y = (np.concatenate(each) for each in (sizes[::2], sizes[1::2]))
        grid = np.array(np.meshgrid(CORNERS, CORNERS)).reshape(2, -1).astype(part)
    x, y = np.append(x, grid[0]), np.append(y, grid[1])
    finite = np.isfinite(x) & np.isfinite(y)
    z = np.empty(np.count_nonzero(finite), dtype)
    z.real, z.imag = x[finite], y[finite]
    return z


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128, np.clongdouble])
@SOME
def test_moduli_are_never_below_the_truth(dtype, count, rng):
    z = numbers(dtype, rng, count)
    moduli = upper_moduli(z)
    assert moduli.dtype == np.float64
    for number, modulus in zip(z, moduli, strict=True):
        assert modulus == np.inf or exact(modulus) ** 2 >= square(number)
        # Eight floats further down they would be: three steps, and three roundings of a significand of at least 1/2.
        lower = exact(modulus) - 8 * exact(np.spacing(modulus)) if np.isfinite(modulus) else Fraction(2) ** 1024
        assert lower <= 0 or lower**2 < square(number) or (modulus == np.inf and square(number) > Fraction(HUGE) ** 2)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128, np.clongdouble, np.longdouble])
@SOME
def test_scaled_moduli_are_three_roundings_off_at_most(dtype, count, rng):
    z = numbers(dtype, rng, count) if np.dtype(dtype).kind == "c" else numbers(np.clongdouble, rng, count).real
    below, above = ((1 + sign * Fraction(1, 2**53)) ** 6 for sign in (-1, 1))
    moduli = scaled_moduli(z)
    for number, significand, exponent in zip(z, moduli.significands, moduli.exponents, strict=True):
        assert significand == 0 or 0.5 <= significand < 1
        found = (exact(significand) * Fraction(2) ** int(exponent)) ** 2
        assert below * square(number) <= found <= above * square(number)


def test_a_modulus_that_numpy_rounds_down_by_more_than_a_float():
    z = np.array([0.09401229776087457 + 0.7081182591471584j])
    assert exact(upper_moduli(z)[0]) ** 2 >= square(z[0])


def test_numbers_on_an_axis_are_exact_and_others_stay_what_they_are():
    z = np.array([-0.9j, 0.1, 0, -TINY, HUGE * 1j, complex(np.inf, 1), complex(0, np.nan)])
    assert upper_moduli(z)[:-1].tolist() == [0.9, 0.1, 0, TINY, HUGE, np.inf]
    assert np.isnan(upper_moduli(z)[-1])


@pytest.mark.parametrize("product", [Scaled.__mul__, Scaled.times_up])
@pytest.mark.parametrize("size", [1, 4, 5, 8, 11])
def test_long_lists_are_multiplied_part_by_part(monkeypatch, product, size):
    rng = np.random.default_rng(size)
    x, y = (np.frexp(rng.standard_normal(size) * 10.0 ** rng.integers(-200, 200, size)) for _ in range(2))
    x, y = (Scaled(np.abs(fractions), exponents.astype(np.int64)) for fractions, exponents in (x, y))
    whole = product(x, y)
    monkeypatch.setattr(scaled, "PART", 4)
    found = product(x, y)
    for part, expected in ((found.significands, whole.significands), (found.exponents, whole.exponents)):
        assert np.array_equal(part, expected)
        assert part.dtype == expected.dtype


def test_numbers_compare_as_fractions_do(rng):
    floats = np.concatenate([CORNERS, rng.uniform(0, 2, 20)])
    x, y = (each.ravel() for each in np.meshgrid(floats, floats))
    assert np.array_equal(Scaled.of(x) >= Scaled.of(y), x >= y)
    cubes, own = (Scaled.of(each) * Scaled.of(each) * Scaled.of(each) for each in (x, y))  # beyond the range of floats
    powers = [exact(each) ** 3 >= exact(other) ** 3 for each, other in zip(x, y, strict=True)]
    assert np.array_equal(cubes >= own, powers)
