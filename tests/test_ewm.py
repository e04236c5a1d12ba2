"""`ewm` against pandas in every mode, and against the literal weighted sums in exact arithmetic."""

from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from gaps import gappy

import recfact as rf

pytestmark = pytest.mark.usefixtures("pieces")

DECAYS = [{"alpha": 0.3}, {"span": 5.0}, {"com": 0.0}, {"com": 2.5}, {"halflife": 3.0}, {"alpha": 1.0}]

MODES = [
    dict(zip(("adjust", "ignore_na", "min_periods"), values, strict=True))
    for values in product((True, False), (True, False), (0, 3))
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("share", [0, 0.3, 0.7, 1])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_means_and_variances_are_those_of_pandas(mode, share, rng):
    for decay, n in product(DECAYS, (1, 200)):  # the first rows of 200 are those of fewer
        values = gappy(rng, (n, 3), share)
        theirs = pd.DataFrame(values).ewm(**decay, **mode)
        options = {"axis": 0, **decay, **mode}
        np.testing.assert_allclose(rf.ewm(values, **options), theirs.mean(), rtol=1e-12)
        several = np.cumsum(~np.isnan(values), axis=0) > 1
        for bias, stat in product((True, False), ("var", "std")):
            found = rf.ewm(values, **options, bias=bias, stat=stat)
            expected = getattr(theirs, stat)(bias=bias).to_numpy()
            if not bias:  # of one value pandas gives 0 or NaN, as its roundings have it
                expected = np.where(several, expected, np.nan)
            # In longer gaps pandas loses digits; `test_long_gaps_lose_no_digits` says who is right.
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)
        if mode["adjust"]:
            np.testing.assert_allclose(rf.ewm(values, **options, stat="sum"), theirs.sum(), rtol=1e-12)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("share", [0, 0.3, 0.9])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_means_at_uneven_times_are_those_of_pandas(mode, share, rng):
    for n, zone in ((1, None), (300, None), (300, "Europe/Berlin")):
        times = pd.Timestamp("2001-01-01", tz=zone) + pd.to_timedelta(rng.integers(0, 10**7, n).cumsum(), "s")
        series = pd.Series(gappy(rng, n, share), times)
        theirs = series.ewm(halflife="30D", times=series.index, **mode).mean()
        for halflife in ("30D", pd.Timedelta("30D"), np.timedelta64(30, "D"), "720 hours"):
            found = rf.ewm(series, halflife=halflife, times=series.index, **mode)
            pd.testing.assert_series_equal(found, theirs, rtol=1e-11)
        seconds = times.as_unit("s").asi8
        found = rf.ewm(series.to_numpy(), halflife=30 * 86400, times=seconds, **mode)
        np.testing.assert_allclose(found, theirs, rtol=1e-11)
        found = rf.ewm(series.to_numpy(), tau=30 * 86400 / np.log(2), times=seconds, **mode)
        np.testing.assert_allclose(found, theirs, rtol=1e-11)


@pytest.mark.parametrize("share", [0, 0.4])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_groups_are_those_of_pandas(mode, share, rng):
    lengths = [3, 1, 0, 40, 2, 0, 7]
    offsets = np.cumsum([0, *lengths])
    groups = np.repeat(np.arange(len(lengths)), lengths)
    values = pd.Series(gappy(rng, offsets[-1], share))
    times = pd.Series(pd.Timestamp("2001-01-01") + pd.to_timedelta(rng.integers(1, 100, offsets[-1]).cumsum(), "h"))
    for stat in ("mean", "var", "std") + (("sum",) if mode["adjust"] else ()):
        theirs = getattr(values.groupby(groups).ewm(span=4, **mode), stat)()
        found = rf.ewm(values, span=4, offsets=offsets, stat=stat, **mode)
        np.testing.assert_allclose(found, theirs, rtol=1e-9, atol=1e-9)
    grouped = [part.ewm(halflife="2D", times=times[part.index], **mode).mean() for _, part in values.groupby(groups)]
    times = pd.concat([part - part.iloc[0] + pd.Timestamp("2001-01-01") for _, part in times.groupby(groups)])
    found = rf.ewm(values, halflife="2D", times=times, offsets=offsets, **mode)
    np.testing.assert_allclose(found, pd.concat(grouped), rtol=1e-12)


