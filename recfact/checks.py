"""Checks of single arguments, whose errors say what was required, what was given and what to do."""

from operator import index
from typing import Any

import numpy as np

from recfact.errors import OptionError


def integer(value: Any, name: str) -> int:
    """Return `value` as a Python int.

    Raises
    ------
    TypeError
        If `value` isn't an integer (floats, NaN and booleans are not).
    """
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got the boolean {value}; pass a number")
    try:
        return index(value)
    except TypeError:
        raise TypeError(
            f"{name} must be an integer, got {value!r} of type {type(value).__name__}; convert it with int()"
        ) from None


def positive_integer(value: Any, name: str, least: int = 1) -> int:
    """Return `value` as a Python int of at least `least`.

    Raises
    ------
    TypeError
        If `value` isn't an integer (floats, NaN and booleans are not).
    OptionError
        If it is smaller than `least`.
    """
    number = integer(value, name)
    if number < least:
        raise OptionError(f"{name} must be at least {least}, got {number}; pass a larger integer")
    return number


def boolean(value: Any, name: str) -> bool:
    """Return `value` as a Python bool.

    Raises
    ------
    TypeError
        If `value` is neither True nor False.
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise TypeError(f"{name} must be True or False, got {value!r} of type {type(value).__name__}; pass bool(...) of it")


def choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`.

    Raises
    ------
    OptionError
        If it isn't.
    """
    if isinstance(value, str) and value in choices:
        return value
    raise OptionError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
