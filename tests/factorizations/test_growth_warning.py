"""The warning of growth, and where there is none."""

import re
import warnings
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from market import (
    dtype_of,
)

from recfact.errors import GrowthWarning
from recfact.factorizations.transfer import TransferOperator


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_growth_is_warned_of_from_one_over_eps_on(dtype):
    kind = dtype_of(dtype)
    limit = round(1 / float(ml_dtypes.finfo(kind).eps))
    steps = limit.bit_length() - 1  # a = 2: the norm of n steps is 2^n - 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TransferOperator(np.full(steps, 2, kind))
    with pytest.warns(
        GrowthWarning,
        match=re.escape(
            f"up to about {2.0 ** (steps + 1) - 1:.3g} (inf-norm of L), beyond the {float(limit):.3g} that {kind}"
        ),
    ) as caught:
        TransferOperator(np.full(steps + 1, 2, kind))
    assert caught[0].filename == __file__


def test_growth_of_a_long_sum():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TransferOperator(np.ones(128, ml_dtypes.bfloat16))
    with pytest.warns(GrowthWarning, match="up to about 129 "):
        TransferOperator(np.ones(129, ml_dtypes.bfloat16))


def test_growth_beyond_the_floats():
    with pytest.warns(GrowthWarning, match="more than float64 holds"):
        TransferOperator(np.full(2000, 2.0))


@pytest.mark.parametrize(
    "a",
    [
        [Fraction(2)] * 100,
        [1e300],
        [1e300, 0.5],
        [0.0, np.nan],
        [],
        np.full(100, -1.0),
        np.array([1, 2**30, 0, 2**20, 2.0**-30]),
        np.array([0, 1023], np.float16),
    ],
    ids=["objects", "one step", "a[0] is not part of L", "nan", "empty", "signs", "reset", "the limit itself"],
)
def test_no_false_growth(a):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TransferOperator(a)


def test_derived_operators_do_not_warn_again():
    with pytest.warns(GrowthWarning):
        L = TransferOperator(np.full(60, 2j))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (L.H @ np.ones(60))[0] == np.conj(L.T @ np.ones(60))[0]
        assert L.norm(2) > 2**59
