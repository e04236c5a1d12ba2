"""Every proved bound where numbers are smallest: results that round to the smallest normal number, and below it."""

from fractions import Fraction
from functools import cache
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from overflow import overflows
from samples import one_in

import recfact as rf
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.bounds import forward_bound, running_bound
from recfact.precision.conditioning import backward_error, backward_error_bound
from recfact.precision.counts import counted_bounds, engine_bound, factor_counts
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.formats.rounding import ROUNDINGS, UNDERFLOWS
from recfact.precision.run import rounded_solve
from recfact.recurrence import first_kept_rows
from recfact.windows import Full, Jagged, Uniform

of_bits = FloatFormat.from_bits
TINY = {
    "subnormals": of_bits(2, 1),
    "no subnormals": of_bits(2, 1, subnormals=False),
    "negative zero is NaN": of_bits(2, 1, nan="negative-zero", subnormals=False),
    "no fraction": of_bits(2, 0, nan="none"),
    "no fraction, 1 is large": of_bits(2, 0, bias=3, subnormals=False),
    "no zero": of_bits(2, 1, zero=False, nan="none"),
    "no zero, infinities": of_bits(2, 1, zero=False),
    "no sign": of_bits(2, 1, signed=False, subnormals=False),
    "no sign, no zero": of_bits(3, 1, signed=False, zero=False),
    "subnormals alone": of_bits(1, 2),
    "subnormals and a binade": of_bits(1, 2, nan="none"),
    "1 is small": of_bits(2, 1, bias=-1),
    "1 is large": of_bits(2, 1, bias=3, subnormals=False),
    "three bits of exponent": of_bits(3, 0, subnormals=False),
}
MADE = [
    ("sequential", Full()), ("sequential", Uniform(2)), ("kogge-stone", Full()), ("brent-kung", Full()),
    ("b2p", Jagged(2)), ("hierarchical", Jagged(1, 2)), ("materialized", Jagged(2)),
]  # fmt: skip
MOST = 1 << 12  # sequences that are tried at once


def underflows(fmt):
    return UNDERFLOWS if fmt.zero else ("gradual",)


@cache
def every_sequence(fmt):
    """Return all sequences of two steps or more, as many as stay few, and a step at random behind each."""
    numbers, rng = fmt.values(), np.random.default_rng(1)
    n = 2
    while len(numbers) ** (2 * n + 1) <= MOST:
        n += 1
    assert len(numbers) ** (2 * n - 1) <= MOST
    columns = np.array(list(product(numbers, repeat=2 * n - 1))).T
    a, u, drawn = columns[: n - 1], columns[n - 1 :], rng.choice(numbers, (3, columns.shape[1]))
    return np.concatenate([drawn[:1], a, drawn[1:2]]), np.concatenate([u, drawn[2:]])


def states(a, u, window):
    """Return the states by the definition; float64 holds all of these small ones."""
    x, first = np.zeros(u.shape), first_kept_rows(len(u), window)
    for i in range(len(u)):
        for j in range(first[i], i + 1):
            x[i] += np.prod(a[j + 1 : i + 1], axis=0) * u[j]
    return x


def assert_holds(error, bound, held):
    broken = np.argwhere(held & ~(error <= bound))
    assert not len(broken), f"{len(broken)} errors pass their bounds, the first at {broken[0]}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fma", [False, True])
@pytest.mark.parametrize("name", one_in(2, TINY))
def test_bounds_hold_for_every_sequence_of_a_tiny_format(name, fma):
    fmt = TINY[name]
    a, u = every_sequence(fmt)
    for algorithm, window in MADE:
        exact = states(a, u, window)
        _, counted = counted_bounds(a, u, factor_counts(algorithm, len(u), window=window, fma=fma), fmt)
        for rounding, underflow in product(ROUNDINGS, underflows(fmt)):
            how = Arithmetic(fmt, None, fma, rounding, underflow, seed=1)
            x, running = running_bound(a, u, how, algorithm, window=window, axis=0)
            held = np.isfinite(x) & ~overflows(a, u, how, algorithm, window=window)
            error = np.abs(x - exact)
            assert_holds(error, running, held)
            assert_holds(error, forward_bound(a, u, how, algorithm, window=window, axis=0), held)
            if (rounding, underflow) == ("nearest-even", "gradual"):
                assert_holds(error, counted, held)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fma", [False, True])
