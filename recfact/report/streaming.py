"""Solves of files that are larger than memory: box after box, and from where an earlier run was interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from recfact import __version__
from recfact.arrays import Array, broadcast_shape, broadcast_state, check_axis, result_dtype
from recfact.errors import DataFileError
from recfact.report import boxes
from recfact.report.boxes import Box
from recfact.report.files import system_errors
from recfact.report.partial import Partial
from recfact.report.stored import Stored
from recfact.solve import solve
from recfact.state import State
from recfact.windows import Window, window_text


class Stream:
    """A solve of files, box after box.

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
    boxes : list of Box
        The boxes that it is written in.
    done : int
        How many of them are written, by an earlier run of the same solve at first. They aren't written again.
    largest : float
        The largest magnitude of the states written.
    """

    def __init__(self, a: Stored, u: Stored, x0: Array | None, axis: int, window: Window, out: Path) -> None:
        self.window = window
        self.shape = broadcast_shape(a, u)
        self.a, self.u = a.broadcast_to(self.shape), u.broadcast_to(self.shape)
        self.dtype = result_dtype(np.empty(0, a.dtype), np.empty(0, u.dtype))
        self.axis = check_axis(axis, len(self.shape))
        self.nbytes = int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize
        if not self.nbytes:
            raise DataFileError(f"a sequence is required, and the states would be empty: their shape is {self.shape}")
        step = self.shape[: self.axis] + self.shape[self.axis + 1 :]
        self.x0 = None if x0 is None else broadcast_state(x0, step)
        chunks = list(map(max, self.a.chunks, self.u.chunks))
        self.boxes = boxes.boxes(self.shape, self.axis, chunks, a.nbytes + u.nbytes + self.nbytes)
        self.state: State | None = None
        self.done, self.largest = 0, 0.0
        with system_errors(out):
            self.out = Partial(out, self.shape, self.dtype, self._about())
            self._resume()

    @property
    def written(self) -> int:
        """How many bytes of the result are written."""
        return sum(map(boxes.size, self.boxes[: self.done])) * self.dtype.itemsize

    def run(self, step: Callable[[int], None]) -> None:
        """Solve what is left. After each box `step` gets the number of bytes of all states written so far.

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
        written = self.written
        try:
            for box in self.boxes[self.done :]:
                self._solve(box)
                written += boxes.size(box) * self.dtype.itemsize
                step(written)
        except Exception as error:
            if isinstance(error, DataFileError) or not self.done:
                self.out.remove()  # it would go on to the same number
            raise

    def _solve(self, box: Box) -> None:
        begin: dict[str, Any] = {"state": self.state}
        if box[self.axis].start == 0:
            begin = {"x0": None if self.x0 is None else self.x0[(*box[: self.axis], *box[self.axis + 1 :])]}
        x, self.state = solve(self.a[box], self.u[box], axis=self.axis, window=self.window, return_state=True, **begin)
        self.out.write(box, x)
        self.done, self.largest = self.done + 1, float(np.maximum(self.largest, np.abs(x).max()))
        zeros = 0 if self.u.zeros is None else self.u.zeros.count
        self.out.notes.write({"done": self.done, "largest": self.largest, "zeros": zeros, **self.state.to_dict()})

    def _start(self) -> None:
        first = self.boxes[0]
        try:
            self.out.create(tuple(each.stop for each in first))
        except OSError:
            self.out.remove()
            raise

    def _about(self) -> str:
        """Return what must be the same in a later run that goes on."""
        first = None if self.x0 is None else Stored(self.x0).identity()
        given = [self.a.identity(), self.u.identity(), first, self.axis, window_text(self.window), __version__]
        return json.dumps([*given, boxes.PIECE], default=str)

    def _resume(self) -> None:
        """Find out how far an earlier run of the same solve has come."""
        noted = self.out.notes.read()
        if noted is None or not self.out.place.exists():
            return
        try:
            state, done, largest = State.from_dict(noted), int(noted["done"]), float(noted["largest"])
            zeros = int(noted["zeros"])
        except (ValueError, TypeError, KeyError):
            return
        if 0 < done <= len(self.boxes) and self.out.reopen():
            self.state, self.done, self.largest = state, done, largest
            if self.u.zeros is not None:
                self.u.zeros.count = zeros
