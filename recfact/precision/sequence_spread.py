"""Summaries of numbers for each step of many sequences: the largest number of each sequence, and the worst sequence."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy, check_axis
from recfact.containers import without_labels
from recfact.errors import DTypeError, OptionError, shown
from recfact.plain_records import PlainRecord
from recfact.written_numbers import at_most

SHARES = (0.25, 0.5, 0.75)
"""The quantiles that are printed."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Spread(PlainRecord):
    """The largest number of each sequence. It prints the worst one, and how the others are spread.

    Parameters
    ----------
    by_sequence : ndarray
        The largest number of each sequence, in the shape of the summarised array without the axis of time.
    steps : ndarray of int
        The first step at which each of these numbers is reached.
    axis : int
        The axis of time, counted from 0.

    Notes
    -----
    Shown on the page on verification ("Several sequences").
    """

    by_sequence: Array
    steps: Array
    axis: int

    def __len__(self) -> int:
        return self.by_sequence.size

    @property
    def largest(self) -> Any:
        """The largest number of all. It is 0 if there is no sequence, and NaN if one is NaN."""
        return self.by_sequence.max(initial=0).item() if len(self) else 0

    @property
    def worst(self) -> tuple[int, ...]:
        """The place of the largest number of all, as an index with its step.

        Raises
        ------
        OptionError
            If there is no sequence.
        """
        if len(self) == 0:
            raise OptionError("the worst sequence is one of at least one step, got none; pass one")
        place = np.unravel_index(int(self.by_sequence.argmax()), self.by_sequence.shape)
        index = [int(number) for number in place]
        index.insert(self.axis, int(self.steps[place]))
        return tuple(index)

    def above(self, limit: Any) -> int:
        """Return how many sequences have a number that is above a limit or NaN."""
        return int(np.count_nonzero(~(self.by_sequence <= limit)))

    def ranked(self) -> Array:
        """Return the indices of all sequences, shape (sequences, axes but that of time), the worst first."""
        if not self.by_sequence.ndim:  # a single sequence, whose index is empty
            return np.zeros((len(self), 0), dtype=np.int64)
        order = np.argsort(self.by_sequence.ravel(), kind="stable")
        alike = np.argsort(-self.by_sequence.ravel()[order], kind="stable")
        return np.stack(np.unravel_index(order[alike], self.by_sequence.shape), axis=-1)

    def quantile(self, *shares: float) -> list[Any]:
        """Return quantiles: in a share q of the sequences, between 0 and 1, the largest number is no larger.

        Raises
        ------
        OptionError
            If a share is outside [0, 1], or there are no sequences.
        """
        return quantiles(self.by_sequence, *shares)

    @property
    def place(self) -> str:
        """The worst sequence as an index that NumPy takes, as in [3, :, 7]."""
        return f"[{', '.join(':' if axis == self.axis else str(at) for axis, at in enumerate(self.worst))}]"

    def __str__(self) -> str:
        if len(self) == 0:
            return "no sequences"
        *quartiles, largest = (f"{at_most(number, 6):.6g}" for number in self.quantile(*SHARES, 1))
        spread = f"quartiles {', '.join(quartiles)}, largest {largest}, of {self.place}"
        return f"the largest of each of {len(self)} sequences: {spread}"

    __repr__ = __str__


def spread(values: Any, *, axis: int = -1) -> Spread:
    """Summarise numbers for each step of many sequences: bounds, errors or horizons.

    Parameters
    ----------
    values : array_like
        A real number for each step of each sequence, as `forward_bound` and others return them.
    axis : int, default -1
        The axis of time.

    Returns
    -------
    Spread

    Raises
    ------
    ShapeError
        If there is no such axis.
    DTypeError
        If they aren't real numbers.

    Notes
    -----
    Shown on the page on verification ("Several sequences").

    Examples
    --------
    >>> from recfact import precision as pr
    >>> gates = np.full((4, 100, 8), 0.5)
    >>> gates[2, :, 5] = 0.99
    >>> bound = pr.forward_bound(gates, np.ones(gates.shape), "float32", axis=1)
    >>> print(pr.spread(bound, axis=1))  # doctest: +ELLIPSIS
    the largest of each of 32 sequences: quartiles ..., largest ..., of [2, :, 5]
    >>> pr.spread(bound, axis=1).above(1e-5), pr.spread(bound, axis=1).worst
    (1, (2, 99, 5))
    """
    values, _, _, axis = without_labels(values, None, None, axis)
    numbers = as_numpy(values, "values")
    time = check_axis(axis, numbers.ndim)
    if numbers.dtype.kind not in "biuf":
        raise DTypeError(
            f"values must be real numbers, got an array of {numbers.dtype}; convert them with .astype(float)"
        )
    return spread_of(numbers, time)


def spread_of(numbers: Array, axis: int) -> Spread:
    """Return the result of `spread` for an array whose axis has been checked."""
    if numbers.shape[axis] == 0:
        nothing = np.zeros(0, dtype=numbers.dtype)
        return Spread(nothing, nothing.astype(np.int64), axis)
    steps = np.asarray(numbers.argmax(axis=axis))
    largest = np.take_along_axis(numbers, np.expand_dims(steps, axis), axis)
    return Spread(np.asarray(largest.squeeze(axis)), steps, axis)


def quantiles(values: Array, *shares: float) -> list[Any]:
    """Return quantiles of the values: a share q of them isn't larger.

    Raises
    ------
    OptionError
        If a share is outside [0, 1], or there are no values.
    """
    if not all(isinstance(share, Real) and 0 <= share <= 1 for share in shares):
        raise OptionError(f"shares must be numbers from 0 to 1, got {shown(shares)}; divide percentages by 100")
    if values.size == 0:
        raise OptionError("quantiles need a sequence of at least one step, got an empty one; pass a longer one")
    return [value.item() for value in np.quantile(values, shares, method="inverted_cdf")]
