"""Arrays that round every operation, against fractions rounded once."""

from fractions import Fraction

import numpy as np
import pytest

from recfact.errors import OptionError
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.formats.catalogue import format
from recfact.precision.operands import Operands

OPERATIONS = {
    np.add: lambda x, y: x + y,
    np.subtract: lambda x, y: x - y,
    np.multiply: lambda x, y: x * y,
    np.divide: lambda x, y: x / y,
}


def rounded_array(values, fmt):
    return Arithmetic(fmt).array(values)


def listed(array):
    return np.asarray(array).tolist()


def once(value, fmt):
    rounded = fmt.round(value)
    return float(rounded) if fmt.fits_float64 else rounded


@pytest.mark.parametrize("ufunc", OPERATIONS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("name", ["float8_e4m3fn", "bfloat16", "float16", "float32", "float64", "binary128"])
def test_operations_round_once(name, ufunc, rng):
    fmt = format(name)
    x, y = (rounded_array(rng.uniform(-4, 4, 100), fmt) for _ in "xy")
    result = ufunc(x, y)
    assert type(result) is Operands
    assert result.operations.format == fmt
    exact = [OPERATIONS[ufunc](Fraction(p), Fraction(q)) for p, q in zip(listed(x), listed(y), strict=True)]
    assert listed(result) == [once(value, fmt) for value in exact]


@pytest.mark.parametrize("ufunc", [np.add, np.multiply], ids=lambda each: each.__name__)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", ["bfloat16", "binary128"])
def test_accumulation_rounds_every_step(ufunc, axis, name, rng):
    fmt = format(name)
    x = rounded_array(rng.uniform(0.5, 1, (4, 6)), fmt)
    result = np.moveaxis(np.asarray(ufunc.accumulate(x, axis=axis)), axis, 0)
    along = np.moveaxis(np.asarray(x), axis, 0)
    assert np.array_equal(result[0], along[0])
    for step in range(1, len(along)):
        for place, value in np.ndenumerate(along[step]):
            exact = OPERATIONS[ufunc](Fraction(result[step - 1][place]), Fraction(value))
            assert result[step][place] == once(exact, fmt)


def test_views_and_copies_keep_the_format():
    x = rounded_array([0.3, 0.7], format("float16"))
    for derived in (x[1:], x.copy(), x.reshape(2, 1), np.full_like(x, 1, shape=(3, 2)), 1 / x):
        assert type(derived) is Operands
        assert derived.operations.format == format("float16")


def test_values_are_rounded_on_entry():
    assert listed(rounded_array([0.3, 1e9], format("float16"))) == [float(np.float16(0.3)), np.inf]
    # Just above the middle of two numbers, where float64 would round it to first.
    assert listed(rounded_array([1 + Fraction(1, 2**11) + Fraction(1, 2**80)], format("float16"))) == [1 + 2.0**-10]
    third = Fraction(1, 3)
    assert listed(rounded_array([third, 0.5], format("binary128"))) == [third - third / 2**114, Fraction(1, 2)]


@pytest.mark.parametrize("compute", [np.sqrt, np.maximum.accumulate, np.add.reduce, np.sin])
def test_what_has_no_rounded_form_is_refused(compute):
    with pytest.raises(TypeError, match="no rounded form of numpy"):
        compute(rounded_array([0.3, 0.7], format("float16")))


def test_outputs_and_masks_are_refused():
    x = rounded_array([0.3, 0.7], format("float16"))
    with pytest.raises(TypeError, match=r"no rounded form of numpy\.add"):
        np.add(x, x, out=np.zeros(2))


def test_what_rounds_to_nearest_alone():
    x = Arithmetic("float16", rounding="up").array([0.3, 0.7])
    assert np.asarray(x + x).tolist() == [2 * value for value in np.asarray(x).tolist()]
    for compute in (np.log, np.exp, lambda x: x / x):
        with pytest.raises(OptionError, match="round to nearest even"):
            compute(x)


def test_products_are_fused_where_they_are_added():
    tiny = Arithmetic("float16", fma=True).array([1 + 2**-10])
    assert np.asarray(tiny * tiny + Arithmetic("float16").array([-1 - 2**-9])).tolist() == [2.0**-20]
    for kept in (tiny * tiny, tiny * 1 * tiny, np.multiply(tiny, tiny), (tiny * tiny)[:]):
        assert np.asarray(kept).tolist() == [1 + 2.0**-9]
    assert np.asarray(1 + tiny * tiny).tolist() == np.asarray(tiny * tiny - -1).tolist() == [2 + 2.0**-9]
    tiny[:] = tiny * tiny
    assert np.asarray(tiny).tolist() == [1 + 2.0**-9]


def test_functions_that_compute_something_else_are_refused():
    for function in (np.sum, np.mean, np.dot):
        with pytest.raises(TypeError, match="no rounded form of numpy"):
            function(*[rounded_array([0.3, 0.7], format("float16"))] * (2 if function is np.dot else 1))


def test_the_caller_s_array_is_left_alone():
    given = np.array([0.5, 0.25])
    x = rounded_array(given, format("float64"))
    x[0] = x[1]
    assert given.tolist() == [0.5, 0.25]
