"""Verification of one recurrence, against fractions, closed forms and every way in which it could go wrong."""

import json
from decimal import Decimal
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from recfact.errors import DTypeError, OptionError, ShapeError
from recfact.number_types import BFLOAT16
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.run import rounded_solve
from recfact.precision.verification import verify as verification
from recfact.precision.verification.verify import truncation_bounds, verify
from recfact.recurrence import forward, windowed
from recfact.solve import solve
from recfact.windows import Full, Jagged, Uniform

CASES = [
    ("sequential", Full()),
    ("sequential", Uniform(5)),
    ("kogge-stone", Full()),
    ("kogge-stone", Uniform(4)),
    ("brent-kung", Full()),
    ("hierarchical", Full()),
    ("hierarchical", Jagged(4)),
    ("hierarchical", Jagged(3, 2)),
]


def fractions(values):
    return np.vectorize(Fraction, otypes=[object])(values)


def largest(errors):
    return max(map(abs, errors.flat))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("algorithm", "window"), CASES, ids=repr)
@pytest.mark.parametrize("format", ["binary16", "bfloat16", "float8_e4m3fn", "binary32"])
def test_measures_what_fractions_do(algorithm, window, format, rng):
    fmt = format_of(format)
    a, u = rng.uniform(-1, 1, 40), rng.standard_normal(40)
    v = verify(a, u, window=window, format=format, algorithm=algorithm)
    a, u = fractions(fmt.round(a)), fractions(fmt.round(u))
    exact, kept, computed = forward(a, u), windowed(a, u, window), fractions(v.x)
    for checked, errors in ((v.truncation, exact - kept), (v.rounding, computed - kept), (v.total, computed - exact)):
        assert largest(errors) <= checked.largest <= float(largest(errors)) * (1 + 2.0**-49)
        assert largest(errors) == (0 if checked.at is None else abs(errors[checked.at]))
        assert checked.holds is True
        assert checked.ratio <= 1
    np.testing.assert_array_equal(fmt.round(v.x), v.x)
    assert v.holds is True


def test_equality_at_the_witness():
    # Constant coefficients and inputs are the worst case of the bound of truncation, and exact in every format here.
    v = verify(np.full(16, 0.5), np.ones(16), window=Jagged(4), format="float32", algorithm="hierarchical")
    assert v.truncation.largest == v.truncation.bound == 255 / 4096
    assert v.truncation.at == (12,)
    assert v.truncation.ratio == 1
    assert v.truncation.holds is True


@pytest.mark.parametrize(("format", "stuck", "exact"), [("float16", 1024, 2048), ("bfloat16", 128, 256)])
def test_stagnation(format, stuck, exact):
    rho, n = format_of(format).largest_below_one, 8 * exact
    v = verify(np.full(n, rho), np.ones(n), format=format)
    assert v.x[-1] == stuck
    limit = Fraction(exact) * (1 - Fraction(rho) ** n)
    assert v.rounding.largest == pytest.approx(float(limit - stuck), rel=2.0**-50)
    assert v.rounding.at == (n - 1,)
    assert v.holds is True


def test_what_is_exact_has_no_error():
    v = verify(np.full(9, 0.5), np.zeros(9), format="float16", x0=4)
    assert v.x.tolist() == [2.0**-i for i in range(-1, 8)]
    for checked in (v.truncation, v.rounding, v.total):
        assert (checked.largest, checked.at, checked.ratio, checked.holds) == (0, None, 0, True)


def test_a_bound_that_is_too_small_breaks(monkeypatch):
    real = verification.rounding_bound
    monkeypatch.setattr(verification, "rounding_bound", lambda *args, **options: real(*args, **options) * 2.0**-8)
    v = verify(np.full(300, 0.9), np.ones(300), format="bfloat16")
    assert v.rounding.holds is v.total.holds is v.holds is False
    assert v.rounding.ratio > 1
    assert v.truncation.holds is True
    assert "NO" in str(v)


def test_a_bound_is_compared_exactly(monkeypatch):
    # 1/3 rounded and multiplied by 3 is off by 2^-12 of 1 in half precision: no more, and no less.
    a, u = [1.0, 3.0], [1365 / 4096, 0.0]
    error = abs(3 * 1365 / 4096 - float(np.float16(3 * 1365 / 4096)))
    for bound, holds in ((error, True), (np.nextafter(error, 0), False)):
        monkeypatch.setattr(verification, "rounding_bound", lambda *args, bound=bound, **options: np.full(2, bound))
        assert verify(a, u, format="float16").holds is holds
    assert error > 0


