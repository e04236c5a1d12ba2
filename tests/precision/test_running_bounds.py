"""Running bounds hold, see what other bounds don't, and leave the states as they are."""

from fractions import Fraction

import numpy as np
import pytest

from recfact.errors import DTypeError, OptionError
from recfact.precision import exact
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.bounds import Running, forward_bound, running_bound
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.run import rounded_solve
from recfact.precision.verification.case_families import FAMILIES, draw
from recfact.windows import Full, Jagged, Uniform

MADE = [
    ("sequential", Full()),
    ("sequential", Uniform(3)),
    ("kogge-stone", Full()),
    ("brent-kung", Full()),
    ("b2p", Jagged(4)),
    ("hierarchical", Jagged(3, 2)),
    ("materialized", Jagged(4)),
    ("mixed-precision", Jagged(4)),
]
ACCUMULATE = dict.fromkeys([name for name, _ in MADE]) | {"mixed-precision": "float32", "brent-kung": "float32"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["float8_e4m3fn", "bfloat16", "binary16"])
@pytest.mark.parametrize("underflow", ["gradual", "flush-after"])
def test_errors_are_within_them(name, family, underflow):
    fmt = FORMATS[name]
    a, u = draw(family, fmt, 10, 12, seed=2)
    for number, (algorithm, window) in enumerate(MADE):
        rounding = ("nearest-even", "down", "toward-zero", "stochastic")[number % 4]
        how = Arithmetic(fmt, ACCUMULATE[algorithm], number % 2 == 0, rounding, underflow, seed=1)
        x, bound = running_bound(a, u, how, algorithm, window=window, axis=0)
        np.testing.assert_array_equal(x, rounded_solve(a, u, how, algorithm, window=window, axis=0))
        reference = exact.solve(a, u, window, axis=0)
        for at in zip(*np.nonzero(np.isfinite(bound)), strict=True):
            assert abs(Fraction(x[at]) - Fraction(reference[at])) <= Fraction(bound[at])


def test_errors_of_both_factors_multiply():
    # Two numbers that are 1 for what may be 3/2: their product is 1 for what may be 9/4.
    pair = np.array([1.0]), np.array([0.5])
    how = Arithmetic("float64")
    assert Running(how.format, how).multiply(pair, pair)[1][0] >= 1.25


def test_the_classical_recurrence(rng):
    a, u = FORMATS["binary16"].round(rng.uniform(0.5, 1, (2, 40)))
    x, bound = running_bound(a, u, "float16")
    error, unit = 0.0, 2.0**-11
    for i in range(1, 40):
        product = FORMATS["binary16"].round(a[i] * x[i - 1])
        error = a[i] * error + unit * (product + x[i])
        # It is rounded up by 2^-49 and roundings of float64, twice a step.
        assert bound[i] == pytest.approx(error, rel=(1 + 2.0**-48) ** (2 * i) - 1)
    assert bound[0] == 0


def test_cancellation_shows_up_in_running_bounds():
    a, u = np.array([0.0, 0.75, 0.75, 0.75]), np.array([1.0, -0.75, 2.0**-9, 0.0])
    _, running = running_bound(a, u, "float16")
    assert running[3] < forward_bound(a, u, "float16")[3] / 2


def test_overflow_leaves_no_bound_wherever_it_hides():
    assert running_bound([1, 1, 0], [4, 4, 1], "float4_e2m1fn")[1].tolist() == [0, np.inf, 0]
    x, bound = running_bound(np.ones(3), np.full(3, 30000.0), Arithmetic("float16", rounding="down"))
    assert x.tolist() == [30000, 60000, 65504]
    assert np.isfinite(bound).tolist() == [True, True, False]
    x, bound = running_bound([2.0] * 3, [60000.0, 0.0, 0.0], "float16")
    assert x.tolist()[1:] == [np.inf, np.inf]
    assert bound.tolist()[1:] == [np.inf, np.inf]


def test_float64_and_short_sequences():
    x, bound = running_bound([0.1] * 3, [1.0, 0.1, 0.1], "float64", "kogge-stone", x0=2.0)
    reference = exact.solve([0.1] * 3, [1.0, 0.1, 0.1], x0=2.0)
    assert all(abs(Fraction(p) - Fraction(q)) <= Fraction(e) for p, q, e in zip(x, reference, bound, strict=True))
    for n in (0, 1):
        pair = running_bound(np.ones(n), np.ones(n), "float16")
        assert [values.tolist() for values in pair] == [[1.0] * n, [0.0] * n]


def test_what_it_refuses():
    with pytest.raises(OptionError, match="algorithm must be one of"):
        running_bound([1], [1], "float16", "quicksort")
    with pytest.raises(DTypeError, match="float64 holds"):
        running_bound([1], [1], "binary128")


def test_errors_whose_products_underflow():
    # Each part of the error of the product, 2^-1075 or less, is 0 in float64; together they are 5/4 of 2^-1074.
    pair, how = (np.array([2.0**-537]), np.array([2.0**-538])), Arithmetic("float64")
    value, radius = (part[0] for part in Running(how.format, how).multiply(pair, pair))
    largest = (Fraction(1, 2**537) + Fraction(1, 2**538)) ** 2
    assert abs(largest - Fraction(value)) <= Fraction(radius)
