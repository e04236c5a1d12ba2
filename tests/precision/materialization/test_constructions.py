"""The constructions in formats: against NumPy's own arithmetic, and errors and failures against fractions."""

from collections import Counter
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from market import fractions, literal_matrix

from recfact import materialize
from recfact.errors import DTypeError, OptionError, ShapeError
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.formats.catalogue import format
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.materialization.compare_constructions import COEFFICIENT_FAMILIES, materialization_table
from recfact.precision.materialization.construction_errors import materialization_errors
from recfact.precision.materialization.constructions import (
    METHODS,
    materialization_bound,
    rounded_materialize,
)

DTYPES = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in ("float16", "bfloat16", "float32", "float64")}
RATIONAL = ("cumprod", "ratio", "reciprocal")


@pytest.mark.parametrize("method", RATIONAL)
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("family", ["sigmoid(N)", "U(-1, 1)", "10% zeros", "U(1, 1.05)"])
def test_numpy_rounds_the_same(name, method, family, rng):
    a = COEFFICIENT_FAMILIES[family](rng, (20, 16)).astype(DTYPES[name])
    expected = materialize(a, method).astype(np.float64)
    assert np.array_equal(rounded_materialize(a, method, format=name), expected, equal_nan=True)


@pytest.mark.parametrize("method", RATIONAL)
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_wide_accumulation_is_two_casts(name, method, rng):
    a = rng.uniform(0.3, 1, (20, 16)).astype(DTYPES[name])
    expected = materialize(a.astype(np.float32), method).astype(DTYPES[name]).astype(np.float64)
    assert np.array_equal(rounded_materialize(a, method, format=Arithmetic(name, accumulate="float32")), expected)


def test_logarithms_are_rounded_one_by_one(rng):
    # A literal segment sum, every step rounded by the format.
    fmt = format("bfloat16")
    a = fmt.round(rng.uniform(0.2, 1, 6))
    blocks = {method: rounded_materialize(a, method, format=fmt) for method in ("segsum", "log-outer")}
    logs = fmt.round(np.log(a))
    prefix = np.copy(logs)
    for i in range(1, 6):
        prefix[i] = fmt.round(prefix[i - 1] + logs[i])
    for j in range(6):
        total = 0.0
        for i in range(j + 1, 6):
            total = fmt.round(total + logs[i])
            assert blocks["segsum"][i, j] == fmt.round(np.exp(total))
            assert blocks["log-outer"][i, j] == fmt.round(np.exp(fmt.round(prefix[i] - prefix[j])))


def test_underflowing_prefixes_in_float16():
    a = np.full(4, 2.0**-10)
    products = rounded_materialize(a, format="float16")
    assert products[1, 0] == 2.0**-10
    assert products[2, 0] == 2.0**-20  # subnormal and exact
    assert products[3, 0] == 0
    quotients = rounded_materialize(a, "ratio", format="float16")
    assert np.isnan(quotients[3, 2])  # exact: 2^-10
    assert quotients[2, 0] == 0
    reciprocals = rounded_materialize(a, "reciprocal", format="float16")
    assert reciprocals[1, 1] == np.inf
    assert np.isnan(reciprocals[2, 1])
    errors = materialization_errors(a, "reciprocal", format="float16")
    assert (errors.normal, errors.underflow, errors.diagonal) == (3, 3, 3)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "tf32", "float8_e5m2"])
