"""`vjp` and `jvp` against the literal sums, in exact arithmetic and within their bound, and who computes them."""

from fractions import Fraction
from itertools import pairwise
from math import prod

import numpy as np
import pytest
from noted import in_turn

import recfact as rf
from recfact.cpu import backward, limits
from recfact.errors import DTypeError, OptionError, ShapeError
from recfact.recurrence import first_kept

WINDOWS = [
    rf.Full(),
    *(rf.Jagged(block, terms) for block in range(1, 8) for terms in range(4)),
    *(rf.Uniform(lags) for lags in (1, 2, 3, 4, 5, 8, 12, 17, 20)),
]


def fractions(rng, shape):
    """Return halves of integers from -3 to 3, zeros among them."""
    return np.array([Fraction(int(i), 2) for i in rng.integers(-3, 4, shape).flat] + [None], object)[:-1].reshape(shape)


def triple_sum(a, u, g, x0, window, reverse):
    """Return the gradients of the sum of g_i P(i, j) u_j over the pairs that the window keeps, term by term."""
    da, du, d0 = [Fraction(0)] * len(u), [Fraction(0)] * len(u), Fraction(0)
    left, right = (u, g) if reverse else (g, u)
    for i in range(len(u)):
        for j in range(first_kept(i, window), i + 1):
            whole = prod(a[j + 1 : i + 1], start=Fraction(1))
            entering = right[j] + (a[0] * x0 if j == 0 and x0 is not None else 0)
            du[i if reverse else j] += whole * (right[j] if reverse else left[i])
            for k in range(j + 1, i + 1):
                da[k] += left[i] * prod([*a[j + 1 : k], *a[k + 1 : i + 1]], start=Fraction(1)) * entering
            if j == 0 and x0 is not None:
                da[0] += left[i] * whole * x0
                d0 += left[i] * whole * a[0]
    return da, du, None if x0 is None else d0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("n", [*range(9), *(pytest.param(n, marks=pytest.mark.slow) for n in (9, 10, 13, 17))])
@pytest.mark.parametrize("given", ["forward", "reverse", "initial state"])
def test_both_are_exact(n, given, rng):
    reverse, x0 = given == "reverse", Fraction(3, 2) if given == "initial state" else None
    for window in WINDOWS:
        a, u, g, ta, tu = (fractions(rng, n) for _ in range(5))
        da, du, d0 = rf.gradients.vjp(a, u, g, x0=x0, window=window, reverse=reverse)
        assert (list(da), list(du), d0) == triple_sum(a, u, g, x0, window, reverse)
        tx0 = None if x0 is None else Fraction(5, 2)
        tx = rf.gradients.jvp(a, u, ta, tu, x0=x0, tx0=tx0, window=window, reverse=reverse)
        assert sum(g * tx) == sum(da * ta) + sum(du * tu) + (0 if x0 is None else d0[()] * tx0)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("window", [rf.Full(), rf.Jagged(3), rf.Jagged(2, 2), rf.Uniform(4)], ids=str)
def test_segments_are_sequences_of_their_own(window, reverse, rng):
    offsets = [0, 0, 7, 8, 8, 13]
    a, u, g, ta, tu = (fractions(rng, (2, 13)) for _ in range(5))
    x0 = None if reverse else fractions(rng, (2, 5))
    options = {"window": window, "reverse": reverse}
    da, du, d0 = rf.gradients.vjp(a, u, g, x0=x0, offsets=offsets, **options)
    tx = rf.gradients.jvp(a, u, ta, tu, x0=x0, tx0=x0, offsets=offsets, **options)
    for index, (start, end) in enumerate(pairwise(offsets)):
        part = np.s_[:, start:end]
        own = None if x0 is None else x0[:, index]
        alone = rf.gradients.vjp(a[part], u[part], g[part], x0=own, **options)
        np.testing.assert_array_equal(da[part], alone[0])
        np.testing.assert_array_equal(du[part], alone[1])
        if x0 is not None:
            np.testing.assert_array_equal(d0[:, index], alone[2])
        moved = rf.gradients.jvp(a[part], u[part], ta[part], tu[part], x0=own, tx0=own, **options)
        np.testing.assert_array_equal(tx[part], moved)


