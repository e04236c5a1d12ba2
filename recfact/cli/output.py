"""What the command writes to: streams whose errors are told apart from those of files, and said in one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any


class OutputError(Exception):
    """Standard output or standard error takes no more: a full disk, a closed pipe."""


class Stream(FileIO):
    """The bytes of a standard stream."""

    def write(self, data: Any) -> int:
        """Write as a file does; what the system refuses is an OutputError."""
        try:
            return super().write(data)
        except OSError as error:
            raise OutputError(error.strerror) from None


@contextmanager
def checked_output() -> Iterator[None]:
    """Let standard output and error show signs that they lack as question marks, and end with 1 if they fail.

    Streams that stand for others, as in a notebook, are left alone.
    """
    try:
        if sys.stdout is None:
            raise OutputError("it is closed")
        sys.stdout, sys.stderr = _checked(sys.stdout), _checked(sys.stderr)
        try:
            yield
        finally:
            sys.stdout.flush()
    except OutputError as error:
        _give_up(f"error: the output can't be written: {error}\n")
        sys.exit(1)


def _checked(stream: Any) -> Any:
    if not isinstance(stream, TextIOWrapper):
        return stream
    binary = BufferedWriter(Stream(stream.fileno(), "w", closefd=False))
    return TextIOWrapper(
        binary,
        encoding=stream.encoding,
        errors="replace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _give_up(message: str) -> None:
    """Say `message` on standard error if that still works, and drop what the streams hold: Python writes it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if sys.stdout is not None:
        os.dup2(nowhere, sys.stdout.fileno())
    try:
        sys.stderr.write(message)
        sys.stderr.flush()
    except (OutputError, AttributeError):  # it is full as well, or closed
        os.dup2(nowhere, 2)
