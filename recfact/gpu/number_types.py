"""The number types that kernels take, by their names."""

from __future__ import annotations

from typing import NamedTuple


class NumberType(NamedTuple):
    """What plans know of a number type.

    Parameters
    ----------
    size : int
        Bytes of a number.
    c_type : str
        The type in CUDA C++.
    computed : str
        Name of the number type that kernels compute in.
    """

    size: int
    c_type: str
    computed: str


NUMBER_TYPES = {
    "float16": NumberType(2, "half", "float32"),
    "bfloat16": NumberType(2, "__nv_bfloat16", "float32"),
    "float32": NumberType(4, "float", "float32"),
    "float64": NumberType(8, "double", "float64"),
    "complex64": NumberType(8, "float2", "complex64"),
    "complex128": NumberType(16, "double2", "complex128"),
}
