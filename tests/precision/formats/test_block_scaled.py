"""Block-scaled formats against the text of OCP MX 1.0 and NVIDIA's recipe, written out in Fractions, and ml_dtypes."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from recfact import precision as pr
from recfact.errors import DTypeError, OptionError, ShapeError

MX = [name for name in pr.BLOCK_FORMATS if name.startswith("mx")]
MX_FLOATS = [name for name in MX if name != "mxint8"]
ML_DTYPES = {
    "mxfp8_e5m2": ml_dtypes.float8_e5m2,
    "mxfp8_e4m3": ml_dtypes.float8_e4m3fn,
    "mxfp6_e3m2": ml_dtypes.float6_e3m2fn,
    "mxfp6_e2m3": ml_dtypes.float6_e2m3fn,
    "mxfp4": ml_dtypes.float4_e2m1fn,
}
# Table 1 of the OCP text, and section 5.3: exponent of the largest normal number, and that number.
OCP = {
    "mxfp8_e5m2": (15, 57344.0),
    "mxfp8_e4m3": (8, 448.0),
    "mxfp6_e3m2": (4, 28.0),
    "mxfp6_e2m3": (2, 7.5),
    "mxfp4": (2, 6.0),
    "mxint8": (0, 127 / 64),
}


def power_below(number):
    """Return the exponent of the largest power of two that isn't above a positive Fraction."""
    exponent = 0
    while Fraction(2) ** exponent > number:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= number:
        exponent += 1
    return exponent


def listed(kind):
    """Return the finite numbers that are at least 0 of a type of ml_dtypes, by their codes."""
    codes = np.arange(256 if ml_dtypes.finfo(kind).bits == 8 else 1 << ml_dtypes.finfo(kind).bits, dtype=np.uint8)
    values = codes.view(kind).astype(np.float64)
    return sorted(
        (Fraction(value), int(code))
        for code, value in zip(codes, values, strict=True)
        if np.isfinite(value) and not np.signbit(value)
    )


def elements(name):
    """Return the elements that are at least 0 of an MX format, by their codes; those of MXINT8 count in 2^-6."""
    if name == "mxint8":
        return [(Fraction(count, 64), count) for count in range(128)]
    return listed(ML_DTYPES[name])


def nearest(number, numbers):
    """Return the nearest listed number, of two the one with the even code; beyond the largest, that."""
    size = min(abs(number), numbers[-1][0])
    best = min(numbers, key=lambda each: (abs(each[0] - size), each[1] & 1))
    return best[0] if number >= 0 else -best[0]


def ocp(block, name):
    """Section 6.3 of the OCP text for one block of Fractions."""
    largest = max(map(abs, block))
    emax, _ = OCP[name]
    exponent = -127 if largest == 0 else min(max(power_below(largest) - emax, -127), 127)
    scale, numbers = Fraction(2) ** exponent, elements(name)
    return [nearest(number / scale, numbers) * scale for number in block]


def nvfp4(values):
    """NVIDIA's recipe for an array of one axis of Fractions."""
    numbers, scales = listed(ml_dtypes.float4_e2m1fn), listed(ml_dtypes.float8_e4m3fn)
    whole = max(map(abs, values))
    tensor = Fraction(pr.format("binary32").round(whole / (6 * 448))) or Fraction(1)
    found = []
    for start in range(0, len(values), 16):
        block = values[start : start + 16]
        scale = nearest(max(map(abs, block)) / (6 * tensor), scales) * tensor
        found += [nearest(number / scale, numbers) * scale if scale else Fraction(0) for number in block]
    return found


def samples(rng, size):
    """Numbers of every kind: spread over binades, on and beside ties, zeros, all of one binade."""
    wide = rng.standard_normal(size) * 2.0 ** rng.integers(-12, 12, size)
    ties = rng.integers(-63, 64, size) * 0.125 * 2.0 ** rng.integers(-3, 3)
    beside = np.nextafter(ties, rng.choice([-np.inf, np.inf], size))
    return [wide, ties, beside, rng.uniform(0.9, 1, size), np.where(rng.random(size) < 0.5, 0, wide), np.zeros(size)]


@pytest.mark.parametrize("name", MX)
def test_mx_is_the_ocp_text(name, rng):
    fmt = pr.block_format(name)
    for x in (*samples(rng, 70), np.full(32, 2.0**-140), np.array([2.0**200, 1.0]), 2.0 ** -rng.integers(0, 150, 64)):
        exact = [Fraction(value) for value in x.tolist()]
        literal = [number for start in range(0, len(x), 32) for number in ocp(exact[start : start + 32], name)]
        assert [Fraction(value) for value in fmt.round(x).tolist()] == literal


