"""Pieces of a sequence on the CPU engine, by the path that the whole sequence would take."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.cpu import channels, limits, rows
from recfact.cpu.engine import plainest, thread_count
from recfact.cpu.row_job import initial_states
from recfact.cpu.runs import Runs
from recfact.cpu.tiles import Tile
from recfact.cpu.time_split import warm_up_steps
from recfact.pieces import RecentSteps, Solver, plain_solver
from recfact.windows import Full, Window


def laid_out(array: Array, time: int) -> Array:
    """Return an array, time on axis 0, without gaps in memory, where time is axis number `time`."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 0, time)), time, 0)


def run_channels(window: Window, threads: int | None, a: Array, u: Array, x0: Array | None) -> Array:
    """Solve a piece on the channels path."""
    x = np.empty(u.shape, u.dtype)
    channels.solve_into(a, u, x, x0, reverse=False, window=window, threads=thread_count(threads, x.size))
    return x


def run_rows(
    tile: Tile | Runs, window: Window, threads: int | None, time: int, a: Array, u: Array, x0: Array | None, start: int
) -> Array:
    """Solve a piece on the rows path. In the order of memory, time is axis number `time`."""
    a, u = laid_out(a, time), laid_out(u, time)
    x = np.empty_like(u)
    if x.size:
        rows.solve_into(tile, a, u, x, x0, window=window, threads=thread_count(threads, x.size), start=start)
    return x


class Tiles:
    """Keeps the states that the whole tiles so far leave, and the steps of the tile that isn't whole yet."""

    def __init__(self, tile: Tile, threads: int | None, time: int, x0: Array | None) -> None:
        self.tile = tile
        self.threads = threads
        self.time = time
        self.x0 = x0
        self.start = 0
        self.states: Array | None = None
        self.begun: tuple[Array, Array] | None = None

    def solve(self, a: Array, u: Array) -> Array:
        """Return the states of the next piece."""
        known = 0
        if self.begun is not None:
            known = len(self.begun[1])
            a, u = (np.concatenate(pair) for pair in zip(self.begun, (a, u), strict=True))
        a, u = laid_out(a, self.time), laid_out(u, self.time)
        x = np.empty_like(u)
        if x.size:
            if self.states is None:
                self.states = initial_states(x, self.x0)
            rows.solve_into(
                self.tile,
                a,
                u,
                x,
                self.x0,
                window=Full(),
                threads=thread_count(self.threads, x.size),
                states=self.states,
                start=self.start,
            )
        whole = len(u) // self.tile.steps * self.tile.steps
        self.begun = (a[whole:].copy(), u[whole:].copy())
        self.start += whole
        return x[known:]


def solver(
    dtype: np.dtype[Any],
    window: Window,
    threads: int | None,
    x0: Array | None,
    channels_shape: tuple[int, ...],
    time: int,
    steps: int,
    shared: bool,
) -> Solver:
    """Return a function that solves the pieces of a sequence of at least `steps` steps as one call would.

    Parameters
    ----------
    dtype : dtype
        float32, float64, complex64 or complex128.
    window, threads, x0
        As in `engine.solve_into`.
    channels_shape : tuple of int
        The shape without time.
    time : int
        The number of the time axis in the shape with time. Channels on the axes behind it lie within a step.
    steps : int
        Least number of steps.
    shared : bool
        Whether channels within a step share numbers. A few of them are then solved as many are.
    """
    window = plainest(window)
    whole, within = isinstance(window, Full), prod(channels_shape[time:])
    tile = rows.tile_of_channels(dtype, False, within) if whole and within > 1 else rows.tile_for(dtype, False, window)
    if shared and within > 1:
        tile = None
    one_by_one = (within == 1 or whole) and steps >= limits.least_steps(whole)
    if tile is None or not (prod(channels_shape) == 1 or one_by_one):
        return plain_solver(partial(run_channels, window, threads), window, x0)
    if isinstance(tile, Tile) and whole:
        return Tiles(tile, threads, time, x0)
    run = partial(run_rows, tile, window, threads, time)
    return RecentSteps(run, x0, tile.steps, -(-warm_up_steps(window) // tile.steps))
