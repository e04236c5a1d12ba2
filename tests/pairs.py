"""A sample of a grid of choices in which every two values meet."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Any

import numpy as np

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
        values = list(self.choices.values())
        counts = [len(choices) for choices in values]
        first = np.cumsum([0, *counts])  # values are numbered through: those of a choice begin here
        number = {
            name: {value: start + place for place, value in enumerate(choices)}
            for (name, choices), start in zip(self.choices.items(), first, strict=False)
        }
        of_name = {name: place for place, name in enumerate(self.choices)}
        meeting = [pair for pair in combinations(self.choices, 2) if pair not in self.apart]
        one, other = ([of_name[pair[side]] for pair in meeting] for side in (0, 1))
        left = np.zeros((first[-1], first[-1]), bool)
        for i, k in zip(one, other, strict=True):
            left[first[i] : first[i + 1], first[k] : first[k + 1]] = True

        draw = np.random.default_rng(rng.getrandbits(64))
        given = list(given)
        rows = list(draw.integers(first[:-1], first[1:], (len(given), len(counts))))
        for drawn, row in zip(rows, given, strict=True):
            for name, value in row.items():
                drawn[of_name[name]] = number[name][value]
            left[drawn[one], drawn[other]] = False
        choice = np.repeat(np.arange(len(counts)), counts)
        for wanted in np.argwhere(left):
            if left[tuple(wanted)]:
                drawn = draw.integers(first[:-1], first[1:], (50, len(counts)))
                drawn[:, choice[wanted]] = wanted
                rows.append(drawn[left[drawn[:, one], drawn[:, other]].sum(axis=1).argmax()])
                left[rows[-1][one], rows[-1][other]] = False
        return [
            {name: self.choices[name][place] for name, place in zip(self.choices, row - first[:-1], strict=True)}
            for row in rows
        ]