def test_leading_zero_is_no_obstacle_without_division(name):
    a = np.array([0, 0.5, 0.5, 0.5])
    expected = np.array([[1, 0, 0, 0], [0.5, 1, 0, 0], [0.25, 0.5, 1, 0], [0.125, 0.25, 0.5, 1]])
    below = np.tri(4, k=-1, dtype=bool)
    assert np.array_equal(rounded_materialize(a, format=name), expected)
    for method in ("ratio", "reciprocal", "log-outer"):
        assert np.isnan(rounded_materialize(a, method, format=name)[below]).all()


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("float32", [0.5, 0.25, 0.125]),
        ("bfloat16", [0.5, 0.25, 0.125]),
        ("float16", [0.5, 0.2498779296875, 0.12493896484375]),
        ("tf32", [0.5, 0.2498779296875, 0.12493896484375]),
        ("float64", [0.5, 0.25, 0.12500000000000003]),
        ("float8_e5m2", [0.5, 0.21875, 0.125]),
        ("float8_e4m3fn", [0.5, 0.25, 0.140625]),
    ],
)
def test_segsum_of_powers_of_two_is_exact_in_some_formats_only(name, column):
    # Twice the rounded logarithm of 1/2 needn't lie near enough to that of 1/4.
    blocks = rounded_materialize([0, 0.5, 0.5, 0.5], "segsum", format=name)
    assert blocks[1:, 0].tolist() == column
    assert np.array_equal(blocks, materialize([1, column[0], column[0], column[0]])) == (column == [0.5, 0.25, 0.125])


def count(a, computed, fmt):
    """Classify the strictly lower entries of one block by fractions."""
    exact = literal_matrix(fractions(a))
    counts: Counter = Counter()
    for i in range(len(a)):
        counts["diagonal"] += computed[i, i] != 1
        for j in range(i):
            true, value = exact[i, j], computed[i, j]
            kind = (
                "zero"
                if true == 0
                else "underflow"
                if abs(true) < Fraction(fmt.smallest_normal)
                else "overflow"
                if abs(true) > Fraction(fmt.max)
                else "normal"
            )
            counts["entries"] += 1
            counts[kind] += 1
            counts["nan"] += np.isnan(value)
            counts["inf"] += np.isinf(value) and kind != "overflow"
            counts["lost"] += kind == "normal" and value == 0
            counts["invented"] += kind == "zero" and np.isfinite(value) and value != 0
    return counts


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["float16", "float8_e4m3fn", "float6_e3m2fn", "float32"])
def test_failures_are_counted(name, method, rng):
    fmt = format(name)
    families = [family(rng, (3, 12)) for family in COEFFICIENT_FAMILIES.values()] + [
        rng.uniform(0, 0.1, (3, 12)),
        rng.uniform(1, 4, (3, 12)),
    ]
    for a in families:
        a = fmt.round(a)
        errors = materialization_errors(a, method, format=name)
        expected = sum((count(row, block, fmt) for row, block in zip(a, errors.computed, strict=True)), Counter())
        for kind in (
            "entries",
            "zero",
            "underflow",
            "overflow",
            "normal",
            "nan",
            "inf",
            "lost",
            "invented",
            "diagonal",
        ):
            assert getattr(errors, kind) == expected[kind], kind
        assert errors.entries == errors.zero + errors.underflow + errors.overflow + errors.normal
        for row, block, relative in zip(a, errors.computed, errors.relative, strict=True):
            exact = literal_matrix(fractions(row))
            for place in zip(*np.nonzero(~np.isnan(relative)), strict=True):
                error = abs(Fraction(block[place]) - exact[place]) / abs(exact[place])
                assert abs(Fraction(relative[place]) - error) <= error / 2**50 + Fraction(1, 2**90)


def test_overflow_is_no_failure():
    # 2^40 is infinite in float16, as it should be; of ratios of infinities nothing is left.
    a = np.full(5, 2.0**10)
    errors = materialization_errors(a, format="float16")
    assert (errors.overflow, errors.inf, errors.failures) == (6, 0, 0)
    assert np.isinf(errors.computed[3, 0])
    assert materialization_errors(a, "ratio", format="float16").nan > 0


def test_quantiles_and_lags(rng):
    errors = materialization_errors(rng.uniform(0.5, 1, (50, 8)), format="bfloat16")
    assert errors.measured.size == errors.normal == 50 * 28
    assert errors.quantile(0, 1).tolist() == [errors.measured[0], errors.measured[-1]]
    by_lag = errors.by_lag()
    assert by_lag[0] == 0  # an entry at lag 1 is a coefficient
    assert by_lag.max() == errors.measured[-1]
    for lag in range(1, 8):
        assert by_lag[lag - 1] == max(np.diagonal(block, -lag).max() for block in errors.relative)
    assert np.isnan(materialization_errors(np.zeros(4), format="bfloat16").by_lag()).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(0,), (1,), (3, 0), (0, 4), (2, 3, 5)])
