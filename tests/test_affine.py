"""Pieces as affine maps, against the loop: in fractions, in matrices that don't commute, in floats and counted."""

from itertools import pairwise, product
from math import ceil, log2

import ml_dtypes
import numpy as np
import pytest
import sympy
from counting import rounded_problem
from market import DTYPES, LENGTHS, MARKET, coefficients, dtype_of, dyadic, inputs, random_fractions
from matrices import Matrix, matrices
from noted import in_turn

from recfact import affine
from recfact.affine import Blocks, carriers, compose, products, summarise
from recfact.errors import ArrayTypeError, DTypeError, OptionError, OptionTypeError, ShapeError
from recfact.recurrence import forward, windowed
from recfact.windows import Full, Jagged


def loop(a, u):
    """Return (c, v) of steps along axis 0, by the definition: the loop from zero, and the product of coefficients."""
    c, v = 1 + 0 * u[0], 0 * u[0]
    for coefficient, given in zip(a, u, strict=True):
        c, v = coefficient * c, coefficient * v + given
    return c, v


def equal(found, expected):
    return all(np.shape(x) == np.shape(y) and np.all(x == y) for x, y in zip(found, expected, strict=True))


SCALARS = {
    "fractions": lambda n, rng: (random_fractions(rng, n), random_fractions(rng, n)),
    "matrices": lambda n, rng: (matrices(n, 1), matrices(n, 2)),
}
scalars = pytest.mark.parametrize("make", SCALARS.values(), ids=SCALARS)


@scalars
@in_turn("n", range(1, 20))
def test_a_piece_is_what_the_loop_does_to_a_state(make, n, rng):
    a, u = make(n, rng)
    assert equal(summarise(a, u), loop(a, u))
    (c, v), x0 = summarise(a, u), u[0] + a[0]
    assert c * x0 + v == forward(a, u, x0)[-1]


@scalars
@pytest.mark.parametrize("block", [1, 2, 3, 4, 7, 16, 17, 18, 10**15])
def test_each_block_is_a_piece(make, block, rng):
    a, u = make(17, rng)
    starts = range(0, 17, block)
    expected = [loop(a[start : start + block], u[start : start + block]) for start in starts]
    c, v = summarise(a, u, block=block)
    assert len(c) == len(v) == len(starts)
    assert list(zip(c, v, strict=True)) == expected


@scalars
def test_pieces_cut_anywhere_compose_in_order_and_in_any_grouping(make, rng):
    a, u = make(11, rng)
    whole = loop(a, u)
    for cuts in product(range(12), repeat=2):
        ends = [0, *sorted(cuts), 11]
        first, second, third = (summarise(a[i:j], u[i:j]) for i, j in pairwise(ends))
        assert compose(third, compose(second, first)) == whole
        assert compose(compose(third, second), first) == whole


def test_the_order_of_pieces_matters():
    a, u = matrices(8, 1), matrices(8, 2)
    first, second = summarise(a[:4], u[:4]), summarise(a[4:], u[4:])
    assert compose(second, first) == loop(a, u) != compose(first, second)
    assert compose((Matrix(1, 1, 0, 1), 0), (Matrix(1, 0, 1, 1), 0))[0] == Matrix(2, 1, 1, 1)


def test_no_steps_are_the_identity():
    a, u = random_fractions(np.random.default_rng(0), 5), np.arange(5).astype(object)
    assert summarise(a[:0], u[:0]) == (1, 0)
    assert compose(summarise(a, u), summarise(a[:0], u[:0])) == summarise(a, u)
    c, v = summarise(np.ones((3, 0)), np.ones((3, 0)))
    assert (c.tolist(), v.tolist()) == ([1, 1, 1], [0, 0, 0])
    c, v = summarise(np.ones((3, 0)), np.ones((3, 0)), block=4)
    assert c.shape == v.shape == (3, 0)
    assert carriers(c, v).shape == (3, 0)
    assert summarise(np.ones((0, 4)), np.ones((0, 4)))[0].shape == (0,)


