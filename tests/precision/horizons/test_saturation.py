"""Where a rounded logistic function is exactly 1, against the function in many digits."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from recfact import precision as pr
from recfact.errors import DTypeError, OptionError


def logistic(x):
    """Return 1 / (1 + exp(-x)) up to 10^-390, as a Fraction."""
    context = mpmath.MPContext()
    context.dps = 400
    value = 1 / (1 + context.exp(-context.mpf(x)))
    _, significand, exponent, _ = value._mpf_
    return int(significand) * Fraction(2) ** int(exponent)


@pytest.mark.parametrize("name", pr.FORMATS)
@pytest.mark.parametrize("rounding", ["nearest-even", "nearest-away", "up"])
def test_the_threshold_is_the_first_float_that_rounds_to_one(name, rounding):
    fmt = pr.FORMATS[name]
    x = pr.saturation_threshold(fmt, rounding)
    assert fmt.round(logistic(x), rounding) == 1
    assert fmt.round(logistic(np.nextafter(x, -np.inf)), rounding) < 1


@pytest.mark.parametrize("rounding", ["toward-zero", "down"])
def test_truncation_never_saturates(rounding):
    assert pr.saturation_threshold("half", rounding) == math.inf
    assert not pr.saturated([1e300, math.inf], "half", rounding)[0]


@pytest.mark.parametrize(
    ("name", "x"),
    [("float32", 17.32868), ("half", 8.317522), ("bf16", 6.236370), ("e4m3fn", 3.433987), ("e5m2", 2.708050)],
)
def test_literal_thresholds(name, x):
    p = pr.format(name).fraction_bits
    assert float(f"{pr.saturation_threshold(name):.7g}") == x
    assert pr.saturation_threshold(name) == pytest.approx(math.log(2 ** (p + 2) - 1), rel=2.0**-51)


def test_literal_inputs():
    assert pr.saturated([6.23, 6.24], "bf16").tolist() == [False, True]
    assert pr.saturated(np.array([[17.328], [17.329]], np.float32), "float32").tolist() == [[False], [True]]
    assert pr.saturated(7, "bf16")
    assert pr.saturated([math.nan, math.inf, -math.inf], "bf16").tolist() == [False, True, False]
    assert pr.saturated([], "bf16").tolist() == []


def test_where_the_largest_below_one_is_another():
    """Half-way between 7/8 and 1 the odds are 15; formats with no number between 0 and 1 saturate from 0 on."""
    assert pr.saturation_threshold("e2m3") == pytest.approx(math.log(15), rel=2.0**-51)
    bare = pr.FloatFormat.from_bits(2, 0, 1, infinities=False)
    assert bare.values().tolist()[-3:] == [0, 1, 2]
    assert bare.largest_below_one == 0
    assert [pr.saturation_threshold(bare, r) for r in ("nearest-away", "up")] == [0.0, -math.inf]
    assert pr.saturation_threshold(bare) == (0.0 if bare.round(0.5) == 1 else 5e-324)


def test_wrong_arguments():
    with pytest.raises(OptionError, match="rounding"):
        pr.saturation_threshold("half", "stochastic")
    with pytest.raises(OptionError, match="1 isn't a number"):
        pr.saturation_threshold(pr.FloatFormat.from_bits(2, 2, 9, infinities=False))
    with pytest.raises(DTypeError):
        pr.saturated([1j], "half")
    with pytest.raises(DTypeError):
        pr.saturated(np.ones(2, np.longdouble), "half")


def test_saturated_coefficients_look_back_forever():
    x = np.full(2000, 6.24)
    a = pr.format("bf16").round(1 / (1 + np.exp(-x)))
    assert pr.saturated(x, "bf16").all()
    assert pr.effective_horizon(a, "bf16").lags.tolist() == list(range(2000))
