"""`warm_up` compiles what a solve of such arrays launches, and nothing else."""

from types import SimpleNamespace

import numpy as np
import pytest
from gpu import stand_in, torch_stand_in
from gpu.stand_in import on_gpu

import recfact as rf
from recfact.errors import ArrayTypeError, DeviceError, DTypeError, OptionError, ShapeError
from recfact.number_types import BFLOAT16

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
