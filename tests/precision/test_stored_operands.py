"""Coefficients and inputs that are stored in another format than states, one of blocks above all."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import recfact as rf
from recfact import precision as pr
from recfact.errors import OptionError

WAYS = [("sequential", rf.Full()), ("brent-kung", rf.Full()), ("b2p", rf.Jagged(8)), ("mixed-precision", rf.Jagged(8))]


def gates(rng, *shape):
    return rng.uniform(0.3, 0.999, shape), rng.standard_normal(shape)


def exact_states(a, u):
    x, found = Fraction(0), []
    for weight, own in zip(a.tolist(), u.tolist(), strict=True):
        x = Fraction(weight) * x + Fraction(own)
        found.append(x)
    return found


@pytest.mark.parametrize(("algorithm", "window"), WAYS)
@pytest.mark.parametrize("name", pr.BLOCK_FORMATS)
def test_states_are_those_of_what_is_stored(name, algorithm, window, rng):
    a, u = gates(rng, 3, 70)
    fmt, options = pr.block_format(name), {"algorithm": algorithm, "window": window, "x0": np.ones(3)}
    stored = [pr.format("binary32").round(fmt.round(values.T, axis=0).T) for values in (a, u)]
    expected = pr.rounded_solve(*stored, "binary32", **options)
    np.testing.assert_array_equal(pr.rounded_solve(a, u, name, **options), expected)
    np.testing.assert_array_equal(pr.rounded_solve(a, u, fmt, **options), expected)
    np.testing.assert_array_equal(pr.running_bound(a, u, name, **options)[0], expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rounding", ["nearest-even", "toward-zero", "stochastic"])
@pytest.mark.parametrize("name", [*pr.BLOCK_FORMATS, "float8_e4m3fn"])
def test_bounds_are_those_of_the_given_numbers(name, rounding, rng):
    a, u = gates(rng, 60)
    exact = exact_states(a, u)
    for how in (
        pr.Arithmetic("binary32", operands=name, rounding=rounding),
        pr.Arithmetic("bfloat16", operands=name, rounding=rounding),
        pr.Arithmetic("bfloat16", accumulate="binary32", operands=name, fma=True, rounding=rounding),
    ):
        x, running = pr.running_bound(a, u, how)
        forward = pr.forward_bound(a, u, how)
        errors = [abs(Fraction(got) - real) for got, real in zip(x.tolist(), exact, strict=True)]
        assert all(e <= Fraction(b) for e, b in zip(errors, running.tolist(), strict=True))
        assert all(e <= Fraction(b) for e, b in zip(errors, forward.tolist(), strict=True))
        assert max(map(float, errors)) > 2.0**-8  # most of it is lost in storing
        assert np.all(pr.forward_bound(how.stored(a), how.stored(u), replace(how, operands=None)) < forward)


@pytest.mark.parametrize(("algorithm", "window"), WAYS)
@pytest.mark.parametrize("name", pr.BLOCK_FORMATS)
def test_verify_holds_and_says_what_storing_changed(name, algorithm, window, rng):
    a, u = gates(rng, 2, 40)
    v = pr.verify(a, u, format=name, algorithm=algorithm, window=window, x0=[1.0, 2.0])
    assert v.holds
    assert str(v.arithmetic) == f"binary32, operands={name}"
    np.testing.assert_array_equal(v.x, pr.rounded_solve(a, u, name, algorithm, window=window, x0=[1.0, 2.0]))
    stored = [v.arithmetic.stored(values.T) for values in (a, u)]
    assert v.inputs_changed == sum(np.count_nonzero(s != g.T) for s, g in zip(stored, (a, u), strict=True))
    assert f"inputs were rounded to {name} first" in str(v)
    assert v.to_dict()["options"] == {"operands": name}


def test_segments_are_stored_by_themselves(rng):
    a, u = gates(rng, 50)
    u[3] = 1e6  # makes the scale of its block, and of its segment
    for name in ("mxfp4", "nvfp4"):
        together = pr.rounded_solve(a, u, name, offsets=[0, 10, 50])
        np.testing.assert_array_equal(together[10:], pr.rounded_solve(a[10:], u[10:], name))
        v = pr.verify(a, u, format=name, offsets=[0, 10, 50])
        np.testing.assert_array_equal(v.x, together)
        assert v.holds


def test_blocks_lie_along_time_whatever_its_axis(rng):
    a, u = gates(rng, 40, 3)
    np.testing.assert_array_equal(pr.rounded_solve(a, u, "mxfp4", axis=0), pr.rounded_solve(a.T, u.T, "mxfp4").T)
    np.testing.assert_array_equal(
        pr.rounded_solve(0.97, u.T, "mxfp4"), pr.rounded_solve(np.full(40, 0.75), u.T, "mxfp4")
    )


def test_exact_numbers_are_stored_once():
    a = [Fraction(1, 3)] * 40
    for how in (pr.Arithmetic("mxfp8 e4m3"), pr.Arithmetic("binary128", operands="mxfp8 e4m3")):
        v = pr.verify(a, [Fraction(1)] * 40, format=how)
        assert v.holds
        assert v.inputs_changed == 40
        assert v.x[1] == 1 + pr.block_format("mxfp8_e4m3").round([1 / 3])[0]


def test_a_flush_a_saturation_and_a_nan_are_as_elsewhere(rng):
    a, u = gates(rng, 40)
    how = pr.Arithmetic("binary16", operands="mxfp8_e5m2", underflow="flush-after")
    assert pr.verify(a, u * 2.0**-13, format=how).holds
    with pytest.raises(OptionError, match="u must hold finite numbers"):
        pr.verify(a, np.where(u > 1, np.inf, u), format="mxfp4")
    assert np.isnan(pr.rounded_solve(a, np.where(np.arange(40) == 35, np.nan, u), "mxfp4")).tolist() == (
        [False] * 32 + [True] * 8
    )


@pytest.mark.parametrize("operands", ["mxfp4", "nvfp4", "float8_e4m3fn"])
@pytest.mark.parametrize("offsets", [None, [0, 3, 3, 20]])
def test_a_coefficient_that_channels_or_steps_share_changes_once(operands, offsets):
    how = pr.Arithmetic("binary32", operands=operands)
    for a in (np.full(20, 0.99), 0.99, [[0.99], [0.99], [0.0]], np.full((3, 20), 0.99)):
        v = pr.verify(a, np.zeros((3, 20)), format=how, offsets=offsets)
        assert v.inputs_changed == np.count_nonzero(np.asarray(a) == 0.99)


@pytest.mark.parametrize(
    ("operands", "bad", "message"),
    [
        ("mxfp4", np.nan, "range of binary32, .* got nan"),
        ("nvfp4", np.inf, "range of binary32, .* got inf"),
        ("mxfp8_e5m2", -np.inf, "range of binary32, .* got -inf"),
        ("float8_e4m3fn", 1000.0, "range of float8_e4m3fn, up to 448, got 1000.0"),
        ("float16", 1e6, "range of binary16, up to 65504, got 1000000.0"),
    ],
)
def test_the_number_that_cannot_be_stored_is_named(operands, bad, message):
    u = np.array([1.0, 2.0, bad, 3.0])
    with pytest.raises(OptionError, match=f"u must hold finite numbers in the {message}"):
        pr.verify(np.full(4, 0.5), u, format=pr.Arithmetic("binary32", operands=operands))


def test_options():
    how = pr.Arithmetic("bfloat16", operands="mxfp4")
    assert how == pr.Arithmetic("bfloat16", operands=pr.block_format("mxfp4")) != pr.Arithmetic("bfloat16")
    assert how.options == {"operands": pr.block_format("mxfp4")}
    with pytest.raises(OptionError, match="operands can't be given beside the format mxfp4"):
        pr.Arithmetic("mxfp4", operands="mxfp4")
    with pytest.raises(OptionError, match="format must be"):
        pr.Arithmetic("bfloat16", operands="mxfp5")


@pytest.mark.parametrize(
    "call",
    [
        lambda a: pr.verify(a, a, format="mxfp4", algorithm="engine"),
        lambda a: pr.engine_bound(a, a, "mxfp4"),
        lambda a: pr.backward_error_bound(a, a, a, "mxfp4"),
        lambda _: pr.verify_many("mxfp4", "sequential", rf.Jagged(4)),
        lambda a: pr.materialization_errors(a, format="mxfp4"),
        lambda a: pr.rounded_materialize(a, format="mxfp4"),
    ],
)
def test_what_does_not_store_operands_refuses_to(call):
    with pytest.raises(OptionError, match=r"operands|leave that out"):
        call(np.full(4, 0.5))
