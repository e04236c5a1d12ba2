"""Arrays that begin anywhere: accesses are as wide as addresses allow, and no wider."""

from __future__ import annotations

from itertools import compress, product

import numpy as np
import pytest
from gpu.bare_run import need_compiler, run_bare
from gpu.cases import H100, LAYOUTS, Case
from gpu.stand_in import on_gpu
from gpu.test_kernels import FEW, NO_TENSOR_CORES, check, framed, make_case
from hypothesis import given
from hypothesis import strategies as st

import recfact as rf
from recfact.gpu.geometry import View
from recfact.number_types import FLOAT32, NUMBER_TYPES
from recfact.windows import Full, Jagged, Uniform

HEADS, TURNED, ROWS = LAYOUTS

# Kernel, layout, number type, window, the GPU planned for, options of the arrays.
CASES = {
    "sweep": (HEADS, "bfloat16", Jagged(16), NO_TENSOR_CORES, {}),
    "sweep float32": (TURNED, "float32", Jagged(16), H100, {"a_dtype": "float32"}),
    "sweep per channel": (HEADS, "float16", Jagged(16), H100, {"shared": False}),
    "sweep along time": (ROWS, "float32", Jagged(16), H100, {}),
    "sweep along time bfloat16": (ROWS, "bfloat16", Jagged(16), NO_TENSOR_CORES, {"a_dtype": "float32"}),
    "sliding": (HEADS, "float32", Uniform(9), H100, {}),
    "sliding per channel": (TURNED, "bfloat16", Jagged(4, 3), H100, {"shared": False}),
    "sliding along time": (ROWS, "bfloat16", Uniform(9), H100, {}),
    "chain": (HEADS, "float32", Full(), H100, {}),
    "chain per channel": (TURNED, "bfloat16", Full(), NO_TENSOR_CORES, {"shared": False}),
    "chain along time": (ROWS, "bfloat16", Full(), NO_TENSOR_CORES, {}),
    "b2p": (HEADS, "bfloat16", Jagged(16), H100, {}),
    "b2p along time": (ROWS, "float16", Jagged(16), H100, {"a_dtype": "float32", "out": "float32"}),
    "b2p full": (HEADS, "bfloat16", Full(), FEW, {}),
}


@pytest.fixture(autouse=True)
def compiler() -> None:
    need_compiler()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "starts",
    [
        {1: False, 2: True},
        pytest.param({1: True, 4: False}, marks=pytest.mark.slow),
    ],  # by how much, and whether backwards
    ids=str,
)
@pytest.mark.parametrize("array", ["a", "u", "x"])
@pytest.mark.parametrize("name", CASES)
def test_arrays_that_begin_anywhere(name, array, starts):
    layout, dtype, window, device, arrays = CASES[name]
    heads = 8 if name == "b2p full" else 2
    for shift, reverse in starts.items():
        case = make_case(layout, heads, 264, 16, dtype, shifts={array: shift}, **arrays)
        launch = check(case, window, reverse=reverse, device=device)
        # Tensor cores take whole aligned rows of inputs and results; coefficients come one by one.
        moved = shift * getattr(case, array).itemsize % 16
        if not (name.startswith("b2p") and array != "a" and moved):
            assert launch.kernel == name.split()[0]


@given(address=st.integers(0, 64), strides=st.lists(st.integers(-64, 64), min_size=4, max_size=4))
def test_alignment_is_that_of_every_element(address, strides):
    view = View(NUMBER_TYPES[FLOAT32], *strides, address)
    batch, head, channel, step = strides
    for sees_step, sees_channel in product((False, True), repeat=2):
        kept = batch, head, step * sees_step, channel * sees_channel
        places = [address + sum(compress(kept, chosen)) for chosen in product((0, 1), repeat=4)]
        widest = max(width for width in (1, 2, 4, 8, 16) if not any(place % width for place in places))
        assert view.alignment(step=sees_step, channel=sees_channel) == widest


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shared", [False, True])
def test_rows_of_larger_arrays(layout, shared):
    # The first row is aligned, and the next one isn't.
    case = make_case(layout, 3, 264, 12, "bfloat16", shared=shared)
    parts = []
    for array in (case.a, case.u, case.x):
        _, whole = framed(tuple(extent + 1 for extent in array.shape), "bfloat16")
        parts.append(whole[tuple(map(slice, array.shape))])
        parts[-1][...] = array
    for window in (Jagged(16), Uniform(9), Full()):
        check(Case(*parts, case.axis), window)


def test_a_plan_is_for_one_alignment(machine):
    # Of two arrays that differ in nothing else, the second isn't run by the plan of the first.
    case = make_case(HEADS, 2, 264, 16, "float32")
    a, memory = on_gpu(case.a), on_gpu(np.zeros(case.u.size + 1, np.float32))
    kept = []
    for shift in (0, 1):
        u = memory[shift : case.u.size + shift].reshape(*case.u.shape)
        u[...] = on_gpu(case.u)
        kept.append(rf.gpu.solve(a, u, axis=case.axis, window=Jagged(16)).get().tobytes())
    assert kept[0] == kept[1]
    widths = [dict(recorded.launch.macros)["CHANNELS"] for recorded in machine.launches]
    assert widths == ["4", "1"]


def test_a_careless_plan_is_seen():
    case = make_case(HEADS, 2, 40, 16, "float32", shifts={"u": 1})
    launch = make_case(HEADS, 2, 40, 16, "float32").plan(Jagged(16))
    with pytest.raises(AssertionError, match="aren't aligned"):
        run_bare(launch, {"a": case.a, "u": case.u, "x": case.x})
