"""Where compiled code expects the states of tensors on a GPU, and where the engine puts them."""

from __future__ import annotations

import sys
from itertools import permutations, product

import numpy as np
import pytest
from gpu.stand_in import on_gpu

import recfact as rf

torch = pytest.importorskip("torch")
operators = pytest.importorskip("recfact.torch.operators")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # of torch's own making

SHAPES = [((2, 3, 4), (2, 3, 4)), ((2, 1, 4), (2, 3, 4)), ((2, 3, 4), (1, 3, 4)), ((4,), (2, 3, 4)), ((2, 3, 4), (4,))]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_compiled_code_knows_where_states_lie(machine, monkeypatch, shapes):
    found = []
    for orders in product(*(permutations(range(len(shape))) for shape in shapes)):
        pairs = list(zip(shapes, orders, strict=True))
        stored = [np.ones([shape[k] for k in order], "f4") for shape, order in pairs]
        own = [array.transpose(np.argsort(order)) for array, order in zip(stored, orders, strict=True)]
        there = [on_gpu(array).transpose(np.argsort(order)) for array, order in zip(stored, orders, strict=True)]
        found.append((own, rf.solve(*there).strides))
    monkeypatch.setitem(sys.modules, "torch", torch)  # itself, which has tensors of a GPU without numbers
    for own, strides in found:
        with torch._subclasses.FakeTensorMode():
            a, u = (torch.empty_strided(one.shape, [k // 4 for k in one.strides], device="cuda:0") for one in own)
            fake = operators.compiled_solve(a, u, None, None, -1, False, "full")
        assert [4 * step for step in fake.stride()] == list(strides)
