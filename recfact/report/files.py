"""Read coefficients and inputs from .npy, .npz and .csv files and folders of zarr, and write states to files."""

from __future__ import annotations

import csv
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

from recfact.arrays import Array
from recfact.errors import DataFileError, MissingExtraError, OptionError
from recfact.report.csvfile import CsvTable, listed, read_csv
from recfact.report.sources import Source, constant, find_source

WRITTEN = (".npy", ".npz", ".csv")
"""The files that `write_array` writes."""

# The errors of np.load for files that are cut short, corrupt or encrypted, or that claim sizes they don't have.
_CORRUPT = (ValueError, EOFError, KeyError, OverflowError, MemoryError, NotImplementedError, RuntimeError)
_CORRUPT_ZIP = (zipfile.BadZipFile, zlib.error)


@dataclass
class Zeros:
    """Asks that missing values become 0, and counts them.

    Parameters
    ----------
    count : int, default 0
        How many there were in what was read.
    """

    count: int = 0

    def filled(self, array: Array) -> Array:
        """Return `array` with 0 in place of NaN."""
        missing = np.isnan(array)
        self.count += int(missing.sum())
        return np.where(missing, array.dtype.type(0), array)


def read_array(source: str, name: str, *, zeros: Zeros | None = None) -> Array:
    """Return the numbers that `source` names: FILE, FILE:PART, "-" for standard input, or a number for a constant.

    Parameters
    ----------
    source : str
        A .npy file, an .npz file or a folder of zarr (PART is an array in it), or a .csv file (PART is a column of it).
    name : str
        Name of the numbers, "a" or "u". This part is read if PART isn't given and the file has several.
    zeros : Zeros, optional
        Given if missing values become 0: NaN, and in a .csv file blank cells, NA and the like. It counts them.

    Returns
    -------
    ndarray
        Finite numbers. Integers and booleans become float64. A column of a .csv file has shape (n,), a number has shape
        ().

    Raises
    ------
    OptionError
        If the number is NaN or infinite.
    DataFileError
        If the file is missing, unreadable, of another kind or empty, or if it holds pickled objects, NaN, infinity or
        anything that isn't a number. The message names the file and the place in it.
    """
    number = constant(source)
    if number is not None:
        if not np.isfinite(number):
            raise OptionError("must be finite", name, given=source)
        return np.array(number)
    found, instead = find_source(source), hint_of(name)
    place = found.place
    with system_errors(place):
        match found.kind:
            case ".npy":
                _refuse_parts(found)
                with found.open() as stream:
                    return check_numbers(_load_npy(stream, place), place, zeros, instead)
            case ".npz":
                return _read_npz(found, name, zeros, instead)
            case ".zarr":
                return check_numbers(np.asarray(open_zarr(found)[...]), place, zeros, instead)
            case _:
                table = read_csv(found)
                several = f"{place} has several columns"
                if len(table.rows) == 1 and table.columns[-1] == str(len(table.columns)):  # numbers without a header
                    several = (
                        f"{place} has one row: if that is the sequence, write one number a line; it has several columns"
                    )
                column = _choose(table.columns, found.part, name, several)
                values = table.numbers(column, missing=zeros is not None, instead=instead)
                return check_numbers(values, place, zeros)


def hint_of(name: str) -> str:
    """Return how the message about a missing number of "a" or "u" ends."""
    return "; --missing zero takes missing inputs for 0" if name == "u" else ""


def read_table(source: str, name: str, *others: str) -> tuple[CsvTable, str]:
    """Return the .csv file of `source` and its value column: PART, or the only one beside the columns `others`."""
    found = find_source(source)
    place = found.place
    if found.kind != ".csv":
        raise DataFileError(
            f"times and time steps are read from a column of a .csv file, got {place}; write times and values to one, "
            "or call recfact.ewm in Python"
        )
    with system_errors(place):
        table = read_csv(found)
    at = [table.index(other) for other in others]
    values = tuple(column for k, column in enumerate(table.columns) if k not in at)
    known = " and ".join(map(repr, others))
    if not values:
        raise DataFileError(f"{place} has no column beside {known}; one with the values is required")
    return table, _choose(values, found.part, name, f"{place} has several columns beside {known}")


