"""Operators and arrays on a GPU: products of the library of the array, against those on the host."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from gpu import stand_in, torch_stand_in
from gpu.stand_in import on_gpu
from gpu.test_on_device import from_gpu, to_gpu
from scipy.sparse.linalg import aslinearoperator

import recfact as rf
from recfact.errors import ArrayTypeError, DTypeError, ShapeError
from recfact.number_types import BFLOAT16

N = 21
SIGNS = np.array([1, -1, 2, 0.5, -0.5, 0, 1] * 3)  # dyadic numbers: all products and sums are exact

OPERATORS = {
    "transfer": rf.TransferOperator,
    "inverse": lambda a: rf.TransferOperator(a).inv(),
    "band": lambda a: rf.TransferOperator(a).truncate(rf.Uniform(3)),
    "jagged": lambda a: rf.TransferOperator(a).truncate(rf.Jagged(4)),
    "Neumann": lambda a: rf.TransferOperator(a).neumann(4),
    "Kogge-Stone": rf.KoggeStone,
    "Brent-Kung": rf.BrentKung,
    "factor": lambda a: rf.KoggeStone(a).factors[1],
    "scaled": lambda a: rf.TransferOperator(a) * 2,
    "halved": lambda a: rf.TransferOperator(a) / 2,
    "sum": lambda a: rf.TransferOperator(a) + rf.KoggeStone(a),
    "product": lambda a: rf.TransferOperator(a).inv() @ rf.BrentKung(a),
    "power": lambda a: rf.TransferOperator(a) ** 2,
    "hierarchical": lambda a: rf.Hierarchical(a, 4),
    "even blocks": lambda a: rf.Hierarchical(a, 7, local_solve="scan"),
    "one block": lambda a: rf.Hierarchical(a, 100, local_solve="sequential"),
    "nested": lambda a: rf.Hierarchical(a, (2, 3, 2), carrier_solve="gemm"),
    "D": lambda a: rf.Hierarchical(a, 4).parts.D,
    "G": lambda a: rf.Hierarchical(a, 4).parts.G,
    "Z": lambda a: rf.Hierarchical(a, 4).parts.Z,
    "T": lambda a: rf.Hierarchical(a, 4).parts.T,
    "R": lambda a: rf.Hierarchical(a, 4).parts.R,
    "parts": lambda a: composed(*rf.Hierarchical(a, (4, 2)).parts),
    "local": lambda a: rf.Hierarchical(a, 4).local[5],
    "off-diagonal": lambda a: rf.Hierarchical(a, 4).off_diagonal(5, 0),
    "next to the diagonal": lambda a: rf.Hierarchical(a, 4).off_diagonal(1, 0),
    "error of a band": lambda a: rf.TransferOperator(a).truncate(rf.Uniform(3)).error_operator(),
    "error of blocks": lambda a: rf.TransferOperator(a).truncate(rf.Jagged(4)).error_operator(),
    "error of states": lambda a: rf.TransferOperator(a).truncate(rf.Jagged(4, 0)).relative_error_operator(),
    "error of two states": lambda a: rf.TransferOperator(a).truncate(rf.Jagged(7, 0)).relative_error_operator(),
    "error of one state": lambda a: rf.TransferOperator(a).truncate(rf.Jagged(13, 0)).relative_error_operator(),
    "no error": lambda a: rf.TransferOperator(a).truncate(rf.Jagged(2**99)).relative_error_operator(),
}


def composed(D, G, Z, T, R):  # the names of the formula
    return D + G @ Z @ T @ R


TYPES = ["f4", "c8", "f2", BFLOAT16]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("way", ["as it is", "transposed", "adjoint"])
@pytest.mark.parametrize("dtype", TYPES)
def test_products_are_those_of_the_host(machine, rng, name, way, dtype):
    a = SIGNS.astype(dtype) * (1j if dtype == "c8" else 1)
    operator = OPERATORS[name](a.astype(dtype))
    operator = {"as it is": operator, "transposed": operator.T, "adjoint": operator.H}[way]
    rows, columns = operator.shape
    for rest in ((), (3,)):
        x = rng.integers(-2, 3, (columns, *rest)).astype(dtype)
        expected = operator @ x
        y = operator @ on_gpu(x)
        assert type(y) is stand_in.ndarray
        assert (y.dtype, y.shape) == (expected.dtype, (rows, *rest))
        np.testing.assert_array_equal(y.get(), expected)
        t = operator @ torch_stand_in.tensor(x)
        assert type(t) is torch_stand_in.Tensor
        np.testing.assert_array_equal(t.numpy(), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("name", OPERATORS)
def test_products_on_a_real_gpu(name, rng):
    for dtype in TYPES:
        operator = OPERATORS[name](SIGNS.astype(dtype))
        for direction in (operator, operator.T):
            for rest in ((), (3,)):
                x = rng.integers(-2, 3, (direction.shape[1], *rest)).astype(dtype)
                np.testing.assert_array_equal(from_gpu(direction @ to_gpu(x)), direction @ x)


@pytest.mark.parametrize(
    ("a_type", "x_type"), [("f8", "f4"), ("f4", "c8"), ("f2", BFLOAT16), (BFLOAT16, "f4"), ("f4", "i4")]
)
def test_types_are_those_of_the_host(machine, a_type, x_type):
    operator, x = rf.TransferOperator(SIGNS.astype(a_type)), np.arange(N).astype(x_type)
    y, expected = operator @ on_gpu(x), operator @ x
    assert y.dtype == expected.dtype
    np.testing.assert_array_equal(y.get(), expected)


def test_halves_are_solved_as_halves(machine):
    rf.TransferOperator(SIGNS.astype("f2")) @ on_gpu(np.ones(N, "f2"))
    assert dict(machine.launches[-1].launch.macros)["INPUT"] == "half"
    rf.TransferOperator(SIGNS.astype("f2")) * 2 @ on_gpu(np.ones(N, "f2"))
    assert dict(machine.launches[-1].launch.macros)["INPUT"] == "float"  # rounded once, at the end


REFUSED = {
    "another's": (
        lambda: (rf.TransferOperator(SIGNS) + aslinearoperator(np.eye(N)), np.ones(N)),
        ArrayTypeError,
        "MatrixLinearOperator.* isn't an operator of recfact's .* the host only, got an array on a GPU; copy it",
    ),
    "exact blocks": (
        lambda: (rf.Hierarchical([Fraction(1, 2)] * N, 4), np.ones(N)),
        DTypeError,
        "Hierarchical.*exact scalars",
    ),
    "exact": (lambda: (rf.TransferOperator([Fraction(1, 2)] * N), np.ones(N)), DTypeError, "exact scalars"),
    "length": (
        lambda: (rf.TransferOperator(SIGNS), np.ones(N + 1)),
        ShapeError,
        rf"\({N}, m\), got shape \({N + 1},\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_for_the_host_only_says_so(machine, name):
    make, kind, words = REFUSED[name]
    operator, x = make()
    with pytest.raises(kind, match=words):
        operator @ on_gpu(x)


@pytest.mark.parametrize("name", ["scaled", "nested", "parts", "error of blocks"])
def test_a_product_waits_for_nothing(machine, name):
    y = OPERATORS[name](SIGNS) @ on_gpu(np.ones(N))
    assert machine.queue(0).done == 0
    assert y.shape == (N,)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_short_products_are_those_of_the_host(machine, n):
    for name in ("hierarchical", "nested", "parts", "error of a band", "error of blocks", "error of one state"):
        operator = OPERATORS[name](SIGNS[:n])
        for direction in (operator, operator.T):
            for shape in ((n,), (n, 2), (n, 0)):
                x = np.arange(1.0, n * 2 + 1)[: np.prod(shape)].reshape(shape)
                np.testing.assert_array_equal((direction @ on_gpu(x)).get(), direction @ x)


def test_blocks_are_solved_by_the_engine_all_at_once(machine):
    rf.Hierarchical(SIGNS, 4) @ on_gpu(np.ones((N, 3)))
    assert len(machine.launches) == 2  # the blocks, and their carriers


@pytest.mark.parametrize("method", ["carriers", "error"])
def test_what_is_no_product_is_for_the_host(machine, method):
    operator = rf.Hierarchical(SIGNS, 4) if method == "carriers" else rf.TransferOperator(SIGNS).truncate(rf.Uniform(3))
    with pytest.raises(ArrayTypeError, match="u must be on the host here, got a ndarray on a GPU; copy it"):
        getattr(operator, method)(on_gpu(np.ones(N)))


@pytest.mark.torch
def test_products_with_tensors_of_the_host_are_tensors():
    import torch

    for dtype in (torch.float64, torch.bfloat16):
        x = torch.arange(N).to(dtype)
        y = rf.TransferOperator(SIGNS) @ x
        assert isinstance(y, torch.Tensor)
        np.testing.assert_array_equal(y.numpy(), rf.TransferOperator(SIGNS) @ np.arange(N))


def test_coefficients_stay_on_the_host(machine):
    words = r"keeps its coefficients on the host, got a ndarray on a GPU; copy them .* or .*solve\(a, u, axis=0\)"
    with pytest.raises(ArrayTypeError, match=words):
        rf.TransferOperator(on_gpu(SIGNS))


def test_coefficients_on_the_gpu_are_for_solve(machine, rng):
    operator, x = rf.TransferOperator(SIGNS), on_gpu(rng.integers(-2, 3, (N, 3)).astype("f8"))
    for product, reverse in ((operator @ x, False), (operator.T @ x, True)):
        solved = rf.solve(on_gpu(SIGNS[:, None]), x, axis=0, reverse=reverse)
        np.testing.assert_array_equal(product.get(), solved.get())


def test_coefficients_that_change_count_in_the_next_product(machine):
    operator, x = rf.TransferOperator(SIGNS.copy()), on_gpu(np.ones(N))
    for _ in range(2):
        np.testing.assert_array_equal((operator @ x).get(), operator @ np.ones(N))
        operator.a *= 2
