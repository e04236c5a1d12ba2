"""Windows as values: checked when made, frozen, comparable, and readable."""

import copy
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from recfact.errors import OptionError
from recfact.recurrence import first_kept
from recfact.windows import Full, Jagged, Uniform, blocks_and_terms, blocks_within, check_window, window_of, window_text

WINDOWS = [Full(), Uniform(1), Uniform(2**70), Jagged(1), Jagged(16, 0), Jagged(16, terms=3)]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows_are_values(window):
    assert check_window(window) is window
    assert eval(repr(window)) == window
    assert copy.deepcopy(window) == pickle.loads(pickle.dumps(window)) == window
    assert len({window, copy.copy(window)}) == 1


def test_windows_differ():
    assert len({*WINDOWS, Uniform(2), Jagged(2), Jagged(16)}) == len(WINDOWS) + 3
    assert Jagged(16) == Jagged(16, 1) == Jagged(16)


@pytest.mark.parametrize("window", [Uniform(3), Jagged(3)])
def test_windows_are_frozen(window):
    for name in (*window.__slots__, "other"):
        with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
            setattr(window, name, 5)


@pytest.mark.parametrize("number", [np.int8(5), np.uint64(5), np.array(5), 5])
def test_sizes_become_plain_integers(number):
    assert type(Uniform(number).lags) is type(Jagged(number, number).terms) is int
    assert (Uniform(number).lags, Jagged(number, number)) == (5, Jagged(5, 5))


@pytest.mark.parametrize("wrong", [None, 4, b"full", Full, Uniform, (16, 1)])
def test_what_is_no_window_is_told_the_choices(wrong):
    with pytest.raises(TypeError, match=r"Full\(\), Uniform\(lags\) or Jagged\(block, terms\), got"):
        check_window(wrong)


@pytest.mark.parametrize("wrong", [float("nan"), 2.0, "2", None, True, np.True_, np.float64(2), [2], np.array([2, 3])])
@pytest.mark.parametrize(("name", "make"), [("lags", Uniform), ("block", Jagged), ("terms", lambda n: Jagged(16, n))])
def test_sizes_must_be_integers(wrong, name, make):
    with pytest.raises(TypeError, match=f"{name} must be an integer, got"):
        make(wrong)


@pytest.mark.parametrize(
    ("name", "make", "least"), [("lags", Uniform, 1), ("block", Jagged, 1), ("terms", lambda n: Jagged(16, n), 0)]
)
def test_sizes_have_a_least_value(name, make, least):
    make(least)
    for number in (least - 1, -(2**70)):
        with pytest.raises(OptionError, match=f"{name} must be at least {least}, got {number}"):
            make(number)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows_are_read_as_they_are_typed(window):
    assert window_of(window_text(window)) == window
    assert window_of(window_text(window).upper()) == window


@pytest.mark.parametrize(
    "text",
    ["", "all", "full:", "full:1", "uniform", "uniform:0", "uniform:x", "jagged:", "jagged:8:-1", "jagged:8:1:1"],
)
def test_texts_that_name_no_window(text):
    with pytest.raises(OptionError, match=r"window must be full, uniform:LAGS, .* got "):
        window_of(text)


@pytest.mark.parametrize("window", [*WINDOWS, Uniform(5), Jagged(4), Jagged(3, 2)], ids=str)
def test_a_window_that_keeps_everything_is_one_block(window):
    assert blocks_within(window, 0) == (0, 0)
    for steps in range(1, 70):
        everything = first_kept(steps - 1, window) == 0
        assert blocks_within(window, steps) == ((steps, 0) if everything else blocks_and_terms(window))
