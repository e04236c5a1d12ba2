"""The cases of a sweep: numbers of the format, and what each family is for."""

from fractions import Fraction

import numpy as np
import pytest
from noted import noted

from recfact.errors import OptionError
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.verification.case_families import FAMILIES, draw
from recfact.recurrence import forward

SMALL = [fmt for fmt in FORMATS.values() if fmt.bits <= 16]


@pytest.mark.parametrize("fmt", [*SMALL, FORMATS["binary32"], FORMATS["binary64"]], ids=str)
def test_finite_numbers_of_the_format(fmt):
    for family in FAMILIES:
        with noted(family=family):
            for n in (1, 2, 9):
                for values in draw(family, fmt, n, channels=20, seed=n):
                    assert values.shape == (n, 20)
                    assert values.dtype == np.float64
                    np.testing.assert_array_equal(fmt.decode(fmt.encode(values)), values)


def test_a_seed_draws_the_same_again():
    for family in FAMILIES:
        first, again, other = (draw(family, FORMATS["binary16"], 5, 7, seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)


def test_no_such_family():
    with pytest.raises(OptionError, match=r"family must be one of 'gates'.*got 'none'"):
        draw("none", FORMATS["binary16"], 1, 1, 0)


def test_constant_coefficients_are_the_largest_below_one():
    a, u = draw("constant", FORMATS["binary16"], 5, 7, 0)
    assert np.all(a == 1 - 2.0**-11)
    assert np.all(u == u[0])


def test_states_of_witnesses_are_unit_vectors():
    a, u = draw("witnesses", FORMATS["bfloat16"], 6, 50, 0)
    x = forward(*(np.vectorize(Fraction, otypes=[object])(values) for values in (a, u)))
    np.testing.assert_array_equal(np.sort(x.astype(float), axis=0), np.eye(6)[:, -1:].repeat(50, axis=1))


def test_cancellation_cancels():
    a, u = draw("cancellation", FORMATS["binary16"], 8, 50, 0)
    x = forward(a, u)
    assert np.median(np.abs(x[1::2])) < 2.0**-9 < 0.4 < np.median(np.abs(x[::2]))


def test_subnormal_and_underflowing():
    fmt = FORMATS["binary16"]
    _, u = draw("denormal", fmt, 8, 50, 0)
    assert np.abs(u).max() < fmt.smallest_normal
    a, u = draw("underflowing", fmt, 8, 50, 0)
    assert np.any(np.abs(a) < fmt.smallest_normal)
    assert np.any(np.abs(u) > 1000)


def test_codes_reach_both_ends():
    fmt = FloatFormat.from_bits(3, 2)
    a, u = draw("codes", fmt, 20, 200, 0)
    for values in (a, u):
        assert set(np.unique(values)) == set(fmt.values())
