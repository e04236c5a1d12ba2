"""Samples of the cases of a test: what the default run has of them, and what it leaves to the slow run.

@pytest.mark.sampled(1)            # each dtype, each window and each way in some case of the default run
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("way", WAYS)
def test_the_bits(dtype, window, way): ...


@pytest.mark.parametrize("fmt", one_in(3, FORMATS))
def test_rounding(fmt): ...        # a third of the formats in the default run
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations
from typing import Any
from zlib import crc32

import pytest


def leave_to_the_slow_run(items: Iterable[Any]) -> None:
    """Mark a case of a `sampled` test as slow if other cases that aren't have all that meets in it.

    Cases are taken in an order that their names decide, so every run has the same sample.
    """
    met: dict[Any, set[Any]] = defaultdict(set)
    sampled = [item for item in items if item.get_closest_marker("sampled") and not item.get_closest_marker("slow")]
    for item in sorted(sampled, key=lambda item: crc32(item.nodeid.encode())):
        known = met[item.path, item.originalname]
        # A value is known by where it is, because some can't be hashed.
        values = sorted((name, id(value)) for name, value in item.callspec.params.items())
        new = {*combinations(values, item.get_closest_marker("sampled").args[0])} - known
        if not new:
            item.add_marker("slow")
        known |= new


def one_in(every: int, values: Iterable[Any]) -> list[Any]:
    """Return values for parametrize: the first of each `every` for the default run, the others marked as slow."""
    return [pytest.param(value, marks=[pytest.mark.slow] * (place % every > 0)) for place, value in enumerate(values)]
