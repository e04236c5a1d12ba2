"""Dense forms and pictures compile nothing, so nobody waits for a compiler to look at a matrix."""

import numpy as np
import pytest

import recfact as rf
from recfact.cpu.compilation import Kernel


@pytest.mark.parametrize("coefficient", [0.5, 2.0, np.float32(0.5), 0.5j])
@pytest.mark.parametrize("name", ["to_dense", "to_html", "__repr__"])
def test_looking_at_a_matrix_compiles_nothing(coefficient, name, monkeypatch):
    def refused(kernel, lanes):
        raise AssertionError(f"{kernel.function.__name__} was asked for")

    monkeypatch.setattr(Kernel, "__getitem__", refused)
    a = np.full(40, coefficient)
    transfer = rf.TransferOperator(a)
    operators = [transfer, transfer.T, transfer.H, transfer.inv(), rf.KoggeStone(a), rf.BrentKung(a)]
    operators += [rf.Hierarchical(a, block=4), *map(transfer.truncate, ("jagged:4", "uniform:5", "full"))]
    for operator in operators:
        getattr(operator, name)()
    with pytest.raises(AssertionError):
        transfer @ a


@pytest.mark.parametrize("dtype", [np.float64, np.float16, object])
@pytest.mark.parametrize("window", ["full", "jagged:4", "uniform:5"])
def test_entries_are_those_of_the_products_with_unit_vectors(dtype, window, rng):
    numbers = np.finfo(float if dtype is object else dtype)
    # Halves are computed in float32 and rounded once. In the others each product rounds both results.
    rtol = float(numbers.eps) * (2 if dtype is np.float16 else 23)
    operator = rf.TransferOperator(rng.uniform(-1, 1, 23).astype(dtype)).truncate(window)
    whole = operator @ np.eye(23, dtype=dtype)
    for rows, columns in [(range(23), range(23)), (range(5, 9), range(2, 6)), (range(22, 3, -4), range(3))]:
        np.testing.assert_allclose(
            operator[rows.start : rows.stop : rows.step, columns.start : columns.stop].astype(float),
            whole[np.ix_(rows, columns)].astype(float),
            rtol=rtol,
            atol=float(numbers.smallest_subnormal),
        )
