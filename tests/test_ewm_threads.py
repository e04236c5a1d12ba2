"""Averages on several threads: the same bits, the same errors, and few rows read twice."""

from itertools import product

import numpy as np
import pytest
from gaps import gappy

import recfact as rf
from recfact import weighted
from recfact.cpu import limits
from recfact.errors import OptionError


def on_threads(monkeypatch, threads, warm_up, forgotten=2.0**-100):
    monkeypatch.setattr(limits, "MOST_THREADS", threads)
    monkeypatch.setattr(weighted, "WORTH_THREADS", 20)
    monkeypatch.setattr(weighted, "WARM_UP", warm_up)
    monkeypatch.setattr(weighted, "FORGOTTEN", forgotten)


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize(("warm_up", "forgotten"), [(120, 2.0**-100), (3, 2.0)], ids=["good guesses", "bad guesses"])
@pytest.mark.parametrize("adjust", [True, False])
def test_any_number_of_threads_gives_the_same_bits(adjust, warm_up, forgotten, rng, monkeypatch):
    n = 500
    modes = [{}, {"times": rng.integers(1, 10, n).cumsum()}, {"ignore_na": True}, {"offsets": [0, 3, 3, 240, 245, n]}]
    modes.append(modes[1] | modes[3] | {"min_periods": 40})
    modes = [mode | {"halflife": halflife} for mode in modes for halflife in (0.5, 100)]
    for values in (gappy(rng, n, 0), gappy(rng, (n, 2), 0.2), gappy(rng, (n, 9), 0.1)):
        for mode, stat in product(modes, ("mean", "std") + (("sum",) if adjust else ())):
            options = mode | {"stat": stat, "adjust": adjust, "axis": 0}
            on_threads(monkeypatch, 1, 0)
            expected = rf.ewm(values, **options)
            for threads in (2, 5):
                on_threads(monkeypatch, threads, warm_up, forgotten)
                found = rf.ewm(values, **options)
                np.testing.assert_array_equal(found.view(np.int64), expected.view(np.int64))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("adjust", [True, False])
def test_weights_that_stay_as_they_are_change_no_bits(adjust, dtype, rng, monkeypatch):
    """Rows that come in pieces of 3 take the way of weights that still change."""
    values = rng.standard_normal(1000).astype(dtype)
    values[[0, 70, 400, 402]], values[401], values[640:900] = np.nan, np.inf, np.nan
    for halflife, stat in product((0.3, 2, 50), ("mean", "var", "std") + (("sum",) if adjust else ())):
        for mode in ({}, {"ignore_na": True}, {"min_periods": 300}, {"bias": True}, {"offsets": [0, 5, 300, 1000]}):
            options = {"halflife": halflife, "stat": stat, "adjust": adjust, **mode}
            found = rf.ewm(values, **options)
            with monkeypatch.context() as small:
                small.setattr(weighted, "PIECE", 1)
                small.setattr(weighted, "LEAST_ROWS", 3)
                expected = rf.ewm(values, **options)
            np.testing.assert_array_equal(found, expected)
            assert np.isfinite(found).sum() > 200


@pytest.mark.parametrize(
    ("halflife", "offsets", "calls"),
    [(1, None, 5), (40, None, 1), (40, [0, 10, 700], 1), (40, [0, 345, 700], 2)],
    ids=["forgotten", "not forgotten", "groups elsewhere", "a group close by"],
)
def test_rows_are_read_twice_only_before_a_thread_starts(halflife, offsets, calls, rng, monkeypatch):
    rows = []
    monkeypatch.setattr(weighted, "_rows", lambda values, *_: rows.append(len(values)))
    on_threads(monkeypatch, 5 if halflife == 1 else 2, 120)
    rf.ewm(rng.random(700), halflife=halflife, offsets=offsets)
    assert sum(map(bool, rows)) == (calls if calls == 1 else 2 * calls - 1)
    assert sum(rows) == 700 + {5: 480, 1: 0, 2: 5}[calls]


def test_times_further_apart_than_float64_holds_warn_on_no_thread(monkeypatch):
    on_threads(monkeypatch, 2, 120)
    times = np.repeat([-1.7e308, 1.7e308], 350)
    times[:350] += 1e303 * np.arange(350)
    found = rf.ewm(np.repeat([3.0, 5.0], 350), halflife=1e300, times=times)
    np.testing.assert_array_equal(found, np.repeat([3.0, 5.0], 350))


def test_the_first_time_that_falls_is_named_on_any_thread(monkeypatch):
    on_threads(monkeypatch, 5, 120)
    times = np.arange(700)
    times[[10, 550]] = 0  # the second one lies before a thread of its own
    with pytest.raises(OptionError, match="got 0 after 9 at index 10"):
        rf.ewm(np.ones(700), halflife=1, times=times)
