"""`vjp(out=)`: gradients in memory of the caller's, the same as in new memory."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

import recfact as rf
from recfact.errors import ArrayTypeError, DTypeError, OptionError, OptionTypeError, ShapeError

WINDOWS = [rf.Full(), rf.Jagged(4), rf.Jagged(4, 0), rf.Jagged(3, 2), rf.Uniform(3)]
SHAPES = {
    "a sequence": ((50,), (50,), 0),
    "channels": ((50, 16), (50, 16), 0),
    "channels that share": ((2, 50, 3, 1), (2, 50, 3, 16), 1),
    "channels of one coefficient": ((1, 16), (50, 16), 0),
    "rows": ((5, 50), (5, 50), 1),
    "rows that share": ((50,), (5, 50), 1),
    "a number": ((), (50,), 0),
    "inputs that are shared": ((50, 16), (50, 1), 0),
    "nothing": ((0, 3), (0, 3), 0),
}
shapes = pytest.mark.parametrize(("a_shape", "u_shape", "axis"), SHAPES.values(), ids=SHAPES)
windows = pytest.mark.parametrize("window", WINDOWS, ids=str)


def operands(rng, a_shape=(50,), u_shape=(50,), dtype="float32"):
    g_shape = np.broadcast_shapes(a_shape, u_shape)
    return [rng.integers(-4, 5, shape).astype(dtype) / 4 for shape in (a_shape, u_shape, g_shape)]


def filled(shape, dtype="float32"):
    return np.full(shape, np.nan, dtype)


@windows
@shapes
def test_the_bits_are_those_of_new_memory(a_shape, u_shape, axis, window, rng):
    a, u, g = operands(rng, a_shape, u_shape)
    for x in (None, rf.solve(a, u, axis=axis, window=window)):
        options = {"axis": axis, "window": window, "x": x}
        expected = rf.gradients.vjp(a, u, g, **options)
        for out in ((filled(a_shape), filled(u_shape)), (filled(a_shape), None), (None, filled(u_shape)), (None, None)):
            found = rf.gradients.vjp(a, u, g, **options, out=out)
            for own, one, other in zip(out, found, expected, strict=False):
                assert own is None or one is own
                np.testing.assert_array_equal(one, other)


@windows
@shapes
def test_it_may_lie_in_any_way(a_shape, u_shape, axis, window, rng):
    a, u, g = operands(rng, a_shape, u_shape)
    x = rf.solve(a, u, axis=axis, window=window)
    expected = rf.gradients.vjp(a, u, g, axis=axis, window=window, x=x)

    def turned(shape):
        return filled(shape).T.copy().T

    def flipped(shape):
        return np.flip(filled(shape)) if shape else filled(shape)

    def with_gaps(shape):
        return filled((*shape, 2))[..., :1].reshape(shape)

    def at_odd_addresses(shape):
        memory = np.zeros(4 * int(np.prod(shape)) + 1, np.uint8)[1:]
        return memory.view(np.float32).reshape(shape)

    for lay in (turned, flipped, with_gaps, at_odd_addresses):
        found = rf.gradients.vjp(a, u, g, axis=axis, window=window, x=x, out=(lay(a_shape), lay(u_shape)))
        for one, other in zip(found[:2], expected[:2], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("window", [rf.Full(), rf.Jagged(16)], ids=str)
@pytest.mark.parametrize(
    ("a_shape", "u_shape"), [((1 << 18,), (1 << 18,)), ((1 << 14, 1), (1 << 14, 16))], ids=["sequence", "channels"]
)
def test_no_other_memory_is_taken(a_shape, u_shape, window, rng):
    a, u, g = operands(rng, a_shape, u_shape)
    x = rf.solve(a, u, axis=0, window=window)
    options = {"axis": 0, "window": window, "x": x, "out": (filled(a_shape), filled(u_shape))}
    rf.gradients.vjp(a, u, g, **options)
    tracemalloc.start()
    try:
        rf.gradients.vjp(a, u, g, **options)
        assert tracemalloc.get_traced_memory()[1] < u.nbytes / 2
    finally:
        tracemalloc.stop()


def test_other_number_types_and_what_is_composed(rng):
    for dtype in (np.float16, np.float64, np.complex64, object):
        a, u, g = operands(rng)
        a, u, g = (array.astype(dtype) for array in (a, u, g))
        a, u, g = (np.vectorize(Fraction, otypes=[object])(one) if dtype is object else one for one in (a, u, g))
        out = np.empty(50, dtype), np.empty(50, dtype)
        for options in ({"reverse": True}, {"x0": u[0]}, {"offsets": [0, 7, 50]}):
            expected = rf.gradients.vjp(a, u, g, **options)
            found = rf.gradients.vjp(a, u, g, **options, out=out)
            assert (found[0] is out[0], found[1] is out[1]) == (True, True)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other)


@windows
def test_pieces_with_a_state(window, rng):
    a, u, g = operands(rng)
    _, state = rf.solve(a[:7], u[:7], window=window, return_state=True)
    out = filled(50), filled(50)
    expected = rf.gradients.vjp(a, u, g, window=window, state=state)
    for one, other in zip(rf.gradients.vjp(a, u, g, window=window, state=state, out=out), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def read_only(shape):
    array = filled(shape)
    array.flags.writeable = False
    return array


WRONG = {
    r"out must be a tuple, \(da, du\), with None": (lambda a, u: filled(4), OptionTypeError),
    "out must hold da and du, or None": (lambda a, u: (filled(4),), OptionError),
    r"da of out must have shape \(4,\) and dtype float32, got shape \(3,\)": (
        lambda a, u: (filled(3), None),
        ShapeError,
    ),
    "du of out must have shape .* got shape .* dtype float64": (lambda a, u: (None, filled((2, 4), "f8")), ShapeError),
    "du of out must be an array on the host, got list": (lambda a, u: (None, [0.0] * 4), ArrayTypeError),
    "da of out must be writable": (lambda a, u: (read_only(4), None), OptionError),
    "du of out must have a place of its own": (
        lambda a, u: (None, np.lib.stride_tricks.as_strided(filled(4), (2, 4), (0, 4))),
        OptionError,
    ),
    "da of out overlaps with a in memory; pass memory of its own": (lambda a, u: (a, None), OptionError),
    "du of out overlaps with u in memory": (lambda a, u: (None, u), OptionError),
    "du of out overlaps with da in memory": (
        lambda a, u: (lambda table: (table[0], table))(filled((2, 4))),
        OptionError,
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_does_not_fit_is_refused_before_anything_is_written(message):
    a, u = np.full(4, 0.5, np.float32), np.ones((2, 4), np.float32)
    make, error = WRONG[message]
    out = make(a, u)
    before = [None if one is None else np.array(one) for one in out]
    with pytest.raises(error, match=message):
        rf.gradients.vjp(a, u, u.copy(), out=out)
    for one, other in zip(out, before, strict=True):
        assert one is None or np.array_equal(one, other, equal_nan=True)


def test_it_is_none_of_the_other_arrays():
    a, u, g = np.full(4, 0.5), np.ones(4), np.ones(4)
    x = rf.solve(a, u)
    for name, other in (("g", g), ("x", x)):
        with pytest.raises(OptionError, match=f"da of out overlaps with {name} in memory"):
            rf.gradients.vjp(a, u, g, x=x, out=(other, None))
    one = np.ones(())
    for name in ("x0", "g_state"):
        with pytest.raises(OptionError, match=f"du of out overlaps with {name} in memory"):
            rf.gradients.vjp(a, 1.0, g, out=(None, one), **{name: one})
    halves = [own.astype(np.float16) for own in (a, u, g)]
    for name, other in zip("aug", halves, strict=True):
        with pytest.raises(OptionError, match=f"da of out overlaps with {name} in memory"):
            rf.gradients.vjp(*halves, out=(other, None))


@pytest.mark.torch
def test_tensors_come_into_tensors(rng):
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16):
        a, u, g = (torch.tensor(array).to(dtype) for array in operands(rng))
        out = torch.empty(50, dtype=dtype), torch.empty(50, dtype=dtype)
        versions = [one._version for one in out]
        da, du, _ = rf.gradients.vjp(a, u, g, out=out)
        assert (da is out[0], du is out[1]) == (True, True)
        assert all(one._version > version for one, version in zip(out, versions, strict=True))
        for one, other in zip((da, du), rf.gradients.vjp(a, u, g), strict=False):
            assert torch.equal(one, other)


@pytest.mark.torch
def test_tensors_that_do_not_fit_are_refused():
    torch = pytest.importorskip("torch")
    ones = torch.ones(4)
    for given, place, error, message in (
        (ones, np.empty(4, np.float32), ArrayTypeError, "da of out must be of the library of a and u, got ndarray"),
        (ones.numpy(), torch.empty(4), ArrayTypeError, "da of out must be of the library of a and u, got Tensor"),
        (ones, torch.empty(4, requires_grad=True), ArrayTypeError, "da of out is a torch tensor that requires"),
        (ones + 0j, torch.empty(4, dtype=torch.complex64).conj(), OptionError, "da of out must hold its numbers"),
        (ones, torch.empty(4, dtype=torch.float8_e4m3fn), DTypeError, "da of out must be of a number type"),
    ):
        with pytest.raises(error, match=message):
            rf.gradients.vjp(given, given, given, out=(place, None))
