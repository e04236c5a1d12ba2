"""`solve` on GPUs that aren't there: what it launches, where, with which arguments, and what comes out."""

from __future__ import annotations

import sys
from typing import ClassVar

import ml_dtypes
import numpy as np
import pytest
from gpu import stand_in, torch_stand_in
from gpu.bounds import bound
from gpu.cases import Case, random_numbers
from gpu.stand_in import on_gpu

import recfact as rf
from recfact.errors import ArrayTypeError, DeviceError, DTypeError, OptionError, RecfactError, ShapeError
from recfact.gpu import availability
from recfact.gpu.compiler import source_of
from recfact.number_types import BFLOAT16
from recfact.windows import Full, Jagged, Uniform

BF16, F32 = BFLOAT16, np.dtype("f4")


def numbers_of(result):
    """Return the numbers of a CuPy array, when its stream is through."""
    return result.get() if isinstance(result, stand_in.ndarray) else result.numpy()


def draw(rng, shape, a_shape, dtype, a_dtype=None, x0_shape=None):
    """Return coefficients, inputs and initial states."""
    a = random_numbers(rng, a_shape, a_dtype or dtype, 0.95)
    u = random_numbers(rng, shape, dtype)
    state = {"float16": "float32", "bfloat16": "float32"}.get(dtype, dtype)
    return a, u, None if x0_shape is None else random_numbers(rng, x0_shape, state)


def check(machine, a, u, x0, x, axis, window, reverse=False):
    """Compare with the plain loop in float64, within the bound of the kernel that ran."""
    wide = a.reshape((1,) * (u.ndim - a.ndim) + a.shape)
    state = None if x0 is None else np.expand_dims(np.broadcast_to(x0, np.delete(u.shape, axis)), axis)
    case = Case(wide, u, x, axis, state)
    exact, most = bound(machine.launches[-1].launch, case, window, reverse)
    error = abs(np.moveaxis(x, axis, 0).astype(exact.dtype) - exact)
    assert (error <= most).all()
    return machine.launches[-1].launch.kernel


# Shape, time, shape of the coefficients, number type, options, kernel.
SOLVES = {
    "vector": ((1000,), 0, (1000,), "float64", {}, "chain"),
    "vector with a state": ((1000,), -1, (1000,), "float64", {"x0": ()}, "chain"),
    "channels": ((3, 70, 4), 1, (3, 70, 4), "float32", {"x0": (4,)}, "sweep"),
    "shared": ((3, 70, 4), 1, (70, 1), "float32", {"window": Jagged(8), "x0": (3, 4)}, "sweep"),
    "backwards": ((3, 70, 4), 1, (70, 1), "float32", {"window": Jagged(8), "reverse": True}, "sweep"),
    "band": ((2, 90, 4), 1, (90, 1), "complex64", {"window": Uniform(7)}, "sliding"),
    "one head": ((2, 200, 16), 1, (2, 200, 1), "bfloat16", {"window": Jagged(16)}, "b2p"),
    "heads": ((90, 3, 16), 0, (90, 3, 1), "float16", {"window": Jagged(16), "x0": (3, 16)}, "b2p"),
    "a single coefficient": ((3, 70, 4), 1, (1, 1, 1), "float32", {"x0": (3, 1)}, "sweep"),
    "a single step": ((3, 1, 4), 1, (3, 1, 4), "float32", {"x0": (3, 4)}, "sweep"),
}


@pytest.mark.parametrize("name", SOLVES)
@pytest.mark.parametrize("tensors", [False, True], ids=["cupy", "torch"])
def test_solves_are_right_within_the_bound_of_their_kernel(machine, rng, name, tensors):
    shape, axis, a_shape, dtype, options, kernel = SOLVES[name]
    a, u, x0 = draw(rng, shape, a_shape, dtype, x0_shape=options.get("x0"))
    moved = torch_stand_in.tensor if tensors else on_gpu
    state = {} if x0 is None else {"x0": moved(x0)}
    x = rf.solve(moved(a), moved(u), axis=axis, **{**options, **state})
    assert type(x) is (torch_stand_in.Tensor if tensors else stand_in.ndarray)
    axis %= len(shape)
    window, reverse = options.get("window", Full()), options.get("reverse", False)
    got = numbers_of(x)
    assert (got.shape, got.dtype) == (u.shape, u.dtype)
    assert check(machine, a, u, x0, got, axis, window, reverse) == kernel