def check_destination(path: Path, suffixes: tuple[str, ...] = ()) -> None:
    """Check that a file can be written to `path`, before work is spent on it.

    Raises
    ------
    OptionError
        If `suffixes` are given and `path` ends in none of them.
    DataFileError
        If `path` is a directory, a device or a pipe, or in no directory.
    """
    if suffixes and path.suffix.lower() not in suffixes:
        raise OptionError(f"{path} must end in {', '.join(suffixes[:-1])} or {suffixes[-1]}")
    if path.is_dir():
        raise DataFileError(f"{path} is a directory; name a file to write")
    if path.exists() and not path.is_file():
        raise DataFileError(f"{path} is a device or a pipe; name a file to write")
    folder = Path(os.path.realpath(path)).parent if path.is_symlink() else path.parent
    if not folder.is_dir():
        raise DataFileError(f"{path} can't be written: there is no directory {folder}")


def write_array(path: Path, x: Array, beside: Mapping[str, Sequence[str]] | None = None) -> None:
    """Write `x` to `path` as .npy, .npz (under the name x) or .csv (one or two axes, no header for two).

    A .csv file also has the columns `beside`, with one cell for each number of `x`. The file appears whole or not at
    all.
    """
    check_destination(path, WRITTEN)
    with replacing(path) as stream:
        match path.suffix.lower():
            case ".npy":
                np.save(stream, x, allow_pickle=False)
            case ".npz":
                np.savez(stream, x=x)
            case _:
                if x.ndim > 2 or x.dtype.kind == "c":
                    raise DataFileError(
                        f"a .csv file holds real numbers along one or two axes, got {x.dtype} of shape {x.shape}; "
                        "write .npy instead"
                    )
                # 9 and 17 digits give every float32 and float64 back.
                form = "%.9g" if x.dtype.itemsize <= 4 else "%.17g"
                if beside:
                    text = StringIO()
                    rows = zip(*beside.values(), (form % number for number in x), strict=True)
                    csv.writer(text, lineterminator="\n").writerows([(*beside, "x"), *rows])
                    stream.write(text.getvalue().encode())
                else:
                    np.savetxt(stream, x, fmt=form, delimiter=",", header="x" if x.ndim < 2 else "", comments="")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a stream whose contents replace `path` at the end. If anything fails, `path` stays as it was."""
    check_destination(path)
    with system_errors(f"{path} can't be written"):
        place = Path(os.path.realpath(path))  # so that a link stays one
        temporary = place.with_name(f".{place.name}.{os.getpid()}")
        try:
            with temporary.open("xb") as stream:
                yield stream
            temporary.replace(place)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def system_errors(place: object) -> Iterator[None]:
    """Turn an error of the operating system about a file into a DataFileError."""
    try:
        yield
    except OSError as error:
        raise DataFileError(f"{place}: {error.strerror or error}") from None


def _choose(parts: tuple[str, ...], part: str | None, name: str, several: str) -> str:
    """Return the part asked for, or the one called `name`, or the only one."""
    if part is not None:
        return part
    if name in parts:
        return name
    if len(parts) == 1:
        return parts[0]
    raise DataFileError(f"{several} ({listed(parts)}); choose one, as in FILE:{parts[0]}")


def _read_npz(source: Source, name: str, zeros: Zeros | None, instead: str) -> Array:
    whole = source.place
    try:
        with source.open() as file, zipfile.ZipFile(file) as archive:
            parts = tuple(member.removesuffix(".npy") for member in archive.namelist() if member.endswith(".npy"))
            if not parts:
                raise DataFileError(f"{whole} holds no arrays; write it with numpy.savez")
            chosen = _choose(parts, source.part, name, f"{whole} holds several arrays")
            if chosen not in parts:
                raise DataFileError(f"{whole} has no array named {chosen!r}; choose one of {listed(parts)}")
            place = f"{whole}, array {chosen!r}"
            with archive.open(f"{chosen}.npy") as stream:
                return check_numbers(_load_npy(stream, place), place, zeros, instead)
    except DataFileError:
        raise
    except (*_CORRUPT, *_CORRUPT_ZIP) as error:
        raise DataFileError(f"{whole} is not a readable .npz file: {error}; write it anew, with numpy.savez") from None


def map_npy(source: Source) -> Array:
    """Return a .npy file as a map of it, of which no more is read than what is used. Its numbers aren't checked."""
    _refuse_parts(source)
    with source.open() as stream:
        _refuse_pickles(stream, source.place)
    try:
        array: Array = np.lib.format.open_memmap(source.place, mode="r")
    except _CORRUPT as error:
        raise DataFileError(f"{source.place} is not a readable .npy array: {error}") from None
    return array.view(ml_dtypes.bfloat16) if array.dtype == np.dtype("V2") else array