@scalars
@in_turn("terms", [None, 0, 1, 2, 3, 99])
@pytest.mark.parametrize("block", [1, 2, 3, 5, 16, 99])
def test_carriers_are_the_states_at_the_ends_of_blocks(make, block, terms, rng):
    a, u = make(16, rng)
    ends = [min(start + block, 16) - 1 for start in range(0, 16, block)]
    window = Full() if terms is None else Jagged(block, max(terms - 1, 0))
    for x0 in (None, u[3]):
        expected = windowed(a, u, window, x0)[ends]
        found = carriers(*summarise(a, u, block=block), x0=x0, terms=terms)
        assert equal([found], [0 * expected if terms == 0 else expected])


@in_turn("axis", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("block", [None, 1, 4, 5, 8])
def test_along_any_axis_and_broadcast(axis, block, rng):
    u = rng.integers(-3, 4, (3, 8, 5)).astype(float)
    for sizes in product((False, True), repeat=3):
        shape = tuple(1 if single else size for single, size in zip(sizes, u.shape, strict=True))
        a = rng.choice([0.5, -1.0, 2.0, 0.0], shape)
        pair = np.moveaxis(np.broadcast_to(a, u.shape), axis, 0), np.moveaxis(u, axis, 0)
        steps = len(pair[0])
        starts = [0] if block is None else range(0, steps, block)
        expected = [loop(*(array[start : start + (block or steps)] for array in pair)) for start in starts]
        stacked = [np.moveaxis(np.stack(arrays), 0, axis) for arrays in zip(*expected, strict=True)]
        found = summarise(a, u, axis=axis, block=block)
        if block is None:
            assert equal(found, expected[0])
            continue
        assert equal(found, stacked)
        x0 = rng.integers(-3, 4, pair[1].shape[1:]).astype(float)
        states = forward(*pair, x0)
        ends = [min(start + block, steps) - 1 for start in starts]
        assert equal([np.moveaxis(carriers(*found, x0=x0, axis=axis), axis, 0)], [states[ends]])


@pytest.mark.parametrize("dtype", DTYPES)
@in_turn("name", MARKET)
def test_number_types(name, dtype):
    a = dyadic(name, 6, dtype)
    u = np.round(4 * inputs(6, "float64")).astype(int).astype(dtype_of(dtype))
    wide = np.dtype(np.float32) if dtype in ("float16", "bfloat16") else dtype_of(dtype)
    c, v = summarise(a, u, block=2)
    assert c.dtype == v.dtype == carriers(c, v).dtype == wide
    states = forward(a.astype(wide), u.astype(wide))
    differences = carriers(c, v) - states[1::2]
    assert all((sympy.expand(difference) if dtype == "sympy" else difference) == 0 for difference in differences)


def test_integers_become_float64():
    c, v = summarise([1, 2, 3], [1, 1, 1])
    assert (type(c), type(v)) == (np.float64, np.float64)
    assert (c, v) == (6, 10)


def test_what_a_half_passes_on_is_not_rounded():
    a, u = np.full(2, 1 - 2**-8, ml_dtypes.bfloat16), np.zeros(2, ml_dtypes.bfloat16)
    assert summarise(a, u)[0] == (1 - 2**-8) ** 2


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33])
def test_terms_are_rounded_as_often_as_the_docstring_says(n, monkeypatch):
    monkeypatch.setattr(affine, "as_operands", lambda a, u: (a, u, a.dtype))  # its checks add terms that don't add
    _, v = summarise(*rounded_problem(n))
    assert set(v.counts) == set(range(n))
    assert all(count <= n - 1 - j + ceil(log2(n)) for j, count in v.counts.items())