def test_inputs_are_rounded_first_and_it_says_so():
    v = verify([0.5, 0.3, 0.5], [1.0, 1.0, 1.1], format="float8_e5m2", x0=0.1)
    assert v.inputs_changed == 3
    changes = [abs(Fraction(x) - Fraction(y)) / Fraction(x) for x, y in ((0.3, 0.3125), (1.1, 1.0), (0.1, 0.09375))]
    assert v.inputs_change == pytest.approx(float(max(changes)), rel=2.0**-52)
    assert "3 coefficients and inputs were rounded to float8_e5m2 first" in str(v)
    same = verify(np.float32([0.1, 0.2]), np.float32([1, 2]))
    assert same.inputs_changed == 0
    assert "were rounded" not in str(same)


def test_overflow_is_said():
    v = verify(np.full(6, 2.0), np.full(6, 30000.0), format="float16")
    assert (v.nonfinite, v.first_nonfinite, v.holds) == (5, (1,), False)
    assert v.rounding.holds is True
    assert np.isfinite(v.rounding.largest)
    assert "FAILS: 5 of 6 states overflowed or became NaN, the first at step 1" in str(v)
    assert [line.split()[-1] for line in str(v).splitlines()[2:5]] == ["yes", "6", "6"]  # yes, for 1 of 6


def test_overflow_that_saturates_is_said():
    fmt = FORMATS["float4_e2m1fn"]
    v = verify(np.ones(4), np.full(4, 3.0), format=fmt)
    assert v.x.tolist() == [3, 6, 6, 6]
    assert (v.nonfinite, v.first_nonfinite, v.holds) == (2, (2,), False)
    v = verify(np.full(6, 2.0), np.full(6, 30000.0), format=Arithmetic("float16", rounding="toward-zero"))
    assert v.x.max() == 65504
    assert v.nonfinite == 5


def test_stochastic_rounding_is_within_its_bound(rng):
    a, u = rng.uniform(0, 1, 200), rng.standard_normal(200)
    for seed in range(5):
        v = verify(a, u, format=Arithmetic("bfloat16", rounding="stochastic", seed=seed))
        assert v.holds is True
    assert "rounding=stochastic" in str(v)


def test_a_saturated_state_that_no_later_one_sees():
    fmt = FORMATS["float4_e2m1fn"]
    v = verify([1, 1, 1, 0, 1], [4, 4, 0, 1, 1], format=fmt)
    assert v.x.tolist() == [4, 6, 6, 1, 2]
    assert (v.nonfinite, v.first_nonfinite) == (2, (1,))


def test_channels_and_broadcasting(rng):
    a, u = rng.uniform(0, 1, (30, 1)), rng.standard_normal((30, 3))
    v = verify(a, u, window=Uniform(4), format="bfloat16", x0=[1.0, 2.0, 3.0], axis=0)
    assert v.shape == v.x.shape == (30, 3)
    single = [verify(a[:, 0], u[:, c], window=Uniform(4), format="bfloat16", x0=c + 1) for c in range(3)]
    for name in ("truncation", "rounding", "total"):
        alone = [getattr(one, name) for one in single]
        together = getattr(v, name)
        assert together.largest == max(one.largest for one in alone)
        assert together.ratio == max(one.ratio for one in alone)
        channel = together.at[1]
        assert together.at == (*alone[channel].at, channel)


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize(("algorithm", "window"), CASES, ids=repr)
def test_shortest(n, algorithm, window):
    v = verify(np.full(n, 0.5), np.ones(n), window=window, format="float16", algorithm=algorithm)
    assert v.holds is True
    assert v.shape == (n,)
    assert v.total.largest == 0
    assert "holds" in str(v)


@pytest.mark.parametrize("values", [0.0, -1.0, 1.0, 2.0**-14, 2.0**-24])
def test_edges(values):
    for window in (Full(), Uniform(2), Jagged(2)):
        assert verify(np.full(9, values), np.full(9, values), window=window, format="float16").holds is True


