"""How far back an input matters, against the literal products in exact arithmetic."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from recfact import precision as pr
from recfact.errors import DTypeError, OptionError, ShapeError
from recfact.precision.horizons import effective_horizons
from recfact.precision.horizons.effective_horizons import EffectiveHorizon, effective_horizon, row_growth


def lags(a, eps):
    return effective_horizon(a, eps).lags


def exact_rows(a):
    """Return |L[i, i - d]| for d = 0 .. i of every row, as fractions."""
    rows = []
    for i in range(len(a)):
        row = [Fraction(1)]
        for j in range(i, 0, -1):
            row.append(row[-1] * abs(Fraction(float(a[j]))))
        rows.append(row)
    return rows


# Products of up to 33 of these are exact in float64 (3^33 < 2^53): ties with a power of two are decided, not rounded.
dyadic = st.sampled_from([0.0, 0.5, -0.5, 0.25, 1.0, -1.0, 2.0, 1.5, 0.75, 4.0])


@given(arrays(np.float64, st.integers(1, 30), elements=dyadic), st.sampled_from([1.0, 0.5, 0.25, 2.0**-10]))
def test_horizon_is_the_last_lag_that_counts(a, threshold):
    expected = [max(d for d, entry in enumerate(row) if entry >= threshold) for row in exact_rows(a)]
    assert lags(a, threshold).tolist() == expected


@given(arrays(np.float64, st.integers(1, 30), elements=dyadic))
def test_growth_is_the_largest_entry_of_a_row(a):
    assert row_growth(a).tolist() == [float(max(row)) for row in exact_rows(a)]


def test_general_coefficients(rng):
    for spread in (0.3, 1.0, 1.4):
        a = rng.uniform(-spread, spread, 200)
        expected = [max(d for d, entry in enumerate(row) if entry >= 2.0**-23) for row in exact_rows(a)]
        assert lags(a, 2.0**-23).tolist() == expected


@pytest.mark.parametrize("threshold", [2.0**-23, 2.0**-959, 2.0**-961, Fraction(1, 2**3000)])
def test_products_beyond_the_range_of_floats(threshold, rng):
    a = 10.0 ** rng.uniform(-1, 0, 160) ** 3 * np.where(rng.random(160) < 0.05, 1e-200, 1)
    expected = [max(d for d, entry in enumerate(row) if entry >= threshold) for row in exact_rows(a)]
    assert lags(a, threshold).tolist() == expected


def test_the_horizon_of_one_half_is_its_closed_form():
    """H_pt(rho, eps) = max{k: rho^k >= eps}, with equality at powers of one half."""
    a = np.full(100, 0.5)
    assert lags(a, 2.0**-52).max() == 52
    assert lags(a, np.nextafter(2.0**-52, 1)).max() == 51


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64, np.complex128])
def test_other_number_types(dtype):
    a = np.full(40, 0.5).astype(dtype)
    assert lags(a, 2.0**-10).max() == 10


def test_short_and_unread():
    assert lags(np.zeros(0), 0.5).tolist() == []
    assert lags(np.array([np.nan]), 0.5).tolist() == [0]  # a[0] isn't part of L
    assert row_growth(np.array([np.nan])).tolist() == [1.0]


def test_nothing_is_forgotten_where_all_is_kept():
    assert lags(np.ones(1000), 2.0**-52).tolist() == list(range(1000))
    assert lags(np.full(1000, 1.5), 2.0**-52).tolist() == list(range(1000))


@given(arrays(np.float64, st.integers(1, 30), elements=dyadic), st.sampled_from([2, 8.0, Fraction(9, 8), "1e-3"]))
def test_levels_of_any_kind(a, eps):
    """Above 1 the weight of an input itself may be below eps, and the horizon is 0 where no weight reaches it."""
    level = Fraction(eps)
    expected = [max((d for d, entry in enumerate(row) if entry >= level), default=0) for row in exact_rows(a)]
    assert lags(a, eps).tolist() == expected


def test_levels_between_floats_are_not_rounded():
    a = np.array([0, 1 - 2.0**-53])
    assert lags(a, 1 - Fraction(1, 2**53)).tolist() == [0, 1]
    assert lags(a, 1 - Fraction(1, 2**53) + Fraction(1, 2**80)).tolist() == [0, 0]
    assert lags(a, 1 - Fraction(1, 2**53) - Fraction(1, 2**80)).tolist() == [0, 1]
    assert lags(np.array([0, 0.75]), Fraction(3, 4)).tolist() == [0, 1]


@pytest.mark.parametrize("level", [Fraction(1, d) for d in (3, 5, 7, 9, 11, 13)])
def test_the_float_above_a_level_reaches_it_and_the_one_below_does_not(level):
    nearest = float(level)
    below, above = (nearest, np.nextafter(nearest, 1)) if nearest < level else (np.nextafter(nearest, 0), nearest)
    assert lags(np.array([0, below]), level).tolist() == [0, 0]
    assert lags(np.array([0, above]), level).tolist() == [0, 1]


def test_weights_far_out_of_the_range_of_floats():
    a = np.full(60, 1e-300)
    assert lags(a, "binary128").max() == 16  # 10^-4932 is the limit
    up_and_down = np.concatenate([np.full(50, 1e300), np.full(50, 1e-300)])
    expected = [max((d for d, w in enumerate(row) if w >= 1), default=0) for row in exact_rows(up_and_down)]
    assert lags(up_and_down, 1).tolist() == expected
    assert row_growth(up_and_down)[49] == np.inf
    tiny = np.full(4, 5e-324)
    assert lags(tiny, Fraction(1, 2**3222)).tolist() == [0, 1, 2, 3]


def test_complex_weights_are_decided_as_exactly_as_is_said(rng):
    low, high = ((1 + sign * Fraction(4 * 2, 2**53)) ** 2 for sign in (-1, 1))  # two factors, squared
    for weights in (rng.standard_normal((500, 2, 2)) @ [1, 1j]).tolist():
        product = np.prod([Fraction(w.real) ** 2 + Fraction(w.imag) ** 2 for w in weights])
        for step in range(-6, 7):
            level = Fraction(float(product) ** 0.5 * (1 + step * 2.0**-51))
            if not low * level**2 < product < high * level**2:
                assert (lags([0, *weights], level)[2] == 2) == (product >= level**2)


def test_complex_weights_at_the_ends_of_floats():
    assert lags(np.array([0, 5e-324 + 5e-324j]), Fraction(5e-324) * Fraction(7, 5)).tolist() == [0, 1]
    assert lags(np.array([0, 5e-324 + 5e-324j]), Fraction(5e-324) * Fraction(3, 2)).tolist() == [0, 0]
    assert lags(np.array([0, 1.7e308 + 1.7e308j]), Fraction(1.7e308) * Fraction(7, 5)).tolist() == [0, 1]
    assert lags(np.array([0, np.longdouble(2) ** 16000]), Fraction(2) ** 16000).tolist() == [0, 1]


def test_formats_count_from_their_smallest_normal_number():
    a = np.full(500, 0.9)
    assert lags(a, "half").max() == pr.horizon(0.9, "half") == 92
    assert lags(a, np.float16).tolist() == lags(a, 2.0**-14).tolist()


@pytest.mark.parametrize("rho", [0.3, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("fmt", ["half", "e4m3fn", "e2m1"])
def test_constant_coefficients_have_the_horizon_of_their_bound(rho, fmt):
    a = np.full(3000, rho)
    assert lags(a, fmt).max() == pr.horizon(rho, fmt)


def test_ends_of_the_range():
    a = np.full(5, 0.5)
    assert lags(a, 0).tolist() == [0, 1, 2, 3, 4]
    assert lags(a, np.inf).tolist() == [0] * 5
    assert lags(a, 1).tolist() == [0] * 5
    assert lags(np.zeros(5), 2.0**-1000).tolist() == [0] * 5
    assert lags([], "half").tolist() == []
    assert lags([3], "half").tolist() == [0]
    assert lags([0, -1, -1], 1).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("a", "eps", "error", "message"),
    [
        (1.0, 0.5, ShapeError, "must be sequences"),
        ([0, np.nan], 0.5, OptionError, "position 1;"),
        ([[0, 1], [0, np.nan]], 0.5, OptionError, r"position \(1, 1\)"),
        ([[0, 1], [0, Fraction(1, 3)], [1, float("nan")]], 0.5, OptionError, r"position \(2, 1\)"),
        ([0, 1, np.inf], 0.5, OptionError, "position 2"),
        (["x", "y"], 0.5, DTypeError, "numbers"),
        ([0, 1], -1, OptionError, "eps"),
        ([0, 1], np.nan, OptionError, "eps"),
    ],
)
def test_wrong_arguments(a, eps, error, message):
    with pytest.raises(error, match=message):
        effective_horizon(a, eps)


def test_the_distribution():
    found = effective_horizon(np.r_[np.full(6, 0.5), 0, np.full(6, 0.9)], 0.25)
    assert found.lags.tolist() == [0, 1, 2, 2, 2, 2, 0, 1, 2, 3, 4, 5, 6]
    assert (len(found), found.largest, found.unbounded) == (13, 6, 2)
    assert found.quantile(0, 0.5, 1) == [0, 2, 6]
    assert found.histogram() == [(0, 0, 2), (1, 1, 2), (2, 3, 6), (4, 7, 3)]
    assert sum(count for *_, count in found.histogram()) == 13
    assert str(found).splitlines() == [
        "effective horizon of 13 positions, eps = 0.25",
        "smallest 0, quartiles 1, 2, 3, largest 6",
        "steps back  positions",
        "         0          2  ##############",
        "         1          2  ##############",
        "     2 - 3          6  ########################################",
        "     4 - 7          3  ####################",
        "2 positions look back to the start of the sequence",
    ]
    assert repr(found) == str(found)
    html = found._repr_html_()
    assert html.startswith("<p>effective horizon of 13 positions, eps = 0.25<br>smallest 0, ")
    assert html.count("<tr>") == 5
    assert found.to_dict() | {"rows": 4} == {"eps": 0.25, "positions": 13, "largest": 6, "unbounded": 2, "rows": 4}
    assert found.to_rows()[3] == {"first": 4, "last": 7, "positions": 3}


@pytest.mark.parametrize("group", [1, 7, 30, 10**6])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sequences_of_a_batch_do_not_see_each_other(group, axis, rng, monkeypatch):
    monkeypatch.setattr(effective_horizons, "CACHED", group)
    a = rng.choice([0.5, 1.0, -0.75, 2.0, 0.0, np.nan], (3, 6, 5), p=[0.3, 0.3, 0.1, 0.1, 0.2, 0])
    first = np.moveaxis(a, axis, 0)[:1]
    first[...] = np.nan  # isn't read
    found = effective_horizon(a, 2.0**-3, axis=axis)
    expected = np.apply_along_axis(lambda row: lags(row, 2.0**-3), axis, a)
    np.testing.assert_array_equal(found.lags, expected)
    np.testing.assert_array_equal(found.by_sequence, expected.max(axis))
    assert found.lags[found.worst] == found.largest == expected.max()
    along = np.moveaxis(expected, axis, 0)
    assert found.unbounded == sum(int((along[i] == i).sum()) for i in range(1, len(along)))
    assert [found.needing_more(k) for k in (0, 2)] == [(expected.max(axis) > k).sum() for k in (0, 2)]
    exact = np.array([[Fraction(value) for value in row] for row in ((1.0, 0.5, 0.5), (1.0, 2.0, 0.0))])
    assert effective_horizon(exact, 0.25, axis=-1).lags.tolist() == [[0, 1, 2], [0, 1, 0]]


def test_many_sequences_print_their_worst():
    a = np.full((2, 4, 3), 0.5)
    a[1, :, 2] = 1
    assert str(effective_horizon(a, 0.25, axis=1)).splitlines() == [
        "effective horizon of 24 positions in 6 sequences, eps = 0.25",
        "smallest 0, quartiles 0, 1, 2, largest 3",
        "the largest of each sequence: quartiles 2, 2, 2, largest 3, of [1, :, 2]",
        "steps back  positions",
        "         0          6  ####################",
        "         1          6  ####################",
        "     2 - 3         12  ########################################",
        "13 positions look back to the start of the sequence",
    ]
    with pytest.raises(OptionError, match="at least one step"):
        _ = effective_horizon(np.ones((3, 0)), 0.25).worst
    assert effective_horizon(np.ones((3, 0)), 0.25).by_sequence.tolist() == [0, 0, 0]
    assert (
        str(effective_horizon(np.ones((0, 3)), 0.25)) == "effective horizon of 0 positions in 0 sequences, eps = 0.25"
    )


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=50))
def test_bins_are_right(values):
    for first, last, count in EffectiveHorizon(np.array(values), 0.5).histogram():
        assert count == sum(first <= value <= last for value in values)


def test_an_empty_distribution():
    found = effective_horizon([], "half")
    assert (len(found), found.largest, found.unbounded, found.histogram()) == (0, 0, 0, [])
    assert str(found) == "effective horizon of 0 positions, eps = 2^-14"
    with pytest.raises(OptionError, match="quantiles need a sequence"):
        found.quantile(0.5)
    with pytest.raises(OptionError, match="from 0 to 1"):
        effective_horizon([1.0], "half").quantile(50)


def test_memory_is_a_few_times_that_of_the_coefficients(rng):
    a = rng.uniform(0.5, 0.99, (4, 1024, 256)).astype(np.float32)
    tracemalloc.start()
    effective_horizon(a, 2.0**-24, axis=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The result has 64-bit integers, and the sequences are copied once. What is searched at a time has 2^16 numbers.
    assert peak < 3 * a.nbytes + 400 * 2**16
