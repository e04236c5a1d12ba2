"""The output streams of the command. Their errors are separate from those of files, and take one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any


class OutputError(Exception):
    """Standard output or standard error can't be written any more, because of a full disk or a closed pipe."""


class Stream(FileIO):
    """The bytes of a standard stream."""

    def write(self, data: Any) -> int:
        """Write as a file does. If the system refuses, raise OutputError."""
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
    """Say `message` on standard error if that still works. Drop the buffers, which Python would write at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if sys.stdout is not None:
        os.dup2(nowhere, sys.stdout.fileno())
    try:
        sys.stderr.write(message)
        sys.stderr.flush()
    except (OutputError, AttributeError):  # it is full as well, or closed
        os.dup2(nowhere, 2)
