"""Sources of numbers that a text names: a file or a part of one, standard input, or a number."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from recfact.checks import did_you_mean
from recfact.errors import DataFileError

SUFFIXES = (".npy", ".npz", ".csv", ".zarr")

STANDARD_INPUT = "-"

# The first bytes of each kind of file. The reader of .npy files refuses pickles.
_BEGINNINGS = {b"\x93NUMPY": ".npy", b"\x80": ".npy", b"PK": ".npz"}


@dataclass(frozen=True)
class Source:
    """A file, a folder of zarr, or standard input, that exists.

    Parameters
    ----------
    place : str
        Its name in messages.
    part : str, optional
        The column (.csv) or array (.npz, .zarr) to read.
    kind : str
        One of the `SUFFIXES`.
    path : Path, optional
        The file or folder; standard input without one.
    """

    place: str
    part: str | None
    kind: str
    path: Path | None

    @property
    def name(self) -> str:
        """The file's own name, without its folders."""
        return self.place if self.path is None else self.path.name

    def open(self) -> BinaryIO:
        """Return a stream of its bytes."""
        return BytesIO(_contents(sys.stdin)) if self.path is None else self.path.open("rb")


def split_part(source: str) -> tuple[Path, str | None]:
    """Split FILE[:PART] into the path and the column (.csv) or array name (.npz, .zarr) in it.

    If there is a file with the colon in its own name, that file is meant.

    Examples
    --------
    >>> split_part("gates.npz:decay")
    (PosixPath('gates.npz'), 'decay')
    """
    head, colon, part = source.rpartition(":")
    if not colon or Path(source).exists() or not (head == STANDARD_INPUT or head.lower().endswith(SUFFIXES)):
        return Path(source), None
    return Path(head), part


def find_source(source: str) -> Source:
    """Return what FILE[:PART] names, where FILE may be "-" for standard input.

    Raises
    ------
    DataFileError
        If there is no such file, or it is of another kind.
    """
    if not source:
        raise DataFileError("a file is required, got an empty text; name a file")
    path, part = split_part(source)
    if str(path) == STANDARD_INPUT:
        beginning = _contents(sys.stdin)[:6]
        kind = next((kind for start, kind in _BEGINNINGS.items() if beginning.startswith(start)), ".csv")
        return Source("standard input", part, kind, None)
    if not path.exists():
        numbers = source.strip("[]()").replace(",", " ").replace(";", " ").split()
        if numbers and all(parse_number(number) is not None for number in numbers):
            problem = "is a list of numbers, and a file or one number is needed"
            raise DataFileError(
                f"{source} {problem if len(numbers) > 1 else 'is a number, and a file is needed'}; write the numbers "
                "into a .csv file, one a line, or pipe them in and name -"
            )
        try:
            near = {each.stem: str(each) for each in path.parent.iterdir() if each.suffix in SUFFIXES}
        except OSError:  # there is no such folder, or its names are nobody's business
            near = {}
        advice = did_you_mean(path.stem, near)
        raise DataFileError(f"there is no file {path}; {advice or 'name one that ends in .npy, .npz, .csv or .zarr'}")
    if path.is_dir() and path.suffix.lower() != ".zarr":
        raise DataFileError(f"{path} is a directory; name a file")
    if path.suffix.lower() not in SUFFIXES:
        raise DataFileError(f"{path} must be a .npy, .npz or .csv file, or a folder of zarr")
    return Source(str(path), part, path.suffix.lower(), path)


@cache
def _contents(stream: Any) -> bytes:
    """Return the contents of standard input for all who name it, because it can be read only once."""
    if stream is None:
        raise DataFileError("standard input is closed; name a file")
    contents: bytes = stream.buffer.read()
    return contents


def parse_number(text: str) -> float | None:
    """Return the number in `text`, or None if it isn't one. Python's digit separator, as in 1_000, is not accepted."""
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def constant(source: str) -> float | None:
    """Return the number in `source`, or None if it isn't a number or if a file has that name."""
    return None if Path(source).exists() else parse_number(source)
