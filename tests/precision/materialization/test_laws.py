"""The bounds of the constructions: never passed, nearly reached, and the closed forms they are in the normal range."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recfact import materialize
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.formats.catalogue import FORMATS, format
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.materialization.compare_constructions import COEFFICIENT_FAMILIES
from recfact.precision.materialization.construction_errors import materialization_errors
from recfact.precision.materialization.constructions import METHODS, materialization_bound

NARROW = tuple(name for name, each in FORMATS.items() if each.zero and each.fraction_bits < 24)
OWN = (
    FloatFormat.from_bits(5, 6, subnormals=False),
    FloatFormat.from_bits(4, 10, subnormals=False),  # logarithms that nearly cancel leave less than its numbers
    FloatFormat.from_bits(2, 9, nan="none"),
    FloatFormat.from_bits(6, 30),
)

FAMILIES = {
    **COEFFICIENT_FAMILIES,
    "tiny": lambda rng, shape: 2.0 ** -rng.uniform(0, 12, shape),
    "both ways": lambda rng, shape: 2.0 ** rng.uniform(-3, 3, shape),
    "large": lambda rng, shape: rng.uniform(-4, 4, shape),
    "subnormal": lambda rng, shape: np.where(rng.random(shape) < 0.1, 2.0**-20, rng.uniform(0.5, 2, shape)),
    "just below one": lambda rng, shape: np.full(shape, 1 - 2.0**-9),
    "around one": lambda rng, shape: rng.uniform(0.8, 1.25, shape),
    "almost all one": lambda rng, shape: np.where(rng.random(shape) < 0.8, 1.0, rng.uniform(0.4, 1, shape)),
}


RAISED = 2.0**-31
"""What bounds are raised by for what float64 rounds: 2^-32, and less than that on the way."""


def phi(roundings, unit):
    return np.expm1(roundings * np.log1p(unit))


def lags(steps):
    return np.maximum(np.subtract.outer(np.arange(steps), np.arange(steps)), 0)


def drawn(name, shape, fmt, rng):
    """Return coefficients of a family that a format holds."""
    return np.clip(FAMILIES[name](rng, shape), -float(fmt.max), float(fmt.max))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("fmt", [*map(format, NARROW), *OWN], ids=str)
def test_no_bound_is_passed(fmt, method, rng):
    for name in FAMILIES:
        a = drawn(name, (12, 16), fmt, rng)
        errors = materialization_errors(a, method, format=fmt)
        assert errors.ratio <= 1, name
        if method == "cumprod" and fmt.fraction_bits > 2 and (abs(a) <= 1).all():
            assert errors.bounded == errors.entries, name


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("storage", "wide"),
    [
        ("float16", "float32"),
        ("bfloat16", "float32"),
        ("float8_e4m3fn", "float32"),
        ("float8_e5m2", "float16"),
        ("float8_e4m3fn", "bfloat16"),
        ("float4_e2m1fn", "float8_e5m2"),
    ],
)
def test_no_bound_is_passed_with_a_wide_accumulator(storage, wide, method, rng):
    for name in FAMILIES:
        a = drawn(name, (30, 16), format(storage), rng)
        assert materialization_errors(a, method, format=Arithmetic(storage, accumulate=wide)).ratio <= 1, name


@pytest.mark.parametrize("method", METHODS)
def test_no_bound_is_passed_in_float64(method, rng):
    for name in ("sigmoid(N)", "1 - U(0, 1/32)", "large"):
        assert materialization_errors(FAMILIES[name](rng, (2, 10)), method, format="float64").ratio <= 1, name


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=40)
@given(data=st.data())
def test_no_bound_is_passed_by_adversaries(method, data):
    fmt = format(data.draw(st.sampled_from(NARROW)))
    values = all_values(fmt) if fmt.bits <= 8 else None
    number = st.sampled_from(values) if values else st.floats(-2, 2, width=16)
    a = data.draw(st.lists(number, min_size=2, max_size=8))
    wide = data.draw(st.sampled_from([None, "tf32", "float32"] if fmt.bits <= 16 else [None, "float32"]))
    assert materialization_errors(a, method, format=Arithmetic(fmt, accumulate=wide)).ratio <= 1


@cache
def all_values(fmt):
    return tuple(fmt.values().tolist())


@pytest.mark.parametrize(
    ("method", "reached"),
    [
        ("cumprod", 0.98),
        ("ratio", 0.9),
        ("reciprocal", 0.6),
        ("segsum", 0.8),
        ("log-outer", 0.8),
    ],
)
def test_bounds_are_nearly_reached(method, reached, rng):
    a = FAMILIES["sigmoid(N)"](rng, (2000, 16))
    assert materialization_errors(a, method, format="bfloat16").ratio > reached


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_products_and_quotients_err_by_their_roundings(name, rng):
    a = rng.uniform(0.7, 1, (5, 12))
    unit = float(format(name).unit_roundoff)
    a = format(name).round(a)
    entry, lag = materialize(a), lags(12)
    below = lag > 0
    for method, roundings in (("cumprod", lag - 1), ("ratio", lag + 1), ("reciprocal", lag + 2)):
        bound = materialization_bound(a, method, format=name)
        law = phi(np.maximum(roundings, 0), unit) * entry
        np.testing.assert_allclose(bound[:, below], law[:, below], rtol=RAISED)
        gamma = roundings * unit / (1 - roundings * unit) * entry
        assert (bound[:, below] <= gamma[:, below] * (1 + RAISED)).all()


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("low", [0.3, 31 / 32])
def test_logarithms_err_by_less_than_the_usual_laws(name, low, rng):
    # gamma_d |log L| for the segment sum; for differences of prefixes gamma_i P_i + gamma_j P_j and 1.5 units of the
    # difference, which forget that both prefixes begin with the same steps.
    steps, unit = 8, float(format(name).unit_roundoff)
    a = format(name).round(rng.uniform(low, 1, (20, steps)))
    entry, lag = materialize(a), lags(steps)
    prefix = -np.cumsum(np.log(a), axis=-1)
    size = abs(prefix[:, :, None] - prefix[:, None, :])
    gamma = lambda n: n * unit / (1 - n * unit)  # noqa: E731
    step = np.arange(1, steps + 1)
    usual = {
        "segsum": gamma(lag) * size,
        "log-outer": (gamma(step) * prefix)[:, :, None] + (gamma(step) * prefix)[:, None, :] + 1.5 * unit * size,
    }
    for method, exponent in usual.items():
        bound = materialization_bound(a, method, format=name)
        below = (lag > 0) & (entry > float(format(name).smallest_normal) * 2)
        law = (np.expm1(exponent) + unit * np.exp(exponent)) * entry
        assert (bound[below] <= law[below] * (1 + RAISED)).all(), method


def test_logarithms_err_by_their_partial_sums(rng):
    # To first order: u (|log L| + the partial sums), read off where u is tiny.
    a = rng.uniform(0.3, 1, 7)
    unit = float(format("float64").unit_roundoff)
    logs = abs(np.log(a))
    entry = materialize(a)
    bounds = {method: materialization_bound(a, method, format="float64") / unit for method in ("segsum", "log-outer")}
    for i in range(1, 7):
        for j in range(i):
            size = logs[j + 1 : i + 1].sum()
            from_j = sum(logs[j + 1 : k + 1].sum() for k in range(j + 2, i + 1))
            from_start = sum(logs[: k + 1].sum() for k in range(j + 1, i + 1))
            assert bounds["segsum"][i, j] == pytest.approx((1 + size + from_j) * entry[i, j], rel=RAISED)
            assert bounds["log-outer"][i, j] == pytest.approx((1 + 2 * size + from_start) * entry[i, j], rel=RAISED)


def test_one_cast_errs_by_one_unit(rng):
    a = format("float16").round(rng.uniform(0.5, 1, (10, 8)))
    bound = materialization_bound(a, format=Arithmetic("float16", accumulate="float32"))
    below = np.tri(8, k=-1, dtype=bool)
    relative = (bound / materialize(a).clip(1e-300))[:, below]
    assert (relative <= 2.0**-11 + 8 * 2.0**-24).all()


def test_where_there_is_no_bound():
    below = np.tri(4, k=-1, dtype=bool)
    for method in ("ratio", "reciprocal", "log-outer"):
        bound = materialization_bound([0, 0.5, 0.5, 0.5], method, format="float16")
        assert np.isinf(bound[below]).all()
        assert np.isinf(np.diagonal(bound)).all()
    negative = materialization_bound([0.5, 0.5, -0.5, 0.5], "segsum", format="float16")
    assert np.isinf(negative[2:, :2]).all()
    assert np.isfinite(negative[[1, 3], [0, 2]]).all()
    assert np.isinf(materialization_bound([1, 60000, 60000], format="float16")[2, 0])
    # float8_e4m3fn has no infinity to be the logarithm of 0, binary16 has.
    assert np.isinf(materialization_bound([0.5, 0, 0.5], "segsum", format="float8_e4m3fn")[1:, 0]).all()
    assert np.array_equal(materialization_bound([0.5, 0, 0.5], "segsum", format="float16")[1:, 0], [0, 0])


def test_what_is_exact_has_the_bound_zero():
    for method in METHODS:
        bound = materialization_bound([0.5, 0.3, 0.7], method, format="float16")
        assert (bound[np.triu_indices(3, 1)] == 0).all()
        if method != "reciprocal":
            assert (np.diagonal(bound) == 0).all()
    assert materialization_bound([0.5, 0.3, 0.7], format="float16")[1, 0] == 0
