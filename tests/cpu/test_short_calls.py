"""A call with two short arrays and no options gives the bits of every other call, and leaves all errors to it."""

import sys

import ml_dtypes
import numpy as np
import pytest

import recfact as rf
from recfact.cpu import limits
from recfact.cpu.short_calls import solve_short
from recfact.errors import RecfactError

TYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("special", [None, np.nan, np.inf, 0.0])
def test_the_bits_are_those_of_other_calls(rng, dtype, special):
    for n in [*range(1, 40), 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000, 4099]:
        a, u = rng.uniform(-1, 1, n).astype(dtype), rng.standard_normal(n).astype(dtype)
        if special is not None:
            rng.choice([a, u])[rng.integers(n)] = special
        expected = rf.solve(a, u, threads=1)
        found = solve_short(a, u, None)
        assert found.tobytes() == rf.solve(a, u).tobytes() == expected.tobytes()
        whole = np.full(n + 16, np.nan, dtype)
        out = whole[8:-8]
        assert solve_short(a, u, out) is out
        assert out.tobytes() == expected.tobytes()
        assert np.isnan(np.concatenate([whole[:8], whole[-8:]]).astype(float)).all()
        owned = np.empty(n, dtype)
        assert solve_short(a, u, owned) is owned
        assert owned.tobytes() == expected.tobytes()
        assert solve_short(a, u, u) is u
        assert u.tobytes() == expected.tobytes()


def test_other_arrays_are_left_to_others(rng, monkeypatch):
    a, u = rng.uniform(0.5, 1, (2, 40))
    out = np.full(40, np.nan)
    frozen = out.copy()
    frozen.flags.writeable = False
    both = np.zeros(60)
    own, other = np.full(40, 0.5), np.full(40, 0.5)  # they own their memory
    others = [
        (a[:, None], u[:, None]), (a[:1], u), (a[::2], u[::2]), (a[::-1], u[::-1]), (a[:0], u[:0]), (a.astype("f4"), u),
        (a.astype(">f8"), u.astype(">f8")), (a + 0j, u + 0j), (a.astype(object), u.astype(object)),
        (a.astype(int), u.astype(int)),
    ]  # fmt: skip
    for arrays in others:
        assert solve_short(*arrays, None) is None
    assert solve_short(a, u, np.zeros(80)[::2]) is None
    assert solve_short(a, both[10:50], both[10:50]) is None  # the same numbers as another array object
    assert solve_short(other, own[:], own) is None
    refused = [
        (a, u, frozen), (a, u, a), (a, u, out[:39]), (a, u, out.astype("f4")), (a, u, out[None]), (a, u, [0.0] * 40),
        (both[10:50], u, both[:40]), (both[:40], u, both[10:50]), (a, both[10:50], both[:40]),
        (a, both[:40], both[1:41]), (own, other, own), (own, own, own),
        (own[:], other, own), (own, other, own[:]),
    ]  # fmt: skip
    for *arrays, place in refused:
        assert solve_short(*arrays, place) is None
        with pytest.raises(RecfactError):
            rf.solve(*arrays, out=place)
    assert np.isnan(out).all()
    monkeypatch.setattr(limits, "STREAMED_ROWS", 320)
    assert solve_short(a, u, None) is None
    monkeypatch.setattr(limits, "STREAMED_ROWS", 321)
    assert solve_short(a, u, None) is not None
    monkeypatch.setattr(limits, "WORTH_THREADS", 20)
    assert solve_short(a, u, None) is None


def test_a_plain_call_takes_this_way_and_an_option_another(rng, monkeypatch):
    def refuse(*_given):
        raise AssertionError("another way")

    a, u = rng.uniform(0.5, 1, (2, 40))
    expected = rf.solve(a, u, threads=1)
    monkeypatch.setattr(sys.modules["recfact.solve"], "prepare", refuse)
    assert np.array_equal(rf.solve(a, u), expected)
    for option in ({"threads": 1}, {"x0": 1.0}, {"reverse": True}, {"window": "full"}, {"axis": 0}, {"states": 1}):
        with pytest.raises((AssertionError, RecfactError)):
            rf.solve(a, u, **option)