def test_what_is_broadcast_has_the_sum_of_its_gradients(rng):
    a, u, g, x0 = (fractions(rng, shape) for shape in ((3, 1, 1), (5, 2), (3, 5, 2), (2,)))
    whole = [np.broadcast_to(array, (3, 5, 2)) for array in (a, u)]
    for window in (rf.Full(), rf.Jagged(2), rf.Uniform(3)):
        da, du, d0 = rf.gradients.vjp(a, u, g, x0=x0, axis=1, window=window)
        each = rf.gradients.vjp(*whole, g, x0=np.broadcast_to(x0, (3, 2)), axis=1, window=window)
        np.testing.assert_array_equal(da, each[0].sum((1, 2), keepdims=True))
        np.testing.assert_array_equal(du, each[1].sum(0))
        np.testing.assert_array_equal(d0, each[2].sum(0))


@pytest.mark.parametrize("reverse", [False, True])
def test_cotangents_that_are_broadcast_are_those_of_every_state(reverse, rng):
    """Where coefficients are shared, the gradients of inputs don't depend on the channel, and initial states sum up."""
    x0 = None if reverse else Fraction(1, 2)
    for window in (rf.Full(), rf.Jagged(2), rf.Jagged(2, 0), rf.Uniform(3)):
        for a_shape, g_shape in ((1, 1, 5), (5,)), ((), ()), ((5,), (3, 1, 5)), ((1, 2, 5), (1,)):
            a, u, g = fractions(rng, a_shape), fractions(rng, (3, 2, 5)), fractions(rng, g_shape)
            options = {"x0": x0, "window": window, "reverse": reverse}
            expected = rf.gradients.vjp(a, u, np.broadcast_to(g, u.shape).copy(), **options)
            for one, other in zip(rf.gradients.vjp(a, u, g, **options), expected, strict=True):
                np.testing.assert_array_equal(one, other)
                assert np.shape(one) == np.shape(other)
            floats = [array.astype(np.float32) for array in (a, u, g)]
            options["x0"] = None if reverse else 0.5
            for x in (None, rf.solve(*floats[:2], **options)):
                found = rf.gradients.vjp(*floats, **options, x=x)
                for one, other in zip(found[:2], expected[:2], strict=True):
                    np.testing.assert_array_equal(one, other.astype(float))


@pytest.mark.parametrize("window", [rf.Full(), rf.Uniform(1), rf.Uniform(4), rf.Jagged(3), rf.Jagged(2, 2)], ids=str)
@in_turn("length", [0, 1, 2, 5, 9])
@in_turn("taken", [0, 1, 3, 4, 7])
def test_a_state_passes_gradients_on(window, length, taken, rng):
    """Two pieces have the gradients of the whole, wherever it is cut."""
    a, u, g = (fractions(rng, taken + length) for _ in range(3))
    x0 = Fraction(3, 2)
    first, rest = np.s_[:taken], np.s_[taken:]
    _, state = rf.solve(a[first], u[first], x0=x0, window=window, return_state=True)
    da, du, d0 = rf.gradients.vjp(a, u, g, x0=x0, window=window)
    own_a, own_u, g_state = rf.gradients.vjp(a[rest], u[rest], g[rest], state=state, window=window)
    assert g_state.shape == state.parts.shape
    before = rf.gradients.vjp(a[first], u[first], g[first], x0=x0, g_state=g_state, window=window)
    np.testing.assert_array_equal(np.concatenate([before[0], own_a]), da)
    np.testing.assert_array_equal(np.concatenate([before[1], own_u]), du)
    assert before[2] == d0


