"""`solve` against the plain loop: every path, layout, number type and window."""

import tracemalloc
from fractions import Fraction
from itertools import product

import ml_dtypes
import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import Layout, layouts
from market import MARKET, coefficients, inputs, symbols, unit_roundoff
from oracle import accumulator, assert_near_definition, definition
from walks import DTYPES, EACH_DTYPE, FEW_DTYPES

import recfact as rf
from recfact.windows import Full, Jagged, Uniform

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

# Whole tiles are 256 steps, of float64 128; their parts 64 and 32.
LENGTHS = [0, 1, 2, 3, 5, 31, 32, 63, 64, 65, 127, 128, 129, 255, 256, 257, 300, 511, 512, 513]

# One window for each kernel of rows, and those of channels.
WINDOWS = [Full(), Full(), Jagged(16), Uniform(32), Jagged(100, 2), Uniform(300), Uniform(3), Jagged(2, 8)]


def make_numbers(kind, shape, dtype, rng):
    """Return coefficients or inputs of a named kind."""
    largest = float(ml_dtypes.finfo(dtype).max)
    smallest = float(ml_dtypes.finfo(dtype).smallest_subnormal)

    def draw():
        values = rng.uniform(-1.1, 1.1, shape)
        match kind:
            case "resets":
                values[rng.random(shape) < 0.2] = rng.choice([0.0, -0.0])
            case "special":
                places = rng.random(shape) < 3 / (3 + np.size(values))
                values[places] = rng.choice([np.nan, np.inf, -np.inf], places.sum())
            case "growing":
                values = rng.uniform(1, 4, shape) * rng.choice([1, 1, 1, -1])
            case "huge":
                places = rng.random(shape) < 0.05
                values[places] = largest ** rng.uniform(0, 1, places.sum())
            case "tiny":
                places = rng.random(shape) < 0.3
                values[places] = smallest * rng.integers(0, 5, places.sum())
        return values

    with np.errstate(all="ignore"):
        values = np.asarray(draw()).astype(dtype)
        if dtype.kind == "c":
            values.imag = draw() / 4
    return values


KINDS = ["plain", "plain", "resets", "special", "growing", "huge", "tiny"]


