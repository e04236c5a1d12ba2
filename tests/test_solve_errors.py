"""Bad input to `solve`: an error of the right type that says what was required and given, and `out` left as it was."""

from fractions import Fraction
from typing import ClassVar

import ml_dtypes
import numpy as np
import pytest
import scipy.sparse

import recfact as rf
from recfact.errors import ArrayTypeError, DTypeError, OptionError, RecfactError, ShapeError

NAN = float("nan")


class GPUArray:
    """What CuPy's arrays look like from outside."""

    __cuda_array_interface__: ClassVar = {}


def numbers(*shape, dtype=np.float64):
    return np.ones(shape, dtype)


def read_only():
    out = numbers(5)
    out.flags.writeable = False
    return out


# Arguments, the error's type, and words of its text: what was required, and what was given.
WRONG = {
    "two scalars": ({"a": 1.0, "u": 2.0}, ShapeError, ("at least one axis", "two scalars")),
    "lengths": ({"u": numbers(4)}, ShapeError, ("broadcast", "(5,)", "(4,)")),
    "shapes": ({"a": numbers(5, 2), "u": numbers(5)}, ShapeError, ("broadcast", "(5, 2)", "(5,)", "axis of size 1")),
    "ragged a": ({"a": [[1.0, 2.0], [3.0]]}, ArrayTypeError, ("a must be", "equal lengths", "[[1.0, 2.0], [3.0]]")),
    "ragged u": ({"u": [[1.0], 2.0]}, ArrayTypeError, ("u must be", "equal lengths")),
    "ragged x0": ({"x0": [[1.0], 2.0]}, ArrayTypeError, ("x0 must be", "equal lengths")),
    "string": ({"a": "0.5"}, DTypeError, ("numbers", "<U3", "float64")),
    "strings": ({"u": ["1", "2", "3", "4", "5"]}, DTypeError, ("numbers", "<U1")),
    "bytes": ({"u": np.array([b"1"] * 5)}, DTypeError, ("numbers", "|S1")),
    "new strings": ({"u": np.array(["1"] * 5, np.dtypes.StringDType())}, DTypeError, ("numbers", "StringDType")),
    "None": ({"u": None}, DTypeError, ("numbers", "None")),
    "nothing in a list": ({"u": [None] * 5}, DTypeError, ("multiply and add", "None")),
    "dict": ({"u": {1: 2.0}}, DTypeError, ("multiply and add", "{1: 2.0}")),
    "set": ({"a": {0.5}}, DTypeError, ("multiply and add", "{0.5}")),
    "generator": ({"a": (i for i in range(5))}, DTypeError, ("multiply and add", "generator")),
    "dates": ({"u": np.zeros(5, "M8[s]")}, DTypeError, ("numbers", "datetime64[s]")),
    "times": ({"a": np.zeros(5, "m8[s]"), "u": np.zeros(5, "m8[s]")}, DTypeError, ("numbers", "timedelta64[s]")),
    "records": ({"a": np.zeros(5, "f8,f8"), "u": np.zeros(5, "f8,f8")}, DTypeError, ("numbers", "f0")),
    "record and float": ({"u": np.zeros(5, "f8,f8")}, DTypeError, ("numbers", "f0")),
    "long double": ({"u": numbers(5, dtype=np.longdouble)}, DTypeError, ("float64", str(np.dtype(np.longdouble)))),
    "eight bits": (
        {"a": numbers(5, dtype=ml_dtypes.float8_e5m2), "u": numbers(5, dtype=ml_dtypes.float8_e5m2)},
        DTypeError,
        ("bfloat16", "float8_e5m2"),
    ),
    "huge integer": ({"a": 10**400}, DTypeError, ("fit into float64", "1000")),
    "masked": ({"a": np.ma.ones(5)}, ArrayTypeError, ("masked", "filled")),
    "masked u": ({"u": np.ma.masked_array(numbers(5), [0, 0, 1, 0, 0])}, ArrayTypeError, ("masked", "filled")),
    "sparse matrix": ({"a": scipy.sparse.csr_matrix(numbers(1, 5))}, ArrayTypeError, ("dense", "csr_matrix")),
    "sparse array": ({"u": scipy.sparse.coo_array(numbers(1, 5))}, ArrayTypeError, ("dense", "coo_array", "toarray")),
    "x0 on a GPU": ({"x0": GPUArray()}, ArrayTypeError, ("x0 must be on the host", "GPUArray", "copy")),
    "out on a GPU": ({"out": GPUArray()}, ArrayTypeError, ("out must be an array on the host", "GPUArray")),
    "host as a device": ({"device": "cpu"}, OptionError, ("device must be 'gpu'", "'cpu'", "leave it out", "host")),
    "arrays as a device": ({"device": numbers(2)}, OptionError, ("device must be 'gpu'", "array([", "leave it out")),
    "algorithm on a GPU": ({"device": "gpu", "algorithm": "kogge-stone"}, OptionError, ("host only", "leave")),
    "threads on a GPU": ({"u": GPUArray(), "threads": 2}, OptionError, ("host only", "threads=2", "leave")),
    "x0 too long": ({"x0": numbers(2)}, ShapeError, ("x0 must", "shape ()", "(2,)")),
    "x0 of channels": ({"u": numbers(3, 5), "x0": numbers(5)}, ShapeError, ("x0 must", "(3,)", "(5,)")),
    "x0 with time": ({"u": numbers(3, 5), "x0": numbers(3, 1)}, ShapeError, ("x0 must", "(3,)", "(3, 1)")),
    "x0 complex": ({"x0": 1j}, DTypeError, ("x0 must fit into float64", "complex128")),
    "x0 string": ({"x0": "1"}, DTypeError, ("x0 must fit into float64", "<U1")),
    "x0 exact": ({"x0": Fraction(1, 3)}, DTypeError, ("x0 must fit into float64", "object")),
    "x0 a date": ({"x0": np.datetime64(1, "s")}, DTypeError, ("x0 must fit into float64", "datetime64")),
    "x0 huge": ({"x0": 10**400}, DTypeError, ("x0 must fit into float64", "object")),
    "x0 masked": ({"x0": np.ma.masked}, ArrayTypeError, ("masked",)),
    "x0 in reverse": ({"x0": 1.0, "reverse": True}, OptionError, ("x0 doesn't go with reverse", "last input")),
    "reverse a string": ({"reverse": "no"}, TypeError, ("reverse must be True or False", "'no'", "str")),
    "reverse an array": ({"reverse": numbers(2)}, TypeError, ("reverse must be True or False", "ndarray")),
    "axis too large": ({"axis": 1}, ShapeError, ("-1 to 0", "got 1")),
    "axis too small": ({"axis": -2}, ShapeError, ("-1 to 0", "got -2")),
    "axis far out": ({"axis": 2**70}, ShapeError, ("-1 to 0", str(2**70))),
    "axis a float": ({"axis": 0.0}, TypeError, ("axis must be an integer", "0.0", "float")),
    "axis None": ({"axis": None}, TypeError, ("axis must be an integer", "None")),
    "axis a string": ({"axis": "0"}, TypeError, ("axis must be an integer", "'0'")),
    "axis a boolean": ({"axis": False}, TypeError, ("axis must be an integer", "boolean")),
    "axes": ({"axis": (0,)}, TypeError, ("axis must be an integer", "(0,)")),
    "no threads": ({"threads": 0}, OptionError, ("threads must be at least 1", "got 0")),
    "fewer than no threads": ({"threads": -(2**70)}, OptionError, ("threads must be at least 1", str(-(2**70)))),
    "threads a float": ({"threads": 2.0}, TypeError, ("threads must be an integer", "2.0")),
    "threads NaN": ({"threads": NAN}, TypeError, ("threads must be an integer", "nan")),
    "threads a string": ({"threads": "2"}, TypeError, ("threads must be an integer", "'2'")),
    "threads a boolean": ({"threads": True}, TypeError, ("threads must be an integer", "boolean")),
    "window a number": ({"window": 16}, TypeError, ("Full(), Uniform(lags) or Jagged(block, terms)", "16")),
    "window a class": ({"window": rf.Full}, TypeError, ("Full(), Uniform(lags) or Jagged(block, terms)", "class")),
    "window None": ({"window": None}, TypeError, ("Full(), Uniform(lags) or Jagged(block, terms)", "None")),
    "algorithm": ({"algorithm": "fast"}, OptionError, ("'auto', 'sequential'", "'fast'")),
    "algorithm misspelled": (
        {"algorithm": "kogge_stone"},
        OptionError,
        ("got 'kogge_stone'; did you mean 'kogge-stone'?",),
    ),
    "algorithm None": ({"algorithm": None}, OptionError, ("'auto', 'sequential'", "None")),
    "algorithm and window": (
        {"algorithm": "brent-kung", "window": rf.Uniform(4)},
        OptionError,
        ("brent-kung", "Uniform(4)", "'sequential' makes all"),
    ),
    "out a list": ({"out": [0.0] * 5}, ArrayTypeError, ("out must be an array", "list")),
    "out masked": ({"out": np.ma.zeros(5)}, ArrayTypeError, ("masked", "filled")),
    "out shorter": ({"out": numbers(4)}, ShapeError, ("(5,)", "float64", "(4,)")),
    "out of more axes": ({"out": numbers(1, 5)}, ShapeError, ("(5,)", "(1, 5)")),
    "out of another type": ({"out": numbers(5, dtype=np.float32)}, ShapeError, ("float64", "float32")),
    "out of another byte order": ({"out": numbers(5, dtype=">f8")}, ShapeError, ("float64", ">f8")),
    "out of integers": ({"out": numbers(5, dtype=int)}, ShapeError, ("float64", "int64")),
    "out read-only": ({"out": read_only()}, OptionError, ("writable", "read-only", "copy")),
    "out broadcast": (
        {"out": np.lib.stride_tricks.as_strided(numbers(1), (5,), (0,))},
        OptionError,
        ("a place of its own", "broadcast", "copy"),
    ),
    "out overlapping itself": (
        {"u": numbers(3, 5), "out": np.lib.stride_tricks.as_strided(numbers(7), (3, 5), (8, 8))},
        OptionError,
        ("a place of its own", "overlapping", "copy"),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input_is_refused_with_what_was_required_and_given(name):
    wrong, kind, words = WRONG[name]
    arguments = {"a": numbers(5), "u": numbers(5), **wrong}
    table = isinstance(arguments["u"], np.ndarray) and arguments["u"].shape == (3, 5)
    out = wrong.get("out", np.full((3, 5) if table else 5, 7.0))
    before = np.array(out, copy=True)
    with pytest.raises(kind) as caught:
        rf.solve(arguments.pop("a"), arguments.pop("u"), **{**arguments, "out": out})
    for word in words:
        assert word in str(caught.value)
    assert issubclass(kind, ValueError | TypeError)
    assert issubclass(kind, RecfactError) or kind is TypeError
    np.testing.assert_array_equal(np.array(out), before)


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: rf.Uniform(0), OptionError, ("lags must be at least 1", "0")),
        (lambda: rf.Uniform(-3), OptionError, ("lags must be at least 1", "-3")),
        (lambda: rf.Uniform(NAN), TypeError, ("lags must be an integer", "nan")),
        (lambda: rf.Uniform(4.0), TypeError, ("lags must be an integer", "4.0", "int()")),
        (lambda: rf.Uniform("4"), TypeError, ("lags must be an integer", "'4'")),
        (lambda: rf.Uniform(True), TypeError, ("lags must be an integer", "True")),
        (lambda: rf.Jagged(0), OptionError, ("block must be at least 1", "0")),
        (lambda: rf.Jagged(-(2**70)), OptionError, ("block must be at least 1", str(-(2**70)))),
        (lambda: rf.Jagged(NAN), TypeError, ("block must be an integer", "nan")),
        (lambda: rf.Jagged(None), TypeError, ("block must be an integer", "None")),
        (lambda: rf.Jagged(16, -1), OptionError, ("terms must be at least 0", "-1")),
        (lambda: rf.Jagged(16, NAN), TypeError, ("terms must be an integer", "nan")),
        (lambda: rf.Jagged(16, [1]), TypeError, ("terms must be an integer", "[1]")),
    ],
)
def test_windows_check_their_sizes(make, kind, words):
    with pytest.raises(kind) as caught:
        make()
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_sizes_beyond_64_bits_mean_all_there_is(dtype):
    a, u = np.full((80, 3), 0.5, dtype), np.ones((80, 3), dtype)
    whole = rf.solve(a, u, axis=0)
    for window in (
        rf.Uniform(2**70),
        rf.Jagged(2**70),
        rf.Jagged(3, 2**70),
        rf.Jagged(1, 2**70),
        rf.Jagged(2**70, 2**70),
    ):
        for axis, reverse in ((0, False), (1, False), (0, True)):
            x = rf.solve(a, u, axis=axis, window=window, reverse=reverse)
            np.testing.assert_allclose(x, rf.solve(a, u, axis=axis, reverse=reverse), rtol=1e-6)
    np.testing.assert_array_equal(rf.solve(a, u, axis=0, threads=2**70), whole)