def test_rows_at_different_steps_pass_on_what_each_does_alone(rng):
    window, a, u, g = rf.Jagged(3, 2), *(fractions(rng, (4, 5)) for _ in range(3))
    states = [
        rf.solve(u[0, :1].repeat(n), u[0, :1].repeat(n), window=window, return_state=True)[1] for n in (1, 2, 3, 8)
    ]
    stacked = rf.State.stack(states)
    _, end = rf.solve(a, u, state=stacked, window=window, return_state=True)
    g_state = fractions(rng, end.parts.shape)
    da, du, d0 = rf.gradients.vjp(a, u, g, state=stacked, g_state=g_state, window=window)
    for row, state in enumerate(states):
        count = len(end[row].parts)
        alone = rf.gradients.vjp(a[row], u[row], g[row], state=state, g_state=g_state[:count, row], window=window)
        np.testing.assert_array_equal(da[row], alone[0])
        np.testing.assert_array_equal(du[row], alone[1])
        np.testing.assert_array_equal(d0[: len(state.parts), row], alone[2])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("window", [rf.Full(), rf.Uniform(4), rf.Jagged(3), rf.Jagged(2, 2)], ids=str)
def test_a_state_of_segments_passes_gradients_on(window, axis, rng):
    """Each segment has the gradients of a call for it alone, whatever it begins with and passes on."""
    before, offsets = [0, 0, 2, 7, 8], [0, 3, 3, 4, 9]
    options = {"window": window, "axis": axis}

    def turned(steps):
        return np.moveaxis(fractions(rng, (steps, 2)), 0, axis)

    _, state = rf.solve(turned(8), turned(8), x0=turned(4), offsets=before, return_state=True, **options)
    a, u, g = (turned(9) for _ in range(3))
    _, end = rf.solve(a, u, state=state, offsets=offsets, return_state=True, **options)
    g_state = fractions(rng, end.parts.shape)
    lead = 1 + (end.parts.ndim - 3)
    da, du, d0 = rf.gradients.vjp(a, u, g, state=state, g_state=g_state, offsets=offsets, **options)
    x0 = turned(4)
    first = rf.gradients.vjp(a, u, g, x0=x0, g_state=np.zeros_like(g_state), offsets=offsets, **options)
    for row, (start, stop) in enumerate(pairwise(offsets)):
        own = state[(slice(None),) * axis + (row,)]
        part = (slice(None),) * axis + (slice(start, stop),)
        _, after = rf.solve(a[part], u[part], state=own, return_state=True, **options)
        count, held = len(after.parts), len(own.parts)
        cotangents = np.moveaxis(g_state, lead + axis, 0)[row][:count]
        alone = rf.gradients.vjp(a[part], u[part], g[part], state=own, g_state=cotangents, **options)
        np.testing.assert_array_equal(da[part], alone[0])
        np.testing.assert_array_equal(du[part], alone[1])
        np.testing.assert_array_equal(np.moveaxis(d0, lead + axis, 0)[row][:held], alone[2])
        entering = np.moveaxis(x0, axis, 0)[row]
        np.testing.assert_array_equal(
            np.moveaxis(first[2], axis, 0)[row],
            rf.gradients.vjp(a[part], u[part], g[part], x0=entering, **options)[2],
        )


def exact(array):
    return np.frompyfunc(lambda number: Fraction(float(number)), 1, 1)(array)


def most_roundings(window, lag):
    """Return N of the page on gradients for pairs at a lag."""
    match window:
        case rf.Uniform(lags):
            return lag + lags + 40
        case rf.Jagged(_, terms):
            return lag + 9 * terms + 15
    return lag + 15


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("window", [rf.Full(), rf.Uniform(9), rf.Jagged(4), rf.Jagged(8, 0), rf.Jagged(5, 2)], ids=str)
@in_turn("shape", [(41,), (41, 8)])
@in_turn("reverse", [False, True])
def test_errors_keep_their_bound(shape, window, dtype, reverse, rng, monkeypatch):
    monkeypatch.setattr(limits, "BACKWARD_RUN", 16)
    a, u, g = (rng.uniform(-1.3, 1.3, shape).astype(dtype) for _ in range(3))
    options = {"axis": 0, "window": window, "reverse": reverse}
    x = rf.solve(a, u, **options)
    numbers = [exact(array) for array in (a, u, g)]
    da, _, _ = rf.gradients.vjp(*numbers, **options)
    scale, _, _ = rf.gradients.vjp(*map(abs, numbers), **options)
    unit = Fraction(float(np.finfo(dtype).eps)) / 2
    count = most_roundings(window, 41)
    bound = scale * (count * unit / (1 - count * unit))
    for known in (None, x):
        found, _, _ = rf.gradients.vjp(a, u, g, x=known, **options)
        assert (abs(exact(found) - da) <= bound).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("window", [rf.Full(), rf.Jagged(4), rf.Jagged(3), rf.Jagged(7, 0), rf.Jagged(16)], ids=str)
