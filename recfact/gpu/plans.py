"""The launch of a kernel: the kernel, the macros that it is compiled with, its grid, and its arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from recfact.gpu.geometry import Views
from recfact.gpu.solves import Sequences


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a kernel.

    Parameters
    ----------
    name : str
        Its name in the kernel.
    c_type : str
        In CUDA C++.
    value : int, str or None
        A number, the name of an array, or None for a null pointer.
    offset : int
        Bytes from the first element of the array to the pointer.
    """

    name: str
    c_type: str
    value: int | str | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Scratch:
    """An array that only the kernel uses.

    Parameters
    ----------
    name : str
        The name that arguments refer to.
    bytes : int
        Its size.
    zeroed : bool
        Whether all its bytes must be 0 when the kernel starts.
    """

    name: str
    bytes: int
    zeroed: bool


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel and everything that its launch needs.

    Parameters
    ----------
    kernel : str
        Its name.
    macros : tuple of (str, str)
        Names and values that it is compiled with.
    grid, block : tuple of int
        Thread blocks of the launch, and threads of each.
    shared_bytes : int
        Shared memory of a thread block beyond what the source declares.
    arguments : tuple of Argument
        The arguments in the order of the kernel.
    scratch : tuple of Scratch
        The arrays that it needs besides a, u, x and x0.
    reasons : tuple of str
        The reasons for this kernel, for its accesses or products, and for the split of time.
    """

    kernel: str
    macros: tuple[tuple[str, str], ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[Argument, ...]
    scratch: tuple[Scratch, ...]
    reasons: tuple[str, ...]


def texts(macros: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return macros as a launch has them."""
    return tuple((name, str(value)) for name, value in macros.items())


def pointers(views: Views, written: Collection[str] = ("x",)) -> tuple[Argument, ...]:
    """Return the arguments that point to where arrays start. Without an array the pointer is null."""
    return tuple(
        Argument(name, "char*" if name in written else "const char*", name if view else None, view.start if view else 0)
        for name, view in views.items()
    )


def strides(views: Views, step: str = "long long", without: Collection[str] = ()) -> tuple[Argument, ...]:
    """Return the arguments that locate the elements of arrays, but those `without` which a kernel does.

    Strides of time are in the C type `step`, but for those of initial states, which have sequences in its place.
    """
    every = (
        Argument(f"{name}_{axis}", step if axis == "step" and name != "x0" else "long long", getattr(view, axis, 0))
        for name, view in views.items()
        for axis in ("batch", "head", "channel", "step")
    )
    return tuple(argument for argument in every if argument.name not in without)


def starts(sequences: Sequences | None) -> Argument:
    """Return the argument that points to where sequences start, in the order of the sweep."""
    return Argument("starts", "const long long*", None if sequences is None else "starts")


def packed(sequences: Sequences | None) -> tuple[Argument, ...]:
    """Return the arguments of sequences of which segments are parts."""
    return starts(sequences), *wide(sequences=1 if sequences is None else sequences.count)


def wide(**values: int) -> tuple[Argument, ...]:
    """Return arguments of 64 bits."""
    return tuple(Argument(name, "long long", value) for name, value in values.items())
