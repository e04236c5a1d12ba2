"""Uniform windows of a few lags along memory: all steps at once, with the bits of the plain loop over each window."""

import ml_dtypes
import numpy as np
import pytest
from layouts import Layout

import recfact as rf
from recfact.cpu import channels, few_lags

DTYPES = (np.float32, np.float64, np.complex64, np.float16, ml_dtypes.bfloat16)


def problem(shape, dtype, rng):
    return rng.uniform(-2, 2, shape).astype(dtype), rng.standard_normal(shape).astype(dtype)


def plain(a, u, x0=None, **options):
    """Solve along the last axis, step by step in time."""
    x = np.empty_like(u)
    arrays = (np.moveaxis(array, -1, 0) for array in (np.broadcast_to(a, u.shape), u, x))
    channels.solve_into(*arrays, x0, **{"reverse": False, **options}, threads=1)
    return x


def same(x, expected):
    """Assert that numbers are equal, NaN among them, also those that NumPy has no isnan for."""
    np.testing.assert_array_equal(x.astype(np.complex128), expected.astype(np.complex128))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("lags", [1, 2, 3, 5, 7])
def test_has_the_bits_of_plain_loops(lags, dtype, rng):
    window = rf.Uniform(lags)
    for n in (1, lags, lags + 1, 50, 300):
        for shape in ((n,), (3, n)):
            a, u = problem(shape, dtype, rng)
            if n == 50:
                u.flat[7], u.flat[20] = np.nan, np.inf
            x0 = np.full(shape[:-1], 0.5, np.float32 if u.itemsize == 2 else dtype)
            assert few_lags.fits(a.T, u.T, u.T, lags)
            same(rf.solve(a, u, window=window), plain(a, u, window=window))
            same(rf.solve(a, u, window=window, x0=x0), plain(a, u, x0, window=window))
            same(rf.solve(a, u, window=window, reverse=True), plain(a, u, window=window, reverse=True))


def test_in_place_on_threads_and_in_pieces(rng):
    a, u = problem((3, 100_000), np.float32, rng)
    window = rf.Uniform(5)
    expected = rf.solve(a, u, window=window, threads=1)
    np.testing.assert_array_equal(rf.solve(a, u, window=window, threads=3), expected)
    pieces = [(a[0, i : i + 777], u[0, i : i + 777]) for i in range(0, 100_000, 777)]
    np.testing.assert_array_equal(np.concatenate(list(rf.solve_chunks(pieces, window=window))), expected[0])
    for reverse in (False, True):
        expected, out = rf.solve(a, u, window=window, reverse=reverse), u.copy()
        rf.solve(a, out, window=window, reverse=reverse, out=out)
        np.testing.assert_array_equal(out, expected)


def test_coefficients_without_strides_and_rows_in_any_order(rng):
    a, u = problem((2, 3, 90), np.float32, rng)
    window = rf.Uniform(3)
    np.testing.assert_array_equal(rf.solve(a[:, :1], u, window=window), plain(a[:, :1], u, window=window))
    np.testing.assert_array_equal(rf.solve(a[0, 0, 0], u, window=window), plain(a[0, 0, 0], u, window=window))
    layout = Layout((1, 0, 2), (-1, 2, 1))
    x = rf.solve(layout.array(a), layout.array(u), window=window)
    np.testing.assert_array_equal(x, plain(a, u, window=window))


def test_steps_with_gaps_take_another_path_to_the_same_bits(rng):
    a, u = problem((200, 2), np.float32, rng)
    assert not few_lags.fits(a, u, u, 3)
    x = rf.solve(a, u, axis=0, window=rf.Uniform(3))
    np.testing.assert_array_equal(x, rf.solve(a.T.copy(), u.T.copy(), window=rf.Uniform(3)).T)
