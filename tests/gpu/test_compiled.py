"""Where compiled code expects the states of tensors on a GPU, and where the engine puts them."""

from __future__ import annotations

import sys
from itertools import permutations, product

import numpy as np
import pytest
from gpu.stand_in import on_gpu

import recfact as rf
from recfact.gpu.solver import solve_and_keep

torch = pytest.importorskip("torch")
operators = pytest.importorskip("recfact.torch.operators")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # of torch's own making

SHAPES = [((2, 3, 4), (2, 3, 4)), ((2, 1, 4), (2, 3, 4)), ((2, 3, 4), (1, 3, 4)), ((4,), (2, 3, 4)), ((2, 3, 4), (4,))]


def laid(shapes, orders):
    """Return arrays of the host and of the GPU whose axes lie in memory in these orders."""
    stored = [np.ones([shape[k] for k in order], "f4") for shape, order in zip(shapes, orders, strict=True)]
    own = [array.transpose(np.argsort(order)) for array, order in zip(stored, orders, strict=True)]
    return own, [on_gpu(array).transpose(np.argsort(order)) for array, order in zip(stored, orders, strict=True)]


def fakes(arrays):
    """Return tensors of a GPU without numbers."""
    return [torch.empty_strided(one.shape, [k // 4 for k in one.strides], device="cuda:0") for one in arrays]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_compiled_code_knows_where_states_lie(machine, monkeypatch, shapes):
    found = []
    for orders in product(*(permutations(range(len(shape))) for shape in shapes)):
        own, there = laid(shapes, orders)
        found.append((own, rf.solve(*there).strides))
    monkeypatch.setitem(sys.modules, "torch", torch)  # itself, which has tensors of a GPU without numbers
    for own, strides in found:
        with torch._subclasses.FakeTensorMode():
            fake = operators.compiled_solve(*fakes(own), None, None, -1, False, "full")
        assert [4 * step for step in fake.stride()] == list(strides)


@pytest.mark.parametrize("shapes", [((3, 40, 4), (3, 40, 4)), ((3, 1, 4), (3, 40, 4)), ((40, 4), (3, 40, 4))], ids=str)
def test_compiled_code_knows_where_states_lie_that_are_kept(machine, monkeypatch, shapes):
    found = []
    for order in permutations(range(3)):
        own, there = laid(shapes, [tuple(range(len(shapes[0]))), order])
        found.append((own, *solve_and_keep(*there, axis=1)))
    monkeypatch.setitem(sys.modules, "torch", torch)
    for own, *real in found:
        with torch._subclasses.FakeTensorMode():
            pair = operators.compiled_solve_and_keep(*fakes(own), None, None, -2)
        for fake, array in zip(pair, real, strict=True):
            assert fake.shape == array.shape
            assert [4 * step for step in fake.stride()] == list(array.strides)