def test_nothing_is_waited_for_and_nothing_compiled_twice(machine, rng):
    a, u, _ = draw(rng, (3, 70, 4), (70, 1), "float32")
    given = on_gpu(a), on_gpu(u)
    first = rf.solve(*given, axis=1)
    assert machine.queue(0).done == 0
    second = rf.solve(*given, axis=1)
    assert machine.queue(0).done == 0
    assert machine.compiled == ["sweep"]
    np.testing.assert_array_equal(first.get(), second.get())
    rf.solve(*given, axis=1, window=Jagged(8))
    assert machine.compiled == ["sweep", "sweep"]


def test_an_empty_solve_launches_nothing(machine):
    for shape in ((0,), (3, 0, 4), (0, 5, 4)):
        x = rf.solve(on_gpu(np.ones(shape)), on_gpu(np.ones(shape)), axis=len(shape) // 2)
        assert x.shape == shape
    assert machine.launches == []


def test_axes_of_the_result_lie_in_the_order_of_the_inputs(machine, rng):
    a, u, _ = draw(rng, (2, 16, 64), (2, 1, 64), "bfloat16")
    given, shared = on_gpu(u).transpose((0, 2, 1)), on_gpu(a).transpose((0, 2, 1))
    x = rf.solve(shared, given, axis=1, window=Jagged(16))
    assert x.strides == given.strides
    assert dict(machine.launches[-1].launch.macros)["TIME_CONTIGUOUS"] == "1"
    check(machine, a.transpose(0, 2, 1), u.transpose(0, 2, 1), None, x.get(), 1, Jagged(16))


# Types of coefficients and inputs.
MIXED = [("i4", "f4"), ("f4", "c8"), ("f4", "f8"), ("f8", "f2"), ("?", "f4"), ("f2", BF16), (BF16, "f4"), ("i8", "i8")]


@pytest.mark.parametrize(("a_type", "u_type"), MIXED)
def test_mixed_types_give_what_numpy_gives(machine, rng, a_type, u_type):
    a, u = (rng.integers(-1, 2, (40, 3)).astype(kind) for kind in (a_type, u_type))
    x = rf.solve(on_gpu(a), on_gpu(u), axis=0, window=Jagged(8))
    expected = rf.solve(a, u, axis=0, window=Jagged(8))  # small integers: exact
    assert x.dtype == expected.dtype
    np.testing.assert_array_equal(x.get(), expected)


def test_halves_stay_halves_beside_coefficients_in_float32(machine, rng):
    a, u, _ = draw(rng, (2, 64, 16), (2, 64, 1), "bfloat16", "float32")
    macros = {}
    for kind in (None, F32, BF16):
        out = None if kind is None else on_gpu(np.ones(u.shape, kind))
        x = rf.solve(on_gpu(a), on_gpu(u), axis=1, window=Jagged(16), out=out)
        assert x.dtype == (F32 if kind is None else kind)
        assert check(machine, a, u, None, x.get(), 1, Jagged(16)) == "b2p"
        macros[kind] = dict(machine.launches[-1].launch.macros)
    assert macros[None] == macros[F32]
    assert (macros[F32]["INPUT"], macros[F32]["COEFFICIENT"]) == ("__nv_bfloat16", "float")


def test_halves_may_come_out_in_float32(machine, rng):
    a, u, _ = draw(rng, (2, 64, 16), (2, 64, 1), "bfloat16")
    x = rf.solve(on_gpu(a), on_gpu(u), axis=1, window=Jagged(16), out=on_gpu(np.ones(u.shape, F32)))
    check(machine, a, u, None, x.get(), 1, Jagged(16))


def test_the_paper_stores_one_term(machine, rng):
    a, u, _ = draw(rng, (2, 64, 16), (2, 64, 1), "bfloat16")
    for precision, split in (("full", "1"), ("paper", "0")):
        x = rf.gpu.solve(on_gpu(a), on_gpu(u), axis=1, window=Jagged(16), precision=precision)
        assert dict(machine.launches[-1].launch.macros)["SPLIT"] == split
        check(machine, a, u, None, x.get(), 1, Jagged(16))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("a", "u", "x0"), [(0.5, None, 1.0), ([[0.5], [2.0], [0.25]], None, [1, 2, 3, 4]), (None, 2, 0), (0.5, None, 1e300)]
)
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_scalars_and_lists_are_brought_along(machine, dtype, a, u, x0):
    host = np.arange(12).reshape(3, 4).astype(dtype)
    arguments = [host if value is None else value for value in (a, u)]
    x = rf.solve(*(on_gpu(value) if value is host else value for value in arguments), axis=0, x0=x0)
    expected = rf.solve(*arguments, axis=0, x0=x0)
    assert x.dtype == expected.dtype
    np.testing.assert_array_equal(x.get(), expected)


