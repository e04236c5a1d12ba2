"""Arrays that are read and written piece by piece: .npy files, which are mapped, and folders of zarr."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from recfact.arrays import Array
from recfact.errors import DataFileError, MissingExtraError
from recfact.report.files import check_numbers, system_errors

if sys.platform != "win32":
    import fcntl

SUFFIXES = (".npy", ".zarr")

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def is_zarr(path: Path) -> bool:
    """Say whether a path is that of an array of zarr."""
    return path.suffix.lower() == ".zarr"


def zarr() -> Any:
    """Return the package zarr."""
    try:
        import zarr as package
    except ModuleNotFoundError:
        raise MissingExtraError("a .zarr folder needs zarr; install it with: pip install zarr") from None
    return package


class Stored:
    """Coefficients or inputs: an array in a file that stays there, or a number.

    Parameters
    ----------
    path : Path, or ndarray of no axes
        A .npy file, a folder of zarr, or a number.

    Attributes
    ----------
    shape, dtype
        Those of the numbers that `steps` returns. Integers and booleans become float64.
    nbytes : int
        The bytes that all numbers take in memory.
    """

    def __init__(self, path: Path | Array) -> None:
        self.path = path
        self.array: Any = path if isinstance(path, np.ndarray) else _opened(path)
        self.shape = tuple(self.array.shape)
        given = np.dtype(self.array.dtype)
        self.dtype = BFLOAT16 if given == np.dtype("V2") else np.dtype(float) if given.kind in "biu" else given
        self.nbytes = int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize

    def steps(self, axis: int, start: int, end: int) -> Array:
        """Return the numbers of some steps, as finite numbers. The axis is counted from the last one, as -1.

        Raises
        ------
        DataFileError
            If a number is NaN or infinite, or isn't a number that recfact computes with.
        """
        if isinstance(self.path, np.ndarray):
            return self.path
        place = f"{self.path}, of which {start} to {end - 1} are the steps read last,"
        if -axis > len(self.shape) or self.shape[axis] == 1:
            return check_numbers(np.asarray(self.array[...]), str(self.path))
        rest = (slice(None),) * (-axis - 1)
        with system_errors(self.path):
            return check_numbers(np.asarray(self.array[(..., slice(start, end), *rest)]), place)

    def chunk(self, axis: int) -> int:
        """Return how many steps lie in one chunk of zarr, or 1."""
        return int(self.array.chunks[axis]) if hasattr(self.array, "chunks") and -axis <= len(self.shape) else 1

    def identity(self) -> list[Any]:
        """Return what changes if the file is written again."""
        if isinstance(self.path, np.ndarray):
            return [repr(self.path)]
        files = (path for path in self.path.rglob("*") if path.is_file()) if self.path.is_dir() else [self.path]
        found = [path.stat() for path in files]
        size, latest = sum(one.st_size for one in found), max(one.st_mtime_ns for one in found)
        return [str(self.path.resolve()), size, latest, list(self.shape), str(self.dtype)]


def _opened(path: Path) -> Any:
    with system_errors(path):
        if is_zarr(path):
            try:
                return zarr().open_array(str(path), mode="r")
            except (ValueError, KeyError, FileNotFoundError) as error:
                raise DataFileError(f"{path} is not a readable array of zarr: {error}") from None
        try:
            return np.lib.format.open_memmap(path, mode="r")
        except (ValueError, EOFError) as error:
            raise DataFileError(f"{path} is not a readable .npy array: {error}") from None


class Partial:
    """The states written so far, beside the file that they become at the end. One command at a time writes them.

    Parameters
    ----------
    path : Path
        The .npy file or folder of zarr that appears when all is written.
    shape, dtype
        Those of all states.

    Raises
    ------
    DataFileError
        If zarr has no such number type, or if `path` is something else that would be lost.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.path = Path(os.path.realpath(path))  # so that a link stays one
        self.place = self.path.with_name(f".{self.path.name}.part")
        self.state = self.path.with_name(f".{self.path.name}.state")
        self.shape = shape
        self.dtype = np.dtype("V2") if dtype == BFLOAT16 else dtype.newbyteorder("=")  # as NumPy writes it
        self.array: Any = None
        self.held: int | None = None
        if is_zarr(path):
            if dtype == BFLOAT16:
                raise DataFileError(f"{path} can't hold bfloat16: zarr has no such numbers; write .npy instead")
            if self.path.exists() and not _is_replaceable(self.path):
                raise DataFileError(f"{path} is there, and isn't an array of zarr; name another folder to write")

    def create(self, chunks: tuple[int, ...]) -> None:
        """Make room for all states, in chunks of that shape in zarr.

        Raises
        ------
        DataFileError
            If another command is writing them.
        OSError
            If there isn't enough room.
        """
        self._hold()
        self.remove()
        if is_zarr(self.path):
            self.place.mkdir()
            self._hold()
            self.array = zarr().create_array(str(self.place), shape=self.shape, chunks=chunks, dtype=self.dtype)
            return
        with self.place.open("xb") as stream:
            self._hold()
            header = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": self.shape}
            np.lib.format.write_array_header_1_0(stream, header)
            start = stream.tell()
            size = start + int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize
            stream.truncate(size)
            if hasattr(os, "posix_fallocate"):  # a full disk would kill a process that writes to a map of the file
                os.posix_fallocate(stream.fileno(), 0, size)
        self.array = np.lib.format.open_memmap(self.place, mode="r+")

    def reopen(self) -> bool:
        """Say whether what is there may be gone on with, and open it.

        Raises
        ------
        DataFileError
            If another command is writing it.
        """
        self._hold()
        try:
            if is_zarr(self.path):
                self.array = zarr().open_array(str(self.place), mode="r+")
            else:
                np.lib.format.open_memmap(self.place, mode="r")  # unlike "r+", this doesn't lengthen a file
                self.array = np.lib.format.open_memmap(self.place, mode="r+")
        except (ValueError, KeyError, FileNotFoundError):
            return False
        return bool(tuple(self.array.shape) == self.shape and self.array.dtype == self.dtype)

    def write(self, axis: int, start: int, states: Array) -> None:
        """Write the states of some steps, and hand them over to the system."""
        rest = (slice(None),) * (-axis - 1)
        states = states.view(self.array.dtype) if states.dtype == BFLOAT16 else states
        self.array[(..., slice(start, start + states.shape[axis]), *rest)] = states
        if isinstance(self.array, np.memmap):
            self.array.flush()

    def finish(self) -> None:
        """Put the states in their place, where they replace what was there."""
        self.array = None
        if self.path.is_dir():
            old = self.path.with_name(f".{self.path.name}.old")
            if old.exists():  # an earlier command was killed here
                shutil.rmtree(old)
            self.path.rename(old)
            self.place.rename(self.path)
            shutil.rmtree(old)
        else:
            self.place.replace(self.path)
        self.state.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove what was written."""
        self.state.unlink(missing_ok=True)
        if self.place.is_dir():
            shutil.rmtree(self.place)
        else:
            self.place.unlink(missing_ok=True)

    def release(self) -> None:
        """Let other commands write."""
        if self.held is not None:
            os.close(self.held)
        self.held = None

    def _hold(self) -> None:
        """Keep other commands from writing, if there is anything yet. The system ends this with the process."""
        self.release()
        if sys.platform == "win32" or not self.place.exists():
            return
        self.held = os.open(self.place, os.O_RDONLY if self.place.is_dir() else os.O_RDWR)
        try:
            fcntl.flock(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise DataFileError(
                f"{self.path} is being written by another command; wait for it, or name another file"
            ) from None


def _is_replaceable(path: Path) -> bool:
    """Say whether a path is that of an array of zarr, or of an empty folder."""
    if not path.is_dir():
        return False
    if not any(path.iterdir()):
        return True
    try:
        zarr().open_array(str(path), mode="r")
    except (ValueError, KeyError, FileNotFoundError):
        return False
    return True
