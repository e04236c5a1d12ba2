"""Arrays that are read piece by piece: .npy files, which are mapped, and folders of zarr."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from recfact.arrays import Array
from recfact.report.files import Zeros, check_numbers, hint_of, map_npy, open_zarr, read_array, system_errors
from recfact.report.sources import constant, find_source, split_part

PIECEWISE = (".npy", ".zarr")
"""The files of which a part can be read alone."""

LARGE = 1 << 30
"""Bytes of files from which on they are taken piece by piece."""

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

Where = tuple[int | slice, ...]


class Stored:
    """Coefficients or inputs that stay in their file until they are needed, or an array in memory.

    Parameters
    ----------
    array : ndarray, memmap or array of zarr
        The numbers.
    path : Path, optional
        The file or folder that holds them. Without it they are known to be finite.
    zeros : Zeros, optional
        Given if missing values become 0. It counts those that are read.
    instead : str
        The end of the message about NaN.

    Attributes
    ----------
    shape, dtype
        Those of the numbers that an index returns. Integers and booleans become float64.
    nbytes : int
        The bytes that the numbers take in memory.
    chunks : tuple of int
        The shape in which they are stored: that of the chunks of zarr, or one number.
    """

    def __init__(self, array: Any, path: Path | None = None, zeros: Zeros | None = None, instead: str = "") -> None:
        self.array, self.path, self.zeros, self.instead = array, path, zeros, instead
        self.shape = tuple(array.shape)
        given = np.dtype(array.dtype)
        self.dtype = BFLOAT16 if given == np.dtype("V2") else np.dtype(float) if given.kind in "biu" else given
        self.nbytes = int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize
        self.chunks = tuple(map(int, getattr(array, "chunks", (1,) * len(self.shape))))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def broadcast_to(self, shape: tuple[int, ...]) -> Stored:
        """Return the same numbers in a shape to which theirs broadcasts."""
        found = Stored(self.array, self.path, self.zeros, self.instead)
        found.shape = shape
        missing = (1,) * (len(shape) - len(self.chunks))
        found.chunks = missing + self.chunks
        return found

    def __getitem__(self, where: Where) -> Array:
        """Return the numbers at an index with an entry for each axis.

        Raises
        ------
        DataFileError
            If one is NaN or infinite, or isn't a number that recfact computes with.
        """
        own, shape, again = [], [], False
        held = (1,) * (self.ndim - len(self.array.shape)) + tuple(self.array.shape)
        for at, length, full in zip(where, held, self.shape, strict=True):
            if isinstance(at, slice):
                shape.append(len(range(*at.indices(full))))
                again = again or (length != full and bool(at.start))
            own.append(at if length == full else slice(None) if isinstance(at, slice) else 0)
        own = own[self.ndim - len(self.array.shape) :]
        if self.path is None:
            return np.broadcast_to(self.array[tuple(own)], shape)
        with system_errors(self.path):
            zeros = Zeros() if again and self.zeros is not None else self.zeros  # the first piece has counted them
            found = check_numbers(np.asarray(self.array[tuple(own)]), str(self.path), zeros, self.instead, own)
        return np.broadcast_to(found, shape)

    def identity(self) -> list[Any]:
        """Return what changes if the file is written again, or if an array in memory has other numbers."""
        if self.path is None:
            held = np.asarray(self.array)
            return [list(held.shape), str(held.dtype), sha256(held.tobytes()).hexdigest()]
        files = [path for path in self.path.rglob("*") if path.is_file()] if self.path.is_dir() else [self.path]
        found = [path.stat() for path in files]
        size, latest = sum(one.st_size for one in found), max(one.st_mtime_ns for one in found)
        return [str(self.path.resolve()), size, latest, list(self.shape), str(self.dtype), self.zeros is not None]


def stored(source: str, name: str, *, zeros: Zeros | None = None) -> Stored:
    """Return what `source` names, as `read_array` does. No more than is used is read of .npy files and of zarr."""
    if not is_piecewise(source):
        return Stored(read_array(source, name, zeros=zeros))
    found = find_source(source)
    with system_errors(found.place):
        array = map_npy(found) if found.kind == ".npy" else open_zarr(found)
    return Stored(array, found.path, zeros, hint_of(name))


def are_large(*sources: str) -> bool:
    """Say whether the files that can be read piece by piece are `LARGE` together."""
    return sum(stored(source, "").nbytes for source in sources if is_piecewise(source)) > LARGE


def is_piecewise(source: str) -> bool:
    """Say whether a part of what `source` names can be read alone."""
    return constant(source) is None and split_part(source)[0].suffix.lower() in PIECEWISE