@pytest.mark.parametrize("threads", [1, 2**70])
def test_any_number_of_threads_may_be_asked_for(threads):
    a, u = np.full(1 << 18, 0.5, np.float32), np.ones(1 << 18, np.float32)
    for window in (rf.Full(), rf.Jagged(16), rf.Uniform(100)):
        for reverse in (False, True):
            x = rf.solve(a, u, window=window, reverse=reverse, threads=threads)
            np.testing.assert_array_equal(x, rf.solve(a, u, window=window, reverse=reverse, threads=2))


def overlapping_views():
    memory = numbers(40)
    yield "shifted by one", memory[:10], memory[1:11]
    yield "shifted back", memory[1:11], memory[:10]
    yield "turned round", memory[:10], memory[9::-1]
    yield "between, and touching", memory[:19:2], memory[18:28]
    table = numbers(6, 6)
    yield "transposed", table, table.T
    yield "a part", table, table[:, ::-1]


@pytest.mark.parametrize(("u", "out"), [pytest.param(u, out, id=name) for name, u, out in overlapping_views()])
def test_out_may_not_overlap_with_a_part_of_the_inputs(u, out):
    before = out.copy()
    for arguments in ((np.full(u.shape, 0.5), u), (u, np.full(u.shape, 0.5))):
        with pytest.raises(OptionError, match=r"overlaps with [au] in memory; pass u itself"):
            rf.solve(*arguments, out=out)
    np.testing.assert_array_equal(out, before)