# In place: kernels that read an input again after results were written, and one that doesn't.
IN_PLACE = {
    "sweep, full": ((4, 50, 3), "float32", Full(), False),
    "sweep, several segments": ((1, 400, 4), "float32", Jagged(8), True),
    "sliding": ((2, 90, 4), "float32", Uniform(7), True),
    "b2p": ((2, 640, 16), "bfloat16", Jagged(16), True),
}


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("reverse", [False, True])
def test_the_result_may_replace_the_inputs(machine, rng, name, reverse):
    shape, dtype, window, copies = IN_PLACE[name]
    a, u, _ = draw(rng, shape, (*shape[:2], 1), dtype)
    expected = rf.solve(on_gpu(a), on_gpu(u), axis=1, window=window, reverse=reverse).get()
    given = on_gpu(u)
    assert rf.solve(on_gpu(a), given, axis=1, window=window, reverse=reverse, out=given) is given
    np.testing.assert_array_equal(given.get(), expected)
    arguments = {argument.name: argument.value for argument in machine.launches[-1].launch.arguments}
    assert copies == (arguments["u"] != arguments["x"])


def test_an_initial_state_may_lie_in_the_result(machine):
    a, u = np.full((5, 2), 0.5), np.ones((5, 2))
    out = on_gpu(np.full((5, 2), 3.0))
    rf.solve(on_gpu(a), on_gpu(u), axis=0, x0=out[2], out=out)
    np.testing.assert_array_equal(out.get(), rf.solve(a, u, axis=0, x0=np.full(2, 3.0)))


def test_one_state_of_all_channels_may_lie_in_the_result(machine):
    a, u = np.full((5, 600), 0.5), np.ones((5, 600))
    out = on_gpu(np.full((5, 600), 3.0))
    rf.solve(on_gpu(a), on_gpu(u), axis=0, x0=out[2, :1], out=out)  # read by thread blocks that start late
    np.testing.assert_array_equal(out.get(), rf.solve(a, u, axis=0, x0=3.0))


def test_arrays_of_many_dimensions_are_solved_slice_by_slice(machine, rng):
    a = random_numbers(rng, (2, 1, 3, 20, 1), "float32")
    u = random_numbers(rng, (2, 5, 3, 20, 4), "float32")
    x0 = random_numbers(rng, (5, 1, 4), "float32")
    x = rf.solve(on_gpu(a), on_gpu(u), axis=3, x0=on_gpu(x0))
    assert len(machine.launches) == 2
    np.testing.assert_array_equal(x.get(), rf.solve(a, u, axis=3, x0=x0))


def small():
    return np.full((4, 2), 0.5, "f4"), np.ones((4, 2), "f4")


def expected():
    return rf.solve(*small(), axis=0)


def test_what_the_compiler_says_is_shown_and_asked_again(machine):
    given = [on_gpu(array) for array in small()]
    machine.compiler_log = "sweep.cu(7): error: no such thing"
    with pytest.raises(
        DeviceError, match=r"(?s)kernel sweep with the options --std=c\+\+17.*\(7\): error: no such.*report"
    ):
        rf.solve(*given, axis=0)
    machine.compiler_log = None
    np.testing.assert_array_equal(rf.solve(*given, axis=0).get(), expected())


class GPUArray:
    """What an array on a GPU looks like from outside."""

    __cuda_array_interface__: ClassVar = {}


@pytest.mark.parametrize(("given", "options"), [(GPUArray(), {}), (np.ones(3), {"device": "gpu"})])
def test_without_cupy_it_says_what_is_missing(monkeypatch, given, options):
    availability.require.cache_clear()
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DeviceError) as caught:
        rf.solve(0.5, given, **options)
    assert str(caught.value) == rf.gpu.why_unavailable()


