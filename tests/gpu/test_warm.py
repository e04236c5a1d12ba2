"""`warm_up` compiles what a solve of such arrays launches, and nothing else."""

from types import SimpleNamespace

import numpy as np
import pytest
from gpu import stand_in, test_mixer, torch_stand_in
from gpu.stand_in import on_gpu

import recfact as rf
from recfact.errors import ArrayTypeError, DeviceError, DTypeError, OptionError, OptionTypeError, ShapeError
from recfact.gating import gated
from recfact.gpu.solver import solve_and_keep
from recfact.gradients.arguments import Given
from recfact.gradients.products import pulled_back
from recfact.number_types import BFLOAT16
from recfact.windows import check_window

# Shapes of coefficients and inputs, number types of both, options.
SOLVES = {
    "channels": ((70, 4), (70, 4), "f4", "f4", {"axis": 0}),
    "shared": ((2, 64, 1), (2, 64, 16), "bfloat16", "bfloat16", {"axis": 1, "window": "jagged:16"}),
    "gates in float32": ((2, 64, 1), (2, 64, 16), "f4", "bfloat16", {"axis": 1, "window": "jagged:16"}),
    "one term": ((64, 1), (64, 16), "f2", "f2", {"axis": 0, "window": "jagged:16", "precision": "paper"}),
    "states": ((600,), (600,), "f8", "f8", {"x0": np.float64(1)}),
    "backwards": ((70,), (3, 70), "f4", "f4", {"window": "jagged:5", "reverse": True}),
    "sequences": ((90, 2), (90, 2), "f4", "f4", {"axis": 0, "offsets": [0, 10, 12, 90]}),
    "long sequences": ((700, 2), (700, 2), "f4", "f4", {"axis": 0, "offsets": [0, 300, 300, 700]}),
    "many dimensions": ((2, 1, 3, 20, 1), (2, 5, 3, 20, 4), "f4", "f4", {"axis": 3}),
}


@pytest.mark.parametrize("name", SOLVES)
def test_a_solve_compiles_nothing_afterwards(machine, name):
    a_shape, u_shape, a_type, u_type, options = SOLVES[name]
    a, u = np.ones(a_shape, a_type), np.ones(u_shape, u_type)
    reasons = rf.gpu.warm_up(a, u, **options)
    assert machine.launches == []
    compiled = list(machine.compiled)
    assert {reason.partition(":")[0] for reason in reasons} == set(compiled)
    if "x0" in options:
        options = {**options, "x0": on_gpu(np.ones(1))[0]}
    rf.gpu.solve(on_gpu(a), on_gpu(u), **options)
    assert machine.compiled == compiled
    assert {launch.launch.kernel for launch in machine.launches} == set(compiled)


ONE = np.float32(1)
# The same, and what the gradients start from.
GRADIENTS = {
    "states": ((60, 2, 1), (60, 2, 8), "f4", "f4", {"axis": 0}, "x"),
    "states along time": ((3, 60), (3, 60), "f8", "f8", {}, "x"),
    "states, initial ones": ((60, 1), (60, 8), "f4", "f4", {"axis": 0, "x0": ONE}, "x"),
    "coefficients of all time": ((2, 1), (60, 2, 8), "f4", "f4", {"axis": 0}, "x"),
    "shared inputs": ((60, 8), (60, 1), "f4", "f4", {"axis": 0}, "x"),
    "integers": ((60, 8), (60, 8), "f8", "i4", {"axis": 0}, "x"),
    "halves": ((60, 2, 1), (60, 2, 8), "bfloat16", "bfloat16", {"axis": 0}, "kept"),
    "halves, coefficients of all time": ((2, 1), (60, 2, 8), "f2", "f2", {"axis": 0}, "kept"),
    "halves, shared inputs": ((60, 8), (60, 1), "f2", "f2", {"axis": 0}, "kept"),
    "halves of few steps": ((15, 8), (15, 8), "f2", "f2", {"axis": 0}, "u"),
    "one step": ((1, 8), (1, 8), "f4", "f4", {"axis": 0}, "x"),
    "halves in batches": ((2, 60, 8), (2, 60, 8), "f2", "f2", {"axis": 1}, "kept"),
    "halves and float32": ((60, 2, 1), (60, 2, 8), "f4", "bfloat16", {"axis": 0}, "kept"),
    "sequences of halves": ((60, 8), (60, 8), "f2", "f2", {"axis": 0, "offsets": [0, 10, 10, 60]}, "kept"),
    "halves of a window that keeps all": ((60, 8), (60, 8), "f2", "f2", {"axis": 0, "window": "jagged:64"}, "u"),
    "halves, initial ones": ((60, 8), (60, 8), "f2", "f2", {"axis": 0, "x0": ONE}, "kept"),
    "sequences of halves, initial ones": (
        (60, 8),
        (60, 8),
        "f2",
        "f2",
        {"axis": 0, "x0": ONE, "offsets": [0, 9, 60]},
        "kept",
    ),
    "float32 and halves": ((60, 8), (60, 8), "bfloat16", "f4", {"axis": 0, "window": "jagged:8"}, "u"),
    "blocks": ((2, 60, 1), (2, 60, 8), "f4", "bfloat16", {"axis": 1, "window": "jagged:16"}, "u"),
    "initial states of blocks": ((60, 1), (60, 8), "f2", "f2", {"axis": 0, "window": "jagged:8", "x0": ONE}, "u"),
    "wide initial states": ((60, 8), (60, 8), "f2", "f2", {"axis": 0, "window": "jagged:8", "x0": np.ones(8)}, "u"),
    "initial states of sequences": ((60, 8), (60, 8), "f4", "f4", {"axis": 0, "offsets": [0, 9, 60], "x0": ONE}, "x"),
    "several blocks": ((60, 8), (60, 8), "f4", "f4", {"axis": 0, "window": "jagged:8:2"}, "u"),
    "lags": ((60, 8), (60, 8), "c8", "c8", {"axis": 0, "window": "uniform:5"}, "u"),
    "one sequence": ((60, 8), (60, 8), "f4", "f4", {"axis": 0, "offsets": [0, 60]}, "x"),
}