def test_no_channels():
    v = verify(np.zeros((3, 0)), np.zeros((3, 0)), format="float16", axis=0)
    assert v.holds is True
    assert v.shape == (3, 0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_the_format_is_that_of_the_arrays(dtype):
    a = np.full(3, 0.5).astype(dtype)
    assert verify(a, a).format == format_of(dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("algorithm", ["sequential", "engine"])
def test_the_format_left_out_is_that_of_the_numbers_in_any_byte_order(dtype, algorithm, rng):
    a, u = rng.uniform(0.5, 0.9, (2, 20)).astype(dtype)
    found = verify(a, u, algorithm=algorithm)
    for order in "<>":
        swapped = (array.astype(array.dtype.newbyteorder(order)) for array in (a, u))
        assert repr(verify(*swapped, algorithm=algorithm)) == repr(found)


def test_a_format_is_required_of_mixed_arrays():
    for a, u in (([1, 2], [1, 2]), (np.float32([1]), np.float64([1]))):
        with pytest.raises(OptionError, match="format must be given where"):
            verify(a, u)


def test_exact_scalars_come_in():
    v = verify([Fraction(1, 3)] * 4, [Fraction(1)] * 4, format="float32")
    assert v.x.dtype == np.float64
    assert v.inputs_changed == 4
    assert v.holds is True


def test_truncation_of_an_initial_state():
    v = verify(np.full(16, 0.5), np.zeros(16), window=Jagged(4), format="float16", algorithm="b2p", x0=1)
    assert (v.truncation.largest, v.truncation.at, v.truncation.ratio) == (1 / 512, (8,), 1)
    assert v.holds is True
    # The first coefficient counts, because it multiplies the initial state.
    v = verify([4.0, *[0.5] * 15], np.zeros(16), window=Uniform(4), format="float16", x0=2)
    assert v.truncation.largest == 8 / 16
    assert v.holds is True


def test_overflow_with_a_window():
    v = verify(np.full(12, 2.0), np.full(12, 30000.0), window=Jagged(2), format="float16")
    assert v.nonfinite > 0
    assert v.truncation.holds is True


def test_formats_wider_than_float64():
    v = verify([Fraction(1, 3)] * 9, [Fraction(1)] * 9, window=Jagged(2), format="binary128", algorithm="b2p")
    assert v.x.dtype == object
    assert 0 < v.rounding.largest < 2.0**-110
    assert v.holds is True
    tiny = Fraction(2) ** -9000
    v = verify([tiny] * 3, [tiny] * 3, format="binary128")
    assert v.holds is True
    assert 0 < v.total.bound < 1e-320


def test_formats_of_ones_own():
    fmt = FloatFormat.from_bits(exponent=6, fraction=5)
    v = verify(np.full(20, 0.9), np.ones(20), format=fmt)
    assert v.format is fmt
    assert v.holds is True


@pytest.mark.parametrize(
    ("a", "u", "error", "message"),
    [
        ([np.nan], [1.0], OptionError, "a must hold finite numbers in the range of binary16, up to 65504, got nan"),
        ([1.0], [np.inf], OptionError, "u must hold finite numbers"),
        ([1.0], [70000.0], OptionError, "u must hold finite numbers.*got 70000"),
        ([1j], [1.0], DTypeError, "real numbers"),
        ([1.0, 2.0], [1.0, 2.0, 3.0], ShapeError, "broadcast"),
        (1.0, 1.0, ShapeError, "axis"),
    ],
)
def test_what_it_refuses(a, u, error, message):
    with pytest.raises(error, match=message):
        verify(a, u, format="float16")


def test_more_that_it_refuses():
    with pytest.raises(TypeError, match="window must be"):
        verify([1.0], [1.0], window=4, format="float16")
    with pytest.raises(ShapeError, match="x0 must broadcast"):
        verify([1.0], [1.0], x0=[1.0, 2.0], format="float16")
    with pytest.raises(OptionError, match="window must be one that algorithm"):
        verify([1.0], [1.0], window=Uniform(3), format="float16", algorithm="brent-kung")


def test_it_prints_and_converts(rng):
    v = verify(
        rng.uniform(0, 1, 50), rng.standard_normal(50), window=Jagged(4), format=Arithmetic("bfloat16", fma=True)
    )
    lines = str(v).splitlines()
    assert lines[0] == "sequential in bfloat16, fma=True: Jagged(4), 50 steps"
    assert [line.split()[0] for line in lines[2:5]] == ["truncation", "rounding", "total"]
    assert v._repr_html_().count("<tr>") == 4
    assert v.table().to_markdown().count("\n") == 4
    record = json.loads(json.dumps(v.to_dict(), allow_nan=False))
    assert record["rounding"]["largest"] == v.rounding.largest
    assert record["options"] == {"fma": "True"}
    assert record["holds"] is True


def test_progress_goes_from_0_to_1(rng):
    shares = []
    verify(rng.uniform(0, 1, 5000), np.ones(5000), window=Uniform(4), format="float32", progress=shares.append)
    assert len(shares) > 10
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_an_undecided_comparison_is_said(monkeypatch):
    def undecided(self, bound):
        raise verification.UndecidedError("no")

    monkeypatch.setattr(verification.Measured, "within", undecided)
    v = verify([0.5] * 3, [1.0] * 3, format="float16")
    assert v.holds is None
    assert "undecided" in str(v)


def test_a_block_longer_than_the_sequence_costs_no_memory():
    for algorithm in ("hierarchical", "b2p"):
        result = verify([0.5] * 7, [1.0] * 7, window=Jagged(10**30), algorithm=algorithm)
        assert result.truncation.largest == 0
        assert result.holds


def test_callers_who_raise_on_underflow_can_verify():
    with np.errstate(all="raise"):
        assert verify(np.full(9, 0.5), np.full(9, 1e-300), window=Jagged(2), format="float64").holds


@pytest.mark.parametrize("name", ["bfloat16", "float64", "binary128"])
def test_exact_numbers_of_every_kind_are_rounded_and_compared(name):
    a = [Decimal("0.1"), Fraction(1, 3), np.longdouble(1) / 3, 0.5]
    u = [Fraction(1, 2**20), 1, Decimal("0.7"), 2]
    result = verify(a, u, format=name)
    assert result.holds
    assert result.inputs_changed > 0


def test_numbers_out_of_the_range_of_a_wide_format_are_named():
    with pytest.raises(OptionError, match=r"binary128, up to 1\.1897e"):
        verify([0.5, np.inf], [1.0, 1.0], format="binary128")


@pytest.mark.parametrize("algorithm", ["engine", "mixed-precision"])
@pytest.mark.parametrize("x0", [None, 0.5])
def test_the_engine_and_mixed_precision(algorithm, x0, rng):
    a, u = rng.uniform(0.2, 1, (60, 2)), rng.standard_normal((60, 2))
    v = verify(a, u, window=Jagged(16), format="bfloat16", algorithm=algorithm, x0=x0, axis=0)
    assert v.holds
    a, u = map(format_of("bfloat16").round, (a, u))
    if algorithm == "engine":
        x = solve(a.astype(BFLOAT16), u.astype(BFLOAT16), window=Jagged(16), x0=x0, axis=0)
    else:
        x = rounded_solve(a, u, "bfloat16", algorithm, window=Jagged(16), x0=x0, axis=0)
    np.testing.assert_array_equal(v.x, x)


def test_overflow_in_a_cast_of_mixed_precision_is_found():
    """The sum 8 is in the range of binary32; the carrier that it becomes isn't in that of e2m1, which hides that."""
    v = verify([1, 1, 1, 1], [4, 4, -6, 0], format="e2m1", algorithm="mixed-precision", window=Jagged(2))
    assert v.x.tolist() == [4.0, 6.0, 0.0, 0.0]
    assert v.nonfinite == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "engine", "format": "tf32"}, "format must be one that the engine computes in"),
        (
            {"algorithm": "engine", "format": Arithmetic("float16", rounding="up")},
            "rounding can't be chosen for the engine",
        ),
        (
            {"algorithm": "engine", "format": Arithmetic("float16", accumulate="float64")},
            "accumulate can't be chosen for the engine",
        ),
        ({"algorithm": "mixed-precision", "format": "float64"}, "accumulate must be a format that holds"),
        ({"algorithm": "mixed-precision", "window": Uniform(2)}, "window must be full or jagged"),
        ({"algorithm": "guess"}, "algorithm must be one of"),
    ],
)
def test_what_the_engine_and_mixed_precision_refuse(options, message):
    with pytest.raises(OptionError, match=message):
        verify([0.5] * 3, [1.0] * 3, **{"format": "float16", **options})