@st.composite
def problems(draw, dtype):
    """Draw the arguments of a call of `solve`."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    # 17 channels next to each other fill a vector and a part of one.
    shape = list(draw(st.sampled_from([(), (), (), (1,), (17,), (2, 17)])))
    axis = draw(st.integers(0, len(shape)))
    shape.insert(axis, draw(st.sampled_from(LENGTHS)))
    arrays = []
    for _ in "au":
        shared = [length if draw(st.sampled_from([True, True, False])) else 1 for length in shape]
        values = make_numbers(draw(st.sampled_from(KINDS)), shared, dtype, rng)
        arrays.append(draw(layouts(len(shape))).array(values))
    a, u = arrays
    whole = np.broadcast_shapes(a.shape, u.shape)
    reverse = draw(st.booleans())
    x0 = None
    if not reverse and draw(st.booleans()):
        x0 = make_numbers("special", whole[:axis] + whole[axis + 1 :], accumulator(dtype), rng)
    out = "u" if u.shape == whole else "new"
    return {
        "a": a,
        "u": u,
        "x0": x0,
        "axis": draw(st.sampled_from([axis, axis - len(shape)])),
        "reverse": reverse,
        "window": draw(st.sampled_from(WINDOWS[: -2 if dtype.itemsize == 2 else None])),
        "threads": draw(st.sampled_from([1, 1, 2, 3])),
        "out": draw(st.sampled_from([None, None, "new", out])),
        "layout": draw(layouts(len(shape))),
    }


@pytest.mark.parametrize("dtype", FEW_DTYPES)
@settings(max_examples=50)
@given(st.data())
def test_every_path_is_the_plain_loop_but_for_rounding(dtype, data):
    problem = data.draw(problems(DTYPES[dtype]))
    a, u, x0 = problem["a"], problem["u"], problem["x0"]
    axis, reverse, window = (problem[name] for name in ("axis", "reverse", "window"))
    shape = np.broadcast_shapes(a.shape, u.shape)
    given_a, given_u = a.copy(), u.copy()
    out, memory = problem["layout"].empty(shape, u.dtype)
    before = memory.copy()
    if problem["out"] == "u":
        out, memory = u, None
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr("recfact.cpu.limits.WORTH_THREADS", 1)  # on few numbers too
        options = {"out": out} if problem["out"] else {}
        x = rf.solve(a, u, x0=x0, axis=axis, reverse=reverse, window=window, threads=problem["threads"], **options)

    assert x.shape == shape
    assert x.dtype == given_u.dtype
    assert (x is out) == bool(problem["out"])
    a, u, x = (np.moveaxis(np.broadcast_to(values, shape), axis, 0) for values in (given_a, given_u, x))
    assert_near_definition(x, a, u, window, x0, reverse)

    assert problem["a"].tobytes() == given_a.tobytes()
    if out is not problem["u"]:
        assert problem["u"].tobytes() == given_u.tobytes()
        if problem["out"]:  # what lies between its numbers stays as it was
            out[...] = np.full(u.itemsize, 255, np.uint8).view(u.dtype)
            np.testing.assert_array_equal(memory, before)


def walk(n, rng, resets=0.0):
    """Return coefficients and inputs whose products and states are all exact in float32, for up to 2^20 steps.

    States are 2^c_i times integers below 2^24, and products are powers of two, 2^(c_i - c_j), or zero.
    """
    c = rng.integers(-3, 4, n + 1)
    a = np.ldexp(rng.choice([1.0, -1.0], n), c[1:] - c[:-1])
    a[rng.random(n) < resets] = 0
    return a, np.ldexp(rng.integers(-9, 10, n), c[1:]), np.ldexp(rng.integers(-9, 10), c[0])


def walked(a, u, x0=0.0):
    """Return the states of such a walk."""
    x = np.empty(len(u))
    state = x0
    for i, (coefficient, value) in enumerate(zip(a.tolist(), u.tolist(), strict=True)):
        state = coefficient * state + value
        x[i] = state
    return x


def walked_within(a, u, window, x0=0.0):
    """Return the states of such a walk within a window: x_i - a_i ... a_j x_{j-1} if its first input is u_j."""
    folded = u.copy()
    folded[0] += a[0] * x0
    x = walked(a, folded)
    rows = np.arange(len(u))
    match window:
        case Uniform(lags):
            first = np.maximum(rows - lags + 1, 0)
        case Jagged(block, terms):
            first = np.maximum(rows // block - terms, 0) * block
    signs_and_powers = np.where(a == 0, 1, a)
    products = np.multiply.accumulate(np.sign(signs_and_powers)) * np.exp2(np.cumsum(np.log2(abs(signs_and_powers))))
    zeros = np.cumsum(a == 0)
    later = first > 0
    before = first[later] - 1
    factor = products[later] / products[before] * (zeros[later] == zeros[before])
    x[later] -= factor * x[before]
    return x


BORDERS = [16, 64, 256, 1024, 65536, 131072]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("n", sorted({border + step for border in BORDERS for step in (-1, 0, 1)}))
@pytest.mark.parametrize("resets", [0.0, 1e-3])
def test_exact_numbers_stay_exact_around_every_border(n, resets, rng):
    """No number is rounded here, so there is one right answer, whatever the order of the arithmetic."""
    a, u, x0 = walk(n, rng, resets)
    expected, from_x0 = walked(a, u), walked(a, u, x0)
    ahead = np.concatenate([a[:1], a[:0:-1]])
    backwards = walked(ahead, u[::-1])[::-1]
    for dtype in (np.float32, np.float64):
        a_, u_ = a.astype(dtype), u.astype(dtype)
        np.testing.assert_array_equal(rf.solve(a_, u_), expected)
        np.testing.assert_array_equal(rf.solve(a_, u_, x0=x0), from_x0)
        np.testing.assert_array_equal(rf.solve(a_, u_, reverse=True), backwards)
        strided = rf.solve(np.repeat(a_, 2)[::2], u_[::-1].copy()[::-1], x0=x0)
        np.testing.assert_array_equal(strided, from_x0)
        for window in (Jagged(16), Uniform(32), Jagged(100, 2), Uniform(300)):
            np.testing.assert_array_equal(
                rf.solve(a_, u_, x0=x0, window=window), walked_within(a, u, window, x0), err_msg=str(window)
            )


@pytest.mark.parametrize(("dtype", "extra"), [("float32", 7), ("float64", 6)])
@pytest.mark.parametrize("name", [name for name in MARKET if name != "complex"])
def test_errors_are_below_the_proved_bound(name, dtype, extra):
    """Against 400 digits, which are exact beside the bound: sum_j |L_ij| |u_j| N v / (1 - n v), N = i - j + extra.

    The sum is made with the states: a term that passes a step grows by |a_i| and counts one rounding more. The largest
    ratio of error and bound is 0.26, for constant coefficients in float64.
    """
    n = 600
    a, u = coefficients(name, n, dtype), inputs(n, dtype)
    unit, kind = float(unit_roundoff(dtype)), np.finfo(dtype)
    tiny, dropped = float(kind.smallest_subnormal), float(kind.smallest_normal)
    found = rf.solve(a, u)
    largest_ratio = 0
    with mpmath.workdps(400):
        x = size = counted = inputs_so_far = mpmath.mpf(0)
        for i in range(n):
            coefficient, value = (mpmath.mpf(float(number[i])) for number in (a, u))
            x = coefficient * x + value
            counted = abs(coefficient) * (counted + size) + extra * abs(value)
            size = abs(coefficient) * size + abs(value)
            inputs_so_far += abs(value)
            bound = counted * unit / (1 - (n + extra) * unit)
            if name == "denormal":  # no coefficient is above 1, so what underflows isn't magnified
                bound += (4 * (i + 4) * tiny + dropped) * (1 + inputs_so_far)
            largest_ratio = max(largest_ratio, abs(found[i].item() - x) / bound if bound else 0)
    assert largest_ratio <= 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", EACH_DTYPE)
@pytest.mark.parametrize("window", [Full(), Jagged(16), Uniform(300)], ids=str)
def test_bits_do_not_depend_on_layout_or_alignment_and_repeat(window, dtype, rng):
    dtype = DTYPES[dtype]
    a, u = make_numbers("plain", 700, dtype, rng), make_numbers("plain", 700, dtype, rng)
    for reverse in (False, True):
        expected = rf.solve(a, u, window=window, reverse=reverse).tobytes()
        for offset, step in product(range(0, 17, 3), (1, -1, 3)):
            layout = Layout((0,), (step,), offset)
            out, _ = layout.empty((700,), dtype)
            rf.solve(layout.array(a), layout.array(u), out=out, window=window, reverse=reverse)
            assert out.tobytes() == expected
        tall = rf.solve(a[:, None], u[:, None], axis=0, window=window, reverse=reverse)
        assert tall.tobytes() == expected
        assert rf.solve(a, u, out=u.copy(), window=window, reverse=reverse).tobytes() == expected


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [Full(), Jagged(16), Uniform(32), Jagged(100, 2), Uniform(300)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [256, 261])
def test_a_special_number_at_every_place(window, reverse, steps, rng):
    """Row i has one at step i: whole tiles, and the one that is filled up."""
    a, u = (rng.uniform(-1, 1, (steps, steps)).astype(np.float32) for _ in "au")
    place = np.diag_indices(steps)
    for array, value in ((a, np.inf), (a, np.nan), (u, -np.inf), (u, np.nan), (a, 0.0), (a, 2.0**100)):
        kept = array[place]
        array[place] = value
        x = rf.solve(a, u, window=window, reverse=reverse)
        assert_near_definition(x.T, a.T, u.T, window, None, reverse)
        array[place] = kept


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [Full(), Jagged(16), Uniform(32), Jagged(100, 2), Uniform(300)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [256, 261])
def test_products_that_overflow_at_every_place_spoil_no_state(window, reverse, steps):
    """Row i has eight large coefficients from step i on, and one input among them; all states are zero, 1 or less."""
    a, u = np.ones((steps, steps), np.float32), np.zeros((steps, steps), np.float32)
    for row in range(steps):
        a[row, row : row + 8] = 2.0**25
        u[row, min(row + 3, steps - 1)] = 2.0**-100
    expected = definition(a.T, u.T, window, None, reverse).T
    assert expected.max() == 1
    np.testing.assert_array_equal(rf.solve(a, u, window=window, reverse=reverse), expected)
    np.testing.assert_array_equal(rf.solve(a, u, window=window, reverse=reverse, out=u), expected)


@pytest.mark.parametrize("window", [Full(), Jagged(300), Uniform(600)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("dtype", "coefficient", "value"), [(np.float32, 1.2, 1e-30), (np.float64, 2.1, 1e-300)])
def test_products_that_slowly_overflow_spoil_no_state(window, reverse, dtype, coefficient, value):
    a, u = np.full(1000, coefficient, dtype), np.full(1000, value, dtype)
    assert_near_definition(rf.solve(a, u, window=window, reverse=reverse), a, u, window, None, reverse)


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_the_shortest_sequences(n, window):
    a, u = np.array([3.0, 5.0][:n]), np.array([7.0, 11.0][:n])
    passed = 5.0 * (window != Uniform(1))
    np.testing.assert_array_equal(rf.solve(a, u, window=window), [7.0, 11 + 7 * passed][:n])
    np.testing.assert_array_equal(rf.solve(a, u, window=window, x0=2.0), [13.0, 11 + 13 * passed][:n])
    np.testing.assert_array_equal(
        rf.solve(a, u, window=window, reverse=True), [[7.0], [7 + 11 * passed, 11.0]][n - 1][:n]
    )


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4)])
def test_nothing_to_solve(shape):
    for axis in range(len(shape)):
        x = rf.solve(np.zeros(shape, np.float32), np.zeros(shape, np.float32), axis=axis, x0=np.float32(1))
        assert (x.shape, x.dtype) == (shape, np.float32)


@pytest.mark.parametrize(
    ("a", "u", "dtype"),
    [
        ([1, 2], [3, 4], np.float64),
        ([True, True], np.array([3, 4], np.uint8), np.float64),
        (np.array([1, 2], np.int64), np.array([3, 4], np.float32), np.float64),
        (np.array([1, 2], np.int8), np.array([3, 4], np.float32), np.float32),
        (2, np.array([3, 4], np.float32), np.float32),
        (2.0, np.array([3, 4], np.float16), np.float16),
        (2.0, np.array([3, 4], BFLOAT16), BFLOAT16),
        (np.array([1, 2], np.float16), np.array([3, 4], BFLOAT16), np.float32),
        (np.array([1, 2], BFLOAT16), np.array([3, 4], np.float64), np.float64),
        (np.array([1, 2], ">f4"), np.array([3, 4], "<f4"), np.float32),
        (np.array([1, 2], ">f8"), np.array([3, 4], ">f8"), np.float64),
        (np.array([1, 2], np.float32), np.array([3, 4], np.complex64), np.complex64),
        (np.array([1, 2], np.float64), np.array([3, 4], np.complex64), np.complex128),
        (2j, np.array([3, 4], np.float32), np.complex64),
        (range(1, 3), (3.0, 4.0), np.float64),
    ],
    ids=lambda value: None,
)
def test_number_types_are_those_of_numpy(a, u, dtype):
    x = rf.solve(a, u)
    assert type(x) is np.ndarray
    assert x.dtype == dtype
    assert x.dtype.isnative
    second = np.ravel(a)[-1]
    np.testing.assert_array_equal(np.ravel(x), np.array([3, 4 + 3 * second], dtype))


def test_halves_are_rounded_once():
    a, u = np.full(2048, 1.0), np.full(2048, 2.0**-11)
    for dtype in (np.float16, BFLOAT16):
        x = rf.solve(a.astype(dtype), u.astype(dtype))
        np.testing.assert_array_equal(x, np.cumsum(u).astype(dtype))  # would stop growing if each sum was rounded


@pytest.mark.parametrize("scalar", ["Fraction", "mpf", "sympy"])
@pytest.mark.parametrize("window", [Full(), Uniform(3), Jagged(2), Jagged(3, 2)], ids=str)
@pytest.mark.parametrize("algorithm", ["auto", "sequential"])
def test_exact_scalars_take_the_plain_loop(scalar, window, algorithm):
    a, u = coefficients("random", 7, scalar), inputs(7, scalar)
    x0 = inputs(1, scalar, seed=1)[0]
    for options in ({}, {"x0": x0}, {"reverse": True}):
        x = rf.solve(a, u, window=window, algorithm=algorithm, **options)
        assert x.dtype == object
        assert list(x) == list(definition(a, u, window, **options))
    table = rf.solve(a[:, None], np.stack([u, 2 * u], axis=1), axis=0, x0=[x0, 2 * x0], window=window)
    assert list(table[:, 0]) == list(definition(a, u, window, x0))


def test_symbols_and_numbers_mix():
    a1, a2 = symbols(2)
    assert list(rf.solve([a1, a2], [1, Fraction(1, 2)])) == [1, a2 + Fraction(1, 2)]
    out = np.empty(2, object)
    assert rf.solve([a1, a2], [1.0, mpmath.mpf(2)], x0=sympy.Symbol("x"), out=out) is out
    assert (out[0] - (a1 * sympy.Symbol("x") + 1)).simplify() == 0


def test_no_memory_is_taken_beyond_the_result():
    n = 1 << 22
    a, u, x = np.full(n, 0.5, np.float32), np.ones(n, np.float32), np.empty(n, np.float32)
    tables = [array.reshape(4, -1) for array in (a, u, x)]
    for options in ({}, {"reverse": True}, {"x0": 1.0}, {"window": Jagged(16)}, {"window": Uniform(32)}):
        for a_, u_, x_ in ((a, u, x), tables):
            rf.solve(a_, u_, out=x_, **options)  # compiles
            tracemalloc.start()
            rf.solve(a_, u_, out=x_, **options)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 1 << 18


def test_initial_states_that_the_type_cannot_hold_are_infinite_in_it():
    assert np.isposinf(rf.solve(np.float32([0.5]), np.float32([1]), x0=1e300)).all()