def test_nvfp4_is_the_recipe(rng):
    fmt = pr.block_format("nvfp4")
    for x in (*samples(rng, 40), np.repeat([1e-7, 1e-5, 1.0], 16), np.full(3, 1e-60)):
        literal = nvfp4([Fraction(value) for value in x.tolist()])
        assert [Fraction(value) for value in fmt.round(x).tolist()] == literal


def test_a_quotient_just_beside_a_tie_goes_to_the_right_side():
    fmt = pr.block_format("nvfp4")
    tensor = Fraction(fmt.split([1.0]).tensor)
    for scale in range(225, 449, 32):
        for tie in (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0):
            at = float(Fraction(tie) * scale * tensor)
            for x in (at, np.nextafter(at, 0), np.nextafter(at, 1)):
                values = [1.0] + [0.0] * 15 + [float(6 * scale * tensor), x]
                assert [Fraction(v) for v in fmt.round(values).tolist()] == nvfp4([Fraction(v) for v in values])


@pytest.mark.parametrize("name", MX_FLOATS)
def test_elements_and_scales_have_the_codes_of_ml_dtypes(name, rng):
    fmt, kind = pr.block_format(name), ML_DTYPES[name]
    x = rng.standard_normal((4, 96)).astype(np.float32)
    elements, scales, tensor = fmt.split(x)
    assert tensor == 1
    e8m0 = scales.astype(np.float32).astype(ml_dtypes.float8_e8m0fnu)
    np.testing.assert_array_equal(fmt.scale.encode(scales), e8m0.view(np.uint8))
    quotients = np.clip(x / np.repeat(scales, 32, axis=1).astype(np.float32), -OCP[name][1], OCP[name][1])
    cast = quotients.astype(np.float32).astype(kind)
    np.testing.assert_array_equal(elements, cast.astype(np.float64))
    np.testing.assert_array_equal(fmt.element.encode(elements), cast.view(np.uint8))
    decoded = fmt.element.decode(cast.view(np.uint8)), fmt.scale.decode(e8m0.view(np.uint8)), 1.0
    np.testing.assert_array_equal(fmt.decode(decoded), fmt.round(x))


def test_elements_of_mxint8_have_the_codes_of_int8(rng):
    fmt = pr.block_format("MX-INT8")
    parts = fmt.split(np.append(rng.standard_normal(95), [-0.0]))
    codes = fmt.element.encode(parts.elements)
    np.testing.assert_array_equal(codes.view(np.int8), parts.elements * 64)
    np.testing.assert_array_equal(fmt.element.decode(codes), parts.elements)
    every = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(fmt.element.decode(every), every.view(np.int8) / 64)
    np.testing.assert_array_equal(fmt.element.encode(fmt.element.values()).view(np.int8), np.arange(-127, 128))
    assert (fmt.element.encode(-1.0), fmt.element.decode(192), fmt.bits) == (192, -1.0, 8.25)
    with pytest.raises(OptionError, match="round them first"):
        fmt.element.encode([-2.0])  # unused, so that the numbers are symmetric


def test_nvfp4_scales_have_the_codes_of_ml_dtypes(rng):
    fmt = pr.block_format("nvfp4")
    elements, scales, tensor = fmt.split(rng.standard_normal(64))
    assert tensor == np.float32(tensor)
    assert scales.max() == 448
    np.testing.assert_array_equal(scales, scales.astype(np.float32).astype(ml_dtypes.float8_e4m3fn).astype(float))
    np.testing.assert_array_equal(elements, elements.astype(np.float32).astype(ml_dtypes.float4_e2m1fn).astype(float))


@pytest.mark.parametrize("name", pr.BLOCK_FORMATS)
@pytest.mark.parametrize("count", [1600, pytest.param(6400, marks=pytest.mark.slow)])
def test_errors_stay_within_their_bounds_and_reach_them(name, count, rng):
    fmt, reached = pr.block_format(name), 0.0
    for x in (*samples(rng, count), rng.uniform(0.5, 1, count)):
        errors, bounds = np.abs(fmt.round(x) - x), fmt.error_bound(x)
        exact = [abs(Fraction(y) - Fraction(v)) for y, v in zip(fmt.round(x).tolist(), x.tolist(), strict=True)]
        assert all(error <= Fraction(bound) for error, bound in zip(exact, bounds.tolist(), strict=True))
        reached = max(reached, float(np.max(errors / np.where(bounds > 0, bounds, 1))))
    assert reached > 0.9


