"""States of CuPy arrays: they go on exactly, and nothing of them comes to the host."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from gpu import stand_in, torch_stand_in
from gpu.cases import COMPUTED, NUMPY, random_numbers
from gpu.stand_in import on_gpu

import recfact as rf
from recfact import continuation
from recfact.array_functions import in_type
from recfact.errors import ArrayTypeError, DeviceError, DTypeError, OptionError, OptionTypeError, ShapeError
from recfact.number_types import BFLOAT16
from recfact.windows import Full, Jagged, Uniform

WINDOWS = [Full(), Jagged(4), Jagged(4, 2), Jagged(5, 0), Uniform(1), Uniform(4)]
TYPES = ["float32", "complex128", "float16", "bfloat16"]
WORST = {"float32": 1e-5, "complex128": 1e-13, "float16": 2e-3, "bfloat16": 2e-2}


def draw(rng, dtype, *shape):
    return random_numbers(rng, shape, dtype, 0.9), random_numbers(rng, shape, dtype)


def near(got, expected, dtype):
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got.astype("c16"), expected.astype("c16"), rtol=WORST[dtype], atol=WORST[dtype])


def same_states(got, expected, dtype):
    """See that two States hold the same, the first on the GPU."""
    assert isinstance(got.parts, stand_in.ndarray)
    assert (got.window, got.shape, got.dtype) == (expected.window, expected.shape, expected.dtype)
    np.testing.assert_array_equal(got.phase, expected.phase)
    np.testing.assert_array_equal(got.held, expected.held)
    near(got.parts.get(), expected.parts, "float32" if dtype in COMPUTED else dtype)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_solve_goes_on_where_another_one_ended(machine, rng, window, dtype):
    a, u = draw(rng, dtype, 2, 30, 3)
    x0 = random_numbers(rng, (2, 3), COMPUTED.get(dtype, dtype))
    options = {"axis": 1, "window": window, "return_state": True}
    first = rf.solve(on_gpu(a[:, :13]), on_gpu(u[:, :13]), x0=on_gpu(x0), **options)
    assert machine.queue(0).done == 0  # the host waits for nothing
    x, state = first
    own = rf.solve(a[:, :13], u[:, :13], x0=x0, **options)
    same_states(state, own[1], dtype)
    near(x.get(), own[0], dtype)
    y, end = rf.solve(on_gpu(a[:, 13:]), on_gpu(u[:, 13:]), state=state, **options)
    near(y.get(), rf.solve(a, u, x0=x0, axis=1, window=window)[:, 13:], dtype)
    same_states(end, rf.solve(a, u, x0=x0, **options)[1], dtype)
    near(end.last.get(), rf.solve(a, u, x0=x0, axis=1, window=window)[:, -1], dtype)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_steps_one_by_one(machine, rng, window):
    a, u = draw(rng, "float32", 30, 3)
    x, state = rf.solve(on_gpu(a[:7]), on_gpu(u[:7]), axis=0, window=window, return_state=True)
    expected = rf.solve(a, u, axis=0, window=window)
    for step in range(7, 18):
        x, state = state.step(on_gpu(a[step]), on_gpu(u[step]))
        near(x.get(), expected[step], "float32")
    x, state = state.step(0.5, on_gpu(u[18]))
    assert x.dtype == np.float32


@pytest.mark.parametrize("window", [Full(), Jagged(4, 2), Uniform(3)], ids=str)
def test_segments_have_a_row_each(machine, rng, window):
    a, u = draw(rng, "float32", 2, 60, 3)
    offsets, later = [0, 3, 3, 40, 45], [0, 5, 9, 9, 15]
    options = {"axis": 1, "window": window, "return_state": True}
    x, state = rf.solve(on_gpu(a[:, :45]), on_gpu(u[:, :45]), offsets=offsets, **options)
    own, held = rf.solve(a[:, :45], u[:, :45], offsets=offsets, **options)
    same_states(state, held, "float32")
    near(x.get(), own, "float32")
    y, end = rf.solve(on_gpu(a[:, 45:]), on_gpu(u[:, 45:]), offsets=later, state=state, **options)
    own, held = rf.solve(a[:, 45:], u[:, 45:], offsets=later, state=held, **options)
    same_states(end, held, "float32")
    near(y.get(), own, "float32")
    row = end[:, 2, 1:]
    assert row.shape == (2, 2)
    near(row.last.get(), held[:, 2, 1:].last, "float32")
    near(end.last.get(), held.last, "float32")


@pytest.mark.parametrize("window", [Full(), Jagged(4), Uniform(3)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_states_of_rows_at_different_steps(machine, rng, window, dtype):
    a, u = draw(rng, dtype, 2, 20, 3)
    rows = [rf.solve(on_gpu(a[0, :n]), on_gpu(u[0, :n]), axis=0, window=window, return_state=True)[1] for n in (5, 7)]
    state = rf.State.stack(rows)
    x = rf.solve(on_gpu(a[:, 8:]), on_gpu(u[:, 8:]), axis=1, window=window, state=state)
    for row, n in enumerate((5, 7)):
        held = rf.solve(a[0, :n], u[0, :n], axis=0, window=window, return_state=True)[1]
        near(x.get()[row], rf.solve(a[row, 8:], u[row, 8:], axis=0, window=window, state=held), dtype)
    last, after = state.step(on_gpu(a[:, 8]), on_gpu(u[:, 8]))
    near(last.get(), x.get()[:, 0], dtype)
    assert after.shape == (2, 3)


@pytest.mark.parametrize("window", [Full(), Jagged(8)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_states_are_kept_if_none_are_wanted(machine, rng, monkeypatch, window, dtype):
    monkeypatch.setattr(continuation, "PIECE_ON_GPU", 1024)
    a, u = draw(rng, dtype, 600, 4)
    given = on_gpu(a), on_gpu(u)
    state = rf.solve(*given, axis=0, window=window, return_state=True, states=False)
    expected = rf.solve(a, u, axis=0, window=window, return_state=True)[1]
    same_states(state, expected, dtype)


def test_results_go_where_the_caller_says(machine, rng):
    for dtype in ("float32", "bfloat16"):
        a, u = draw(rng, dtype, 20, 3)
        for out in (on_gpu(np.zeros((20, 3), NUMPY[dtype])), on_gpu(np.zeros((20, 3), "f4"))):
            x, _ = rf.solve(on_gpu(a), on_gpu(u), axis=0, return_state=True, out=out)
            assert x is out
            expected = rf.solve(a.astype("f4"), u.astype("f4"), axis=0)
            near(x.get(), expected.astype(x.dtype), dtype)
        given = on_gpu(u)
        x, state = rf.solve(on_gpu(a), given, axis=0, window="jagged:4", return_state=True, out=given)
        same_states(state, rf.solve(a, u, axis=0, window="jagged:4", return_state=True)[1], dtype)
        near(given.get(), rf.solve(a, u, axis=0, window="jagged:4"), dtype)


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
