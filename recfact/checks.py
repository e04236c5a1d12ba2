"""Checks of single arguments. Their errors say what was required, what was given and what to do."""

from collections.abc import Mapping
from difflib import get_close_matches
from operator import index
from typing import Any

import numpy as np

from recfact.errors import OptionError, OptionTypeError, shown


def integer(value: Any, name: str) -> int:
    """Return `value` as a Python int.

    Raises
    ------
    OptionTypeError
        If `value` isn't an integer (floats, NaN and booleans are not).
    """
    if isinstance(value, bool):
        raise OptionTypeError("must be an integer", name, given=value, advice="pass a number")
    try:
        return index(value)
    except TypeError:
        raise OptionTypeError("must be an integer", name, given=value, advice="convert it with int()") from None


LONGEST = 1 << 40
"""More steps, or sequences, than any memory holds."""


def positive_integer(value: Any, name: str, least: int = 1, most: int | None = None) -> int:
    """Return `value` as a Python int of at least `least`, and at most `most` if that is given.

    Raises
    ------
    OptionTypeError
        If `value` isn't an integer (floats, NaN and booleans are not).
    OptionError
        If it is smaller than `least` or larger than `most`.
    """
    number = integer(value, name)
    if number < least:
        raise OptionError(f"must be at least {least}", name, given=number, advice="pass a larger integer")
    if most is not None and number > most:
        raise OptionError(f"must be at most {shown(most)}", name, given=number, advice="pass a smaller integer")
    return number


def boolean(value: Any, name: str) -> bool:
    """Return `value` as a Python bool.

    Raises
    ------
    OptionTypeError
        If `value` is neither True nor False.
    """
    if value is True or value is False or isinstance(value, np.bool_):
        return bool(value)
    raise OptionTypeError("must be True or False", name, given=value, advice="pass bool(...) of it")


def choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`.

    Raises
    ------
    OptionError
        If it isn't.
    """
    if isinstance(value, str) and value in choices:
        return value
    advice = did_you_mean(value, {each: repr(each) for each in choices}) if isinstance(value, str) else ""
    raise OptionError(f"must be one of {', '.join(map(repr, choices))}", name, given=value, advice=advice)


def did_you_mean(text: str, names: Mapping[str, str]) -> str:
    """Return a question that suggests what was meant, or an empty text if nothing is spelled much like `text`.

    Parameters
    ----------
    text : str
        What was given.
    names : mapping of str to str
        What each spelling is suggested as.

    Examples
    --------
    >>> did_you_mean("kogge_stone", {"sequential": "sequential", "kogge-stone": "kogge-stone"})
    'did you mean kogge-stone?'
    """
    close = dict.fromkeys(names[spelling] for spelling in get_close_matches(text, names))
    return f"did you mean {' or '.join(close)}?" if close else ""


def generator(seed: Any) -> np.random.Generator:
    """Return the random number generator of a seed.

    Raises
    ------
    OptionError
        If NumPy can't make a generator from `seed`.
    """
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        required = "must be an integer of at least 0, a sequence of them or a numpy.random.Generator"
        raise OptionError(required, "seed", given=seed) from None


def callback(value: Any, name: str) -> Any:
    """Return `value` if it can be called, or is None.

    Raises
    ------
    OptionTypeError
        If it is something else.
    """
    if value is None or callable(value):
        return value
    raise OptionTypeError("must be a function of one number, or None", name, given=value)


def several(value: Any, name: str) -> list[Any]:
    """Return a list of the values: those of a list or tuple, or a single one.

    Raises
    ------
    OptionError
        If there is no value.
    """
    values = list(value) if isinstance(value, tuple | list) else [value]
    if not values:
        raise OptionError("must name one at least, got none", name, advice="leave it out for its default")
    return values
