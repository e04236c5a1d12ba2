"""Arrays of numbers of any arithmetic. Ordinary NumPy code computes in it, and so do the named algorithms.

An arithmetic represents a number by one or more parts. There are four kinds: the number itself, rounded to a format; a
count of roundings; a bound and an error; a value and a radius. It can multiply, add and multiply-add them. `Operands`
passes it the operations of the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from recfact.arrays import Array

Parts = tuple[Array, ...]
"""The numbers of an array as an arithmetic keeps them, in arrays of one shape."""

NAMES = {
    np.multiply: "multiply",
    np.add: "add",
    np.subtract: "subtract",
    np.divide: "divide",
    np.log: "log",
    np.exp: "exp",
}
"""Operations of NumPy, and what an arithmetic calls them."""


class Operations(Protocol):
    """An arithmetic. It may have other operations of `NAMES` as well."""

    fused: bool

    def enter(self, values: Array, exact: Array | None = None, /) -> Parts:
        """Return the parts of numbers, which were stored in place of exact ones if these are given."""

    def rounded(self, x: Parts) -> Parts:
        """Return the parts of numbers after they are stored in its format."""

    def multiply(self, x: Parts, y: Parts) -> Parts:
        """Return x y."""

    def add(self, x: Parts, y: Parts) -> Parts:
        """Return x + y."""

    def fma(self, x: Parts, y: Parts, z: Parts) -> Parts:
        """Return x y + z, as one operation."""


class Operands(NDArrayOperatorsMixin):
    """An array of numbers of an arithmetic, whose operations are its own.

    If the arithmetic fuses, a product that is only added to something is rounded together with the sum. Functions of
    NumPy that compute anything else raise an error, because float64 arithmetic would silently give a wrong answer.

    Parameters
    ----------
    operations : Operations
        The arithmetic.
    *parts : ndarray
        The parts by which it represents the numbers.
    """

    __slots__ = ("_kept", "operations")

    def __init__(self, operations: Operations, *parts: Array) -> None:
        self.operations, self._kept = operations, parts

    @property
    def parts(self) -> Parts:
        """The parts by which the arithmetic represents the numbers."""
        return self._kept

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return tuple(self.parts[0].shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.parts[0].ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.parts[0].size

    def __len__(self) -> int:
        return len(self.parts[0])

    def __iter__(self) -> Iterator[Operands]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return f"<Operands {', '.join(map(str, self.parts))}>"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        """Return the numbers, if they are their only part."""
        (values,) = self.parts
        return values if dtype is None else values.astype(dtype)

    def __getitem__(self, at: Any) -> Operands:
        return Operands(self.operations, *(np.asarray(part[at]) for part in self.parts))

    def __setitem__(self, at: Any, values: Any) -> None:
        for part, own in zip(self.parts, self._parts(values), strict=True):
            part[at] = own if own.ndim else own[()]  # an object array would hold the array itself

    def __mul__(self, other: Any) -> Any:
        x, y = self.parts, self._parts(other)
        return Product(self.operations, x, y) if self.operations.fused else self._new(self.operations.multiply(x, y))

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Product):
            return other + self
        return self._new(self.operations.add(self.parts, self._parts(other)))

    def copy(self) -> Operands:
        """Return a copy."""
        return self._each(np.copy)

    def reshape(self, *shape: int) -> Operands:
        """Return the numbers in another shape."""
        return self._each(np.reshape, shape)

    def swapaxes(self, first: int, second: int) -> Operands:
        """Return the numbers with two axes in each other's place."""
        return self._each(np.swapaxes, first, second)

    def _new(self, parts: Parts) -> Operands:
        return Operands(self.operations, *parts)

    def _each(self, function: Any, *arguments: Any, **options: Any) -> Operands:
        return self._new(tuple(function(part, *arguments, **options) for part in self.parts))

    def _parts(self, values: Any) -> Parts:
        return values.parts if isinstance(values, Operands) else self.operations.enter(np.asarray(values))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        operation = getattr(self.operations, NAMES.get(ufunc, ""), None)
        if operation is not None and method == "__call__" and not options:
            return self._new(operation(*map(self._parts, inputs)))
        if operation is not None and method == "accumulate" and options.keys() <= {"axis"}:
            result = inputs[0].copy()
            along = result._each(np.moveaxis, options.get("axis", 0), 0)
            for step in range(1, len(along)):
                along[step] = self._new(operation(along[step - 1].parts, along[step].parts))
            return result
        raise TypeError(
            f"no rounded form of numpy.{ufunc.__name__}.{method} with {', '.join(options) or 'that'}; convert with "
            "numpy.asarray for float64 arithmetic"
        )

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if function is np.broadcast_arrays:
            shape = np.broadcast_shapes(*(array.shape for array in args))
            return [array._each(np.broadcast_to, shape) for array in args]
        if function is np.concatenate:
            parts = zip(*(self._parts(array) for array in args[0]), strict=True)
            return self._new(tuple(function(part, *args[1:], **options) for part in parts))
        if function is np.copyto:
            for part, own in zip(args[0].parts, args[1].parts, strict=True):
                np.copyto(part, own, **options)
            return None
        if function in (np.full_like, np.zeros_like, np.ones_like, np.empty_like):
            shape = options.get("shape") or self.shape
            fill = args[1] if function is np.full_like else function is np.ones_like
            return self._new(self.operations.enter(np.full(shape, fill, dtype=np.float64)))
        if function is np.result_type:
            return None
        raise TypeError(f"no rounded form of numpy.{function.__name__}")


class Product(Operands):
    """A product that isn't rounded yet. It is rounded alone if it is used, or together with a sum it is added to."""

    __slots__ = ("x", "y")

    def __init__(self, operations: Operations, x: Parts, y: Parts) -> None:
        self.operations, self.x, self.y = operations, x, y

    @property
    def parts(self) -> Parts:
        """The product as the arithmetic keeps it, rounded by itself."""
        return self.operations.multiply(self.x, self.y)

    def __add__(self, other: Any) -> Operands:
        return self._new(self.operations.fma(self.x, self.y, self._parts(other)))

    __radd__ = __add__
