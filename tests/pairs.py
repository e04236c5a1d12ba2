"""A sample of a grid of choices in which every two values meet."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Any

Value = tuple[str, Any]
Pair = tuple[Value, Value]


@dataclass(frozen=True)
class Grid:
    """Choices by name, and the values of each.

    Parameters
    ----------
    choices : mapping
        The values, by the name of the choice.
    apart : set of pairs of names, optional
        Choices whose values needn't meet.
    """

    choices: Mapping[str, Sequence[Any]]
    apart: frozenset[tuple[str, str]] = frozenset()

    def pairs_of(self, row: Mapping[str, Any]) -> Iterator[Pair]:
        """Yield which values meet in a row."""
        names = [name for name in self.choices if name in row]
        for one, other in combinations(names, 2):
            if (one, other) not in self.apart:
                yield (one, row[one]), (other, row[other])

    def all_pairs(self) -> dict[Pair, None]:
        """Return all pairs of values, in a fixed order."""
        names = combinations(self.choices, 2)
        met = (
            self.pairs_of({one: v, other: w})
            for one, other in names
            for v in self.choices[one]
            for w in self.choices[other]
        )
        return dict.fromkeys(pair for pairs in met for pair in pairs)

    def sample(self, rng: Random, given: Iterable[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
        """Return rows in which every pair of values meets.

        First come the `given` ones, whose other choices are drawn. Then, for a pair that is left, of some rows that
        have it the one with most others that are left.
        """
        rows = [self._drawn(rng) | row for row in given]
        met = {pair for row in rows for pair in self.pairs_of(row)}
        left = {pair: None for pair in self.all_pairs() if pair not in met}
        while left:
            wanted = dict(next(iter(left)))
            drawn = [self._drawn(rng) | wanted for _ in range(50)]
            best = max(drawn, key=lambda row: sum(pair in left for pair in self.pairs_of(row)))
            rows.append(best)
            for pair in self.pairs_of(best):
                left.pop(pair, None)
        return rows

    def _drawn(self, rng: Random) -> dict[str, Any]:
        return {name: rng.choice(values) for name, values in self.choices.items()}