def second_gpu(array):
    with stand_in.Device(1):
        return on_gpu(array)


class ReadOnly:
    """An array of a library that recfact doesn't know, which mustn't be written to."""

    def __init__(self, array):
        self.array = array
        interface = array.__cuda_array_interface__
        self.__cuda_array_interface__ = {**interface, "data": (array.data.ptr, True)}


ONES, TABLE = np.ones(5), np.ones((5, 3))
WRONG = {
    "a on the host": (lambda: {"a": ONES}, ArrayTypeError, "on one GPU, got u on GPU 0, a on the host; move"),
    "u on the host": (lambda: {"u": ONES}, ArrayTypeError, "got a on GPU 0, u on the host"),
    "x0 on the host": (lambda: {"x0": np.array(1.0)}, ArrayTypeError, "x0 on the host"),
    "out on the host": (lambda: {"out": np.ones(5)}, ArrayTypeError, "out on the host"),
    "out no array": (lambda: {"out": [0.0] * 5}, ArrayTypeError, "out on the host"),
    "two GPUs": (lambda: {"u": second_gpu(ONES)}, ArrayTypeError, "got a on GPU 0, u on GPU 1"),
    "out a tensor": (
        lambda: {"out": torch_stand_in.tensor(ONES)},
        ArrayTypeError,
        "of the library of a and u, got Tensor",
    ),
    "out no tensor": (
        lambda: {"u": torch_stand_in.tensor(ONES), "out": on_gpu(ONES)},
        ArrayTypeError,
        "of the library of a and u, got ndarray",
    ),
    "out conjugate": (
        lambda: {"a": 0.5, "u": torch_stand_in.tensor(ONES + 0j), "out": torch_stand_in.tensor(ONES + 0j).conj()},
        OptionError,
        "got a conjugate",
    ),
    "out read-only": (
        lambda: {"out": ReadOnly(on_gpu(ONES))},
        OptionError,
        "out must be writable, got a read-only array",
    ),
    "out of another shape": (lambda: {"out": on_gpu(TABLE)}, ShapeError, r"out must have shape \(5,\)"),
    "out of another type": (lambda: {"out": on_gpu(ONES.astype("f4"))}, ShapeError, "and dtype float64, got"),
    "out narrower": (
        lambda: {"a": 0.5, "u": on_gpu(ONES.astype("f2")), "out": on_gpu(ONES)},
        ShapeError,
        "dtype float16 or float32, got",
    ),
    "out broadcast": (
        lambda: {"out": stand_in.ndarray((5,), "f8", stand_in.empty((1,)).data, (0,))},
        OptionError,
        "a place of its own",
    ),
    "out in a": (lambda: (lambda a: {"a": a, "out": a})(on_gpu(ONES)), OptionError, "overlaps with a"),
    "out in u": (
        lambda: (lambda memory: {"u": memory[:5], "out": memory[1:]})(on_gpu(np.ones(6))),
        OptionError,
        "overlaps with u",
    ),
    "strings": (lambda: {"a": ["x"] * 5}, DTypeError, "numbers that recfact computes in"),
    "None in a": (lambda: {"a": None}, DTypeError, "the GPU engine computes in float32"),
    "None in u": (lambda: {"u": None}, DTypeError, "the GPU engine computes in float32"),
    "nameless beside a scalar": (
        lambda: {"a": 0.5, "u": stand_in.empty((5,), "V4")},
        DTypeError,
        r"u must hold float32, .*got \|V4; convert",
    ),
    "eight bits in a": (
        lambda: {"a": stand_in.empty((5,), ml_dtypes.float8_e5m2)},
        DTypeError,
        "a must hold float32, .*got float8_e5m2; convert",
    ),
    "long doubles in x0": (
        lambda: {"x0": stand_in.empty((), np.longdouble)},
        DTypeError,
        "x0 must hold float32, .*got .*; convert",
    ),
    "structures in out": (
        lambda: {"out": stand_in.empty((5,), "f4,f4")},
        DTypeError,
        "out must hold float32, .*'f0'.*; convert",
    ),
    "nameless on the host": (
        lambda: {"a": 0.5, "u": np.zeros(5, "V4")},
        DTypeError,
        r"numbers that recfact computes in, got float and \|V4; convert",
    ),
    "a too large": (lambda: {"a": 10**400}, DTypeError, "a must hold numbers that fit into float64, got 1000"),
    "objects": (lambda: {"a": [object()] * 5}, DTypeError, "the GPU engine computes in float32"),
    "integers in x0": (lambda: {"x0": on_gpu(ONES + 0j)}, DTypeError, "x0 must fit into float64, got complex128"),
    "x0 too long": (lambda: {"x0": on_gpu(ONES)}, ShapeError, "x0 must broadcast"),
    "lengths": (lambda: {"a": on_gpu(np.ones(4))}, ShapeError, r"broadcast .* \(4,\) and \(5,\)"),
    "axis": (lambda: {"axis": 1}, ShapeError, "axis must be"),
    "x0 from behind": (lambda: {"x0": 1.0, "reverse": True}, OptionError, "x0 doesn't go with reverse"),
    "window": (lambda: {"window": 3}, TypeError, "window must be"),
    "precision": (lambda: {"precision": "half"}, OptionError, "precision must be one of 'full', 'paper', got 'half'"),
}


