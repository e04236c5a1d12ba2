"""B2P in mixed precision: against scalars, its bound, and the closed form of that."""

from fractions import Fraction

import numpy as np
import pytest

from recfact.errors import OptionError
from recfact.precision import exact
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.bounds import forward_bound
from recfact.precision.counts import cast_counts, factor_counts
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.run import rounded_solve
from recfact.precision.verification.case_families import FAMILIES, draw
from recfact.windows import Full, Jagged, Uniform

NARROW = ["binary16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
MIXED = "mixed-precision"
CASTS = [(), ("L",), ("g", "v"), ("L", "g", "v")]


def by_scalars(a, u, fmt, block, casts, fma):
    """B2P on Fractions, block by block and number by number."""
    wide = FORMATS["binary32"].round
    store = {name: fmt.round if name in casts else (lambda x: x) for name in "Lgv"}

    def plus_product(x, y, z):
        return wide(x * y + z) if fma else wide(wide(x * y) + z)

    states, carrier = [], None
    for start in range(0, len(u), block):
        own, inputs = a[start : start + block], u[start : start + block]
        steps = range(len(inputs))
        local = []
        for k in steps:
            total = None
            for j in range(k + 1):
                weight = own[j + 1] if j < k else None
                for i in range(j + 2, k + 1):
                    weight = wide(weight * own[i])
                if k - j > 1:
                    weight = store["L"](weight)
                if total is None:
                    total = inputs[j] if j == k else wide(weight * inputs[j])
                else:
                    total = wide(total + inputs[j]) if j == k else plus_product(weight, inputs[j], total)
            local.append(total)
        if carrier is not None:
            weight, weights = own[0], [own[0]]
            for coefficient in own[1:]:
                weight = wide(weight * coefficient)
                weights.append(store["g"](weight))
            states += [plus_product(g, carrier, w) for g, w in zip(weights, local, strict=True)]
        else:
            states += local
        carrier = store["v"](local[-1])
    return [fmt.round(x) for x in states]


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("casts", CASTS, ids=repr)
@pytest.mark.parametrize("fma", [False, True])
def test_number_by_number(name, casts, fma):
    fmt = FORMATS[name]
    a, u = draw("gates", fmt, 11, 2, seed=3)
    x = rounded_solve(a, u, Arithmetic(fmt, fma=fma), MIXED, window=Jagged(4), casts=casts, axis=0)
    for c in range(2):
        own = ([Fraction(value) for value in values[:, c].tolist()] for values in (a, u))
        assert [Fraction(value) for value in x[:, c].tolist()] == by_scalars(*own, fmt, 4, casts, fma)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize(
    ("window", "rounding", "underflow"),
    [
        (Jagged(4), "nearest-even", "gradual"),
        (Jagged(3, 2), "toward-zero", "flush-after"),
        (Full(), "up", "flush-before"),
    ],
    ids=str,
)
def test_errors_are_within_their_bounds(name, family, window, rounding, underflow):
    fmt = FORMATS[name]
    a, u = draw(family, fmt, 13, 40, seed=8)
    for casts in CASTS:
        how, options = Arithmetic(fmt, rounding=rounding, underflow=underflow), {"window": window, "casts": casts}
        with np.errstate(all="ignore"):
            x = rounded_solve(a, u, how, MIXED, axis=0, **options)
        bound = forward_bound(a, u, how, MIXED, axis=0, **options)
        reference = exact.solve(a, u, window, axis=0)
        # Below half of the largest number nothing that was stored can have been out of range.
        safe = np.cumsum(~(np.abs(x) < float(fmt.max) / 4), axis=0) == 0
        for at in zip(*np.nonzero(safe), strict=True):
            largest = max((abs(Fraction(value)) for value in reference[: at[0] + 1, at[1]].tolist()), default=0)
            if largest < fmt.max / 4 and np.abs(a[:, at[1]]).max() <= 1:
                assert abs(Fraction(x[at]) - Fraction(reference[at])) <= Fraction(bound[at])


@pytest.mark.parametrize("casts", CASTS, ids=repr)
@pytest.mark.parametrize("name", ["binary16", "bfloat16"])
def test_the_bound_is_the_sum_with_counted_factors(name, casts, rng):
    fmt, window, n = FORMATS[name], Jagged(4), 20
    a, u = fmt.round(rng.uniform(0.5, 1, (2, n)))
    bound = forward_bound(a, u, fmt, MIXED, window=window, casts=casts)
    inner, outer = factor_counts("materialized", n, window=window), cast_counts(n, window=window, casts=casts)
    unit_inner, unit_outer = Fraction(1, 2**24), Fraction(fmt.unit_roundoff)
    closed, upward = [], (1 + 2.0**-48) ** (3 * n)  # a product, a sum and a cast a step are rounded up
    for i in range(n):
        weight, total, coarse = Fraction(1), Fraction(0), Fraction(0)
        for j in range(i, -1, -1):
            if inner[i, j] >= 0:
                factor = (1 + unit_inner) ** int(inner[i, j]) * (1 + unit_outer) ** int(outer[i, j])
                total += weight * Fraction(u[j]) * (factor - 1)
                gamma = (i - j + 4) * unit_inner / (1 - (i - j + 4) * unit_inner)
                most = int(outer[i, j])
                coarse += weight * Fraction(u[j]) * (most * unit_outer + gamma) * (1 + unit_outer) ** most
            weight *= Fraction(a[j])
        assert abs(bound[i] / float(total) - 1) <= upward - 1
        closed.append(float(coarse))
    assert np.all(bound <= np.array(closed) * upward)


def test_without_casts_in_a_single_block_only_the_states_are_narrow(rng):
    fmt = FORMATS["bfloat16"]
    a, u = fmt.round(rng.uniform(0.5, 1, (2, 9)))
    x = rounded_solve(a, u, fmt, MIXED, window=Jagged(9), casts=())
    wide = rounded_solve(a, u, "float32", "materialized", window=Jagged(9))
    np.testing.assert_array_equal(x, fmt.round(wide))


def test_underflow_of_what_is_stored_is_in_the_bound():
    # The product 2^-24 of 2^-12 and 2^-12 is kept by float16, that with 1/2 is not: its input is lost.
    a, u = np.array([1, 2.0**-12, 2.0**-12, 0.25]), np.array([2.0**15, 0, 0, 0])
    x = rounded_solve(a, u, "float16", MIXED, window=Jagged(4))
    assert x[3] == 0
    assert 2.0**-11 <= forward_bound(a, u, "float16", MIXED, window=Jagged(4))[3] <= 2.0**-9


def test_initial_state_and_channels():
    a, u = np.full((5, 1), 0.5), np.zeros((1, 2))
    x = rounded_solve(a, u, "bfloat16", MIXED, window=Jagged(2), x0=[2.0, 4.0], axis=0)
    np.testing.assert_array_equal(x, [[1, 2], [0.5, 1], [0.25, 0.5], [0.125, 0.25], [0, 0]])
    assert forward_bound(a, u, "bfloat16", MIXED, window=Jagged(2), x0=[2.0, 4.0], axis=0).shape == (5, 2)


@pytest.mark.parametrize("n", [0, 1])
def test_shortest(n):
    assert rounded_solve(np.ones(n), np.ones(n), "float16", MIXED).tolist() == [1.0] * n
    assert forward_bound(np.ones(n), np.ones(n), "float16", MIXED).shape == (n,)


def test_what_it_refuses():
    for call in (rounded_solve, forward_bound):
        with pytest.raises(OptionError, match="casts must be"):
            call([1], [1], "float16", MIXED, casts=("x",))
        with pytest.raises(OptionError, match="accumulate must be a format that holds"):
            call([1], [1], Arithmetic("float16", accumulate="bfloat16"), MIXED)
        # Sums of 480 and of its negative are NaN in this one.
        with pytest.raises(OptionError, match="accumulate must be a format that holds"):
            call([1], [1], Arithmetic(FloatFormat.from_bits(4, 3, nan="none"), accumulate="float8_e4m3fn"), MIXED)
        with pytest.raises(OptionError, match="accumulate must be a format that holds"):
            call([1], [1], "float64", MIXED)
        with pytest.raises(OptionError, match="window must be full or jagged"):
            call([1], [1], "float16", MIXED, window=Uniform(2))