def as_torch_does(a, u, kept, *, x0=None, axis, offsets=None, window="full"):
    """Solve arrays on a GPU, and make the gradients of torch's tensors."""
    states = None
    if kept:
        x, states = solve_and_keep(a, u, x0=x0, axis=axis, offsets=offsets)
    else:
        x = rf.gpu.solve(a, u, x0=x0, axis=axis, offsets=offsets, window=window)
    given = Given(a, u, x0, axis, offsets, False, own_types=True)
    pulled_back(given, a, u, x, None, None, check_window(window), None if kept else x, None, states)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_compile_nothing_afterwards(machine, name):
    a_shape, u_shape, a_type, u_type, options, read = GRADIENTS[name]
    a, u, options = np.ones(a_shape, a_type), np.ones(u_shape, u_type), {"axis": -1, **options}
    alone = len(rf.gpu.warm_up(a, u, **options))
    reasons = rf.gpu.warm_up(a, u, gradients=True, **options)
    assert machine.launches == []
    assert reasons[-1].partition(":")[0] == ("backward" if read == "x" else "backward_window")
    compiled = list(machine.compiled)
    assert len(compiled) == alone + (2 if read == "kept" else 1)
    if "x0" in options:
        options["x0"] = on_gpu(np.asarray(options["x0"]))
    u = u.astype("f8") if u_type == "i4" else u  # as torch's operands
    as_torch_does(on_gpu(a), on_gpu(u), read == "kept", **options)
    assert machine.compiled == compiled
    macros = dict(machine.launches[-1].launch.macros)
    assert macros.get("KEPT", "0") == str(int(read == "kept"))


def test_a_number_has_no_gradient(machine):
    u = np.ones((8, 64), "f4")
    rf.gpu.warm_up(0.5, u, window="jagged:8", gradients=True)
    compiled = list(machine.compiled)
    for reverse in (False, True):
        rf.gpu.solve(0.5, on_gpu(u), window="jagged:8", reverse=reverse)
    assert machine.compiled == compiled == ["sweep"] * 2


