"""The states written so far, and what is noted about them, so that a later command can go on."""

from __future__ import annotations

import os
import shutil
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from recfact.arrays import Array
from recfact.errors import DataFileError
from recfact.report.boxes import Box
from recfact.report.files import zarr
from recfact.report.stored import BFLOAT16

if sys.platform != "win32":
    import fcntl


def is_zarr(path: Path) -> bool:
    """Say whether a path is that of an array of zarr."""
    return path.suffix.lower() == ".zarr"


class Notes:
    """How far a command has come, beside its output, for a later one with the same task.

    Parameters
    ----------
    path : Path
        The output.
    about : str
        What must be the same for a later command to go on.
    """

    def __init__(self, path: Path, about: str) -> None:
        self.path, self.about = path.with_name(f".{path.name}.state"), about

    def read(self) -> dict[str, Array] | None:
        """Return what was noted about the same task. None if nothing was, or if it is damaged."""
        try:
            with self.path.open("rb") as stream, np.load(stream, allow_pickle=False) as saved:
                return dict(saved) if str(saved["about"]) == self.about else None
        except (OSError, ValueError, TypeError, KeyError, EOFError, BadZipFile, zlib.error):
            return None

    def write(self, found: Mapping[str, Any]) -> None:
        """Write arrays down at once: whole, or not at all."""
        new = self.path.with_name(f"{self.path.name}.new")
        try:
            with new.open("wb") as stream:
                np.savez(stream, about=np.array(self.about), **found)
                stream.flush()
                os.fsync(stream.fileno())
            new.replace(self.path)
        except OSError:
            new.unlink(missing_ok=True)
            raise

    def remove(self) -> None:
        """Remove them."""
        self.path.unlink(missing_ok=True)


class Partial:
    """The states written so far, beside the file that they become at the end. One command at a time writes them.

    Parameters
    ----------
    path : Path
        The .npy file or folder of zarr that appears when all is written.
    shape, dtype
        Those of all states.
    about : str
        What must be the same for a later command to go on.

    Raises
    ------
    DataFileError
        If zarr has no such number type, or if `path` is something else that would be lost.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], about: str) -> None:
        self.path = Path(os.path.realpath(path))  # so that a link stays one
        self.place = self.path.with_name(f".{self.path.name}.part")
        self.notes = Notes(self.path, about)
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

    def write(self, box: Box, states: Array) -> None:
        """Write the states of a box, and hand them over to the system."""
        self.array[box] = states.view(self.array.dtype) if states.dtype == BFLOAT16 else states
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
        self.notes.remove()

    def remove(self) -> None:
        """Remove what was written."""
        self.notes.remove()
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
