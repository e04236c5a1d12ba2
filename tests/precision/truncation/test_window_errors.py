"""Proved norms of truncation errors and their witnesses, and the bounds after the fact, in exact arithmetic."""

from fractions import Fraction
from math import inf, sqrt

import numpy as np
import pytest
from market import fractions
from truncations import FEW_WINDOWS, error_matrix, next_above_root, norms, spectral_slack

from recfact import Full, Jagged, Uniform, solve
from recfact.errors import OptionError, RecfactError, ShapeError
from recfact.factorizations import truncate
from recfact.precision import (
    exact,
    posterior_truncation_bound,
    posterior_truncation_norm,
    truncation_bound,
    truncation_norm,
    truncation_witness,
)
from recfact.precision.exact.outward import Upward
from recfact.precision.truncation.window_errors import is_above, state_bundles, upward_operator

LENGTHS = (1, 2, 5, 16, 33)
NORMS = {1: lambda v: sum(abs(v)), 2: lambda v: sqrt(sum(v * v)), inf: lambda v: max(abs(v))}


def coefficients(n, rng, scale=0.9):
    a = rng.normal(size=n) * scale
    if n > 8:
        a[[n // 3, n // 2]] = 0
    return a


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", FEW_WINDOWS, ids=str)
@pytest.mark.parametrize("scale", [0.3, 0.9, 2.0])
@pytest.mark.parametrize("relative_to", ["input", "state"])
def test_norms_are_proved_and_sharp(window, scale, relative_to, rng):
    for n in LENGTHS:
        a = coefficients(n, rng, scale)
        operator = truncate(fractions(a), window)
        values = norms(operator, relative_to)
        for order in (1, inf):
            bound, value = truncation_norm(a, window, order, relative_to=relative_to), values(order)
            assert bound >= value
            assert value == 0 or np.nextafter(bound, 0) < value
        bound, dense = truncation_norm(a, window, "fro", relative_to=relative_to), error_matrix(operator, relative_to)
        next_above_root(bound, sum((dense**2).flat))
        bound, slack = truncation_norm(a, window, 2, relative_to=relative_to), spectral_slack(n)
        value = np.linalg.norm(dense.astype(float), 2)
        assert value * (1 - slack) <= bound <= value * (1 + slack)


@pytest.mark.parametrize("window", FEW_WINDOWS, ids=str)
@pytest.mark.parametrize("order", [1, 2, inf])
@pytest.mark.parametrize("relative_to", ["input", "state"])
def test_witnesses_reach_the_norms(window, order, relative_to, rng):
    for n in LENGTHS:
        a = coefficients(n, rng)
        bound = truncation_norm(a, window, order, relative_to=relative_to)
        u = truncation_witness(a, window, order, relative_to=relative_to)
        assert u.shape == (n,)
        if bound == 0:
            assert not u.any()
            continue
        x, kept = exact.solve(a, u), exact.solve(a, u, window)
        ratio = float(NORMS[order](x - kept)) / float(NORMS[order](u if relative_to == "input" else x)) / bound
        # Floats round the singular vector, whose error enters squared.
        assert 1 - 2.0**-49 <= ratio <= 1 + 2.0**-51


@pytest.mark.parametrize("window", [Uniform(4), Uniform(5), Jagged(4), Jagged(4, 2)], ids=str)
@pytest.mark.parametrize("rho", [Fraction(1, 3), Fraction(1, 2), Fraction(9, 10), Fraction(1)], ids=str)
def test_witnesses_reach_the_bounds_of_constant_coefficients(window, rho):
    n = 32
    a = np.array([rho] * n, dtype=object)
    for relative_to in ("state", "input"):
        for order in (1, inf):
            u = truncation_witness(a, window, order, relative_to=relative_to)
            x, kept = exact.solve(a, u), exact.solve(a, u, window)
            ratio = NORMS[order](x - kept) / NORMS[order](u if relative_to == "input" else x)
            bound = truncation_bound(rho, window, order, n=n, relative_to=relative_to)
            assert np.nextafter(bound, 0) < ratio <= bound


def test_a_single_state_is_the_worst_one():
    """a = 1/2, l = 4, u_4 = 1, u_5 = -1/2: the state is e_4 and its error 1/32, 1/64, 1/128, 1/256."""
    a = np.array([Fraction(1, 2)] * 16, dtype=object)
    u = truncation_witness(a, Jagged(4))
    assert list(u) == [0, 0, 0, 1, Fraction(-1, 2), *[0] * 11]
    x = exact.solve(a, u)
    error = x - exact.solve(a, u, Jagged(4))
    assert list(x) == [0, 0, 0, 1, *[0] * 12]
    assert list(error[8:]) == [Fraction(1, 2**k) for k in (5, 6, 7, 8)] + [0] * 4
    assert truncation_norm(a, Jagged(4), relative_to="state") == 1 / 32
    assert truncation_norm(a, Jagged(4), 2, relative_to="state") == pytest.approx(0.03601384553630034, rel=2**-52)
    assert 2**-5 * sqrt((1 - 2**-8) / (3 / 4)) == pytest.approx(0.03601384553630034, rel=2**-52)


def test_nothing_is_lost_by_everything_or_across_a_reset():
    assert truncation_norm([0.5] * 4, Full()) == truncation_norm([], Jagged(4)) == 0.0
    assert not truncation_witness([0.5] * 4, Full()).any()
    assert truncation_witness([], Jagged(4)).shape == (0,)
    assert truncation_norm([2.0, 0.0] * 8, Uniform(2)) == 0.0
    assert truncation_norm([2.0] * 8, Jagged(4)) == 0.0
    assert truncation_norm([np.inf, 0.5, 0.5], Full()) == 0.0


def test_norms_beyond_floats():
    tiny, huge = np.full(400, 2.0**-10), np.full(400, 2.0**10)
    assert truncation_norm(tiny, Uniform(200)) == truncation_norm(tiny, Uniform(200), 2) == 5e-324
    assert truncation_norm(huge, Uniform(200)) == truncation_norm(huge, Uniform(200), 2) == inf


def test_what_is_not_bounded():
    with pytest.raises(OptionError, match="finite"):
        truncation_norm([0.5, np.nan, 0.5], Uniform(1))
    with pytest.raises(OptionError, match="Frobenius"):
        truncation_witness([0.5] * 8, Uniform(2), "fro")
    with pytest.raises(OptionError, match="relative_to"):
        truncation_norm([0.5] * 8, Uniform(2), relative_to="x")


# --- after the fact ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", FEW_WINDOWS, ids=str)
@pytest.mark.parametrize("scale", [0.3, 0.9, 2.0])
def test_bounds_after_the_fact_hold(window, scale, rng):
    for n in (0, *LENGTHS):
        a, u = coefficients(n, rng, scale).astype(np.float32), rng.normal(size=n).astype(np.float32)
        kept = exact.solve(a, u, window)
        error = abs(exact.solve(a, u) - kept)
        assert (posterior_truncation_bound(a, kept, window) >= error).all()
        # from computed states, whose rounding errors are known
        computed = solve(a, u, window=window)
        rounding = exact.measure(a, u, computed, window).upper
        assert (posterior_truncation_bound(a, computed, window, rounding=rounding) >= error).all()


@pytest.mark.parametrize("window", FEW_WINDOWS, ids=str)
def test_bounds_after_the_fact_are_errors_where_no_signs_cancel(window, rng):
    a, u = rng.uniform(0, 1, 33), rng.uniform(0, 1, 33)
    kept = exact.solve(a, u, window)
    error = exact.solve(a, u) - kept
    bound = posterior_truncation_bound(a, kept, window)
    assert (bound >= error).all()
    assert all(b == 0 or np.nextafter(b, 0) < e for b, e in zip(bound, error, strict=True))


def test_coarse_bounds_after_the_fact(rng):
    a, u = rng.uniform(-0.9, 0.9, 40), rng.normal(size=40)
    kept = exact.solve(a, u, Jagged(4))
    error = exact.solve(a, u) - kept
    for order in (inf, 2):
        norm = truncation_norm(a, Jagged(4), order, relative_to="state")
        kept_norm = np.nextafter(float(NORMS[order](kept)), inf)
        assert NORMS[order](error) <= posterior_truncation_norm(norm, kept_norm)
    assert posterior_truncation_norm(1.0, 1.0) == inf
    assert posterior_truncation_norm(0.0, 1.0) == 0.0
    assert posterior_truncation_norm(0.5, 3.0) == 3.0
    assert posterior_truncation_norm([0.5, 1.0], [[3.0], [1.0]]).tolist() == [[3.0, inf], [1.0, inf]]


@pytest.mark.parametrize("wrong", [-0.5, -inf, inf, float("nan")])
@pytest.mark.parametrize("name", ["relative", "kept_norm"])
def test_coarse_bounds_take_norms_alone(name, wrong):
    """Coefficients and states, passed where their norms belong, are refused by the name of the argument."""
    given = {"relative": [0.5, 0.25], "kept_norm": [1.0, 2.0], name: [0.5, wrong]}
    with pytest.raises(OptionError, match=f"^{name} is a norm: it must be a finite number of at least 0, got {wrong};"):
        posterior_truncation_norm(**given)


def test_shapes_must_fit():
    with pytest.raises(ShapeError, match="broadcast"):
        posterior_truncation_bound([0.5] * 3, [1.0] * 2, Uniform(1))
    with pytest.raises(ShapeError, match="rounding"):
        posterior_truncation_bound([0.5] * 3, [1.0] * 3, Uniform(1), rounding=[0.0] * 2)
    with pytest.raises(OptionError, match="finite"):
        posterior_truncation_bound([0.5] * 3, [1.0, np.nan, 1.0], Uniform(1))


@pytest.mark.parametrize("window", [Uniform(3), Jagged(4), Jagged(2, 2)], ids=str)
def test_no_sigma_below_the_2_norm_is_proved(window, rng):
    a = coefficients(33, rng)
    norm = np.linalg.norm(error_matrix(truncate(fractions(a), window), "input").astype(float), 2)
    bundles = state_bundles(upward_operator(a, window))
    assert not is_above(Upward.of(norm * (1 - spectral_slack(33))), *bundles)
    assert is_above(Upward.of(norm * (1 + spectral_slack(33))), *bundles)


@pytest.mark.parametrize("bad", [[0.5] * 3, [[0.5], [0.5, 0.5]], np.zeros((0, 3))])
def test_what_is_no_sequence_has_no_posterior_bound(bad):
    with pytest.raises(RecfactError):
        posterior_truncation_bound(bad, [1.0, 1.0], Jagged(1))
    with pytest.raises(RecfactError):
        posterior_truncation_bound([0.5, 0.5], bad, Jagged(1))
