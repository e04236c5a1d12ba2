"""The number types in which recfact computes, in one table for all packages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

DType = np.dtype[Any]


@dataclass(frozen=True, slots=True, eq=False)
class NumberType:
    """The properties of a number type. There is one object for each type.

    Parameters
    ----------
    dtype, accumulator : dtype
        The type in which numbers are stored, and the type in which they are computed.
    format : str
        The format of a real number of this type, by its name in `recfact.precision.FORMATS`.
    c_type : str
        The type in CUDA C++.
    tensor_cores : tuple of int or None
        The lowest compute capability at which the tensor cores of a GPU take it.
    size : int
        Bytes of a number.
    """

    dtype: DType
    accumulator: DType
    format: str
    c_type: str
    tensor_cores: tuple[int, int] | None = None
    size: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", self.dtype.itemsize)

    @property
    def is_complex(self) -> bool:
        """Whether a number is a pair of reals."""
        return self.dtype.kind == "c"

    @property
    def is_half(self) -> bool:
        """Whether numbers are computed in a wider type."""
        return self.dtype != self.accumulator


BFLOAT16, FLOAT16, FLOAT32, FLOAT64, COMPLEX64, COMPLEX128 = (
    np.dtype(kind) for kind in (ml_dtypes.bfloat16, np.float16, np.float32, np.float64, np.complex64, np.complex128)
)

NUMBER_TYPES: Mapping[DType, NumberType] = MappingProxyType(
    {
        kind.dtype: kind
        for kind in (
            NumberType(FLOAT32, FLOAT32, "binary32", "float"),
            NumberType(FLOAT64, FLOAT64, "binary64", "double"),
            NumberType(COMPLEX64, COMPLEX64, "binary32", "float2"),
            NumberType(COMPLEX128, COMPLEX128, "binary64", "double2"),
            NumberType(FLOAT16, FLOAT32, "binary16", "half", tensor_cores=(7, 5)),
            NumberType(BFLOAT16, FLOAT32, "bfloat16", "__nv_bfloat16", tensor_cores=(8, 0)),
        )
    }
)

HALVES = tuple(kind.dtype for kind in NUMBER_TYPES.values() if kind.is_half)
"""The types that are computed in a wider one."""

REALS = {kind.format: kind for kind in NUMBER_TYPES.values() if not kind.is_complex}
"""The types of real numbers by their formats, of which there is one for each."""


def accumulator(dtype: DType) -> DType:
    """Return the number type in which states of `dtype` are computed: float32 for the halves."""
    kind = NUMBER_TYPES.get(dtype)
    return dtype if kind is None else kind.accumulator


def listed(word: str) -> str:
    """Return the names of all number types as a sentence has them.

    Examples
    --------
    >>> listed("or")
    'float32, float64, complex64, complex128, float16 or bfloat16'
    """
    *first, last = (dtype.name for dtype in NUMBER_TYPES)
    return f"{', '.join(first)} {word} {last}"
