"""Several arrays that broadcast against each other, turned so that time is their first axis, and back."""

from __future__ import annotations

from typing import Any

from recfact.array_functions import broadcast_to, moveaxis


class TimeFirst:
    """Where time is in the common shape of several arrays.

    Parameters
    ----------
    shape : tuple of int
        The shape that arrays broadcast to.
    axis : int
        The axis of time, counted from the front.
    """

    def __init__(self, shape: tuple[int, ...], axis: int) -> None:
        self.shape, self.axis = tuple(shape), axis
        self.steps = self.shape[axis]

    def front(self, array: Any) -> Any:
        """Return an array with all axes and all steps, time first. Other axes of size 1 keep their size."""
        array = self.turned(array)
        return broadcast_to(array, (self.steps, *array.shape[1:]))

    def front_state(self, x0: Any, segments: int | None) -> Any:
        """Return initial states with a row for each segment. Without segments they are one row without an axis."""
        if segments is None:
            return x0.reshape(1, *(1,) * (len(self.shape) - 1 - x0.ndim), *x0.shape)
        x0 = self.turned(x0)
        return broadcast_to(x0, (segments, *x0.shape[1:]))

    def beside(self, segments: int | None) -> tuple[int, ...]:
        """Return the shape of one step, or the shape with a row for each segment in the place of time."""
        rows = () if segments is None else (segments,)
        return (*self.shape[: self.axis], *rows, *self.shape[self.axis + 1 :])

    def back(self, array: Any, shape: tuple[int, ...]) -> Any:
        """Return an array summed to the shape that was broadcast to it, with time where it was."""
        return summed(moveaxis(array, 0, self.axis), shape)

    def back_state(self, array: Any, shape: tuple[int, ...], segments: bool) -> Any:
        """Return sums of initial states in the shape that these have, with an axis of segments or without."""
        return self.back(array, shape) if segments else summed(array, shape)

    def turned(self, array: Any) -> Any:
        """Return an array with all axes, time first. Axes of size 1 keep their size."""
        array = array.reshape((1,) * (len(self.shape) - array.ndim) + tuple(array.shape))
        return moveaxis(array, self.axis, 0)


def summed(array: Any, shape: tuple[int, ...]) -> Any:
    """Return an array summed to a shape that broadcasts to that of the array."""
    missing = array.ndim - len(shape)
    axes = [axis for axis in range(array.ndim) if axis < missing or (shape[axis - missing] == 1 != array.shape[axis])]
    return (array.sum(axis=tuple(axes), keepdims=True) if axes else array).reshape(shape)
