"""Algorithms with every operation rounded, against the same operations on exact fractions."""

from dataclasses import replace
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from overflow import overflows

from recfact.algorithms import BLOCK
from recfact.errors import DTypeError, OptionError, RecfactError, ShapeError
from recfact.precision.arithmetic import Arithmetic, Rounded
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.run import ALGORITHMS, NATIVE, Task, rounded_solve
from recfact.precision.verification.case_families import FAMILIES, draw
from recfact.recurrence import first_kept
from recfact.windows import Full, Jagged, Uniform

WINDOWS = [Full(), Uniform(1), Uniform(3), Uniform(99), Jagged(1), Jagged(3), Jagged(2, 0), Jagged(2, 2), Jagged(99)]


class Scalars:
    """The recurrence on single numbers of a format, operation by operation."""

    def __init__(self, fmt, rounding="nearest-even", fma=False):
        self.fmt, self.rounding, self.fma = fmt, rounding, fma

    def round(self, value):
        return self.fmt.round(value, self.rounding)

    def step(self, a, x, u):
        return self.round(a * x + u) if self.fma else self.round(self.round(a * x) + u)

    def windowed(self, a, u, window):
        states = []
        for i in range(len(u)):
            j = first_kept(i, window)
            x = u[j]
            for k in range(j + 1, i + 1):
                x = self.step(a[k], x, u[k])
            states.append(x)
        return states

    def kogge_stone(self, a, u):
        v, f, lag = list(u), list(a), 1
        while lag < len(v):
            v, f = (
                [self.step(f[i], v[i - lag], v[i]) if i >= lag else v[i] for i in range(len(v))],
                [self.round(f[i] * f[i - lag]) if i >= 2 * lag else f[i] for i in range(len(v))],
            )
            lag *= 2
        return v

    def hierarchical(self, a, u, block, terms):
        blocks = [range(start, min(start + block, len(u))) for start in range(0, len(u), block)]
        local, weights = [], []
        for rows in blocks:
            local.append(self.windowed([a[i] for i in rows], [u[i] for i in rows], Full()))
            products = [a[rows[0]]]
            for i in rows[1:]:
                products.append(self.round(products[-1] * a[i]))
            weights.append(products)
        states = []
        for t in range(len(blocks)):
            if t == 0 or terms == 0:
                states += local[t]
                continue
            first = 0 if terms is None else max(0, t - terms)
            carrier = local[first][-1]
            for s in range(first + 1, t):
                carrier = self.step(weights[s][-1], carrier, local[s][-1])
            states += [self.step(g, carrier, w) for g, w in zip(weights[t], local[t], strict=True)]
        return states


def exact(values):
    return [Fraction(value) for value in values.tolist()]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fma", [False, True])
@pytest.mark.parametrize("name", ["binary16", "bfloat16", "float8_e4m3fn", "binary32", "tf32"])
def test_every_operation_is_rounded_once(name, fma):
    fmt = FORMATS[name]
    for family in ("gates", "uniform", "denormal", "zeros"):
        a, u = draw(family, fmt, 11, 3, seed=5)
        scalars = Scalars(fmt, fma=fma)
        for window in WINDOWS:
            x = rounded_solve(a, u, Arithmetic(fmt, fma=fma), window=window, axis=0)
            for c in range(3):
                assert exact(x[:, c]) == scalars.windowed(exact(a[:, c]), exact(u[:, c]), window)
        x = rounded_solve(a, u, Arithmetic(fmt, fma=fma), "kogge-stone", axis=0)
        blocks = [(Full(), BLOCK, None), (Jagged(3), 3, 1), (Jagged(4, 2), 4, 2), (Jagged(4, 0), 4, 0)]
        for c in range(3):
            own = exact(a[:, c]), exact(u[:, c])
            assert exact(x[:, c]) == scalars.kogge_stone(*own)
            for window, block, terms in blocks:
                y = rounded_solve(a[:, c], u[:, c], Arithmetic(fmt, fma=fma), "hierarchical", window=window)
                assert exact(y) == scalars.hierarchical(*own, block, terms)


@pytest.mark.parametrize("fma", [False, True])
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn"])
def test_carriers_go_on_from_block_to_block(name, fma):
    fmt, n = FORMATS[name], 2 * BLOCK + 13
    a, u = draw("gates", fmt, n, 2, seed=6)
    x = rounded_solve(a, u, Arithmetic(fmt, fma=fma), "hierarchical", axis=0)
    for c in range(2):
        assert exact(x[:, c]) == Scalars(fmt, fma=fma).hierarchical(exact(a[:, c]), exact(u[:, c]), BLOCK, None)