def test_one_pass_gives_what_solves_give(window, dtype, rng, monkeypatch):
    """Every residue of the length, in layouts of channels and of rows, as runs of sequences and rows as runs."""
    monkeypatch.setattr(limits, "BACKWARD_RUN", 8)
    monkeypatch.setattr(limits, "BACKWARD_SHORT", 33)
    monkeypatch.setattr(limits, "processors", lambda: 3)
    monkeypatch.setattr(limits, "WORTH_THREADS", 1)
    tolerance = 2000 * np.finfo(dtype).eps
    for n in (1, 2, 3, 4, 5, 8, 15, 16, 17, 33, 40, 51, 272, 290, 561):
        for shape, shared, axis in [
            ((2, n, 3, 16), (2, n, 3, 1), 1),
            ((2, n, 3, 16), (1, n, 1, 1), 1),
            ((2, n, 3, 48), (2, n, 1, 1), 1),
            ((2, n, 3, 16), (2, n, 3, 16), 1),
            ((n, 24), (n, 24), 0),
            ((n, 5), (n, 1), 0),
            ((n,), (n,), 0),
            ((2, 3, n), (2, 1, n), 2),
            ((37, n), (37, n), 1),
            ((3, 37, n), (3, 1, 1), 2),
        ]:
            a, u, g = (rng.uniform(-1, 1, size).astype(dtype) for size in (shared, shape, shape))
            x = rf.solve(a, u, axis=axis, window=window)
            turned = [np.moveaxis(array, axis, 0) for array in (a, u, g, x)]
            assert n == 1 or backward.gradients(*turned, window) is not None
            found = rf.gradients.vjp(a, u, g, axis=axis, window=window, x=x)
            with monkeypatch.context() as patch:
                patch.setattr(backward, "gradients", lambda *_: None)
                expected = rf.gradients.vjp(a, u, g, axis=axis, window=window)
            for one, other in zip(found[:2], expected[:2], strict=True):
                np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * 48)


@pytest.mark.parametrize("window", [rf.Full(), rf.Jagged(7, 0), rf.Jagged(16), rf.Uniform(9)], ids=str)
@pytest.mark.parametrize("shape", [(290,), (37, 290), (290, 16)], ids=["sequence", "rows", "channels"])
def test_states_that_are_not_given_are_solved_for(shape, window, rng):
    options = {"axis": shape.index(290), "window": window}
    a, u, g = (rng.uniform(-1, 1, shape) for _ in range(3))
    given = rf.gradients.vjp(a, u, g, x=rf.solve(a, u, **options), **options)
    np.testing.assert_array_equal(rf.gradients.vjp(a, u, g, **options)[:2], given[:2])


@pytest.mark.parametrize("shape", [(290,), (37, 290), (290, 16)], ids=["sequence", "rows", "channels"])
@pytest.mark.parametrize("window", [rf.Jagged(2), rf.Jagged(3), rf.Jagged(16)], ids=str)
def test_what_is_not_finite_touches_what_depends_on_it(window, shape, rng):
    """A gradient that a number doesn't change isn't changed by NaN or infinity in its place."""
    axis = shape.index(290)
    options = {"axis": axis, "window": window}
    for name in "aug":
        for at in (0, 1, 2, 3, 145, 160, 288, 289):
            given = {key: rng.uniform(0.5, 1, shape) for key in "aug"}
            found = []
            for number in (0.5, 0.75, np.nan, np.inf):
                np.moveaxis(given[name], axis, 0)[at] = number
                x = rf.solve(given["a"], given["u"], **options)
                found.append(rf.gradients.vjp(**given, x=x, **options)[:2])
            for one, other, *changed in zip(*found, strict=True):
                for result in changed:
                    np.testing.assert_array_equal(result[one == other], one[one == other])