@pytest.mark.parametrize("name", MX)
def test_the_bound_before_scales_are_known(name, rng):
    """|x^ - x| <= max(d |x|, h M), for the largest magnitude M of a block."""
    fmt = pr.block_format(name)
    element = fmt.element
    d = max(element.unit_roundoff, 1 - element.max / 2.0 ** (element.emax + 1))
    h = element.smallest_subnormal / 2.0 ** (element.emax + 1)
    for x in samples(rng, 3200):
        largest = np.repeat(np.abs(x).reshape(-1, 32).max(axis=1), 32)
        assert np.all(np.abs(fmt.round(x) - x) <= np.maximum(d * np.abs(x), h * largest))


def test_the_bound_of_nvfp4_before_scales_are_known(rng):
    for x in samples(rng, 3200):
        largest, whole = np.repeat(np.abs(x).reshape(-1, 16).max(axis=1), 16), np.abs(x).max()
        errors = np.abs(pr.block_format("nvfp4").round(x) - x)
        assert np.all(errors <= np.maximum(np.abs(x) / 4, 3 / 68 * largest) + whole * 2.0**-18)
        assert np.all(errors[np.abs(x) == whole] <= whole * 2.0**-24)


@pytest.mark.parametrize("name", MX)
def test_no_number_of_a_block_below_one_becomes_one(name, rng):
    fmt = pr.block_format(name)
    x = np.nextafter(1.0, 0.0) * np.append(rng.random(31), 1.0)
    assert fmt.round(x).max() == fmt.largest_below_one < 1
    assert pr.block_format("nvfp4").largest_below_one is None


@pytest.mark.parametrize("name", pr.BLOCK_FORMATS)
def test_what_is_stored_is_stored_again_as_it_is(name, rng):
    fmt = pr.block_format(name)
    if fmt.tensor is None:
        for x in samples(rng, 320):
            np.testing.assert_array_equal(fmt.round(fmt.round(x)), fmt.round(x))


@pytest.mark.parametrize("rounding", ["toward-zero", "up", "down", "nearest-away", "stochastic"])
@pytest.mark.parametrize("name", pr.BLOCK_FORMATS)
def test_elements_round_as_they_are_asked_to(name, rounding, rng):
    fmt, x = pr.block_format(name), rng.standard_normal(64)
    elements, scales, tensor = fmt.split(x, rounding, seed=3)
    shared = [Fraction(scale) * Fraction(tensor) for scale in np.repeat(scales, fmt.block).tolist()]
    quotients = np.array([Fraction(v) / s for v, s in zip(x.tolist(), shared, strict=True)], dtype=object)
    expected = fmt.element.round(quotients, rounding, overflow="saturate", seed=3)
    assert elements.tolist() == [float(value) for value in expected]


def test_blocks_lie_along_an_axis_and_start_anew_in_each_row(rng):
    fmt, x = pr.block_format("mxfp4"), rng.standard_normal((3, 40, 5))
    rounded = fmt.round(x, axis=1)
    for i, k in np.ndindex(3, 5):
        np.testing.assert_array_equal(rounded[i, :, k], fmt.round(x[i, :, k]))
    assert fmt.split(x, axis=1).scales.shape == (3, 2, 5)
    np.testing.assert_array_equal(fmt.decode(fmt.split(x, axis=1), axis=1), rounded)
    assert fmt.round(np.zeros((0,))).shape == (0,)
    assert fmt.round(np.zeros((2, 0))).shape == (2, 0)


def test_exact_numbers_round_once(rng):
    x = [Fraction(1, 3) + Fraction(n, 7 * 2**80) for n in range(40)]
    x += [Fraction(5, 4) / 8 + Fraction(1, 2**90), Fraction(5, 4) / 8 - Fraction(1, 2**90), Fraction(3, 4)]
    for name in MX:
        found = [Fraction(v) for v in pr.block_format(name).round(x).tolist()]
        assert found == ocp(x[:32], name) + ocp(x[32:], name)
    assert [Fraction(v) for v in pr.block_format("nvfp4").round(x).tolist()] == nvfp4(x)


@pytest.mark.parametrize("name", pr.BLOCK_FORMATS)
def test_errors_of_exact_numbers_stay_within_their_bounds(name, rng):
    """Where numbers saturate, the bound is the error itself, and a float64 may be below it."""
    fmt = pr.block_format(name)
    x = [Fraction(2) - Fraction(1, 2**k) for k in range(40, 90)]
    x += [Fraction(v) * (1 + Fraction(1, 2**60)) for v in (*rng.uniform(1.75, 2, 50), 1e-100)]
    errors = [abs(Fraction(y) - v) for y, v in zip(fmt.round(x).tolist(), x, strict=True)]
    assert all(e <= Fraction(b) for e, b in zip(errors, fmt.error_bound(x).tolist(), strict=True))