@pytest.mark.parametrize("rounding", ["nearest-away", "toward-zero", "up", "down"])
def test_other_roundings(rounding):
    fmt = FORMATS["bfloat16"]
    a, u = draw("uniform", fmt, 9, 1, seed=1)
    x = rounded_solve(a, u, Arithmetic(fmt, rounding=rounding), axis=0)
    assert exact(x[:, 0]) == Scalars(fmt, rounding).windowed(exact(a[:, 0]), exact(u[:, 0]), Full())


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_the_loop_in_the_type_itself(dtype, rng):
    a, u = rng.uniform(-1, 1, 60).astype(dtype), rng.standard_normal(60).astype(dtype)
    x = [u[0]]
    for i in range(1, 60):
        x.append(dtype(dtype(a[i] * x[-1]) + u[i]))
    np.testing.assert_array_equal(rounded_solve(a, u, dtype), np.array(x, dtype=np.float64))


RUNS = {
    "sequential": Full(),
    "kogge-stone": Full(),
    "brent-kung": Full(),
    "hierarchical": Jagged(7, 2),
    "b2p": Jagged(7),
    "materialized": Jagged(7),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("algorithm", RUNS)
@pytest.mark.parametrize("fmt", NATIVE, ids=str)
def test_native_types_are_bitwise_the_same(fmt, algorithm):
    by_hand = Rounded(fmt, Arithmetic(fmt))
    by_hand.native = None
    task = Task.of(fmt, algorithm, RUNS[algorithm])
    for family in FAMILIES:
        a, u = draw(family, fmt, 40, 6, seed=9)
        (expected,) = task.run(by_hand, by_hand, [(a, u, None)])
        for own, inputs, found in ((a, u, expected), (a[:, 0], u[:, 0], expected[:, 0])):
            x = task.states([(own, inputs, None)])
            np.testing.assert_array_equal(x, found)
            np.testing.assert_array_equal(np.signbit(x) & ~np.isnan(x), np.signbit(found) & ~np.isnan(x))


@pytest.mark.parametrize("fmt", [fmt for fmt in NATIVE if fmt.bits <= 8], ids=str)
def test_native_products_and_sums_of_all_pairs_are_bitwise_the_same(fmt):
    numbers = np.arange(1 << fmt.bits, dtype=np.uint8).view(NATIVE[fmt])
    by_hand, pairs = Rounded(fmt, Arithmetic(fmt)), np.meshgrid(numbers, numbers)
    x, y = ((values.astype(np.float64),) for values in pairs)
    with np.errstate(all="ignore"):
        for found, (expected,) in (
            (np.multiply(*pairs), by_hand.multiply(x, y)),
            (np.add(*pairs), by_hand.add(x, y)),
        ):
            got = found.astype(np.float64)
            np.testing.assert_array_equal(got, expected)
            np.testing.assert_array_equal(np.signbit(got) & ~np.isnan(got), np.signbit(expected) & ~np.isnan(got))


def test_operands_that_the_inner_format_does_not_hold_are_rounded_once():
    how = Arithmetic("binary64", accumulate="bfloat16")
    just_above = 1 + 2.0**-8 + 2.0**-40  # rounds up, but not by way of float32, where it becomes a tie
    assert rounded_solve([0.0], [just_above], how)[0] == 1 + 2.0**-7


@pytest.mark.parametrize("exponent", [8, 11])
def test_formats_without_subnormals_are_not_those_of_numpy(exponent):
    fmt = FloatFormat.from_bits(exponent, {8: 23, 11: 52}[exponent], subnormals=False)
    a, u = [1.0, 0.5], [float(fmt.smallest_normal), 0.0]
    assert rounded_solve(a, u, fmt)[1] in (0, u[0])


def test_accumulation_in_a_wider_format(rng):
    a, u = (FORMATS["bfloat16"].round(rng.uniform(0, 1, 50)) for _ in range(2))
    inside = rounded_solve(a, u, "float32")
    x = rounded_solve(a, u, Arithmetic("bfloat16", accumulate="float32"))
    np.testing.assert_array_equal(x, FORMATS["bfloat16"].round(inside))
    assert np.any(x != rounded_solve(a, u, "bfloat16"))
    inside = rounded_solve(a, u, Arithmetic("tf32", fma=True))
    x = rounded_solve(a, u, Arithmetic("bfloat16", accumulate="tf32", fma=True))
    np.testing.assert_array_equal(x, FORMATS["bfloat16"].round(inside))
    assert np.any(x != inside)


def test_initial_state_is_folded():
    np.testing.assert_array_equal(rounded_solve([2.0, 0.5], [1.0, 1.0], "float16", x0=3), [7, 4.5])
    x = rounded_solve(np.full((4, 2), 0.5), np.zeros((4, 1)), "float16", window=Uniform(2), x0=[4.0, 8.0], axis=0)
    np.testing.assert_array_equal(x, [[2, 4], [1, 2], [0, 0], [0, 0]])


def test_flushed_underflow():
    a, u = [1.0, 2.0**-10, 2.0**-10], [1.0, 0.0, 0.0]
    assert rounded_solve(a, u, "float16").tolist() == [1, 2.0**-10, 2.0**-20]
    assert rounded_solve(a, u, Arithmetic("float16", underflow="flush-after")).tolist() == [1, 2.0**-10, 0]


@pytest.mark.parametrize("fma", [False, True])
@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "mixed-precision"])
def test_what_no_overflow_reaches_is_the_same_with_more_exponents(algorithm, fma):
    fmt = FloatFormat.from_bits(4, 3, nan="none")
    wide = replace(fmt, exponent_bits=9)
    a, u = draw("codes", fmt, 9, 300, seed=4)
    window = Jagged(4) if algorithm == "b2p" else Full()
    lost = overflows(a, u, Arithmetic(fmt, fma=fma), algorithm, window=window)
    x, y = (rounded_solve(a, u, Arithmetic(kind, fma=fma), algorithm, window=window, axis=0) for kind in (fmt, wide))
    assert np.abs(y).max() < 2.0**100
    np.testing.assert_array_equal(x[~lost], y[~lost])
    assert np.mean(x[lost] != y[lost]) > 0.5