def literal(values, weights_of_age, stat, adjust, bias, window=None):
    """Weighted statistics by their definition, in Fractions; weights of the recursive form are those it implies.

    Values may be missing, None, with `adjust`.
    """
    found = []
    for i in range(len(values)):
        first = 0 if window is None else rf.recurrence.first_kept(i, window)
        w = [weights_of_age(i - j) for j in range(first, i + 1)]
        if not adjust and stat != "sum":
            alpha = 1 - weights_of_age(1)
            w = [alpha * weight for weight in w]
            w[0] /= alpha
        w, seen = zip(*((x, y) for x, y in zip(w, values[first : i + 1], strict=True) if y is not None), strict=True)
        total = sum(w)
        mean = sum(x * y for x, y in zip(w, seen, strict=True)) / total
        if stat == "sum":
            found.append(mean * total)
        elif stat == "mean":
            found.append(mean)
        else:
            biased = sum(x * (y - mean) ** 2 for x, y in zip(w, seen, strict=True)) / total
            unbiased = 1 - sum(x * x for x in w) / total**2
            found.append(biased if bias else biased / unbiased if unbiased else np.nan)
    return np.array(found, float)


@pytest.mark.parametrize(
    ("stat", "adjust", "bias"), [(s, a, b) for s in ("mean", "var") for a in (0, 1) for b in (0, 1)]
)
def test_statistics_are_their_definition(stat, adjust, bias, rng):
    values = [Fraction(int(i), 8) for i in rng.integers(-40, 40, 30)]
    exact = literal(values, lambda age: Fraction(3, 4) ** age, stat, adjust, bias)
    found = rf.ewm(np.array(values, float), alpha=0.25, stat=stat, adjust=bool(adjust), bias=bool(bias))
    np.testing.assert_allclose(found, exact, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("stat", ["mean", "var"])
@pytest.mark.parametrize("gap", [1, 5, 60])
def test_nothing_cancels_across_a_gap(stat, gap, rng):
    values = [Fraction(int(i), 8) for i in rng.integers(800, 900, 30)]
    values[3 : 3 + gap] = [None] * gap
    exact = literal(values, lambda age: Fraction(3, 4) ** age, stat, True, False)
    found = rf.ewm(np.array([np.nan if value is None else float(value) for value in values]), alpha=0.25, stat=stat)
    np.testing.assert_allclose(found, exact, rtol=1e-13)


def across_gaps(values, alpha, adjust, ignore_na):
    """Means, biased and unbiased variances by the weights that pandas defines, in Fractions. Values may be None.

    In the recursive form a value gets `alpha` of the total before the time that has passed since the last value.
    """
    weights, seen, found, before = [], [], [], 1 / alpha
    for value in values:
        if value is not None or not ignore_na:
            weights = [weight * (1 - alpha) for weight in weights]
        if value is not None:
            weights.append(Fraction(1) if adjust else alpha * before)
            seen.append(value)
            before = sum(weights)
        if not seen:
            found.append((np.nan, np.nan, np.nan))
            continue
        total = sum(weights)
        mean = sum(x * y for x, y in zip(weights, seen, strict=True)) / total
        biased = sum(x * (y - mean) ** 2 for x, y in zip(weights, seen, strict=True)) / total
        unbiased = 1 - sum(x * x for x in weights) / total**2
        found.append((mean, biased, biased / unbiased if unbiased else np.nan))
    return np.array(found, float).T


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ignore_na", [True, False])
@pytest.mark.parametrize("adjust", [True, False])
def test_long_gaps_lose_no_digits(adjust, ignore_na, rng):
    values = gappy(rng, 300, 0.9)
    values[100:180] = np.nan  # 5/8 to the 80th is 5e-17
    mode = {"alpha": 0.375, "adjust": adjust, "ignore_na": ignore_na}
    seen = [None if np.isnan(value) else Fraction(value) for value in values.tolist()]
    mean, biased, unbiased = across_gaps(seen, Fraction(3, 8), adjust, ignore_na)
    np.testing.assert_allclose(rf.ewm(values, **mode), mean, rtol=1e-14)
    for bias, expected in ((True, biased), (False, unbiased)):
        np.testing.assert_allclose(rf.ewm(values, **mode, stat="var", bias=bias), expected, rtol=1e-12)


@pytest.mark.parametrize("window", [rf.Jagged(4), rf.Jagged(3, 0), rf.Uniform(5)], ids=str)
@pytest.mark.parametrize("stat", ["mean", "sum"])
def test_windows_show_what_they_keep(window, stat, rng):
    values = [Fraction(int(i), 8) for i in rng.integers(-40, 40, 30)]
    exact = literal(values, lambda age: Fraction(3, 4) ** age, stat, True, False, window)
    found = rf.ewm(np.array(values, float), alpha=0.25, stat=stat, window=window)
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12)
