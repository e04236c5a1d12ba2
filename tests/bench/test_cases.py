"""The cases: both sides of a ratio do on the same arrays what the case says."""

import re
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from market import fractions, unit_roundoff
from noted import in_turn

from recfact.bench.cases import all_cases, short_call, tensor_calls
from recfact.recurrence import backward, forward, windowed
from recfact.solve import solve
from recfact.windows import Full, Jagged, Uniform

CASES = {case.name: case for case in all_cases()}
NUMBERS = 4096
OWN = ("return_state", "gradients", "shape")
"""Words in the names of cases that have tests of their own."""
each_case = in_turn("case", [case for name, case in CASES.items() if not any(word in name for word in OWN)])


def options_of(name):
    """The options of `solve` that a case's name says in words."""
    named = {"reversed": {"reverse": True}, "with x0": {"x0": 1.0}}
    options = {"window": Full()}
    for part in re.split(r", (?!\d\))", name):
        options |= named.get(part, {})
        if part.startswith(("Jagged", "Uniform")):
            options["window"] = eval(part, {"Jagged": Jagged, "Uniform": Uniform})
    return options


def exact(a, u, window=Full(), reverse=False, x0=None, offsets=None):
    """The states, as Fractions or complex numbers of longer parts, with time along axis 0."""
    if offsets is not None:
        return np.concatenate([exact(a[i:k], u[i:k], window, reverse, x0) for i, k in pairwise(offsets)])
    state = None if x0 is None else wide(np.array(x0))[()]
    if window != Full():
        return windowed(a, u, window, state, reverse=reverse)
    return backward(a, u) if reverse else forward(a, u, state)


def wide(array):
    """Numbers whose own rounding doesn't matter beside that of `array`."""
    return array.astype(np.clongdouble) if array.dtype.kind == "c" else fractions(array)


@pytest.mark.parametrize("numbers", [NUMBERS // 32, pytest.param(NUMBERS // 16, marks=pytest.mark.slow)])
@each_case
def test_the_states_are_within_the_rounding_bound(case, numbers):
    ours, _ = case.make(numbers)
    a, u = ours.args
    options = dict(ours.keywords)
    axis = options.pop("axis", -1)
    threads, out = options.pop("threads"), options.pop("out", None)
    assert threads == case.cores
    x = ours()
    assert out is None or x is out
    time_first = [np.moveaxis(wide(array), axis, 0) for array in np.broadcast_arrays(a, u)]
    states = exact(*time_first, **options)
    sums = exact(*map(abs, time_first), **options)
    half = x.dtype.itemsize == 2
    unit = unit_roundoff("float32" if half else x.real.dtype.name)
    steps = len(states) + 2 * len(states).bit_length() + 20
    steps *= 4 if x.dtype.kind == "c" else 1  # a product of complex numbers is a sum of two, each of two
    bound = sums * (steps * unit / (1 - steps * unit) if sums.dtype == object else 2 * steps * float(unit))
    if half:  # the sums are rounded once more, where they may be subnormal
        stored = unit_roundoff(x.dtype.name)
        bound = bound + (abs(states) + bound) * stored + fractions(ml_dtypes.finfo(x.dtype).smallest_subnormal)[()] / 2
    assert (abs(np.moveaxis(wide(x), axis, 0) - states) <= bound).all()


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
def test_options_are_those_of_the_name(case):
    given = case.make(NUMBERS)[0].keywords
    assert ("offsets" in given) == ("segments" in case.name)
    found = {key: given[key] for key in given if key not in ("out", "axis", "threads", "offsets")}
    assert {"window": Full(), **found} == options_of(case.name)


@each_case
def test_the_name_tells_the_number_type_and_the_shape(case):
    ours, _ = case.make(NUMBERS)
    a, u = ours.args
    assert {a.dtype.name, u.dtype.name} == {case.name.rpartition(", ")[2]}
    axis = ours.keywords.get("axis", -1)
    steps = re.search(r"sequences of (\d+) steps", case.name)
    channels = re.search(r"\d+(?= (sequences|channels)\b)", case.name)
    count = NUMBERS // int(steps[1]) if steps else int(channels.group()) if channels else 1
    assert u.shape[axis] == (int(steps[1]) if steps else NUMBERS // count)
    assert u.size // u.shape[axis] == count
    assert a.shape == ((NUMBERS // count, 1) if "shared" in case.name else u.shape)
    assert ("time last" in case.name) == (u.ndim == 2 and axis == 1)
    assert ("flipped" in case.name) == (u.strides[axis] < 0)


def test_segments_have_the_length_that_the_name_tells():
    cases = {name: case for name, case in CASES.items() if "segments" in name}
    assert len(cases) == 3
    for name, case in cases.items():
        offsets = case.make(1 << 20)[0].keywords["offsets"]
        assert (offsets[0], offsets[-1]) == (0, 1 << 20)
        assert (1 << 20) // (len(offsets) - 2) == pytest.approx(int(re.search(r"about (\d+)", name)[1]), rel=0.01)


def test_views_are_the_other_array_turned():
    (case,) = (case for name, case in CASES.items() if "shape" in name)
    ours, other = case.make(NUMBERS)
    assert np.array_equal(ours(), other().transpose(0, 2, 1))
    assert not any("out" in call.keywords for call in (ours, other))


def test_a_state_is_asked_for_beside_the_same_states():
    cases = [case for name, case in CASES.items() if "return_state" in name]
    assert len(cases) == 2
    for case in cases:
        ours, other = case.make(NUMBERS)
        assert {**other.keywords, "return_state": True} == ours.keywords
        assert ours.args == other.args
        assert f"{other.keywords['window']}" in case.name


def test_gradients_are_those_of_the_name():
    cases = {name: case for name, case in CASES.items() if "gradients" in name}
    assert len(cases) == 6
    for name, case in cases.items():
        ours, other = case.make(NUMBERS)
        (a, u, g), given = ours.args, ours.keywords
        assert f"{given['window']}" in name
        assert ("shared" in name) == (a.shape[:1] == (8,)) == (u.shape[2:] == (16, 16))
        assert other.args == (a, u)
        np.testing.assert_array_equal(given["x"], solve(a, u, axis=given["axis"], window=given["window"]))
        da, du, _ = ours()
        assert ("without out=" in name) == ("out" not in given)
        for found, array, place in zip((da, du), (a, u), given.get("out", (da, du)), strict=True):
            assert found.shape == array.shape
            assert found is place
        last = (slice(None),) * given["axis"] + (-1,)
        np.testing.assert_array_equal(du[last], g[last])


def test_tensors_have_gradients_to_come_on_one_side():
    pytest.importorskip("torch")
    ours, other = tensor_calls()
    x, plain = ours(), other()
    assert (x.requires_grad, plain.requires_grad) == (True, False)
    np.testing.assert_array_equal(x.detach(), plain)
    assert x.shape == (100,)


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
