"""Graphs of tasks: a chain of chunks, a scan over the maps of chunks, and chunks that read steps in their window."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter
from typing import Any

import dask
from dask.system import CPU_COUNT

from recfact.cuts import Piece, scanned
from recfact.dask.averaging import Averaging
from recfact.dask.operands import Key, Operands, key_of
from recfact.dask.work import Work
from recfact.solve import solve
from recfact.windows import Full, Window

AT_ONCE = 10_000
"""How many maps of chunks one task scans; more are scanned in a tree."""


class Graph:
    """The tasks of a solve.

    Parameters
    ----------
    given : Operands
        Coefficients and inputs.
    work : Work or Averaging
        What the tasks do.
    token : str
        The end of the names of all tasks.
    """

    def __init__(self, given: Operands, work: Work | Averaging, token: str) -> None:
        self.given, self.work, self.token = given, work, token
        self.tasks: dict[Any, Any] = {}
        self.order = given.pieces[::-1] if work.reverse else given.pieces

    def add(self, kind: str, place: tuple[int, ...], task: Callable[..., Any], *arguments: Any) -> Key:
        """Add a task of a kind, which dashboards show, and return its key."""
        key = (self.name(kind), *place)
        self.tasks[key] = (task, *arguments)
        return key

    def name(self, kind: str) -> str:
        """Return the name of the tasks of a kind."""
        return f"{self.work.prefix}-{kind}-{self.token}"

    def chunk(self, column: tuple[int, ...], piece: Piece, a: Any, u: Any) -> tuple[Key, Key]:
        """Return the keys of the chunks of coefficients and inputs."""
        place = self.given.place(column, piece.number)
        return key_of(a, place), key_of(u, place)

    def x0(self, column: tuple[int, ...], piece: Piece, window: Window = Full()) -> Key | None:
        """Return the key of the initial states, if a chunk depends on them."""
        x0 = self.given.x0
        reaches = window != Full() and piece.steps_before(window) == piece.before
        if x0 is None or (piece.before and piece.has_one_segment and not reaches):
            return None
        return key_of(x0, self.given.place(column, 0))

    def fill_in(self, kinds: list[str]) -> None:
        """Add the results of chunks without steps."""
        for column in self.given.columns():
            for number in self.given.empty_chunks():
                place = self.given.place(column, number)
                for kind in kinds:
                    self.add(kind, place, solve, key_of(self.given.a, place), key_of(self.given.u, place))

    def chain(self) -> None:
        """Solve one chunk after another."""
        for column in self.given.columns():
            entering = None
            for piece in self.order:
                place = self.given.place(column, piece.number)
                chunk = self.chunk(column, piece, self.given.a, self.given.u)
                # A task without dependencies lets dask store the states of a chunk before it goes on with the next one.
                turn = self.add("turn", place, bool)
                both = self.add(
                    "chain",
                    place,
                    partial(self.work.of(piece).chained, piece),
                    *chunk,
                    self.x0(column, piece),
                    entering,
                    turn,
                )
                self.add("states", place, itemgetter(0), both)
                entering = self.add("state", place, itemgetter(1), both)

    def carriers(self, a: Any, u: Any) -> None:
        """Solve all chunks independently, after a scan of their maps has found what enters each of them."""
        for column in self.given.columns():
            for piece, entering in zip(self.order, self.entering(column, a, u), strict=True):
                place = self.given.place(column, piece.number)
                chunk = self.chunk(column, piece, self.given.a, self.given.u)
                self.add(
                    "states",
                    place,
                    partial(self.work.of(piece).solved, piece),
                    *chunk,
                    self.x0(column, piece),
                    entering,
                )

    def entering(self, column: tuple[int, ...], a: Any, u: Any) -> list[Key | None]:
        """Return the keys of what enters each chunk, in the order of the recurrence."""
        maps = [
            self.add(
                "map",
                self.given.place(column, piece.number),
                partial(self.work.of(piece).map, piece),
                *self.chunk(column, piece, a, u),
                self.x0(column, piece),
            )
            for piece in self.order[:-1]
        ]
        return list(self.scan(maps, column, None, ())) if self.order else []

    def scan(
        self, maps: list[Key], column: tuple[int, ...], entering: Key | None, level: tuple[int, ...]
    ) -> Iterator[Key | None]:
        """Yield the keys of what enters chunks that follow each other, and of what leaves the last one."""
        if len(maps) <= AT_ONCE:
            place = (*column, *level)
            found = self.add("scan", place, partial(scanned, self.work.merging[0]), maps, entering)
            for number in range(len(maps) + 1):
                yield entering if number == 0 else self.add("entry", (*place, number), itemgetter(number), found)
            return
        groups = [maps[first : first + AT_ONCE] for first in range(0, len(maps), AT_ONCE)]
        joined = [
            self.add("map-of-maps", (*column, *level, n), self.work.merging[1], group) for n, group in enumerate(groups)
        ]
        starts = list(self.scan(joined, column, entering, (*level, len(groups))))
        for n, group in enumerate(groups):
            keys = self.scan(group, column, starts[n], (*level, n))
            yield from (key for key, _ in zip(keys, group, strict=False))
        yield starts[-1]

    def read(self, a: Any, u: Any) -> None:
        """Solve all chunks independently in a window, each with the steps of `a` and `u` that the window needs."""
        for column in self.given.columns():
            for at, piece in enumerate(self.order):
                place = self.given.place(column, piece.number)
                border = self.border(column, at, a, u)
                chunk = self.chunk(column, piece, self.given.a, self.given.u)
                x0 = self.x0(column, piece, self.work.window)
                self.add("states", place, partial(self.work.of(piece).windowed, piece), *chunk, x0, border)

    def border(self, column: tuple[int, ...], at: int, *arrays: Any) -> Key | None:
        """Return the key of the steps of arrays beside a chunk that it depends on, or None if there are none."""
        piece, near = self.order[at], self.near(at)
        if not near:
            return None
        places = [self.given.place(column, other.number) for other in near]
        chunks = ([key_of(array, place) for place in places] for array in arrays)
        task = partial(self.work.of(piece).border, steps_beside(piece, self.work))
        return self.add("border", self.given.place(column, piece.number), task, *chunks)

    def near(self, at: int) -> list[Piece]:
        """Return the pieces that hold steps on which another piece depends, in the order of time."""
        left = steps_beside(self.order[at], self.work)
        near: list[Piece] = []
        while left > 0:
            near.append(self.order[at - 1 - len(near)])
            left -= near[-1].end - near[-1].start
        return near if self.work.reverse else near[::-1]


def steps_beside(piece: Piece, work: Work | Averaging) -> int:
    """Return how many steps beside a piece the window connects to it."""
    return piece.steps_behind(work.window) if work.reverse else piece.steps_before(work.window)


def workers() -> int:
    """Return how many tasks run at the same time, as far as this is known before they start."""
    distributed = sys.modules.get("distributed")
    client = distributed.client._get_global_client() if distributed else None
    if client is not None:
        return max(1, sum(map(int, client.nthreads().values())))
    if dask.config.get("scheduler", None) in ("sync", "synchronous", "single-threaded"):
        return 1
    return int(dask.config.get("num_workers", None) or CPU_COUNT)
