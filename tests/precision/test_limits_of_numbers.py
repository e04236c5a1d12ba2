"""Contrived numbers: what would take minutes is refused with the limit, and what is short is answered."""

from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from recfact import precision as pr
from recfact.errors import OptionError
from recfact.windows import Jagged, Uniform

NEAR = 1 - Fraction(1, 2**200000)
WIDE = pr.FloatFormat.from_bits(5, 60000)


@pytest.mark.parametrize("kind", ["pointwise", "tail"])
def test_horizons_of_numbers_next_to_one(kind):
    with pytest.raises(OptionError, match=r"16384 bits .* rho = 1 - 2\^-200000"):
        pr.horizon(NEAR, "float32", kind)
    with pytest.raises(OptionError, match="16384 bits"):
        pr.horizon_table(rho=NEAR)
    exact = pr.horizon(1 - Fraction(1, 2**5000), Fraction(1, 4), kind)
    assert exact > 2**5000


def test_actual_horizons_of_wide_formats():
    assert "1 - 2^-60001 in e5m60000" in str(pr.actual_horizon(WIDE))
    with pytest.raises(OptionError, match="up to 2048 fraction bits, got e5m60000"):
        pr.actual_horizon(WIDE, algorithm="kogge-stone")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("order", [1, 2, np.inf, "fro"])
@pytest.mark.parametrize("relative_to", ["input", "state"])
@pytest.mark.parametrize("n", [None, 2000, 10**30])
def test_truncation_bounds_of_numbers_next_to_one(order, relative_to, n):
    for rho in (NEAR, 2 - NEAR):
        with pytest.raises(OptionError, match=r"differ from it by at least 2\^-2048"):
            pr.truncation_bound(rho, Jagged(2), order, n=n, relative_to=relative_to)
    bound = pr.truncation_bound(1 - Fraction(1, 2**500), Jagged(2), order, n=n, relative_to=relative_to)
    assert bound <= pr.truncation_bound(1, Jagged(2), order, n=n, relative_to=relative_to)


@pytest.mark.parametrize("order", [1, 2, np.inf, "fro"])
@pytest.mark.parametrize("window", [Jagged(2), Uniform(3), Jagged(7, 2)])
@pytest.mark.parametrize("rho", [2, 1e300, 10**400, Fraction(3, 2)])
def test_truncation_bounds_beyond_floats_are_infinite(order, window, rho):
    assert pr.truncation_bound(rho, window, order, n=5000) == np.inf
    assert pr.truncation_bound(rho, window, order, n=5000, nu=10**400, x0=10**400) == np.inf


@pytest.mark.parametrize("number", [Decimal("1e-99999999"), Decimal("1e999999"), mpmath.ldexp(1, 10**12)])
def test_exponents_whose_integers_alone_take_minutes(number):
    for call in (
        lambda: pr.horizon(number, 0.5),
        lambda: pr.horizon(0.5, number),
        lambda: pr.truncation_bound(number, Jagged(2)),
        lambda: pr.format("float16").round(np.array([number], dtype=object)),
        lambda: pr.rounded_solve([0.5, 0.5], [number, number], "float16"),
        lambda: pr.exact.solve([0.5, 0.5], [number, number]),
    ):
        with pytest.raises(OptionError, match="1e100000"):
            call()
