"""Where gradients go: to new memory, or to arrays of the caller, so that a loop allocates them only once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from recfact.arrays import Array
from recfact.errors import OptionError, OptionTypeError
from recfact.results import check_out, note_written


class Place(NamedTuple):
    """Memory for a gradient.

    Parameters
    ----------
    given : array
        The array or tensor that the caller gave.
    array : ndarray
        The same memory.
    """

    given: Any
    array: Array

    def filled(self, found: Array) -> Any:
        """Return the array that the caller gave, with these numbers in it. They may be there already."""
        if not np.may_share_memory(found, self.array):
            self.array[...] = found
        return self.given


def places_of(
    out: Any, likes: dict[str, Any], dtype: np.dtype[Any], tensors: bool, others: dict[str, Array]
) -> list[Place | None]:
    """Return where gradients go. None means new memory.

    Parameters
    ----------
    out : tuple or None
        An array or None for each gradient.
    likes : dict
        For the name of each gradient, the argument whose shape it has.
    dtype : dtype
        The number type of the gradients.
    tensors : bool
        Whether they are tensors.
    others : dict
        By name, the arrays that the gradients are computed from. They must not be overwritten.
    """
    if out is None:
        return [None] * len(likes)
    if not isinstance(out, tuple):
        required = f"must be a tuple, ({', '.join(likes)}), with None where new memory is to be taken"
        raise OptionTypeError(required, "out", given=out)
    if len(out) != len(likes):
        raise OptionError(f"must hold {' and '.join(likes)}, or None in their place", "out", given=out)
    taken = dict(others)
    places: list[Place | None] = []
    for (name, like), given in zip(likes.items(), out, strict=True):
        if given is None:
            places.append(None)
            continue
        array = check_out(given, np.shape(like), (dtype,), tensors, f"{name} of out")
        _check_apart(array, taken, f"{name} of out")
        taken[name] = array
        places.append(Place(given, array))
    if tensors:
        for place in filter(None, places):
            note_written(place.given)
    return places


def _check_apart(array: Array, taken: dict[str, Array], name: str) -> None:
    for other, memory in taken.items():
        if np.may_share_memory(array, memory) and np.shares_memory(array, memory):
            raise OptionError(f"overlaps with {other} in memory", name, advice="pass memory of its own")
