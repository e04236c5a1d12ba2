"""Every public function on input that no one should pass: it is right, or says what is wrong, and no warning leaks."""

from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest
import sympy

from recfact import precision as pr
from recfact.errors import DTypeError, OptionError, RecfactError, ShapeError
from recfact.windows import Full, Jagged, Uniform

N = 6
HALF, ONES = [0.5] * N, [1.0] * N

NUMBERS = [
    float("nan"), float("inf"), None, "x", "", "nan", "1/0", "-1", "1e5000", "1e99999999", 10**400, -(10**400),
    10**5000, Fraction(10**400, 3), Fraction(1, 10**5000), Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"), 1j,
    True, b"x", {}, int, np.float64, object(), mpmath.mpf("nan"), mpmath.mpf(2) ** 20000, np.datetime64("2020-01-01"),
    -1, 0, 1e308, sympy.Symbol("x"), ml_dtypes.bfloat16(0.5), np.longdouble(0.5),
]  # fmt: skip
ARRAYS = [
    [], [[]], [[1.0], [1.0, 2.0]], np.zeros((0, 3)), np.zeros((N, 0)), np.zeros((2, 3, 4)), [None] * N, [1.0, None] * 3,
    ["a"] * N, [10**400] * N, [10**5000] * N, [Fraction(10**400)] * N, [Fraction(1, 10**400)] * N, [1.7e308] * N,
    [5e-324] * N, [1j] * N, [True] * N, [np.nan] * N, [-np.inf] * N, [np.nan, Fraction(1, 2)] * 3, [Decimal("NaN")] * N,
    [sympy.Symbol("x")] * N, [2**64] * N, [mpmath.mpf("inf")] * N, np.zeros(N, dtype=[("a", float)]),
    [Fraction(1, 3)] * N, [HALF] * 2, np.array([0.5] * N, dtype=np.float16), {"a": [1]}, "abc", [0.0] * N,
]  # fmt: skip
FORMATS = [
    None, "", "x", "fp8", "k99p3", 3, 3.5, "int8", object, [], {}, "binary128", "e8m0", "e2m1", 10**5000, ["a"] * 3,
    pr.FloatFormat.from_bits(4, 3, bias=-(2**20)), pr.FloatFormat.from_bits(19, 300), np.dtype("O"),
]  # fmt: skip
WINDOWS = [None, 3, "jagged", Full, Uniform(10**400), Jagged(10**400), Jagged(2, 10**30), Jagged(3, 0), Uniform(1), []]
ORDERS = [1, 2, np.inf, "fro", None, "x", 0, float("nan"), Decimal("sNaN"), [1], 10**5000]
WORDS = ["x", "", None, 0, True, [], b"x", "sequential", "stochastic", "toward-zero", "flush-after", 10**5000]
COUNTS = [-1, 0, 2.0, True, None, "3", float("nan"), -(10**400), 10**5000, np.array([3])]
SEEDS = [-1, None, "x", 1.5, 10**400, [-1], True, object(), np.random.default_rng(0)]
FLAGS = [None, "x", 0, 1, np.True_, []]

ARITHMETIC = {"format": FORMATS, "accumulate": FORMATS, "fma": FLAGS, "rounding": WORDS, "underflow": WORDS}
PAIR = {"a": ARRAYS + NUMBERS[:20], "u": ARRAYS}
SOLVED = {**PAIR, "format": FORMATS, "algorithm": WORDS, "window": WINDOWS, "x0": NUMBERS + ARRAYS[:8], "axis": COUNTS}
FORMED = {"a": ARRAYS, "method": WORDS, "format": FORMATS}

