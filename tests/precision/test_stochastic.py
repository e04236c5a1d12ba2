"""Stochastic rounding over thousands of runs: its mean, and how often an error passes its bound."""

import math
from fractions import Fraction

import numpy as np
import pytest

import recfact as rf
from recfact import precision as pr
from recfact.errors import OptionError

RUNS, STEPS = 2000, 40


def numbers(name, rng, kind):
    fmt = pr.format(name)
    if kind == "gates":
        a, u = rng.uniform(0.5, 1, STEPS), rng.standard_normal(STEPS)
    elif kind == "sum":
        a, u = np.ones(STEPS), rng.uniform(0, 1, STEPS)
    else:  # of which most is below the smallest normal number
        a, u = rng.uniform(-1, 1, STEPS), rng.standard_normal(STEPS) * fmt.smallest_normal
    return fmt.round(a), fmt.round(u)


def exact(a, u, window):
    weights, inputs = (np.array([Fraction(v) for v in values.tolist()], dtype=object) for values in (a, u))
    return np.array([float(v) for v in rf.TransferOperator(weights).truncate(window) @ inputs])


def runs(a, u, how, window):
    both = [np.broadcast_to(values, (RUNS, STEPS)) for values in (a, u)]
    return pr.rounded_solve(*both, how, window=window)


def often_at_most(probability):
    """Return a share of the runs that a chance of `probability` passes with 1e-9, at most (Hoeffding)."""
    return probability + math.sqrt(math.log(1e9) / (2 * RUNS))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [rf.Full(), rf.Uniform(7), rf.Jagged(5)])
@pytest.mark.parametrize("kind", ["gates", "sum", "tiny"])
@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e5m2"])
def test_means_are_exact_and_bounds_are_kept_as_often_as_promised(name, kind, window, rng):
    a, u = numbers(name, rng, kind)
    states = exact(a, u, window)
    for options in ({}, {"fma": True}, {"accumulate": "binary32"}):
        how = pr.Arithmetic(name, rounding="stochastic", seed=rng, **options)
        errors = runs(a, u, how, window) - states
        slack = 2.0**-50 * np.abs(states).max()
        for probability in (0.5, 0.9, 0.999):
            bound = pr.stochastic_bound(a, u, how, probability=probability, window=window)
            broken = np.any(np.abs(errors) > bound + slack, axis=1)
            assert np.mean(broken) <= often_at_most(1 - probability)
        # A mean of the runs is a martingale too, with ranges that are smaller by the number of runs.
        ranges = bound / factor(3 * STEPS + 2, 0.001)
        several = ranges * math.sqrt(math.log(2 * STEPS * 1e9) / (2 * RUNS))
        assert np.all(np.abs(errors.mean(axis=0)) <= several + slack)


def factor(roundings, q):
    return math.sqrt(math.log(2 * roundings / q) / 2)


def test_a_rounding_in_the_middle_comes_near_to_the_bounds():
    """1 + 2^-8 is in the middle of two numbers of bfloat16, 2^-7 apart."""
    how = pr.Arithmetic("bfloat16", fma=True, rounding="stochastic")
    bound = pr.stochastic_bound([1.0, 1.0], [1.0, 2.0**-8], how, probability=0.5)
    assert bound[0] == 0
    np.testing.assert_allclose(bound[1], 2.0**-7 * (1 + 2.0**-8) * factor(8, 0.5), rtol=1e-6)


def test_it_is_the_recurrence_of_ranges_written_out(rng):
    """S_i^2 = (a_i S_{i-1})^2 + g_i^2 + h_i^2 with the ranges of the product and the sum."""
    a, u = numbers("bfloat16", rng, "gates")
    unit, size, square, often = 2.0**-7, 0.0, 0.0, factor(3 * STEPS + 2, 0.25)
    literal = []
    for i, (weight, own) in enumerate(zip(np.abs(a).tolist(), np.abs(u).tolist(), strict=True)):
        size, square = weight * size, weight**2 * square
        square += (unit * (size + often * math.sqrt(square))) ** 2
        size += own
        square += (unit * (size + often * math.sqrt(square))) ** 2 if i else 0.0
        literal.append(often * math.sqrt(square))
    np.testing.assert_allclose(pr.stochastic_bound(a, u, "bfloat16", probability=0.75), literal, rtol=1e-9)


