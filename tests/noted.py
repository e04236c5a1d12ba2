"""Loops in tests, in the place of parameters where there are many: a failure says in which turn it was.

@in_turn("n", range(100))          # one test, where parametrize makes a hundred
def test_every_length(n): ...
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from typing import Any

import pytest


@contextmanager
def noted(**turn: Any) -> Iterator[None]:
    """Add to an error what is special about this turn of a loop."""
    try:
        yield
    except BaseException as error:
        error.add_note(", ".join(f"{name} = {value}" for name, value in turn.items()))
        raise


def in_turn(
    names: str | tuple[str, ...], values: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test once for each value of an argument, or of several, as one test. It skips if each of its turns would.

    All turns have the fixtures of the first, so a test must leave these as it found them.
    """
    one = isinstance(names, str)
    turns = [{names: value} if one else dict(zip(names, value, strict=True)) for value in values]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def loop(**given: Any) -> None:
            skipped = []
            for turn in turns:
                with noted(**turn):
                    try:
                        test(**given, **turn)
                    except pytest.skip.Exception as reason:
                        skipped.append(reason)
            if len(skipped) == len(turns):
                raise skipped[0]

        whole = signature(test)
        left = [parameter for name, parameter in whole.parameters.items() if name not in turns[0]]
        loop.__signature__ = whole.replace(parameters=left)  # type: ignore[attr-defined]
        return loop

    return decorate