GIVEN = {"a": HALF, "u": ONES, "format": "float16"}
MIXED = {**GIVEN, "algorithm": "mixed-precision", "window": Jagged(2)}
CALLS = {
    "format": (pr.format, {"name": "float16"}, {"name": FORMATS + NUMBERS + WORDS}),
    "p3109": (pr.p3109, {"bits": 8, "precision": 3}, {"bits": COUNTS + NUMBERS, "precision": COUNTS, "signed": FLAGS}),
    "from_bits": (
        pr.FloatFormat.from_bits,
        {"exponent": 5, "fraction": 10},
        {"exponent": COUNTS + NUMBERS, "fraction": [*COUNTS, 10**18], "bias": COUNTS, "zero": FLAGS, "nan": WORDS},
    ),
    "round": (
        lambda format, **options: pr.format(format).round(**options),
        {"format": "float16", "values": HALF},
        {"format": FORMATS, "values": ARRAYS + NUMBERS, "rounding": WORDS, "underflow": WORDS, "overflow": WORDS},
    ),
    "round at random": (
        lambda seed: pr.format("float16").round(HALF, "stochastic", seed=seed), {"seed": 0}, {"seed": SEEDS}
    ),
    "encode": (pr.format("float16").encode, {"values": 0.5}, {"values": ARRAYS + NUMBERS}),
    "decode": (pr.format("float16").decode, {"codes": 1}, {"codes": ARRAYS + NUMBERS + COUNTS}),
    "values": (lambda name: pr.format(name).values(), {"name": "e5m2"}, {"name": FORMATS}),
    "horizon": (pr.horizon, {"rho": 0.5, "format_or_eps": 0.1}, {"rho": NUMBERS, "format_or_eps": NUMBERS + FORMATS}),
    "horizon_table": (
        lambda **options: str(pr.horizon_table(**options)), {"formats": "fp16"}, {"formats": FORMATS, "rho": NUMBERS}
    ),
    "actual_horizon": (
        lambda **options: str(pr.actual_horizon(**options)),
        {"format": "e5m2"},
        {"format": FORMATS, "rho": NUMBERS, "rounding": WORDS, "algorithm": WORDS, "underflow": WORDS},
    ),
    "effective_horizon": (
        lambda **options: str(pr.effective_horizon(**options)),
        {"a": HALF, "eps": 0.1},
        {"a": ARRAYS + NUMBERS, "eps": NUMBERS + FORMATS},
    ),
    "saturated": (pr.saturated, {"x": HALF, "format": "float16"}, {"x": ARRAYS + NUMBERS, "format": FORMATS}),
    "Arithmetic": (
        lambda **options: pr.rounded_solve(HALF, ONES, pr.Arithmetic(**options)),
        {"format": "float16"},
        {**ARITHMETIC, "seed": SEEDS},
    ),
    "Arithmetic at random": (
        lambda seed: pr.rounded_solve(HALF, ONES, pr.Arithmetic("float16", rounding="stochastic", seed=seed)),
        {"seed": 0},
        {"seed": SEEDS},
    ),
    "Arithmetic.array": (pr.Arithmetic("float16").array, {"values": HALF}, {"values": ARRAYS + NUMBERS}),
    "rounded_solve": (pr.rounded_solve, GIVEN, SOLVED),
    "rounded_solve in blocks": (
        pr.rounded_solve, {**GIVEN, "algorithm": "b2p", "window": Jagged(2)}, {**PAIR, "window": WINDOWS}
    ),
    "forward_bound": (pr.forward_bound, GIVEN, SOLVED),
    "running_bound": (pr.running_bound, GIVEN, SOLVED),
    "rounded_solve in mixed precision": (pr.rounded_solve, MIXED, {**SOLVED, "casts": WORDS + NUMBERS}),
    "forward_bound in mixed precision": (pr.forward_bound, MIXED, {**SOLVED, "casts": WORDS + NUMBERS}),
    "factor_counts": (
        pr.factor_counts,
        {"algorithm": "engine", "n": 5},
        {"algorithm": WORDS, "n": COUNTS, "window": WINDOWS, "fma": FLAGS, "format": FORMATS},
    ),
    "cast_counts": (pr.cast_counts, {"n": 5, "window": Jagged(2)}, {"n": COUNTS, "window": WINDOWS, "casts": WORDS}),
    "engine_bound": (
        pr.engine_bound, GIVEN, {**PAIR, "format": FORMATS, "window": WINDOWS, "x0": NUMBERS + ARRAYS[:8]}
    ),
    "backward_error": (pr.backward_error, {"a": HALF, "u": ONES, "x": ONES}, {**PAIR, "x": ARRAYS, "x0": NUMBERS}),
    "backward_error_bound": (pr.backward_error_bound, {**GIVEN, "x": ONES}, {**PAIR, "x": ARRAYS, "format": FORMATS}),
    "truncation_bound": (
        pr.truncation_bound,
        {"rho": 0.5, "window": Jagged(2)},
        {"rho": NUMBERS, "window": WINDOWS, "ord": ORDERS, "n": COUNTS, "nu": NUMBERS, "x0": NUMBERS},
    ),
    "pointwise_truncation_bound": (
        pr.pointwise_truncation_bound,
        {"rho": 0.5, "window": Jagged(2), "n": 9},
        {"rho": NUMBERS, "window": WINDOWS, "n": COUNTS, "nu": NUMBERS, "x0": NUMBERS},
    ),
    "posterior_truncation_bound": (
        pr.posterior_truncation_bound,
        {"a": HALF, "kept": ONES, "window": Jagged(2)},
        {"a": ARRAYS, "kept": ARRAYS, "window": WINDOWS, "rounding": NUMBERS + ARRAYS},
    ),
    "posterior_truncation_norm": (
        pr.posterior_truncation_norm, {"relative": 0.5, "kept_norm": 1.0}, {"relative": NUMBERS, "kept_norm": NUMBERS}
    ),
    "rounded_materialize": (pr.rounded_materialize, {"a": HALF, "format": "float16"}, FORMED),
    "materialization_errors": (
        lambda **options: repr(pr.materialization_errors(**options)), {"a": HALF, "format": "float16"}, FORMED
    ),
    "materialization_bound": (pr.materialization_bound, {"a": HALF, "format": "float16"}, FORMED),
    "condition": (pr.condition, {"a": HALF, "u": ONES}, {**PAIR, "x0": NUMBERS[:-3] + ARRAYS[:8]}),
    "choose_window": (
        lambda **options: repr(pr.choose_window(**options)),
        {"a": HALF, "tol": 0.1},
        {"a": ARRAYS + NUMBERS, "tol": NUMBERS, "block": [*COUNTS, 10**400], "relative_to": WORDS},
    ),
    "exact.solve": (
        pr.exact.solve, {"a": HALF, "u": ONES}, {**PAIR, "window": WINDOWS, "x0": NUMBERS + ARRAYS[:8]}
    ),
    "verify": (lambda **options: repr(pr.verify(**options)), GIVEN, {**SOLVED, "progress": WORDS}),
    "verify the engine": (
        lambda **options: repr(pr.verify(**options)),
        {**GIVEN, "algorithm": "engine"},
        {**{name: values for name, values in SOLVED.items() if name != "algorithm"}, "threads": COUNTS},
    ),
    "verify without a format": (lambda **options: repr(pr.verify(**options)), {"a": HALF, "u": ONES}, PAIR),
    "verify_many": (
        lambda **options: pr.verify_many(cases=1, lengths=2, families="gates", processes=1, **options),
        {"formats": "e5m2", "algorithms": "sequential", "windows": Full()},
        {"formats": FORMATS, "algorithms": WORDS, "windows": WINDOWS, "seed": SEEDS, "progress": WORDS},
    ),
}  # fmt: skip
for order in (1, 2, np.inf, "fro"):
    for relative_to in ("input", "state"):
        options = {"a": HALF, "window": Uniform(2), "ord": order, "relative_to": relative_to}
        changes = {"a": ARRAYS, "window": WINDOWS, "ord": ORDERS, "relative_to": WORDS}
        CALLS[f"truncation_norm {order} {relative_to}"] = (pr.truncation_norm, options, changes)
        CALLS[f"truncation_witness {order} {relative_to}"] = (pr.truncation_witness, options, changes)