def test_it_grows_with_the_root_of_the_steps():
    one = np.ones(4096)
    bound = pr.stochastic_bound(one, one, "binary32")
    # The number of steps for the sizes, and its root for the sum of squares; the factor is the same.
    np.testing.assert_allclose(bound[4095] / bound[1023], 4 * 2, rtol=0.01)
    assert bound[-1] < pr.forward_bound(one, one, pr.Arithmetic("binary32", rounding="stochastic"))[-1] / 15


def test_it_stays_small_where_what_is_certain_grows_without_end():
    a, u = np.full(2000, 1 - 2.0**-8), np.ones(2000)
    how = pr.Arithmetic("bfloat16", rounding="stochastic")
    assert pr.forward_bound(a, u, how)[-1] > 1e6
    assert pr.stochastic_bound(a, u, how)[-1] < 256


def test_an_initial_state_and_segments(rng):
    a, u = numbers("bfloat16", rng, "gates")
    together = pr.stochastic_bound(a, u, "bfloat16", offsets=[0, 10, STEPS], x0=[1.0, 0.5])
    alone = pr.stochastic_bound(a[10:], u[10:], "bfloat16", x0=0.5)
    np.testing.assert_array_equal(together[10:], alone)
    assert pr.stochastic_bound(a, u, "bfloat16", x0=1.0)[0] > 0 == pr.stochastic_bound(a, u, "bfloat16")[0]


def test_where_an_operation_could_overflow_there_is_no_bound():
    bound = pr.stochastic_bound([2.0] * 20, [1.0] * 20, "float16")
    assert np.isfinite(bound[:15]).all()
    assert np.isinf(bound[15:]).all()
    assert np.isinf(pr.stochastic_bound([1.0, 1.0], [np.nan, 1.0], "float16")).all()


@pytest.mark.parametrize("fma", [False, True])
def test_a_zero_does_not_hide_what_overflowed_before(fma):
    how = pr.Arithmetic("float8_e5m2", rounding="stochastic", fma=fma)
    a, u = [2.0] * 20 + [0.0, 0.5], [1.0] * 22
    assert np.isnan(pr.rounded_solve(a, u, how)[-2:]).all()  # 0 times infinity
    assert np.isinf(pr.stochastic_bound(a, u, how)[-2:]).all()
    assert np.isinf(pr.stochastic_bound([0.5, 0.0, 0.5], [np.inf, 1.0, 1.0], how)).all()
    assert (
        pr.stochastic_bound([2.0] * 20 + [0.0], [1.0] * 21, pr.Arithmetic("float4_e2m1fn", rounding="stochastic"))[-1]
        == 0
    )


@pytest.mark.parametrize(
    ("how", "options", "message"),
    [
        (pr.Arithmetic("bfloat16"), {}, "must round 'stochastic'"),
        (pr.Arithmetic("bfloat16", rounding="stochastic", underflow="flush-after"), {}, "must round 'stochastic'"),
        (pr.Arithmetic("binary32", accumulate="bfloat16", rounding="stochastic"), {}, "must round 'stochastic'"),
        ("float8_e8m0fnu", {}, "must round 'stochastic'"),
        ("mxfp4", {}, "operands"),
        ("bfloat16", {"probability": 1}, "probability must be"),
        ("bfloat16", {"probability": 0.0}, "probability must be"),
        ("bfloat16", {"probability": 1 - Fraction(1, 2**99)}, "probability must be"),
        ("bfloat16", {"probability": "0.9"}, "probability must be"),
    ],
)
def test_what_has_no_such_bound(how, options, message):
    with pytest.raises(OptionError, match=message):
        pr.stochastic_bound([0.5], [1.0], how, **options)