def open_zarr(source: Source) -> Any:
    """Return an array of zarr, of which no more is read than what is used. Its numbers aren't checked."""
    whole = source.place
    place = whole if source.part is None else f"{whole}/{source.part}"
    found, reason = _opened(place)
    group = _opened(whole)[0] if found is None else found
    if isinstance(group, zarr().Group):
        arrays = listed(sorted(group.array_keys())) or "none"
        problem = f"{whole} has no array named {source.part!r}" if found is None else f"{place} is a group of zarr"
        raise DataFileError(f"{problem}; choose one of its arrays, as in FILE:NAME: {arrays}")
    if found is None and group is not None:
        _refuse_parts(source)
    if found is None:
        raise DataFileError(f"{place} is not a readable array of zarr{reason}; name a folder that zarr has written")
    return found


def _opened(place: str) -> tuple[Any, str]:
    """Return an array or a group of zarr, or None if there is none, and why it can't be read."""
    try:
        return zarr().open(place, mode="r"), ""
    except FileNotFoundError:
        return None, ""
    except (ValueError, KeyError) as error:
        return None, f" ({error})"


def zarr() -> Any:
    """Return the package zarr."""
    try:
        import zarr as package
    except ModuleNotFoundError:
        raise MissingExtraError("a .zarr folder needs zarr; install it with: pip install zarr") from None
    return package


def _refuse_parts(source: Source) -> None:
    if source.part is not None:
        raise DataFileError(f"{source.place} is one array without named parts; drop ':{source.part}'")


def _load_npy(stream: Any, place: str) -> Array:
    _refuse_pickles(stream, place)
    try:
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
    except _CORRUPT as error:
        raise DataFileError(f"{place} is not a readable .npy array: {error}") from None


def _refuse_pickles(stream: Any, place: str) -> None:
    """Raise DataFileError if a stream holds Python objects, and leave it at its start."""
    try:
        pickled = stream.read(1) == b"\x80"  # each pickle begins with this protocol mark
        stream.seek(0)
        if not pickled:
            version = np.lib.format.read_magic(stream)
            lib = np.lib.format
            read_header = lib.read_array_header_1_0 if version == (1, 0) else lib.read_array_header_2_0
            pickled = read_header(stream)[2].hasobject
        if pickled:
            raise DataFileError(
                f"{place} holds pickled Python objects, which are never loaded (they can run code); save plain numbers"
            )
        stream.seek(0)
    except DataFileError:
        raise
    except _CORRUPT as error:
        raise DataFileError(f"{place} is not a readable .npy array: {error}") from None


def check_numbers(
    array: Array, place: str, zeros: Zeros | None = None, instead: str = "", where: Sequence[int | slice] = ()
) -> Array:
    """Return `array` if it holds finite numbers, integers as float64. With `zeros`, NaN becomes 0 first.

    NumPy writes the bfloat16 of ml_dtypes as two bytes without a type, and reads them back without one.

    Parameters
    ----------
    place : str
        What messages call the array.
    instead : str
        The end of the message about NaN.
    where : sequence of int or slice
        The index of a larger array that gave this one.
    """
    if array.dtype == np.dtype("V2"):
        array = array.view(ml_dtypes.bfloat16)
    elif array.dtype.kind not in "biufc" and array.dtype != np.dtype(ml_dtypes.bfloat16):
        raise DataFileError(f"{place} holds {array.dtype}, not real or complex numbers; convert it to numbers")
    if array.size == 0:
        raise DataFileError(f"{place} is empty: its shape is {array.shape}; one number is needed at least")
    if zeros is not None:
        array = zeros.filled(array)
    finite = np.isfinite(array)
    if not finite.all():
        index = np.argwhere(~finite)[0].tolist()
        value = array[tuple(index)]
        for axis, part in enumerate(where):
            if isinstance(part, slice):
                index[axis] += part.start or 0
            else:
                index.insert(axis, part)
        at = index[0] if len(index) == 1 else index
        advice = instead if np.isnan(value) else ""
        raise DataFileError(f"{place} holds {value} at index {at}; every number must be finite{advice}")
    return array.astype(np.float64) if array.dtype.kind in "biu" else array
