"""The sequences for figures."""

from __future__ import annotations

from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy
from recfact.containers import read, without_labels
from recfact.errors import DTypeError, OptionError, ShapeError
from recfact.factorizations.scalars import as_coefficients


def coefficients_of(a: Any) -> Array:
    """Return the coefficients of an operator, or `a` itself, shape (n,), n >= 1.

    Raises
    ------
    ShapeError
        If there is no step, or if the coefficients aren't one sequence.
    """
    coefficients = as_coefficients(a)
    if len(coefficients) == 0:
        raise ShapeError("a must have at least one step to be drawn, got none")
    return coefficients


def one_sequence(a: Any, u: Any) -> tuple[Array, Array]:
    """Return the coefficients and inputs of one sequence as plain arrays, shape (n,), n >= 1.

    Raises
    ------
    ShapeError
        If they aren't single sequences of one length, or their labels differ.
    ArrayTypeError
        If they are on a GPU, or if they are computed later.
    """
    a, u, _, _ = without_labels(a, u)
    coefficients, inputs = coefficients_of(a), as_numpy(u, "u")
    if inputs.shape != coefficients.shape:
        raise ShapeError(
            f"u must be one sequence, as long as the coefficients, got shapes {inputs.shape} and {coefficients.shape}; "
            "call it for each channel"
        )
    return coefficients, inputs


def floating(values: Array, name: str) -> Array:
    """Return `values` if axes can show numbers of their type.

    Raises
    ------
    DTypeError
        If they are Python numbers, symbols or texts.
    """
    if values.dtype.kind in "OSUmM":
        raise DTypeError(f"{name} must be floats or integers to be drawn over time, got {values.dtype}; convert them")
    return values


def beside_steps(values: Any, name: str, n: int) -> Array | None:
    """Return real numbers or moments, one for each of `n` steps, or None.

    Raises
    ------
    ShapeError
        If there aren't n of them.
    DTypeError
        If they are something else.
    OptionError
        If a moment is missing.
    """
    if values is None:
        return None
    try:
        array = np.asarray(read(values, name))
    except ValueError as error:
        raise ShapeError(f"{name} must hold one number for each step, got a ragged sequence ({error})") from None
    if array.shape != (n,):
        raise ShapeError(f"{name} must hold one number for each of {n} steps, got shape {array.shape}")
    if array.dtype.kind not in ("iufM" if name == "time" else "biuf"):
        raise DTypeError(f"{name} must hold real numbers{' or dates' * (name == 'time')}, got {array.dtype}")
    if name == "time" and not np.all(np.isfinite(array)):
        raise OptionError("time must be finite at each step, got NaN, NaT or infinity")
    return array