def test_an_overflow_that_is_multiplied_by_0_is_gone():
    a, u = [1, 1, 0, 1], [4, 4, 1, 1]
    for fma in (False, True):
        assert overflows(a, u, Arithmetic("float4_e2m1fn", fma=fma)).tolist() == [False, True, False, False]


def test_directed_roundings_hide_overflows():
    a, u = np.ones(3), np.full(3, 30000.0)
    assert rounded_solve(a, u, Arithmetic("float16", rounding="down")).tolist() == [30000, 60000, 65504]
    assert overflows(a, u, Arithmetic("float16", rounding="down")).tolist() == [False, False, True]


def test_stochastic_rounding_is_seeded():
    a, u = np.full(40, 0.9), np.ones(40)
    first, again, other = (
        rounded_solve(a, u, Arithmetic("bfloat16", rounding="stochastic", seed=s)) for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


def test_wide_formats_are_exact_scalars():
    x = rounded_solve([Fraction(1, 2)] * 3, [Fraction(1), Fraction(0), Fraction(1)], "binary128")
    assert x.tolist() == [1, Fraction(1, 2), Fraction(5, 4)]


@pytest.mark.parametrize("n", [0, 1])
def test_shortest(n):
    for window in WINDOWS:
        assert rounded_solve(np.ones(n), np.ones(n), "float16", window=window).tolist() == [1.0] * n


def test_what_it_refuses():
    with pytest.raises(OptionError, match="algorithm must be one of"):
        rounded_solve([1], [1], "float16", "quicksort")
    with pytest.raises(OptionError, match="window must be one that algorithm"):
        rounded_solve([1], [1], "float16", "brent-kung", window=Uniform(2))
    with pytest.raises(ShapeError, match="broadcast"):
        rounded_solve([1, 2], [1, 2, 3], "float16")
    with pytest.raises(ShapeError, match="x0 must broadcast"):
        rounded_solve([1, 2], [1, 2], "float16", x0=[1, 2])
    with pytest.raises(DTypeError, match="real numbers"):
        rounded_solve([1j], [1], "float16")
    with pytest.raises(TypeError, match="window must be"):
        rounded_solve([1], [1], "float16", window=3)


@pytest.mark.parametrize("bad", [["x"], [1j], [None], "text", {}, [[1], [1, 2]], (i for i in range(3))])
def test_what_is_no_real_number_is_refused(bad):
    with pytest.raises((TypeError, ValueError)) as caught:
        rounded_solve(np.array(bad, dtype=object) if isinstance(bad, list) and len(bad) == 1 else bad, [1.0], "float32")
    assert isinstance(caught.value, RecfactError)


def test_numbers_beyond_a_format_become_infinite_without_a_warning():
    assert rounded_solve([0.5], [1.7e308], "float32").tolist() == [np.inf]
