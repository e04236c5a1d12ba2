"""Scalars that count what is done to them, and a memory that counts what is read and written.

Algorithms run on them as they run on numbers; nothing is estimated.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Tally:
    """Operations counted so far."""

    multiplications: int = 0
    additions: int = 0


class Counted:
    """A scalar that counts multiplications and additions and knows when it is ready.

    `depth` is the number of dependent multiply-adds behind it: adding a fresh product costs no step of its own.
    """

    def __init__(self, tally: Tally, depth: int = 0, product: bool = False) -> None:
        self.tally, self.depth, self.product = tally, depth, product

    def __mul__(self, other: "Counted") -> "Counted":
        self.tally.multiplications += 1
        return Counted(self.tally, max(self.depth, other.depth) + 1, product=True)

    def __add__(self, other: "Counted") -> "Counted":
        assert other.product, "the algorithms here add products only"
        self.tally.additions += 1
        return Counted(self.tally, max(self.depth + 1, other.depth))


def counted(n: int, tally: Tally) -> np.ndarray[Any, Any]:
    """Return n counting scalars."""
    return np.array([*(Counted(tally) for _ in range(n)), None], dtype=object)[:-1]


class Rounded:
    """A scalar that knows how many roundings each term of it has been through.

    A coefficient is {None: count}; a state is {j: count of the term with u[j]}.
    """

    def __init__(self, counts: dict[int | None, int]) -> None:
        self.counts = counts

    def __mul__(self, other: "Rounded") -> "Rounded":
        coefficient, vector = (self, other) if None in self.counts else (other, self)
        extra = coefficient.counts[None] + 1
        return Rounded({term: count + extra for term, count in vector.counts.items()})

    def __add__(self, other: "Rounded") -> "Rounded":
        assert not self.counts.keys() & other.counts.keys()
        return Rounded({term: count + 1 for term, count in (self.counts | other.counts).items()})


def rounded_problem(n: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return coefficients and inputs that count roundings."""
    a = np.array([*(Rounded({None: 0}) for _ in range(n)), None], dtype=object)[:-1]
    u = np.array([*(Rounded({j: 0}) for j in range(n)), None], dtype=object)[:-1]
    return a, u


@dataclass
class Memory:
    """Main memory: values by place. A stage pays once for reading a place it has not written, once for a write."""

    values: dict[Any, Counted]
    words: int = 0
    _read: set[Any] = field(default_factory=set)
    _written: set[Any] = field(default_factory=set)

    @contextmanager
    def stage(self) -> Iterator[None]:
        """Count the words of one stage."""
        yield
        self.words += len(self._read) + len(self._written)
        self._read, self._written = set(), set()

    def __getitem__(self, place: Any) -> Counted:
        if place not in self._written:
            self._read.add(place)
        return self.values[place]

    def __setitem__(self, place: Any, value: Counted) -> None:
        self._written.add(place)
        self.values[place] = value