@pytest.mark.parametrize("name", CALLS)
def test_it_is_right_or_says_what_is_wrong(name):
    call, given, changes = CALLS[name]
    for argument, values in changes.items():
        for value in values:
            with suppress(RecfactError):
                call(**{**given, argument: value})


def test_integers_beyond_float64_are_coefficients():
    huge = 10**400
    assert pr.effective_horizon([huge] * 5, 1).lags.tolist() == [0, 1, 2, 3, 4]
    assert pr.effective_horizon([Fraction(1, huge)] * 5, Fraction(9, 10 * huge**2)).lags.tolist() == [0, 1, 2, 2, 2]
    assert pr.truncation_norm([huge] * 5, Uniform(2), 2) == np.inf
    small = pr.truncation_norm([Fraction(1, 3)] * 5, Uniform(2), 2)
    # Entries are products of up to four coefficients, and either bound is the root finder's guess raised by 2 eps.
    slack = 4 * 2.0**-53 + 4 * 2.0**-52
    assert small == pytest.approx(pr.truncation_norm([1 / 3] * 5, Uniform(2), 2), rel=slack)


def test_witnesses_of_coefficients_out_of_the_range_of_float64():
    for a in ([1.7e308] * 6, [1e-200] * 6, [Fraction(10**400)] * 6, [10**400] * 6):
        assert pr.truncation_witness(a, Uniform(2)).tolist() == [1, -a[0], 0, 0, 0, 0]
        assert pr.truncation_witness(a, Uniform(2), 1, relative_to="input")[0] in (0, 1)
        with pytest.raises(OptionError, match="the order 1 or"):
            pr.truncation_witness(a, Uniform(2), 2, relative_to="input")
    halves = pr.truncation_witness([Fraction(1, 2)] * 6, Uniform(2), 2, relative_to="input")
    np.testing.assert_array_equal(halves, pr.truncation_witness([0.5] * 6, Uniform(2), 2, relative_to="input"))


def test_coefficients_without_blocks_are_refused():
    for empty in (np.zeros((0, 3)), [], np.zeros((0, 16))):
        with pytest.raises(ShapeError, match="coefficients 'mine' must have at least"):
            pr.materialization_table({"mine": empty}, block=3)


def test_shares_are_numbers():
    for share in (None, "half", Decimal("NaN"), np.nan, 2):
        with pytest.raises(OptionError, match="shares must be"):
            pr.effective_horizon(HALF, 0.1).quantile(share)


def test_a_number_too_long_to_write_is_no_reason_to_fail():
    with pytest.raises(OptionError, match="can't be written"):
        pr.p3109(8, 10**5000)
    with pytest.raises(DTypeError, match="can't be written"):
        pr.format(10**5000)
