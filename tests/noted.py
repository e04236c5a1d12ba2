"""Loops in tests, in the place of parameters where there are many: a failure says in which turn it was."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def noted(**turn: Any) -> Iterator[None]:
    """Add to an error what is special about this turn of a loop."""
    try:
        yield
    except BaseException as error:
        error.add_note(", ".join(f"{name} = {value}" for name, value in turn.items()))
        raise