@pytest.mark.parametrize("shape", [(5000,), (70, 90), (5, 1100)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_threads_change_no_bit_of_gradients(shape, dtype, rng, monkeypatch):
    monkeypatch.setattr(limits, "WORTH_THREADS", 1)
    monkeypatch.setattr(limits, "WORTH_TWO_THREADS", 1)
    a, u, g = (rng.uniform(-1, 1, shape).astype(dtype) for _ in range(3))
    for window in (rf.Full(), rf.Jagged(5), rf.Jagged(16)):
        x = rf.solve(a, u, window=window)
        found = []
        for processors in (1, 2, 3, 7):
            monkeypatch.setattr(limits, "processors", lambda count=processors: count)
            found.append(rf.gradients.vjp(a, u, g, window=window, x=x)[:2])
        for pair in found[1:]:
            np.testing.assert_array_equal(pair, found[0])


@pytest.mark.parametrize("n", range(1, 20))
def test_flipping_is_not_the_adjoint_of_a_jagged_window(n):
    a, u = np.ones(n), np.arange(1.0, n + 1)
    flipped = rf.solve(a, u[::-1], window=rf.Jagged(4))[::-1]
    adjoint = rf.solve(a, u, window=rf.Jagged(4), reverse=True)
    assert np.array_equal(adjoint, rf.TransferOperator(a).truncate(rf.Jagged(4)).to_dense().T @ u)
    assert np.array_equal(flipped, adjoint) == (n % 4 == 0 or n < 8)


def test_halves_are_computed_in_float32(rng):
    a, u, g = (rng.integers(-4, 5, 30).astype(np.float16) / 4 for _ in range(3))
    for window in (rf.Full(), rf.Jagged(4), rf.Uniform(5)):
        wide = rf.gradients.vjp(*(array.astype(np.float32) for array in (a, u, g)), window=window)
        for found, expected in zip(rf.gradients.vjp(a, u, g, window=window)[:2], wide[:2], strict=True):
            np.testing.assert_array_equal(found, expected.astype(np.float16))


def test_what_does_not_fit_is_refused():
    a, u, state = np.ones(4), np.ones(4), rf.solve(np.ones(4), np.ones(4), return_state=True)[1]
    with pytest.raises(ShapeError, match="g must broadcast to the shape of the states"):
        rf.gradients.vjp(a, u, np.ones(5))
    with pytest.raises(DTypeError, match="g must fit into float64"):
        rf.gradients.vjp(a, u, 1j * u)
    with pytest.raises(OptionError, match="x0 doesn't go with reverse"):
        rf.gradients.vjp(a, u, u, x0=1.0, reverse=True)
    with pytest.raises(OptionError, match="tx0 is the tangent of x0"):
        rf.gradients.jvp(a, u, a, u, tx0=1.0)
    with pytest.raises(ShapeError, match="g_state must have the shape"):
        rf.gradients.vjp(a, u, u, g_state=np.ones(3))
    with pytest.raises(OptionError, match="state doesn't go with x0"):
        rf.gradients.vjp(a, u, u, x0=1.0, state=state)
    with pytest.raises(ShapeError, match="state must have the shape of one step"):
        rf.gradients.vjp(a, u, u, state=state, offsets=[0, 4])


@pytest.mark.parametrize("window", [rf.Full(), rf.Jagged(2), rf.Jagged(3, 0), rf.Uniform(2)], ids=str)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_a_coefficient_that_no_segment_reads_has_the_gradient_0(window, reverse):
    """Whatever its segment holds: a product by 0 would make NaN of NaN."""
    rng = np.random.default_rng(3)
    a, u, g = rng.uniform(-1, 1, (3, 9))
    offsets = [0, 2, 6, 9]
    for array in (a, u, g):
        array[4] = np.nan
    with np.errstate(invalid="ignore"):
        da, _, _ = rf.gradients.vjp(a, u, g, offsets=offsets, window=window, reverse=reverse)
    assert (da[[0, 2, 6]] == 0).all()
    assert np.isnan(da[4])
