"""Solves of files that are larger than memory: piece after piece, and from where an earlier run was interrupted."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from recfact import __version__
from recfact.arrays import Array, broadcast_shape, check_axis, result_dtype
from recfact.errors import DataFileError
from recfact.report.files import system_errors
from recfact.report.stored import Partial, Stored
from recfact.solve import solve
from recfact.state import State
from recfact.windows import Window, window_text

PIECE = 1 << 26
"""Bytes of coefficients, inputs and states that are in memory at a time."""


class Stream:
    """A solve of files, piece after piece.

    Parameters
    ----------
    a, u : Stored
        Coefficients and inputs.
    x0 : ndarray or None
        The initial state.
    axis : int
        The axis of time.
    window : Full, Uniform or Jagged
        What is kept of the transfer operator.
    out : Path
        The file or folder for the states. It appears when all are written.

    Attributes
    ----------
    nbytes : int
        The bytes of the whole result.
    done : int
        How many steps are written, by an earlier run of the same solve at first. They aren't written again.
    largest : float
        The largest magnitude of the states written.
    """

    def __init__(self, a: Stored, u: Stored, x0: Array | None, axis: int, window: Window, out: Path) -> None:
        self.a, self.u, self.x0, self.window = a, u, x0, window
        self.shape = broadcast_shape(a, u)
        self.dtype = result_dtype(np.empty(0, a.dtype), np.empty(0, u.dtype))
        self.axis = check_axis(axis, len(self.shape)) - len(self.shape)
        self.steps = self.shape[self.axis]
        self.nbytes = int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize
        chunk = max(a.chunk(self.axis), u.chunk(self.axis))
        fits = max(1, PIECE * self.steps // max(1, a.nbytes + u.nbytes + self.nbytes))
        self.at_a_time = fits // chunk * chunk or fits
        if not self.nbytes:
            raise DataFileError(f"a sequence is required, and the states would be empty: their shape is {self.shape}")
        self.state: State | None = None
        self.done, self.largest = 0, 0.0
        with system_errors(out):
            self.about = self._about()
            self.out = Partial(out, self.shape, self.dtype)
            self._resume()

    def run(self, step: Callable[[int], None]) -> None:
        """Solve what is left. After each piece `step` gets the number of bytes of all states written so far.

        Raises
        ------
        DataFileError
            If a number is NaN or infinite, if a file can't be read or written, or if another command writes the states.
        """
        with system_errors(self.out.path):
            try:
                if not self.done:
                    self._start()
                self._go_on(step)
                self.out.finish()
            finally:
                self.out.release()

    def _go_on(self, step: Callable[[int], None]) -> None:
        try:
            for start in range(self.done, self.steps, self.at_a_time):
                self._piece(start, min(self.steps, start + self.at_a_time))
                step(self.nbytes // self.steps * self.done)
        except Exception as error:
            if isinstance(error, DataFileError) or not self.done:
                self.out.remove()  # it would go on to the same number
            raise

    def _piece(self, start: int, end: int) -> None:
        a, u = (array.steps(self.axis, start, end) for array in (self.a, self.u))
        begin: dict[str, Any] = {"x0": self.x0} if self.state is None else {"state": self.state}
        x, self.state = solve(a, u, axis=self.axis, window=self.window, return_state=True, **begin)
        self.out.write(self.axis, start, x)
        self.done, self.largest = end, float(np.maximum(self.largest, np.abs(x).max()))
        self._save(self.state)

    def _start(self) -> None:
        pieces = list(self.shape)
        pieces[self.axis] = min(self.at_a_time, self.steps)
        try:
            self.out.create(tuple(pieces))
        except OSError:
            self.out.remove()
            raise

    def _about(self) -> str:
        """Return what must be the same in a later run that goes on."""
        first = None if self.x0 is None else [str(self.x0.dtype), self.x0.shape, sha256(self.x0.tobytes()).hexdigest()]
        given = [self.a.identity(), self.u.identity(), first, self.axis, window_text(self.window), __version__]
        return json.dumps([*given, PIECE], default=str)

    def _save(self, state: State) -> None:
        """Write down how far the solve has come, at once."""
        new = self.out.state.with_name(f"{self.out.state.name}.new")
        with new.open("wb") as stream:
            about: dict[str, Any] = {"about": self.about, "done": self.done, "largest": self.largest}
            np.savez(stream, **about, **state.to_dict())
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(self.out.state)

    def _resume(self) -> None:
        """Find out how far an earlier run of the same solve has come."""
        if not (self.out.state.exists() and self.out.place.exists()):
            return
        try:
            with self.out.state.open("rb") as stream, np.load(stream, allow_pickle=False) as saved:
                if str(saved["about"]) != self.about:
                    return
                state, done, largest = State.from_dict(saved), int(saved["done"]), float(saved["largest"])
        except (ValueError, TypeError, KeyError, EOFError, BadZipFile, zlib.error):
            return
        if 0 < done <= self.steps and self.out.reopen():
            self.state, self.done, self.largest = state, done, largest