@pytest.mark.parametrize("name", pr.BLOCK_FORMATS)
def test_exact_numbers_beyond_float64_saturate(name):
    fmt, huge = pr.block_format(name), 10**400
    largest = np.finfo(np.float64).max
    for sign in (1, -1):
        assert fmt.round([Fraction(sign * huge), 0]).tolist() == fmt.round([sign * largest, 0.0]).tolist()
    assert fmt.error_bound([Fraction(huge, 3), Fraction(-huge)]).tolist() == [np.inf, np.inf]


@pytest.mark.parametrize("block", [2**40, 10**30])
def test_a_block_may_be_longer_than_any_array(block, rng):
    fmt = pr.BlockFormat("whole", "float4_e2m1fn", block, "float8_e8m0fnu")
    x = rng.standard_normal((3, 20))
    parts = fmt.split(x)
    assert parts.scales.shape == (3, 1)
    np.testing.assert_array_equal(fmt.round(x), pr.block_format("mxfp4").round(x))
    assert fmt.round(np.ones(0)).shape == (0,)


def test_what_is_not_finite_spoils_its_block_where_elements_cannot_say_so():
    x = np.array([1.0, np.nan, np.inf, -np.inf, 0.5])
    for name in ("mxfp6_e3m2", "mxfp6_e2m3", "mxfp4", "mxint8", "nvfp4"):
        fmt = pr.block_format(name)
        longer = np.append(x, np.ones(fmt.block))
        rounded = fmt.round(longer)
        assert np.isnan(rounded[: fmt.block]).all()
        assert (rounded[fmt.block :] > 0).all()
        parts = fmt.split(longer)
        fmt.element.encode(parts.elements), fmt.scale.encode(parts.scales)  # all have codes
    np.testing.assert_array_equal(pr.block_format("mxfp8_e5m2").round(x), x)
    np.testing.assert_array_equal(pr.block_format("mxfp8_e4m3").round(x), [1, np.nan, np.nan, np.nan, 0.5])


def test_names():
    assert pr.block_format("MX-FP4") is pr.block_format("mxfp4") is pr.block_format(pr.block_format("mxfp4"))
    with pytest.raises(OptionError, match="there are mxfp8_e5m2, mxfp8_e4m3"):
        pr.block_format("mxfp8")
    with pytest.raises(OptionError, match="block_format"):
        pr.format("mxfp4")
    mine = pr.BlockFormat("mine", "fp4", 32, "e8m0")
    assert mine == pr.block_format("mxfp4")
    assert str(mine) == "mine"
    assert mine.bits == 4.25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mine", "e8m0", 32, "e8m0"), "element must have a sign"),
        (("mine", "fp16", 32, "e8m0"), "element must have a sign"),
        (("mine", "fp4", 0, "e8m0"), "block must be at least 1"),
        (("mine", "fp4", 32, "float8_e4m3fn"), "scale must"),
        (("mine", "fp4", 32, "e8m0", "fp32"), "scale must"),
        (("mine", "fp4", 32, "float8_e4m3fn", "fp64"), "tensor must"),
    ],
)
def test_formats_that_would_not_serve(arguments, message):
    with pytest.raises(OptionError, match=message):
        pr.BlockFormat(*arguments)


def test_a_number_far_below_its_block_is_not_taken_for_zero():
    x = [2.0**1000, 2.0**-1074, -(2.0**-1074), 0.0]
    for fmt in map(pr.block_format, MX):
        assert fmt.split(x, "up").elements[1:].tolist() == [fmt.element.smallest_subnormal, 0, 0]
        assert fmt.split(x, "down").elements[1:].tolist() == [0, -fmt.element.smallest_subnormal, 0]


def test_an_array_of_zeros_has_the_scale_1():
    parts = pr.block_format("nvfp4").split(np.zeros(20))
    assert parts.tensor == 1
    assert parts.scales.tolist() == [0, 0]


def test_errors():
    fmt = pr.block_format("mxfp4")
    with pytest.raises(ShapeError, match="blocks of an array"):
        fmt.round(0.5)
    with pytest.raises(ShapeError, match="axis"):
        fmt.round([0.5], axis=1)
    with pytest.raises(DTypeError):
        fmt.round([1j])
    with pytest.raises(OptionError, match="rounding"):
        fmt.round([1.0], "sideways")
    with pytest.raises(ShapeError, match="one for each block of 32"):
        fmt.decode(([1.0] * 40, [1.0], 1.0))
