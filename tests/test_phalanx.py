"""`phalanx`: the mixer of the layer, against sums written out in exact numbers, for arrays of every library."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import recfact as rf
from recfact.errors import ArrayTypeError, OptionTypeError, ShapeError

WINDOWS = [rf.Full(), rf.Uniform(4), rf.Jagged(4), rf.Jagged(3, 0), rf.Jagged(1, 3), rf.Jagged(2, 3)]


def keeps(window, i, j):
    """Say whether step `i` keeps the input of step `j`, no later, by the definition of the window."""
    if isinstance(window, rf.Uniform):
        return i - j < window.lags
    return isinstance(window, rf.Full) or i // window.block - j // window.block <= window.terms


def written_out(a, q, k, v, window):
    """Return what the layer computes between its projections, number by number."""
    (n, heads, d), groups = v.shape, k.shape[1]
    y = np.empty(v.shape, object)
    for i, head, feature in np.ndindex(n, heads, d):
        group = head // (heads // groups)
        x = sum(
            np.prod(a[j + 1 : i + 1, head]) * k[j, group, feature] * v[j, head, feature]
            for j in range(i + 1)
            if keeps(window, i, j)
        )
        y[i, head, feature] = q[i, group, feature] * x + v[i, head, feature]
    return y


def fractions(rng, shape):
    return np.vectorize(Fraction, otypes=[object])(rng.integers(-4, 5, shape), rng.integers(1, 4, shape))


def operands(rng, n=11, heads=4, groups=2, d=2):
    """Return coefficients, gates and values of one sequence as exact numbers."""
    shapes = (n, heads), (n, groups, d), (n, groups, d), (n, heads, d)
    return [fractions(rng, shape) for shape in shapes]


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_it_is_what_is_written_out(window, groups, rng):
    a, q, k, v = operands(rng, groups=groups)
    expected = written_out(a, q, k, v, window)
    assert np.array_equal(rf.phalanx(a, q, k, v, window=window), expected)
    behind = rf.phalanx(a.swapaxes(0, 1), *(x.swapaxes(0, 1) for x in (q, k, v)), axis=-2, window=window)
    assert np.array_equal(behind.swapaxes(0, 1), expected)


def test_the_window_is_that_of_the_paper_unless_another_is_given(rng):
    a, q, k, v = operands(rng, n=49)
    assert np.array_equal(rf.phalanx(a, q, k, v), written_out(a, q, k, v, rf.Jagged(16)))


def test_sequences_of_a_batch_are_those_alone(rng):
    rows = [operands(rng) for _ in range(3)]
    together = rf.phalanx(*(np.stack(each) for each in zip(*rows, strict=True)))
    for row, y in zip(rows, together, strict=True):
        assert np.array_equal(y, rf.phalanx(*row))


def test_without_gates_they_are_one(rng):
    a, q, k, v = operands(rng)
    one = k * 0 + 1
    for gates, filled in (((None, None), (one, one)), ((q, None), (q, one)), ((None, k), (one, k))):
        assert np.array_equal(rf.phalanx(a, *gates, v), rf.phalanx(a, *filled, v))


def test_coefficients_that_are_shared(rng):
    a, q, k, v = operands(rng)
    for shared in (a[:1], a[:, :1], a[0], a[0, 0]):
        expected = rf.phalanx(np.broadcast_to(shared, a.shape), q, k, v)
        assert np.array_equal(rf.phalanx(shared, q, k, v), expected)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_pieces_are_the_whole(window, rng):
    a, q, k, v = operands(rng)
    expected = rf.phalanx(a, q, k, v, window=window)
    for cut in range(len(v) + 1):
        y, state = rf.phalanx(a[:cut], q[:cut], k[:cut], v[:cut], window=window, return_state=True)
        assert state.shape == v.shape[1:]
        rest = rf.phalanx(a[cut:], q[cut:], k[cut:], v[cut:], window=window, state=state)
        assert np.array_equal(np.concatenate([y, rest]), expected)


def test_packed_sequences_are_those_alone(rng):
    a, q, k, v = operands(rng)
    offsets = [0, 3, 3, 4, 11]
    packed = rf.phalanx(a, q, k, v, offsets=offsets)
    for start, stop in pairwise(offsets):
        assert np.array_equal(packed[start:stop], rf.phalanx(*(x[start:stop] for x in (a, q, k, v))))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int32"])
def test_number_types_are_those_of_the_sum_of_products(dtype, rng):
    a, q, k, v = (x.astype(float).astype(dtype) for x in operands(rng))
    y = rf.phalanx(a, q, k, v)
    assert y.dtype == rf.solve(a, v[..., 0], axis=0).dtype
    gate = (q.repeat(2, 1), k.repeat(2, 1))
    x = rf.solve(a[..., None], gate[1] * v, axis=-3, window="jagged:16")
    np.testing.assert_array_equal(y, gate[0] * x + v)


@pytest.mark.torch
def test_tensors_give_tensors_of_the_same_numbers_and_gradients(rng):
    torch = pytest.importorskip("torch")
    given = [x.astype(float) for x in operands(rng)]
    tensors = [torch.tensor(x, requires_grad=True) for x in given]
    y = rf.phalanx(*tensors, window=rf.Jagged(3))
    np.testing.assert_array_equal(y.detach().numpy(), rf.phalanx(*given, window=rf.Jagged(3)))
    assert torch.autograd.gradcheck(lambda *own: rf.phalanx(*own, window=rf.Jagged(3)), tensors)


def test_arrays_of_jax_come_back_as_they_came(rng):
    jax = pytest.importorskip("jax")
    given = [x.astype(np.float32) for x in operands(rng)]
    y = rf.phalanx(*map(jax.numpy.asarray, given))
    assert isinstance(y, jax.Array)
    np.testing.assert_allclose(y, rf.phalanx(*given), rtol=1e-6)  # JAX may fuse a product and a sum


def test_lists_are_read():
    assert rf.phalanx([[0.5]] * 2, None, None, [[[1]], [[1]]]).ravel().tolist() == [2.0, 2.5]


def test_arrays_of_other_kinds_are_refused(rng):
    a, q, k, v = (x.astype(float) for x in operands(rng))
    torch = pytest.importorskip("torch")
    with pytest.raises(ArrayTypeError, match=r"one library, got a of torch, q of numpy, k of numpy, v of numpy"):
        rf.phalanx(torch.tensor(a), q, k, v)


def test_arrays_with_labels_are_refused(rng):
    xarray = pytest.importorskip("xarray")
    labelled = [xarray.DataArray(x.astype(float)) for x in operands(rng)]
    with pytest.raises(ArrayTypeError, match="without labels, got those of xarray"):
        rf.phalanx(*labelled)


@pytest.mark.parametrize(("library", "kind"), [("pandas", "DataFrame"), ("pandas", "Series"), ("polars", "Series")])
def test_tables_and_series_are_refused(library, kind):
    make = getattr(pytest.importorskip(library), kind)
    labelled = make([0.5, 0.5])
    with pytest.raises(ArrayTypeError, match=f"without labels, got those of {library}"):
        rf.phalanx(labelled, None, None, labelled)


WRONG = {
    "v must have the axes of steps, heads and features.*got shape \\(4, 2\\)": {"v": (4, 2)},
    "a must have the shape of v without its features, \\(11, 4\\).*got shape \\(11, 3\\)": {"a": (11, 3)},
    "a must have the shape of v without its features.*got shape \\(1, 1, 11, 4\\)": {"a": (1, 1, 11, 4)},
    "q must have shape \\(11, groups, 2\\).*divides the 4 heads, got \\(11, 3, 2\\)": {"q": (11, 3, 2)},
    "k must have shape.*got \\(11, 4\\)": {"k": (11, 4)},
    "k must have shape.*got \\(11, 0, 2\\)": {"k": (11, 0, 2)},
    "k must have shape.*got \\(11, 2, 1\\)": {"k": (11, 2, 1)},
    "q must have shape.*got \\(1, 2, 2\\)": {"q": (1, 2, 2)},
    "k must have shape.*got \\(\\)": {"k": ()},
}


@pytest.mark.parametrize("message", WRONG)
def test_shapes_that_do_not_fit(message):
    shapes = {"a": (11, 4), "q": (11, 2, 2), "k": (11, 2, 2), "v": (11, 4, 2)} | WRONG[message]
    with pytest.raises(ShapeError, match=message):
        rf.phalanx(*(np.ones(shape) for shape in shapes.values()))


def test_options_that_do_not_fit(rng):
    a, q, k, v = operands(rng)
    for axis, error in ((0, None), (-3, None), (2, ShapeError), (-1, ShapeError), (0.5, OptionTypeError)):
        if error is None:
            rf.phalanx(a, q, k, v, axis=axis)
        else:
            with pytest.raises(error, match="axis must be"):
                rf.phalanx(a, q, k, v, axis=axis)
    for missing in ((None, q, k, v), (a, q, k, None)):
        with pytest.raises(ArrayTypeError, match="must be an array, got None"):
            rf.phalanx(*missing)
    with pytest.raises(OptionTypeError, match="return_state must be True or False"):
        rf.phalanx(a, q, k, v, return_state=1)