def test_the_gpu_of_the_arrays_counts_and_not_the_current_one(machine):
    machine.devices, machine.capabilities = 2, {0: "61", 1: "90"}
    given = second_gpu(small()[1])
    np.testing.assert_array_equal(rf.solve(0.5, given, axis=0).get(), expected())
    with pytest.raises(DeviceError, match=r"GPU 0 .* has compute capability 6\.1"):
        rf.solve(0.5, small()[1], axis=0, device="gpu")
    with stand_in.Device(1):
        np.testing.assert_array_equal(rf.solve(0.5, small()[1], axis=0, device="gpu"), expected())
    machine.capabilities = {0: "90", 1: "61"}
    stand_in.forget()
    for number, usable in ((0, True), (1, False)):
        with stand_in.Device(number):
            if usable:
                np.testing.assert_array_equal(rf.solve(0.5, small()[1], axis=0, device="gpu"), expected())
                continue
            with pytest.raises(DeviceError, match=r"GPU 1 .* has compute capability 6\.1"):
                rf.solve(0.5, small()[1], axis=0, device="gpu")


@pytest.mark.parametrize("name", WRONG)
def test_bad_input_is_refused_and_nothing_launched(machine, name):
    make, kind, words = WRONG[name]
    machine.devices = 2
    arguments = {"a": on_gpu(ONES), "u": on_gpu(ONES), **make()}
    with pytest.raises(kind, match=words) as caught:
        rf.gpu.solve(arguments.pop("a"), arguments.pop("u"), **arguments)
    assert isinstance(caught.value, RecfactError) or kind is TypeError
    assert machine.launches == []


def test_the_stand_in_refuses_arguments_that_the_kernel_would_misread(machine):
    rf.solve(*map(on_gpu, small()), axis=0)
    launch = machine.launches[-1].launch
    kernel = stand_in.RawModule(code=source_of("sweep"), options=tuple(f"-D{k}={v}" for k, v in launch.macros))
    function = kernel.get_function("sweep")
    right = [(np.int32 if argument.c_type == "int" else np.int64)(argument.value) for argument in launch.arguments]
    function(launch.grid, launch.block, tuple(right))
    place = next(k for k, argument in enumerate(launch.arguments) if argument.c_type == "int")
    for wrong in (
        right[:-1],
        [*right[:place], np.int64(0), *right[place + 1 :]],
        [np.int32(0), *right[1:]],
        [None, *right[1:]],
    ):
        with pytest.raises((AssertionError, AttributeError)):
            function(launch.grid, launch.block, tuple(wrong))


def test_tensors_that_require_gradients_are_taken_while_none_are_recorded(machine, monkeypatch):
    u, out = torch_stand_in.tensor(ONES), torch_stand_in.tensor(0 * ONES)
    u.requires_grad = True
    with pytest.raises(ArrayTypeError, match=r"u is a torch tensor that requires gradients.* torch\.no_grad\(\)"):
        rf.solve(0.5, u, out=out)
    assert out.written == 0
    monkeypatch.setattr(sys.modules["torch"], "is_grad_enabled", lambda: False)
    assert rf.solve(0.5, u, out=out) is out
    assert out.written == 1  # torch refuses gradients that need what it held
