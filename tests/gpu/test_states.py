"""States of CuPy arrays: they go on exactly, and nothing of them comes to the host."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from gpu import stand_in, torch_stand_in
from gpu.bounds import HALF_SPACING, UNIT
from gpu.cases import COMPUTED, NUMPY, random_numbers
from gpu.stand_in import on_gpu

import recfact as rf
from recfact.array_functions import in_type
from recfact.errors import ArrayTypeError, DeviceError, DTypeError, OptionError, OptionTypeError, ShapeError
from recfact.number_types import BFLOAT16
from recfact.windows import Full, Jagged, Uniform, blocks_and_terms

WINDOWS = [Full(), Jagged(4), Jagged(4, 2), Jagged(5, 0), Uniform(1), Uniform(4)]
TYPES = ["float32", "complex128", "float16", "bfloat16"]


def draw(rng, dtype, *shape):
    return random_numbers(rng, shape, dtype, 0.9), random_numbers(rng, shape, dtype)


def wide(array):
    return None if array is None else array.astype("c16" if array.dtype.kind == "c" else "f8")


def size(array):
    return None if array is None else abs(wide(array))


EXACTLY = (wide, size)  # how the arrays of a solve are taken, for its result and for what bounds its errors


def near(got, right, sizes, window, steps, solves=1):
    """See that states on a GPU are within their bound.

    They are compared with those in float64 on the CPU. The sizes are those of all magnitudes. Until the last of the
    steps, `solves` were launched that go on from one another.

    An input meets a rounding at each step that sees it, another one as it enters, and one at each block of a State. In
    each launch it meets as many more as `gpu.bounds` counts there.
    """
    block, terms = blocks_and_terms(window)
    terms = 0 if window == Full() else terms
    seen = steps if window == Full() else min(steps, block * (terms + 1))
    count = (seen + 1 + terms + solves * (2 + terms)) * (4 if got.dtype.kind == "c" else 1)
    unit = UNIT[COMPUTED.get(got.dtype.name, got.dtype.name)]
    most = sizes * (count * unit / (1 - count * unit) + 2 * (count + 7) * UNIT["float64"])  # and what the CPU's are off
    if got.dtype.name in COMPUTED:
        most = most + UNIT[got.dtype.name] * (abs(right) + most) + HALF_SPACING[got.dtype.name]
    assert (abs(got.get().astype(right.dtype) - right) <= most).all()


def same_states(got, right, sizes, dtype, steps, solves=1):
    """See that a State on the GPU holds what it should."""
    assert isinstance(got.parts, stand_in.ndarray)
    assert (got.window, got.shape, got.dtype) == (right.window, right.shape, NUMPY[dtype])
    assert got.parts.dtype == NUMPY[COMPUTED.get(dtype, dtype)]
    np.testing.assert_array_equal(got.phase, right.phase)
    np.testing.assert_array_equal(got.held, right.held)
    near(got.parts, right.parts, sizes.parts, got.window, steps, solves)
    near(got.last, right.last, sizes.last, got.window, steps, solves)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("types", [*((kind, kind) for kind in TYPES), ("float32", "bfloat16")])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_solve_goes_on_where_another_one_ended(machine, rng, window, types):
    dtype, kind = types
    a, u = random_numbers(rng, (2, 30, 3), dtype, 0.9), random_numbers(rng, (2, 30, 3), kind)
    x0 = random_numbers(rng, (2, 3), COMPUTED.get(dtype, dtype))
    options = {"axis": 1, "window": window, "return_state": True}
    x, state = rf.solve(on_gpu(a[:, :13]), on_gpu(u[:, :13]), x0=on_gpu(x0), **options)
    assert machine.queue(0).done == 0  # the host waits for nothing
    y, end = rf.solve(on_gpu(a[:, 13:]), on_gpu(u[:, 13:]), state=state, **options)
    whole = [rf.solve(f(a), f(u), x0=f(x0), **options) for f in EXACTLY]
    half_way = [rf.solve(f(a[:, :13]), f(u[:, :13]), x0=f(x0), **options)[1] for f in EXACTLY]
    near(x, *(result[:, :13] for result, _ in whole), window, 13)
    same_states(state, *half_way, dtype, 13)
    near(y, *(result[:, 13:] for result, _ in whole), window, 30, 2)
    same_states(end, *(held for _, held in whole), dtype, 30, 2)
    # No inputs are widened first: where there are many, kernels take them as they are.
    long = [recorded.launch for recorded in machine.launches if dict(recorded.launch.macros)["INPUT"] != "float"]
    assert bool(long) == (kind != "float32")


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_steps_one_by_one(machine, rng, window):
    a, u = draw(rng, "float32", 30, 3)
    x, state = rf.solve(on_gpu(a[:7]), on_gpu(u[:7]), axis=0, window=window, return_state=True)
    right, sizes = (rf.solve(f(a), f(u), axis=0, window=window) for f in EXACTLY)
    for step in range(7, 18):
        x, state = state.step(on_gpu(a[step]), on_gpu(u[step]))
        near(x, right[step], sizes[step], window, step + 1, 2)
    x, state = state.step(0.5, on_gpu(u[18]))
    assert x.dtype == np.float32


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("window", [Full(), Jagged(4, 2), Uniform(3)], ids=str)
def test_segments_have_a_row_each(machine, rng, window, dtype):
    a, u = draw(rng, dtype, 2, 60, 3)
    offsets, later = [0, 3, 3, 40, 45], [0, 5, 9, 9, 15]
    a[:, 50] = np.nan  # of the first step of a sequence, before which there is nothing
    options = {"axis": 1, "window": window, "return_state": True}
    x, state = rf.solve(on_gpu(a[:, :45]), on_gpu(u[:, :45]), offsets=offsets, **options)
    first = [rf.solve(f(a[:, :45]), f(u[:, :45]), offsets=offsets, **options) for f in EXACTLY]
    same_states(state, *(held for _, held in first), dtype, 45)
    near(x, *(own for own, _ in first), window, 45)
    y, end = rf.solve(on_gpu(a[:, 45:]), on_gpu(u[:, 45:]), offsets=later, state=state, **options)
    second = [
        rf.solve(f(a[:, 45:]), f(u[:, 45:]), offsets=later, state=held, **options)
        for f, (_, held) in zip(EXACTLY, first, strict=True)
    ]
    same_states(end, *(held for _, held in second), dtype, 60, 2)
    near(y, *(own for own, _ in second), window, 60, 2)
    row = end[:, 2, 1:]
    assert row.shape == (2, 2)
    near(row.last, *(held[:, 2, 1:].last for _, held in second), window, 60, 2)


@pytest.mark.parametrize("window", [Full(), Jagged(4), Uniform(3)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_states_of_rows_at_different_steps(machine, rng, window, dtype):
    a, u = draw(rng, dtype, 2, 20, 3)
    rows = [rf.solve(on_gpu(a[0, :n]), on_gpu(u[0, :n]), axis=0, window=window, return_state=True)[1] for n in (5, 7)]
    state = rf.State.stack(rows)
    x = rf.solve(on_gpu(a[:, 8:]), on_gpu(u[:, 8:]), axis=1, window=window, state=state)
    for row, n in enumerate((5, 7)):
        held = [rf.solve(f(a[0, :n]), f(u[0, :n]), axis=0, window=window, return_state=True)[1] for f in EXACTLY]
        exact = [
            rf.solve(f(a[row, 8:]), f(u[row, 8:]), axis=0, window=window, state=one)
            for f, one in zip(EXACTLY, held, strict=True)
        ]
        near(x[row], *exact, window, n + 12, 2)
        last, after = state.step(on_gpu(a[:, 8]), on_gpu(u[:, 8]))
        near(last[row], *(own[0] for own in exact), window, n + 1, 2)
        assert after.shape == (2, 3)


@pytest.mark.parametrize("window", [Full(), Jagged(8)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_states_are_kept_if_none_are_wanted(machine, rng, monkeypatch, window, dtype):
    a, u = draw(rng, dtype, 600, 4)
    state = rf.solve(on_gpu(a), on_gpu(u), axis=0, window=window, return_state=True, states=False)
    exact = [rf.solve(f(a), f(u), axis=0, window=window, return_state=True)[1] for f in EXACTLY]
    same_states(state, *exact, dtype, 600, 3)


@pytest.mark.parametrize("window", [Full(), Jagged(4)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_results_go_where_the_caller_says(machine, rng, window, dtype):
    a, u = draw(rng, dtype, 20, 3)
    exact = [rf.solve(f(a), f(u), axis=0, window=window, return_state=True) for f in EXACTLY]
    given = on_gpu(u)
    for out in (on_gpu(np.zeros((20, 3), NUMPY[dtype])), on_gpu(np.zeros((20, 3), "f4")), given):
        x, state = rf.solve(on_gpu(a), given, axis=0, window=window, return_state=True, out=out)
        assert x is out
        near(x, *(own for own, _ in exact), window, 20)
        same_states(state, *(held for _, held in exact), dtype, 20)


def test_no_steps_change_nothing(machine):
    a, u = on_gpu(np.full((5, 3), 0.5)), on_gpu(np.ones((5, 3)))
    _, state = rf.solve(a, u, axis=0, return_state=True)
    x, same = rf.solve(a[:0], u[:0], axis=0, state=state, return_state=True)
    assert x.shape == (0, 3)
    assert same is state
    _, empty = rf.solve(a[:0], u[:0], axis=0, x0=2.0, return_state=True)
    np.testing.assert_array_equal(empty.last.get(), np.full(3, 2.0))
    np.testing.assert_array_equal(rf.solve(a[:1], u[:1], axis=0, state=empty).get(), np.full((1, 3), 2.0))


def test_a_state_is_copied_pickled_and_written_down(machine):
    a, u = on_gpu(np.full((5, 3), 0.5)), on_gpu(np.ones((5, 3)))
    _, state = rf.solve(a, u, axis=0, window="jagged:2", return_state=True)
    for other in (copy.copy(state), replace(state, parts=state.parts.copy())):
        assert isinstance(other.parts, stand_in.ndarray)
        np.testing.assert_array_equal(other.last.get(), state.last.get())
    written = state.to_dict()
    assert type(written["parts"]) is np.ndarray
    np.testing.assert_array_equal(rf.State.from_dict(written).last, state.last.get())
    host = pickle.loads(pickle.dumps(rf.State.from_dict(written)))
    np.testing.assert_array_equal(host.last, state.last.get())


def test_all_values_are_rounded_to_bfloat16_as_by_ml_dtypes(machine):
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    numbers = np.concatenate([upper + low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]).view(np.float32)
    with np.errstate(all="ignore"):
        expected = numbers.astype(BFLOAT16).astype("f4")
    got = in_type(on_gpu(numbers), BFLOAT16)
    assert got.dtype == BFLOAT16
    np.testing.assert_array_equal(got.get().astype("f4"), expected)


def test_what_does_not_go_together_is_refused(machine):
    a, u = on_gpu(np.full(5, 0.5)), on_gpu(np.ones(5))
    _, state = rf.solve(a, u, return_state=True)
    host = rf.solve(np.full(5, 0.5), np.ones(5), return_state=True)[1]
    launched = len(machine.launches)
    with pytest.raises(ArrayTypeError, match=r"state must hold its parts where a and u are.*cupy\.asarray"):
        rf.solve(a, u, state=host)
    with pytest.raises(ArrayTypeError, match="state must hold its parts where a and u are"):
        rf.solve(np.full(5, 0.5), np.ones(5), state=state)
    tensor = torch_stand_in.tensor(np.ones(5))
    with pytest.raises(ArrayTypeError, match=r"u must be a CuPy array .* got a tensor; call recfact\.torch\.solve"):
        rf.solve(0.5, tensor, return_state=True)
    with pytest.raises(OptionError, match=r"return_state doesn't go with device='gpu'.*CuPy"):
        rf.solve(np.ones(5), np.ones(5), return_state=True, device="gpu")
    with pytest.raises(OptionError, match="state doesn't go with reverse"):
        rf.solve(a, u, state=state, reverse=True)
    with pytest.raises(DTypeError, match="number type of what it continues, float32, got float64"):
        rf.solve(on_gpu(np.ones(5, "f4")), on_gpu(np.ones(5, "f4")), state=state)
    with pytest.raises(OptionTypeError, match="u_t must be a number or a CuPy array"):
        state.step(0.5, np.ones(()))
    with pytest.raises(ShapeError, match="broadcast to one step of the State"):
        state.step(0.5, on_gpu(np.ones(3)))
    with pytest.raises(OptionError, match="state is for arrays on the host as yet"):
        rf.gradients.vjp(a, u, u, state=state)
    assert len(machine.launches) == launched


def test_it_is_not_captured(machine):
    with stand_in.Stream() as stream:
        a, u = on_gpu(np.full(5, 0.5)), on_gpu(np.ones(5))
        machine.captured = {stream.ptr}
        with pytest.raises(DeviceError, match="takes or returns a State can't be captured"):
            rf.solve(a, u, return_state=True)
        machine.captured = set()
