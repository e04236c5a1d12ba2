"""Results of arithmetic with operators: conjugates, multiples, sums, products and powers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from recfact.arrays import Array
from recfact.checks import positive_integer
from recfact.errors import ArrayTypeError, ShapeError
from recfact.factorizations.operator import Operator
from recfact.factorizations.scalars import (
    common_type,
    commutes,
    conjugate_of,
    number_type,
    one_like,
    quotients,
    type_beside,
)


class Conjugate(Operator):
    """The elementwise complex conjugate of an operator.

    Parameters
    ----------
    operator : Operator
        The operator to conjugate.
    """

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator.dtype, operator.shape)
        self.operator = operator

    def _apply(self, x: Array) -> Array:
        return conjugate_of(self.operator._apply(conjugate_of(x)))

    def _transpose(self) -> Operator:
        return Conjugate(self.operator._transpose())

    def conj(self) -> Operator:
        """Return the operator that this one conjugates."""
        return self.operator


class Scaled(Operator):
    """An operator times or over a scalar. By NumPy's promotion, a Python number takes the type of the operator.

    The place of the scalar matters if it doesn't commute: in q L it multiplies the result of L, in L q the input of L.

    Parameters
    ----------
    operator : Operator
        The operator to scale.
    scalar : scalar
        The number by which the entries are multiplied or divided.
    over : bool, default False
        Whether they are divided.
    before : bool, default True
        Whether the scalar multiplies the input of the operator instead of its result.
    from_right : bool, default False
        Whether it multiplies from the right, as in transposes.
    """

    def __init__(
        self, operator: Operator, scalar: Any, over: bool = False, before: bool = True, from_right: bool = False
    ) -> None:
        if isinstance(scalar, np.generic):
            dtype = common_type(operator.dtype, scalar.dtype)
        elif isinstance(scalar, int | float | complex):
            dtype = type_beside(operator.dtype, scalar)
        else:
            dtype = np.dtype(object)
        super().__init__(dtype, operator.shape)
        self.operator, self.scalar = operator, scalar
        self.over, self.before, self.from_right = over, before, from_right

    def _one(self) -> Any:
        return one_like(np.array([self.operator._one(), self.scalar], dtype=object))

    def _apply(self, x: Array) -> Array:
        if commutes(self.scalar):
            y: Array = (quotients if self.over else np.multiply)(self.operator._apply(x), self.scalar)
            return y
        scalar = quotients(1, self.scalar) if self.over else self.scalar
        y = x if self.before else self.operator._apply(x)
        y = np.multiply(y, scalar) if self.from_right else np.multiply(scalar, y)
        return self.operator._apply(y) if self.before else y

    def _transpose(self) -> Operator:
        return Scaled(self.operator._transpose(), self.scalar, self.over, not self.before, not self.from_right)

    def conj(self) -> Operator:
        """Return the conjugate operator, scaled by the conjugate scalar."""
        # The number's own method: np.conj would turn a Python number into a NumPy number, which promotes differently.
        scalar = self.scalar.conjugate() if hasattr(self.scalar, "conjugate") else self.scalar
        return Scaled(self.operator.conj(), scalar, self.over, self.before, self.from_right)


class Sum(Operator):
    """The sum of operators of one shape.

    Parameters
    ----------
    *terms : Operator
        The terms, from left to right.

    Raises
    ------
    ShapeError
        If their shapes differ.
    """

    terms: tuple[Operator, ...]

    def __init__(self, *terms: Operator) -> None:
        first, *others = terms
        for other in others:
            if other.shape != first.shape:
                raise ShapeError(f"operators that are added must have one shape, got {first!r} and {other!r}")
        super().__init__(common_type(*(term.dtype for term in terms)), first.shape)
        self.terms = (*first.terms, *others) if isinstance(first, Sum) else terms

    def _one(self) -> Any:
        return one_like(np.array([term._one() for term in self.terms], dtype=object))

    def _apply(self, x: Array) -> Array:
        y = self.terms[0]._apply(x)
        for term in self.terms[1:]:
            y = y + term._apply(x)
        return y

    def _transpose(self) -> Operator:
        return Sum(*(term._transpose() for term in self.terms))

    def conj(self) -> Operator:
        """Return the sum of the conjugates."""
        return Sum(*(term.conj() for term in self.terms))


class Product(Operator):
    """The product of operators, the last one applied first.

    Parameters
    ----------
    *factors : Operator
        The factors, from left to right.

    Raises
    ------
    ShapeError
        If a factor doesn't have as many columns as the next one has rows.
    """

    factors: tuple[Operator, ...]

    def __init__(self, *factors: Operator) -> None:
        for left, right in pairwise(factors):
            if left.shape[1] != right.shape[0]:
                raise ShapeError(f"operators that are multiplied must fit, columns to rows, got {left!r} and {right!r}")
        super().__init__(
            common_type(*(factor.dtype for factor in factors)), (factors[0].shape[0], factors[-1].shape[1])
        )
        first, *others = factors
        self.factors = (*first.factors, *others) if isinstance(first, Product) else factors

    def _one(self) -> Any:
        return one_like(np.array([factor._one() for factor in self.factors], dtype=object))

    def _apply(self, x: Array) -> Array:
        for factor in reversed(self.factors):
            x = factor._apply(x)
        return x

    def _transpose(self) -> Operator:
        return Product(*(factor._transpose() for factor in reversed(self.factors)))

    def conj(self) -> Operator:
        """Return the product of the conjugates."""
        return Product(*(factor.conj() for factor in self.factors))


class Power(Operator):
    """An operator applied k times. For k = 0 it is the identity.

    Parameters
    ----------
    operator : Operator
        A square operator.
    k : int
        The exponent, at least 0.

    Raises
    ------
    ShapeError
        If the operator isn't square.
    TypeError, OptionError
        If `k` isn't an integer of at least 0.
    """

    def __init__(self, operator: Operator, k: int) -> None:
        if operator.shape[0] != operator.shape[1]:
            raise ShapeError(f"only a square operator has powers, got {operator!r}")
        super().__init__(operator.dtype, operator.shape)
        self.operator, self.k = operator, positive_integer(k, "the exponent", least=0)

    def _one(self) -> Any:
        return self.operator._one()

    def _apply(self, x: Array) -> Array:
        x = x.copy()
        for _ in range(self.k):
            x = self.operator._apply(x)
        return x

    def _transpose(self) -> Operator:
        return Power(self.operator._transpose(), self.k)

    def conj(self) -> Operator:
        """Return the power of the conjugate."""
        return Power(self.operator.conj(), self.k)


class Wrapped(Operator):
    """A LinearOperator of another library, as one of recfact.

    Parameters
    ----------
    operator : LinearOperator
        The operator.
    """

    def __init__(self, operator: LinearOperator) -> None:
        super().__init__(number_type(operator.dtype), operator.shape)
        self.operator = operator

    def _apply(self, x: Array) -> Array:
        if not isinstance(x, np.ndarray):
            raise ArrayTypeError(
                f"{self.operator!r} isn't an operator of recfact's and multiplies arrays of the host only, got an "
                "array on a GPU; copy it to the host"
            )
        return np.asarray(self.operator @ x)

    def _transpose(self) -> Operator:
        return Wrapped(self.operator.T)


def as_operator(x: LinearOperator) -> Operator:
    """Return a LinearOperator as an `Operator`."""
    return x if isinstance(x, Operator) else Wrapped(x)