def test_any_shape(method, shape, rng):
    a = rng.uniform(0.5, 1, shape)
    assert rounded_materialize(a, method, format="float16").shape == (*shape, shape[-1])
    assert materialization_bound(a, method, format="float16").shape == (*shape, shape[-1])
    errors = materialization_errors(a, method, format="float16")
    assert errors.blocks == int(np.prod(shape[:-1])) * (shape[-1] > 0)
    assert errors.failures == 0
    assert "below the diagonal" in repr(errors)


def test_all_zero():
    for method in ("cumprod", "segsum"):
        assert np.array_equal(rounded_materialize(np.zeros(3), method, format="float16"), np.eye(3))
    assert materialization_errors(np.zeros(3), "ratio", format="float16").nan == 3


def test_coefficients_are_rounded_to_the_format_first():
    a = [0.3, 0.3, Fraction(3, 10)]
    expected = rounded_materialize(format("bfloat16").round(np.array([0.3, 0.3, 0.3])), format="bfloat16")
    assert np.array_equal(rounded_materialize(a, format="bfloat16"), expected)
    assert rounded_materialize([1, 2, 3], format="float16")[2, 0] == 6


def test_formats_of_your_own():
    mine = FloatFormat.from_bits(exponent=6, fraction=5)
    assert materialization_errors([0.5, 0.7, 0.7], format=mine).ratio <= 1


def measured_by_table(a, **formats):
    return materialization_table({"mine": a}, block=1, **formats)


def test_bad_arguments_are_named():
    with pytest.raises(OptionError, match="method must be one of"):
        rounded_materialize([0.5], "exp", format="float16")
    for measure in (materialization_errors, materialization_bound, measured_by_table):
        for formats in ({"format": "binary128"}, {"format": Arithmetic("float16", accumulate="binary128")}):
            with pytest.raises(OptionError, match=r"whose numbers float64 holds, .* got 'binary128'"):
                measure([0.5], **formats)
    with pytest.raises(OptionError, match=r"finite in binary128, .* is 1\.1897e\+4932; 1 of 2 are not"):
        rounded_materialize([0.5, 10**5000], format="binary128")
    with pytest.raises(OptionError, match=r"format must have zero and negative numbers, .* got 'float8_e8m0fnu'"):
        rounded_materialize([0.5], format="float8_e8m0fnu")
    with pytest.raises(OptionError, match="must be a format that holds every number of binary16, got 'bfloat16'"):
        rounded_materialize([0.5], format=Arithmetic("float16", accumulate="bfloat16"))
    with pytest.raises(OptionError, match="finite in binary16"):
        materialization_errors([0.5, 1e6], format="float16")
    with pytest.raises(OptionError, match="1 of 2 are not"):
        materialization_bound([0.5, np.nan], format="float16")
    with pytest.raises(ShapeError, match="at least one axis"):
        rounded_materialize(0.5, format="float16")
    with pytest.raises(DTypeError, match="complex"):
        rounded_materialize([0.5j], format="float16")
    with pytest.raises(DTypeError, match="expected real or complex"):
        rounded_materialize(["a"], format="float16")


def test_the_worst_block_is_named(rng):
    a = 1 - rng.uniform(0, 1 / 64, (3, 4, 8))
    a[1, 2] = rng.uniform(1e-3, 1e-2, 8)  # whose products are subnormal in binary16, or 0
    found = materialization_errors(a, format="float16")
    spread = found.spread
    assert spread.by_sequence.shape == (3, 4)
    assert spread.largest == np.nanmax(found.relative)
    assert np.nanmax(found.relative[spread.worst]) == spread.largest
    for block in np.ndindex(3, 4):
        assert spread.by_sequence[block] == np.nanmax(found.relative[block])
    assert len(materialization_errors(np.zeros((3, 0)), format="float16").spread) == 0
    assert materialization_errors(np.ones((3, 1)), format="float16").spread.largest == 0