# Gradients that no kernel makes: those of few lines, and those of number types that aren't computed in one.
SEVERAL = {
    "few lines": ((600, 1), "f4", "f4", {}, ["chain"]),
    "several types": ((60, 8), "f4", "f8", {}, ["sweep"]),
    "no steps": ((0, 2), "f4", "f4", {}, []),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_gradients_of_several_launches_are_left_to_them(machine, name):
    shape, a_type, u_type, options, kernels = SEVERAL[name]
    reasons = rf.gpu.warm_up(np.ones(shape, a_type), np.ones(shape, u_type), axis=0, gradients=True, **options)
    assert [reason.partition(":")[0] for reason in reasons] == kernels == machine.compiled


# Of the mixer's cases, those by which kernels differ.
LAYERS = ["time first", "own gates", "heads before time", "projected together", "full", "bfloat16", "tiles"]
LAYERS += ["tiles of heads before time", "odd features", "coefficients of all heads", "complex"]


@pytest.mark.parametrize("window", ["its own", "jagged:4:2"])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_compiles_nothing_afterwards(machine, rng, name, window):
    case = test_mixer.CASES[name]
    window = case.window if window == "its own" else window
    given = test_mixer.arrays(case, rng)
    known, axis = [given[one] for one in "aqku"], -3
    if case.later:
        known, axis = [known[0].swapaxes(-1, -2), *(one.swapaxes(-2, -3) for one in known[1:])], -2
    if window == "jagged:4:2" and case.dtype == "bfloat16":
        pytest.skip("CuPy's stand-in doesn't multiply these by gates")
    reasons = rf.gpu.warm_up_phalanx(*known, axis=axis, window=window)
    compiled = list(machine.compiled)
    assert len(compiled) == 1 == len(reasons)
    rf.phalanx(*map(on_gpu, known), axis=axis, window=window)
    assert machine.compiled == compiled
    assert machine.launches[-1].launch.kernel == compiled[0]


@pytest.mark.parametrize("name", ["time first", "heads before time", "bfloat16", "full", "tiles in float32"])
def test_nor_does_its_training(machine, rng, name):
    case = test_mixer.CASES[name]
    given = test_mixer.arrays(case, rng)
    known, axis = [given[one] for one in "aqku"], -3
    if case.later:
        known, axis = [known[0].swapaxes(-1, -2), *(one.swapaxes(-2, -3) for one in known[1:])], -2
    rf.gpu.warm_up_phalanx(*known, axis=axis, window=case.window, gradients=True)
    compiled = list(machine.compiled)
    assert len(compiled) == 3
    a, _, k, v = known
    turn = (lambda one: one.swapaxes(-2, -3)) if case.later else (lambda one: one)
    u = turn(gated(turn(k), turn(v)))  # with time before heads, as the layer does it
    as_torch_does(on_gpu(a[..., None]), on_gpu(u), False, axis=axis, window=case.window)
    assert machine.compiled == compiled


def test_a_layer_without_gates(machine):
    v = np.ones((2, 60, 4, 8), "f4")
    rf.gpu.warm_up_phalanx(v[..., 0], None, None, v)
    rf.phalanx(on_gpu(v[..., 0]), None, None, on_gpu(v))
    assert machine.compiled == ["sweep"]
    with pytest.raises(ArrayTypeError, match="v must be a number or have a shape and a dtype, got None"):
        rf.gpu.warm_up_phalanx(v[..., 0], None, None, None)
    with pytest.raises(ShapeError, match="a must have the shape of v"):
        rf.gpu.warm_up_phalanx(v, None, None, v)
    with pytest.raises(ShapeError, match="axis must be the third axis of v from the end or the second"):
        rf.gpu.warm_up_phalanx(v[..., 0], None, None, v, axis=0)


def test_shapes_and_types_of_any_library_are_enough(machine):
    shape = (600, 2)
    expected = rf.gpu.warm_up(np.ones(shape, "f4"), np.ones(shape, "f4"), axis=0)
    for known in (
        torch_stand_in.tensor(np.ones(shape, "f4")),
        SimpleNamespace(shape=shape, dtype=np.dtype("f4")),
        SimpleNamespace(shape=list(shape), dtype="torch.float32"),
    ):
        assert rf.gpu.warm_up(known, known, axis=0) == expected
    assert rf.gpu.warm_up(0.5, SimpleNamespace(shape=shape, dtype=BFLOAT16), axis=0)
    assert rf.gpu.warm_up(np.ones((0, 2)), np.ones((0, 2)), axis=0) == ()
    assert rf.gpu.warm_up(np.ones((0, 2)), np.ones((0, 2)), axis=0, offsets=[0, 0]) == ()


def test_a_warm_solve_is_captured_at_once(machine):
    with stand_in.Stream() as stream:
        u = on_gpu(np.ones((70, 2), "f4"))
        rf.gpu.warm_up(u, u, axis=0)
        machine.captured = {stream.ptr}
        rf.solve(u, u, axis=0)
        machine.captured = set()


WRONG = {
    "a list": ({"a": [1.0]}, ArrayTypeError, r"a must be a number or have a shape and a dtype, got \[1.0\]; pass"),
    "no type": ({"u": SimpleNamespace(shape=(3,), dtype="none")}, DTypeError, "u must be of a number type .* got none"),
    "shapes": ({"a": np.ones(2)}, ShapeError, "must broadcast"),
    "states": ({"x0": np.ones(3)}, ShapeError, "x0 must broadcast"),
    "reverse": ({"x0": 1.0, "reverse": True}, OptionError, "x0 doesn't go with reverse"),
    "offsets": ({"offsets": [0, 2]}, ShapeError, "end with 3"),
    "gradients": ({"gradients": 1}, OptionTypeError, "gradients must be"),
    "of the transpose": ({"gradients": True, "reverse": True}, OptionError, "gradients don't go with reverse"),
    "precision": ({"precision": "some"}, OptionError, "precision must be"),
    "longs": ({"u": np.ones(3, np.longdouble)}, DTypeError, "numbers that recfact computes in"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(machine, name):
    options, error, words = WRONG[name]
    with pytest.raises(error, match=words):
        rf.gpu.warm_up(**{"a": np.ones(3), "u": np.ones(3), **options})
    assert machine.compiled == []


def test_without_a_gpu_it_says_what_is_missing(machine):
    machine.devices = 0
    with pytest.raises(DeviceError):
        rf.gpu.warm_up(np.ones(3), np.ones(3))