def test_overflow_is_a_result_and_no_warning():
    a, u = np.full(4, 1e200), np.zeros(4)
    c, v = summarise(a, u)
    assert c == np.inf
    assert np.isnan(v)
    assert np.isinf(carriers(np.full(3, 1e200), np.ones(3))[2])


@pytest.mark.torch
def test_tensors_come_back_as_tensors():
    torch = pytest.importorskip("torch")
    a, u = torch.full((2, 5), 0.5), torch.ones(2, 5)
    for block in (None, 2):
        maps = summarise(a, u, block=block)
        assert all(isinstance(array, torch.Tensor) for array in maps)
        assert equal([array.numpy() for array in maps], summarise(a.numpy(), u.numpy(), block=block))
        joined = compose(maps, maps)
        assert all(isinstance(array, torch.Tensor) for array in joined)
    assert isinstance(summarise(a[0], u[0])[0], torch.Tensor)
    assert carriers(*maps).tolist() == carriers(*(array.numpy() for array in maps)).tolist()


@pytest.mark.parametrize("n", LENGTHS)
def test_inputs_stay_as_they_are(n):
    a, u = coefficients("random", n), inputs(n)
    before = a.copy(), u.copy()
    summarise(a, u), summarise(a, u, block=3), carriers(a, u, x0=1.0), carriers(a, u, x0=1.0, terms=2)
    assert equal((a, u), before)


def test_running_products_are_the_products_of_all_beginnings():
    for a in (matrices((6, 2), 4), np.arange(1.0, 13.0).reshape(6, 2)):
        for axis in (0, 1):
            along = np.moveaxis(a, axis, 0)
            expected = [loop(along[: k + 1], 0 * along[: k + 1])[0] for k in range(len(along))]
            assert equal(np.moveaxis(products(a, axis), axis, 0), expected)


@pytest.mark.parametrize(("steps", "length"), [(0, 1), (0, 5), (1, 1), (7, 3), (9, 3), (4, 100)])
def test_blocks_are_filled_up_and_joined_again(steps, length):
    blocks = Blocks.of(steps, length)
    x = np.arange(2 * steps).reshape(steps, 2)
    split = blocks.split(x, 7)
    assert split.shape == (blocks.count, blocks.length, 2)
    assert np.array_equal(blocks.join(split), x)
    assert (split.reshape(-1, 2)[steps:] == 7).all()
    assert [row.tolist() for row in blocks.each(split[..., 0])] == [
        x[start : start + length, 0].tolist() for start in range(0, steps, length)
    ]


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: summarise([1.0], [1.0], block=0), OptionError, "block must be at least 1, got 0"),
        (lambda: summarise([1.0], [1.0], block=2.0), OptionTypeError, "block must be an integer, got 2.0"),
        (lambda: summarise([1.0], [1.0], axis=1), ShapeError, "axis must be an axis of the result"),
        (lambda: summarise([1.0, 2.0], [1.0, 2.0, 3.0]), ShapeError, "must broadcast"),
        (lambda: summarise(1.0, 2.0), ShapeError, "at least one axis"),
        (lambda: summarise(["a"], [1.0]), DTypeError, "numbers"),
        (lambda: summarise(np.ma.ones(3), np.ones(3)), ArrayTypeError, "masked"),
        (lambda: carriers([1.0], [1.0], terms=-1), OptionError, "terms must be at least 0, got -1"),
        (lambda: carriers([1.0], [1.0], terms=1.5), OptionTypeError, "terms must be an integer, got 1.5"),
        (lambda: carriers([1.0], [1.0], x0=[1.0, 2.0]), ShapeError, "x0 must broadcast against one step"),
        (lambda: compose(1.0, (1.0, 2.0)), ShapeError, "isn't a pair"),
        (lambda: compose((1.0, 2.0), (1.0, 2.0, 3.0)), ShapeError, "isn't a pair"),
    ],
)
def test_errors(call, error, match):
    with pytest.raises(error, match=match):
        call()