@pytest.mark.parametrize("window", [Uniform(3), Jagged(4)])
def test_the_first_coefficient_is_that_of_the_initial_state(window):
    a, u = np.full(20, 0.5), np.ones(20)
    a[0] = 2.0**100
    assert truncation_bounds(a, u, window).tolist() == truncation_bounds(np.full(20, 0.5), u, window).tolist()
    assert truncation_bounds(a, u, window, x0=1.0)[-1] > 2.0**90


def test_errors_beyond_float64_leave_the_quotients_of_the_others():
    v = verify([2.0] * 1100, [1.0] * 1100, window=Uniform(2))
    # States are 2^(i + 1) - 1 and those of the window 3: from step 1023 on the errors are beyond float64.
    for error in (v.truncation, v.total):
        assert (error.largest, error.at, error.bound, error.holds) == (np.inf, (1023,), np.inf, True)
        assert 0.99 < error.ratio <= 1
        assert error.ratio_at[0] < 1023
    text, record = str(v), json.loads(v.to_json())
    assert "nan" not in text
    assert "inf is more than float64 holds, at the first step where an error is" in text
    assert record["truncation"]["largest"] is None
    assert record["truncation"]["ratio"] == v.truncation.ratio
    assert "inf is" not in str(verify([2.0] * 9, [1.0] * 9, window=Uniform(2)))
