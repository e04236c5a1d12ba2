"""Loops in tests, in the place of parameters where there are many: a failure says in which turn it was.

@in_turn("n", range(100))          # one test, where parametrize makes a hundred
def test_every_length(n): ...
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import Parameter, signature
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
    names: str | tuple[str, ...], values: Iterable[Any], one_in: int = 1
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test once for each value of an argument, or of several, as one test. It skips if each of its turns would.

    All turns have the fixtures of the first, so a test must leave these as it found them.

    With `one_in` the default run has one turn of so many, the next case of the test the next ones, and the slow run has
    all that are left. So each value meets some values of each parameter in the default run.
    """
    one = isinstance(names, str)
    turns = [{names: value} if one else dict(zip(names, value, strict=True)) for value in values]
    if len(turns) < one_in:
        raise ValueError(f"of {len(turns)} turns some cases would have none: one_in must be at most that, not {one_in}")

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def take(chosen: list[dict[str, Any]], given: dict[str, Any]) -> None:
            skipped = []
            for turn in chosen:
                with noted(**turn):
                    try:
                        test(**given, **turn)
                    except pytest.skip.Exception as reason:
                        skipped.append(reason)
            if chosen and len(skipped) == len(chosen):
                raise skipped[0]

        whole = signature(test)
        left = [parameter for name, parameter in whole.parameters.items() if name not in turns[0]]

        @wraps(test)
        def loop(**given: Any) -> None:
            take(turns, given)

        @wraps(test)
        def part(request: pytest.FixtureRequest, turns_of: str, **given: Any) -> None:
            case = sum(place for name, place in request.node.callspec.indices.items() if name != "turns_of")
            chosen = [
                turn for place, turn in enumerate(turns) if ((place + case) % one_in == 0) == (turns_of == "default")
            ]
            take(chosen, {**given, "request": request} if "request" in whole.parameters else given)

        if one_in == 1:
            loop.__signature__ = whole.replace(parameters=left)  # type: ignore[attr-defined]
            return loop
        more = [Parameter(name, Parameter.KEYWORD_ONLY) for name in ("request", "turns_of")]
        own = [parameter for parameter in left if parameter.name != "request"]
        part.__signature__ = whole.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        return pytest.mark.parametrize("turns_of", ["default", pytest.param("slow", marks=pytest.mark.slow)])(part)

    return decorate
