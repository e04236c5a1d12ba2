"""The bundled record and the exponential average, against the integral that the average stands for."""

import re
from importlib.resources import files

import mpmath
import numpy as np
import pytest

import recfact
from recfact.data import DEFAULT_TAU, exponential_average, load_co2
from recfact.errors import OptionError, ShapeError

WEEK = 7 * 86400


def test_record_is_the_published_one():
    record = load_co2()
    assert record.time.dtype == np.dtype("datetime64[D]")
    assert (str(record.time[0]), str(record.time[-1])) == ("1958-03-29", "2001-12-29")
    assert (record.value[0], record.value[-1]) == (316.1, 371.5)
    assert (record.value.min(), record.value.max()) == (313.0, 373.9)


def test_gaps_are_kept_as_longer_steps():
    steps = load_co2().dt
    assert steps[0] == np.inf
    weeks = steps[1:] / WEEK
    assert np.array_equal(weeks, weeks.round())
    assert weeks.min() == 1
    assert weeks.sum() + 1 - len(steps) == 59  # the weeks without a measurement


def test_notes_agree_with_the_file():
    notes = (files("recfact.data") / "README.md").read_text(encoding="utf-8")
    assert int(re.search(r"(\d+) measured weeks", notes)[1]) == len(load_co2().value)
    assert "public domain" in notes


def test_recurrence_is_the_weighted_integral():
    """Each state is the integral of the past under exp(-age / tau) / tau, every value filling the step before it."""
    tau = 1.75
    dt = [np.inf, 0.5, 2.0, 0.125, 7.0]
    y = [3.0, -1.0, 4.0, 0.5, 2.0]
    times = np.concatenate([[0.0], np.cumsum(dt[1:])])
    states = recfact.solve(*exponential_average(dt, y, tau))
    with mpmath.workdps(30):
        for i, state in enumerate(states):
            age = [mpmath.mpf(float(times[i] - t)) for t in times[: i + 1]]
            exact = y[0] * mpmath.exp(-age[0] / tau)
            for j in range(1, i + 1):
                exact += y[j] * mpmath.quad(lambda s: mpmath.exp(-s / tau) / tau, [age[j], age[j - 1]])
            # a and u carry a relative error of at most 4 eps each; the recurrence adds 2 an operation (Higham 2002).
            bound = (4 + 4 + 2 * (i + 1)) * np.finfo(float).eps * sum(map(abs, y[: i + 1]))
            assert abs(float(exact - mpmath.mpf(float(state)))) <= bound


def test_small_steps_keep_their_digits():
    """1 - exp(-dt / tau) by subtraction would have no correct digit here."""
    a, u = exponential_average([1.0], [1.0], tau=2.0**60)
    assert a[0] == 1.0
    assert u[0] == 2.0**-60


def test_steps_many_times_as_long_as_tau_forget_all():
    """Without a word, though the quotient of both overflows."""
    a, u = exponential_average([1.0, 1e10], [1.0, 2.0], tau=1e-320)
    assert (a.tolist(), u.tolist()) == ([0.0, 0.0], [1.0, 2.0])


@pytest.mark.parametrize("tau", [0.0, -1.0, np.inf, np.nan])
def test_bad_time_constant(tau):
    with pytest.raises(OptionError, match="tau must be positive and finite"):
        exponential_average([1.0], [1.0], tau)


@pytest.mark.parametrize("step", [-1.0, np.nan])
def test_bad_step_is_named(step):
    with pytest.raises(OptionError, match=r"dt\[1\]"):
        exponential_average([1.0, step], [1.0, 1.0], DEFAULT_TAU)


@pytest.mark.parametrize("y", [[1.0], [[1.0, 2.0]]])
def test_unequal_shapes(y):
    with pytest.raises(ShapeError, match="equally long"):
        exponential_average([1.0, 2.0], y, DEFAULT_TAU)
