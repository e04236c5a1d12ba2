"""The table of number types against NumPy, ml_dtypes, the formats of `recfact.precision`, and CUDA's own names."""

import re

import ml_dtypes
import numpy as np
import pytest

from recfact.number_types import NUMBER_TYPES, REALS, accumulator, listed
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.catalogue import format as format_of

TABLE = list(NUMBER_TYPES.values())


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.dtype.name)
def test_a_number_type_is_what_its_dtype_and_its_format_are(kind):
    real = np.zeros((), kind.dtype).real.dtype
    assert format_of(real).name == kind.format
    parts = 2 if kind.is_complex else 1
    assert kind.size == kind.dtype.itemsize == parts * FORMATS[kind.format].bits // 8
    limits = ml_dtypes.finfo(real)
    assert (float(limits.max), limits.nmant) == (float(FORMATS[kind.format].max), FORMATS[kind.format].fraction_bits)


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.dtype.name)
def test_every_number_is_one_of_the_accumulator(kind):
    assert np.can_cast(kind.dtype, kind.accumulator, "safe")
    assert accumulator(kind.accumulator) == accumulator(kind.dtype) == kind.accumulator
    assert kind.is_half == (kind.size == 2) == (kind.tensor_cores is not None)


def test_types_that_are_not_in_the_table_are_computed_in_as_they_are():
    assert accumulator(np.dtype(object)).kind == "O"
    assert [kind.dtype for kind in REALS.values()] == [kind.dtype for kind in TABLE if np.isrealobj(kind.dtype.type(0))]


def test_the_names_in_sentences_are_those_of_the_table():
    assert set(re.split(r", | or ", listed("or"))) == {kind.dtype.name for kind in TABLE}
