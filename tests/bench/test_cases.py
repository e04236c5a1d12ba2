"""The cases: both sides of a ratio do on the same arrays what the case says."""

import re
from functools import partial

import ml_dtypes
import numpy as np
import pytest
from market import fractions, unit_roundoff

from recfact.bench.cases import all_cases, short_call
from recfact.recurrence import backward, forward, windowed
from recfact.windows import Full, Jagged, Uniform

CASES = {case.name: case for case in all_cases()}
NUMBERS = 512
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


OPTIONS = {
    "reversed": {"reverse": True},
    "with x0": {"x0": 1.0},
    "Jagged(16)": {"window": Jagged(16)},
    "Uniform(32)": {"window": Uniform(32)},
}


def exact(a, u, options):
    """The states and the sums of magnitudes, as Fractions, with time along axis 0."""
    window, reverse, x0 = options.get("window", Full()), options.get("reverse", False), options.get("x0")
    state = fractions(np.array(x0))[()] if x0 is not None else None
    if window != Full():
        solve = partial(windowed, window=window, x0=state, reverse=reverse)
    else:
        solve = backward if reverse else partial(forward, x0=state)
    return solve(a, u), solve(abs(a), abs(u))


@each_case
def test_the_states_are_within_the_rounding_bound(case):
    ours, _ = case.make(NUMBERS)
    a, u = ours.args
    options = dict(ours.keywords)
    axis = options.pop("axis", -1)
    x = ours()
    assert options.get("out") is None or x is options["out"]
    time_first = [np.moveaxis(fractions(array), axis, 0) for array in np.broadcast_arrays(a, u)]
    states, sums = exact(*time_first, options)
    half = x.dtype.itemsize == 2
    unit = unit_roundoff("float32" if half else x.dtype.name)
    steps = len(states) + 2 * len(states).bit_length() + 20
    bound = sums * (steps * unit / (1 - steps * unit))
    if half:  # the sums are rounded once more, where they may be subnormal
        stored = unit_roundoff(x.dtype.name)
        bound = bound + (abs(states) + bound) * stored + fractions(ml_dtypes.finfo(x.dtype).smallest_subnormal)[()] / 2
    assert (abs(np.moveaxis(fractions(x), axis, 0) - states) <= bound).all()


@each_case
def test_the_other_side_moves_the_same_arrays(case):
    ours, baseline = case.make(NUMBERS)
    if case.against == "solve in float32":
        assert baseline.args[0].dtype == baseline.args[1].dtype == baseline.keywords["out"].dtype == np.float32
        assert ours.args[0].shape == baseline.args[0].shape
        np.testing.assert_array_equal(ours.args[1], baseline.args[1].astype(ours.args[1].dtype))
        return
    if case.against == "solve(a, u, out=x)":
        assert ours.args == baseline.args
        assert ("out" in ours.keywords, "out" in baseline.keywords) == (False, True)
        return
    (a, u), x = ours.args, ours.keywords["out"]
    x.fill(np.nan)
    baseline()
    np.testing.assert_array_equal(x, u if "copyto" in case.against else a * u)


@each_case
def test_options_and_figure_are_those_of_the_name(case):
    named = [OPTIONS[part] for part in case.name.split(", ") if part in OPTIONS]
    given = case.make(NUMBERS)[0].keywords
    assert {key: given[key] for key in given if key not in ("out", "axis", "threads")} == (named[0] if named else {})
    if "float16" in case.name or "bfloat16" in case.name:
        assert case.at_most == 1.0
    elif "without out=" in case.name:
        assert case.at_most is None
    else:
        assert case.at_most == (1.25 if named or "two threads" in case.name else 1.15)


@each_case
def test_threads_are_those_of_the_other_side(case):
    ours, _ = case.make(NUMBERS)
    assert ours.keywords["threads"] == case.cores == (2 if "two threads" in case.name else 1)


@each_case
def test_the_name_tells_the_number_type_and_the_channels(case):
    ours, _ = case.make(NUMBERS)
    a, u = ours.args
    assert {a.dtype.name, u.dtype.name} == {case.name.rpartition(", ")[2].removeprefix("one sequence, ")}
    channels = re.search(r"\d+(?= (sequences|channels|channels, time first),)", case.name)
    count = int(channels.group()) if channels else 1
    assert u.size // u.shape[ours.keywords.get("axis", -1)] == count
    assert a.shape == ((NUMBERS // count, 1) if "shared" in case.name else u.shape)
    assert ("time last" in case.name) == (u.ndim == 2 and ours.keywords["axis"] == 1)


def test_products_vanish_only_where_they_should():
    kinds = {name: case.make(NUMBERS)[0].args[0] for name, case in CASES.items() if "two threads" in name}
    assert {bool((abs(a) == 1).all()) for name, a in kinds.items() if "|a| = 1" in name} == {True}
    below_all = float(np.finfo(np.float32).smallest_subnormal) / 2
    assert all(np.prod(a.astype(float)) < below_all for name, a in kinds.items() if "decaying" in name)


def test_a_short_call_solves_a_thousand_numbers_with_nothing_prepared():
    call = short_call()
    x = call()
    assert (x.shape, x.dtype) == ((1000,), np.float32)
    assert call.keywords == {}
