"""The direction of steps in the memory of each array: the recurrence may be reversed, and an array may be flipped."""

from __future__ import annotations

from collections.abc import Sequence

from recfact.cpu.numbers import Lanes

ARRAYS = "xua"  # states, inputs and coefficients


class Directed(Lanes):
    """Lanes of rows whose steps run one way or the other.

    Parameters
    ----------
    storage, count, streams
        As in `Lanes`.
    reverse : bool
        Whether the steps run from the last position to the first.
    flipped : str
        The arrays, of x, u and a, that lie in memory the other way round, with the first position last.
    """

    def __init__(self, storage: str, count: int, reverse: bool, flipped: str, streams: bool = False) -> None:
        super().__init__(storage, count, streams)
        self.reverse = reverse
        self.flipped = flipped

    def runs_backwards(self, array: str) -> bool:
        """Return whether the steps run from the last number of an array in memory to the first."""
        return self.reverse != (array in self.flipped)

    @property
    def units(self) -> Sequence[int]:
        """Bytes in memory from position to position if numbers are worked on in place, for x, u and a."""
        return [-self.itemsize if array in self.flipped else self.itemsize for array in ARRAYS]
