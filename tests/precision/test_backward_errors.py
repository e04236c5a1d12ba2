"""Backward errors: the changed recurrence has the given states, and no smaller change does."""

from fractions import Fraction

import numpy as np
import pytest
from overflow import overflows

from recfact.errors import OptionError, ShapeError
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.conditioning import backward_error, backward_error_bound
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.run import rounded_solve
from recfact.precision.verification.case_families import FAMILIES, draw


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["float8_e5m2", "bfloat16", "binary16"])
@pytest.mark.parametrize("fma", [False, True])
def test_sequential_states_are_exact_ones_of_a_recurrence_nearby(name, family, fma):
    fmt = FORMATS[name]
    a, u = draw(family, fmt, 9, 8, seed=4)
    for rounding, underflow in (("nearest-even", "gradual"), ("up", "gradual"), ("nearest-even", "flush-before")):
        how = Arithmetic(fmt, fma=fma, rounding=rounding, underflow=underflow)
        held = np.flatnonzero(~overflows(a, u, how).any(axis=0))
        b, v, x = (values[:, held] for values in (a, u, rounded_solve(a, u, how, axis=0)))
        error = backward_error(b, v, x, axis=0)
        assert np.all(error.relative <= backward_error_bound(b, v, x, how, axis=0))
        for i, c in np.ndindex(x.shape):
            if np.isfinite(error.relative[i, c]):
                before = Fraction(x[i - 1, c]) if i else 0
                changed = Fraction(b[i, c]) + error.da[i, c], Fraction(v[i, c]) + error.du[i, c]
                assert changed[0] * before + changed[1] == Fraction(x[i, c])
                assert abs(error.da[i, c]) <= Fraction(error.relative[i, c]) * abs(Fraction(b[i, c]))
                assert abs(error.du[i, c]) <= Fraction(error.relative[i, c]) * abs(Fraction(v[i, c]))


def test_no_smaller_change_explains_the_states():
    # The residual 1 needs all of |a x| + |u| = 2 + 2 times 1/4.
    error = backward_error([0.0, 2.0], [1.0, 2.0], [1.0, 5.0])
    assert error.relative.tolist() == [0, 0.25]
    assert (error.da[1], error.du[1], error.largest) == (Fraction(1, 2), Fraction(1, 2), 0.25)


def test_the_bound_is_nearly_attained():
    fmt, unit = FORMATS["float8_e5m2"], 0.125
    a, u = draw("codes", fmt, 2, 20000, seed=0)
    x = rounded_solve(a, u, fmt, axis=0)
    good = np.all((np.abs(x) > 0.01) & np.isfinite(x), axis=0) & (np.abs(a[1] * x[0]) > 0.01)
    largest = backward_error(a[:, good], u[:, good], x[:, good], axis=0).largest
    assert 0.75 * ((1 + unit) ** 2 - 1) < largest <= (1 + unit) ** 2 - 1


def test_a_state_out_of_nothing_has_no_explanation():
    assert backward_error([1.0], [0.0], [1.0]).relative.tolist() == [np.inf]
    assert backward_error([1.0], [0.0], [1.0], x0=1.0).relative.tolist() == [0]


def test_a_result_prints_as_a_line_and_not_as_all_its_fractions():
    found = backward_error(np.full(50, 0.9), np.ones(50), np.full(50, 10.0))
    assert repr(found) == f"<backward errors of 50 states, the largest relative change {found.largest:.6g}>"


def test_shortest():
    assert backward_error(np.ones(0), np.ones(0), np.ones(0)).largest == 0
    assert backward_error_bound(np.ones(0), np.ones(0), np.ones(0), "float16").shape == (0,)


def test_what_it_refuses():
    with pytest.raises(ShapeError, match="x must have the shape"):
        backward_error([1, 2], [1, 2], [1])
    with pytest.raises(ShapeError, match="x0 must broadcast"):
        backward_error([1, 2], [1, 2], [1, 2], x0=[1, 2])
    with pytest.raises(OptionError, match="finite numbers"):
        backward_error([1.0], [np.inf], [1.0])
    with pytest.raises(OptionError, match="accumulate must be binary16 too"):
        backward_error_bound([1.0], [1.0], [1.0], Arithmetic("float16", accumulate="float32"))
