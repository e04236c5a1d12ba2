"""Verification of the engine: it measures the caller's own call of `solve`, bit by bit, wherever arrays come from."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from layouts import Layout
from samples import one_in

from recfact.errors import OptionError
from recfact.precision.verification import computations
from recfact.precision.verification.verify import verify
from recfact.solve import solve
from recfact.windows import Full, Jagged, Uniform

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
LAYOUTS = {
    "C order": Layout((0, 1, 2), (1, 1, 1)),
    "Fortran's": Layout((2, 1, 0), (1, 1, 1)),
    "mixed": Layout((1, 2, 0), (1, 1, 1)),
    "backwards": Layout((0, 1, 2), (1, -1, -1)),
    "every second": Layout((0, 1, 2), (1, 1, 2)),
    "unaligned": Layout((0, 1, 2), (1, 1, 1), 3),
}
SHAPES = [(2, 66, 3), (66, 2, 3), (2, 7, 66)]


@pytest.fixture
def called(monkeypatch):
    """The calls of `solve` by the verification."""
    calls = []

    def recording(*arrays, **options):
        calls.append((arrays, options))
        return solve(*arrays, **options)

    monkeypatch.setattr(computations, "solve", recording)
    return calls


def random(shape, dtype, layout, rng):
    return layout.array(rng.uniform(0.5, 1, shape).astype(dtype)), layout.array(
        rng.standard_normal(shape).astype(dtype)
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", one_in(2, LAYOUTS))
def test_the_states_are_those_of_the_callers_call(name, axis, called, rng):
    """Every window of every layout on every axis in one shape. Every axis meets every shape."""
    dtypes = [np.float32, np.float64, np.float16, BFLOAT16]
    for number, window in enumerate((Full(), Jagged(16), Uniform(12), Uniform(3))):
        shape = SHAPES[(number + [*LAYOUTS].index(name)) % len(SHAPES)]
        a, u = random(shape, dtypes[number], LAYOUTS[name], rng)
        x0 = rng.standard_normal(np.delete(shape, axis)).astype(np.float32)
        v = verify(a, u, window=window, algorithm="engine", x0=x0, axis=axis, threads=3)
        np.testing.assert_array_equal(v.x, solve(a, u, window=window, x0=x0, axis=axis, threads=3).astype(float))
        assert v.holds
        ((given, options),) = called
        assert (given[0] is a, given[1] is u) == (True, True)
        assert (options["axis"], options["threads"], options["window"]) == (axis, 3, window)
        called.clear()


def test_short_rows_take_another_order_than_single_ones(rng):
    a, u = rng.uniform(0, 1, (2, 64, 20)).astype(np.float32)
    v = verify(a, u, algorithm="engine", axis=0)
    one_by_one = np.stack([solve(*columns) for columns in zip(a.T, u.T, strict=True)], axis=1)
    assert np.any(v.x != one_by_one)
    np.testing.assert_array_equal(v.x, solve(a, u, axis=0))


def test_coefficients_that_all_channels_share_stay_shared(called, rng):
    a, u = rng.uniform(0, 1, (30, 1)).astype(np.float32), rng.standard_normal((30, 5)).astype(np.float32)
    assert verify(a, u, algorithm="engine", axis=0).holds
    assert verify(a[:, 0], u.T, algorithm="engine").holds
    assert [given[0].shape for given, _ in called] == [(30, 1), (30,)]


def test_tensors_are_handed_on_as_tensors(called, rng):
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16):
        a, u = (torch.tensor(values).to(dtype).T for values in rng.uniform(0, 1, (2, 20, 3)))
        v = verify(a, u, algorithm="engine", window=Jagged(4))
        np.testing.assert_array_equal(v.x, solve(a, u, window=Jagged(4)).double().numpy())
        assert v.holds
        assert called[-1][0][0] is a


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_what_must_be_rounded_first_keeps_the_order_of_its_axes(layout, called, rng):
    a, u = random((2, 66, 3), np.float64, layout, rng)
    v = verify(a, u, format="bfloat16", algorithm="engine", axis=1)
    assert v.inputs_changed > 0
    ((given, _),) = called
    for own, values in zip(given, (a, u), strict=True):
        assert own.dtype == BFLOAT16
        np.testing.assert_array_equal(own, values.astype(BFLOAT16))
        order = np.argsort(np.abs(values.strides), kind="stable")
        np.testing.assert_array_equal(np.argsort(np.abs(own.strides), kind="stable"), order)


@pytest.mark.parametrize("number", [Fraction(1, 3), np.longdouble("0.1"), 0.1, np.float16(0.1)], ids=type)
def test_numbers_of_other_types(number):
    v = verify([number] * 4, [number] * 4, format="float32", algorithm="engine")
    rounded = np.full(4, np.float32(number))
    np.testing.assert_array_equal(v.x, solve(rounded, rounded).astype(float))
    assert v.holds


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16])
def test_the_initial_state_of_halves_is_that_of_the_accumulator(dtype):
    a, u = np.full(9, 0.75).astype(dtype), np.zeros(9, dtype)
    v = verify(a, u, x0=0.1, algorithm="engine")
    np.testing.assert_array_equal(v.x, solve(a, u, x0=0.1).astype(float))
    assert v.inputs_changed == 1  # 0.1 isn't a number of binary32
    assert v.inputs_change < 2.0**-24
    assert v.holds


def test_threads_are_the_engines():
    with pytest.raises(OptionError, match="threads go with the algorithm 'engine'"):
        verify([0.5], [1.0], threads=2)
    with pytest.raises(OptionError, match="threads must be at least 1"):
        verify([0.5], [1.0], algorithm="engine", threads=0)
