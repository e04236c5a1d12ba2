"""The mixer of a Phalanx layer in one pass, and its gradients, against sums written out in numbers that are exact."""

import os
from itertools import cycle, product

import numpy as np
import pytest
from guarded import Fenced, check_in_child

import recfact as rf
from recfact.cpu import limits
from recfact.cpu.addresses import address
from recfact.cpu.mixer import mixed, mixer_of, most_together

WINDOWS = [rf.Full(), rf.Jagged(4), rf.Jagged(4, 0), rf.Jagged(3), rf.Jagged(1), rf.Jagged(1, 0), rf.Uniform(2)]
windows = pytest.mark.parametrize("window", WINDOWS, ids=str)
LENGTHS = (1, 2, 4, 5, 8, 9, 15, 16, 17, 33)
GROUPS = ((1, 1), (2, 3), (3, 2), (2, 4), (1, 12))  # and heads of each: vectors hold one, two or four of them


@pytest.fixture(autouse=True)
def mixers_of_these_limits():
    """Forget mixers that were made under other limits."""
    mixer_of.cache_clear()
    yield
    mixer_of.cache_clear()


def kept(n, window):
    """Return which inputs each step keeps, by the definition of the window."""
    i, j = np.arange(n)[:, None], np.arange(n)
    if isinstance(window, rf.Jagged):
        return (i >= j) & (i // window.block - j // window.block <= window.terms)
    return (i >= j) & (i - j < (window.lags if isinstance(window, rf.Uniform) else n))


def matrices(a, window):
    """Return what each step keeps of each input, (batch, heads, n, n), from coefficients (batch, n, heads)."""
    rows = []
    for i, factors in enumerate(a.swapaxes(0, 1)):
        before = rows[-1] * factors[..., None] if rows else np.zeros((*factors.shape, a.shape[1]))
        rows.append(before + np.eye(a.shape[1])[i])
    return np.stack(rows, 2) * kept(a.shape[1], window)


def written_out(a, q, k, v, g, window):
    """Return the results, and the gradients of the sum of g times these with respect to a, q, k and v."""
    heads, groups = v.shape[2], k.shape[2]
    every = [np.repeat(gate, heads // groups, 2) for gate in (q, k)]
    x = np.einsum("bhij,bjhd->bihd", matrices(a, window), every[1] * v)
    back = np.einsum("bhij,bihd->bjhd", matrices(a, window), every[0] * g)
    da = np.empty_like(a)
    for i in range(a.shape[1]):  # every state is a linear function of one coefficient
        one, nought = a.copy(), a.copy()
        one[:, i], nought[:, i] = 1, 0
        change = matrices(one, window) - matrices(nought, window)
        da[:, i] = np.einsum("bihd,bhij,bjhd->bh", every[0] * g, change, every[1] * v)
    dq, dk = (one.reshape(*v.shape[:2], groups, -1, v.shape[3]).sum(3) for one in (g * x, back * v))
    return every[0] * x + v, da, dq, dk, every[1] * back + g


def operands(rng, batch, n, groups, heads, channels, dtype="float64"):
    """Return numbers so short that sums of a few products of them are exact."""
    a = rng.choice([-1, 0, 1] if dtype == "float32" else [-1, 0, 0.5, 1], (batch, n, groups * heads)).astype(dtype)
    shapes = [(batch, n, groups, channels)] * 2 + [(batch, n, groups * heads, channels)] * 2
    q, k, v, g = (rng.integers(-3, 4, shape).astype(dtype) for shape in shapes)
    return a, q, k, v, g


def computed(a, q, k, v, g, window, empty=lambda name, like: np.full_like(like, np.nan)):
    """Return what `written_out` does, by the kernels, in memory that `empty` gives."""
    gate = k if q is None else q
    mixer = mixer_of(v.dtype, v.shape, 1 if gate is None else gate.shape[2], window)
    found = {"y": empty("y", v), "da": empty("da", a), "dv": empty("dv", v)}
    found |= {name: None if gate is None else empty(name, gate) for name, gate in (("dq", q), ("dk", k))}
    entering = empty("entering", np.empty(mixer.kept, v.dtype))
    y, da, dq, dk, dv, e, *given = (
        0 if one is None else address(one)
        for one in (*(found[name] for name in ("y", "da", "dq", "dk", "dv")), entering, a, q, k, v, g)
    )
    mixer.mix(y, e, *given[:4])
    mixer.gradients(dv, dk, dq, da, given[4], e, *given[:4])
    return [found[name] for name in ("y", "da", "dq", "dk", "dv")]


def check(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one, other)


@pytest.mark.sampled(1)
@windows
@pytest.mark.parametrize("channels", [1, 3, 8, 24, 32])
def test_every_length_is_what_is_written_out(window, channels, rng, monkeypatch):
    monkeypatch.setattr(limits, "FEW_LANES", 1)
    for n, (groups, heads) in zip(LENGTHS, cycle(GROUPS), strict=False):
        given = operands(rng, 2, n, groups, heads, channels)
        check(computed(*given, window), written_out(*given, window))


@windows
@pytest.mark.parametrize("left_out", [(1,), (2,), (1, 2)])
def test_without_gates_they_are_one(window, left_out, rng):
    given = list(operands(rng, 2, 21, 1, 3, 8))
    for place in left_out:
        given[place] = np.ones_like(given[place])
    expected = written_out(*given, window)
    for place in left_out:
        given[place] = None
        expected = [None if number == place + 1 else one for number, one in enumerate(expected)]
    check(computed(*given, window), expected)


@windows
@pytest.mark.parametrize("threads", [1, 2, 3, 64])
def test_the_bits_are_those_of_one_thread_and_of_any_cut(window, threads, rng, monkeypatch):
    given = [(one + 0.1).astype("float32") for one in operands(rng, 3, 19, 6, 2, 16)]
    expected = computed(*given, window)
    monkeypatch.setattr(limits, "WORTH_THREADS", 1)
    monkeypatch.setattr(limits, "WORTH_TWO_THREADS", 1)
    monkeypatch.setattr(limits, "processors", lambda: threads)
    for room in (1, 100, 1 << 10, 1 << 16):
        monkeypatch.setattr(limits, "ROOM", room)
        check(computed(*given, window), expected)


def test_groups_are_cut_into_equal_parts():
    for groups, room, share in product(range(1, 9), range(9), range(9)):
        together = most_together(groups, room, share)
        fitting = [size for size in range(1, groups + 1) if groups % size == 0 and size <= max(1, min(room, share))]
        assert together == max(fitting)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("at", ["start", "end"])
def test_nothing_else_is_touched(at, rng, monkeypatch):
    monkeypatch.setattr(limits, "FEW_LANES", 1)
    fences = {name: Fenced(1 << 14) for name in ("a", "q", "k", "v", "g", "y", "da", "dq", "dk", "dv", "entering")}

    def run(case):
        n, channels, groups, window = case
        given = operands(rng, 2, n, groups, 2, channels, "float32")
        named = zip(("a", "q", "k", "v", "g"), given, strict=True)
        given = [fences[name].copy(one, at) for name, one in named]
        found = computed(*given, window, lambda name, like: fences[name].empty(like.shape, like.dtype, at))
        check(found, written_out(*given, window))
        for name, one in zip(("y", "da", "dq", "dk", "dv"), found, strict=True):
            assert fences[name].untouched(one), name

    check_in_child(run, product((1, 5, 16, 17), (1, 8, 16, 24), (1, 2), WINDOWS))


@windows
def test_what_is_not_finite_stays_in_its_place(window, rng):
    a, q, k, v, g = operands(rng, 2, 11, 2, 2, 8)
    a[...] = 0.5
    v[0, 3, 1, 2] = np.nan
    y, _, dq, dk, dv = computed(a, q, k, v, g, window)
    expected = np.zeros(v.shape, bool)
    expected[0, :, 1, 2] = kept(11, window)[:, 3]
    np.testing.assert_array_equal(np.isnan(y), expected)
    np.testing.assert_array_equal(np.isnan(dq), expected[:, :, 1::2])
    assert not np.isnan(dv).any()
    assert np.isnan(dk[0, 3, 0, 2])
    assert np.isnan(dk).sum() == 1
    v[0, 3, 1, 2], g[1, 7, 2, 5] = 0, np.inf
    y, _, dq, dk, dv = computed(a, q, k, v, g, window)
    back = np.zeros(v.shape, bool)
    back[1, :, 2, 5] = kept(11, window)[7]
    assert np.isfinite(y).all()
    assert np.isfinite(dv[~back]).all()


def test_states_are_solved_themselves_where_their_parts_overflow():
    """What a block makes itself and what the block before adds are infinite, and their sum is finite."""
    a, one, u = np.ones((1, 12, 1), "float32"), np.ones((1, 12, 1, 8), "float32"), np.zeros((1, 12, 1, 8), "float32")
    a[:, 5], u[:, 3], u[:, 4] = 2, -2e38, 2e38
    window = rf.Jagged(4)
    x = rf.solve(a[..., None], u, axis=1, window=window)
    assert np.isfinite(x[:, :8]).all()  # the next block only sees what this one makes itself
    np.testing.assert_array_equal(computed(a, one, one, u, one, window)[2], x)
    # Cotangents are the same backward. They meet the coefficient of the step behind them.
    turned = np.roll(a[:, ::-1], 1, 1)
    np.testing.assert_array_equal(computed(turned, one, one, one, u[:, ::-1].copy(), window)[3], x[:, ::-1])


@windows
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_bits_of_the_mixer_of_arrays_are_those_of_a_product_a_solve_and_a_sum(window, dtype, rng):
    a, q, k, v = (rng.standard_normal(one.shape).astype(dtype) for one in operands(rng, 2, 37, 2, 2, 16)[:4])
    gates = [np.repeat(gate, 2, 2) for gate in (q, k)]
    expected = gates[0] * rf.solve(a[..., None], gates[1] * v, axis=1, window=window) + v
    np.testing.assert_array_equal(mixed(a, q, k, v, window), expected)
    np.testing.assert_array_equal(rf.phalanx(a, q, k, v, window=window), expected)
    np.testing.assert_array_equal(
        mixed(a[:, :1], q, k, v, window), mixed(np.broadcast_to(a[:, :1], a.shape), q, k, v, window)
    )


def test_what_no_kernel_has_is_left_to_others(rng):
    a, q, k, v = operands(rng, 2, 37, 2, 2, 8)[:4]
    assert mixed(a, q, k, v, rf.Jagged(4)) is not None
    for window in (rf.Uniform(3), rf.Jagged(4, 2)):
        assert mixed(a, q, k, v, window) is None
    assert mixed(a, q, k, v[..., ::-1], rf.Jagged(4)) is None
    assert mixed(a.astype("float32"), q, k, v, rf.Jagged(4)) is None
    assert mixed(a, q[:, :, :1].copy(), k, v, rf.Jagged(4)) is None
    assert mixed(a, q, k, v.astype("float16"), rf.Jagged(4)) is None
    assert mixed(a[:, :0], q[:, :0], k[:, :0], v[:, :0], rf.Jagged(4)) is None
    a, q, k, v = operands(rng, 2, 37, 2, 2, 7)[:4]
    assert mixed(a, q, k, v, rf.Jagged(4)) is None