def test_out_may_lie_between_the_inputs_and_be_u_but_not_a():
    memory = np.ones(20)
    u, out = memory[::2], memory[1::2]
    assert rf.solve(np.full(10, 0.5), u, out=out) is out
    np.testing.assert_array_equal(out, 2 - 0.5 ** np.arange(10))
    assert rf.solve(np.full(10, 0.5), u, out=u) is u
    np.testing.assert_array_equal(u, out)
    with pytest.raises(OptionError, match="overlaps with a"):
        rf.solve(u, np.ones(10), out=u)
    with pytest.raises(OptionError, match="out overlaps with a"):
        rf.solve(u, u, out=u)


def test_x0_may_even_be_a_part_of_out():
    table = np.full((2, 3), 4.0)
    np.testing.assert_array_equal(rf.solve(0.5, np.ones((2, 3)), x0=table[:, 2], out=table)[:, 0], [3.0, 3.0])


def test_an_error_of_a_scalar_reaches_the_caller_and_leaves_out_alone():
    class Fragile:
        def __mul__(self, other):
            raise ZeroDivisionError("on purpose")

        __rmul__ = __mul__

    out = np.array([7, 7, 7], object)
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        rf.solve(np.array([1, 1, Fragile()], object), np.array([1, 1, 1], object), out=out)
    assert list(out) == [7, 7, 7]