@pytest.mark.parametrize("name", one_in(2, TINY))
def test_backward_errors_hold_for_every_step_of_a_tiny_format(name, fma):
    fmt = TINY[name]
    a, u, before = np.array(list(product(fmt.values(), repeat=3))).T
    a, u = np.stack([a, a]), np.stack([before, u])
    for rounding, underflow in product(ROUNDINGS, underflows(fmt)):
        how = Arithmetic(fmt, None, fma, rounding, underflow, seed=1)
        x = rounded_solve(a, u, how, axis=0)
        held = (np.isfinite(x) & ~overflows(a, u, how)).all(axis=0)
        # Steps of one product, input and state have one backward error.
        steps = np.flatnonzero(held)
        kinds = np.stack([a[1] * u[0], u[1], x[1]])[:, steps]
        steps = steps[np.unique(kinds, axis=1, return_index=True)[1]]
        step = a[:, steps], u[:, steps], x[:, steps]
        assert_holds(backward_error(*step, axis=0).relative, backward_error_bound(*step, how, axis=0), True)


WIDER = [of_bits(3, 2), of_bits(3, 2, bias=4, subnormals=False), of_bits(4, 4, subnormals=False)]
"""Formats for products and sums that have ends of their own."""

CASTS = [(), ("L", "v"), ("L", "g", "v")]


MIXED = "mixed-precision"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("algorithm", "window"), [*MADE, *((MIXED, w) for w in (Jagged(2), Jagged(1, 2), Full()))], ids=str
)
@pytest.mark.parametrize("wide", WIDER, ids=repr)
@pytest.mark.parametrize("name", TINY)
def test_bounds_in_two_formats_hold_for_every_sequence_of_a_tiny_one(name, wide, algorithm, window):
    fmt = TINY[name]
    if algorithm == MIXED and not wide.holds(fmt):
        pytest.skip("the wider format doesn't hold the other one's numbers")
    a, u = (values[:, ::3] for values in every_sequence(fmt))
    exact = states(a, u, window)
    for number, (rounding, underflow) in enumerate(product(ROUNDINGS, underflows(fmt))):
        how = Arithmetic(fmt, wide, number % 2 == 0, rounding, underflow, seed=1)
        for options in [{"casts": casts} for casts in CASTS] if algorithm == MIXED else [{}]:
            options |= {"window": window}
            x, running = running_bound(a, u, how, algorithm, axis=0, **options)
            if algorithm == MIXED:
                np.testing.assert_array_equal(x, rounded_solve(a, u, how, algorithm, axis=0, **options))
            held = np.isfinite(x) & ~overflows(a, u, how, algorithm, **options)
            error = np.abs(x - exact)
            assert_holds(error, running, held)
            assert_holds(error, forward_bound(a, u, how, algorithm, axis=0, **options), held)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [Full(), Jagged(3), Jagged(2, 2), Uniform(3)], ids=str)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_the_engine_where_numbers_are_smallest(dtype, window, rng):
    fmt = format_of(dtype)
    smallest, units = float(fmt.smallest_normal), float(fmt.smallest_subnormal)
    shape = 7, 40
    # Products and sums that come out around the smallest normal number, in one step or in several.
    near = smallest * rng.uniform(0.25, 4, shape) * rng.choice([-1, 1], shape)
    few = units * rng.integers(-3, 4, shape)
    u = fmt.round(np.where(rng.random(shape) < 0.5, near, few))
    a = fmt.round(rng.choice([1.0, -1.0, 0.5, 0.75, 1.5, 0.0, smallest, 2.0**-9], shape))
    for c in range(shape[1]):
        own = a[:, c].astype(dtype), u[:, c].astype(dtype)
        x = rf.solve(*own, window=window).astype(np.float64)
        bound = engine_bound(a[:, c], u[:, c], fmt, window=window)
        first = first_kept_rows(len(x), window)
        for i, state in enumerate(x):
            exact = Fraction(0)
            for j in range(first[i], i + 1):
                exact = (exact if j == first[i] else Fraction(a[j, c]) * exact) + Fraction(u[j, c])
            assert abs(Fraction(state) - exact) <= Fraction(bound[i])
