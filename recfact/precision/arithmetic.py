"""Arithmetic in a number format: its options, checked once, and operations that are exact except for one rounding.

The product of two numbers of up to 25 bits is exact in float64. Their sum isn't always exact, so it is rounded to odd
(Boldo and Melquiond, 2008): an inexact sum becomes the one of its two float64 neighbours that has an odd significand.
No boundary between two numbers of a format of up to 51 bits is odd. So rounding this float64 to the format, in any
mode, gives the rounding of the sum itself. The sum of an exact product and a third number is computed in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.checks import boolean, generator
from recfact.errors import OptionError
from recfact.precision import elementary
from recfact.precision.formats.array_rounding import round_array
from recfact.precision.formats.block_catalogue import number_format
from recfact.precision.formats.block_scaled import BlockFormat
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.formats.rounding import check_rounding, round_objects
from recfact.precision.operands import Operands, Parts
from recfact.precision.reals import Number, as_rationals, as_reals, exactly, stand_in


@dataclass(frozen=True, init=False)
class Arithmetic:
    """The arithmetic in which an algorithm runs. Functions that take one also take a format, for its plain arithmetic.

    Parameters
    ----------
    format : str, dtype, FloatFormat or BlockFormat
        The number format of coefficients, inputs and results. A block-scaled format stands for operands that are stored
        in it, and binary32 for all else.
    accumulate : str, dtype or FloatFormat, optional
        The format of all operations, by default `format` itself. Results are rounded to `format` once, at the end. If
        this format doesn't hold all numbers of `format`, coefficients and inputs are first rounded to it.
    fma : bool, default False
        Whether a product that is added to something is rounded only with the sum.
    rounding, underflow : str
        How to round, as in ``FloatFormat.round``.
    seed : int or numpy.random.Generator, default 0
        Seed of the rounding "stochastic". The same seed gives the same results.
    operands : str, dtype, FloatFormat or BlockFormat, optional
        The format in which coefficients and inputs are stored, and from which they are decoded to `format`, both to
        nearest even. Each segment is stored by itself, in blocks along time. By default they are numbers of `format`.

    Raises
    ------
    OptionError
        If an option isn't one of those, if it needs something that a format doesn't have, or if `format` has a zero or
        a sign and the format of the operations hasn't.

    Notes
    -----
    This is the model of IEEE 754 (2019): an operation gives the exact result, rounded once. Formats of more than 25
    bits are computed with Fractions, which is a few thousand times slower. binary64 rounded to nearest is an exception.

    Examples
    --------
    >>> from recfact import precision as pr
    >>> tensor_cores = pr.Arithmetic("bfloat16", accumulate="float32", rounding="toward-zero")
    >>> print(tensor_cores)
    bfloat16, accumulate=binary32, rounding=toward-zero
    >>> pr.rounded_solve([0.75] * 4, [1.0] * 4, pr.Arithmetic("float8_e5m2", accumulate="float32")).tolist()
    [1.0, 1.75, 2.5, 2.5]
    >>> print(pr.Arithmetic("mxfp4"))
    binary32, operands=mxfp4
    """

    format: FloatFormat
    accumulate: FloatFormat
    fma: bool = False
    rounding: str = "nearest-even"
    underflow: str = "gradual"
    seed: Any = 0
    operands: FloatFormat | BlockFormat | None = None

    def __init__(
        self,
        format: Any,
        accumulate: Any = None,
        fma: bool = False,
        rounding: str = "nearest-even",
        underflow: str = "gradual",
        seed: Any = 0,
        operands: Any = None,
    ) -> None:
        storage = number_format(format)
        if isinstance(storage, BlockFormat):
            if operands is not None:
                required = f"can't be given beside the format {storage}, which is that of the operands"
                raise OptionError(required, "operands", given=str(operands), advice="leave one of them out")
            storage, operands = FORMATS["binary32"], storage
        if operands is not None:
            operands = number_format(operands)
        inner = storage if accumulate is None else format_of(accumulate)
        if (storage.zero and not inner.zero) or (storage.signed and not inner.signed):
            required = f"must have the zero and the sign that {storage} has"
            raise OptionError(required, "accumulate", given=inner.name, advice="pick a format with both")
        for each in (storage, inner):
            check_rounding(each, rounding, underflow)
        if rounding == "stochastic":
            generator(seed)
        checked = (storage, inner, boolean(fma, "fma"), rounding, underflow, seed, operands)
        for part, value in zip(fields(self), checked, strict=True):
            object.__setattr__(self, part.name, value)

    @staticmethod
    def of(given: Any) -> Arithmetic:
        """Return an arithmetic unchanged, or the plain arithmetic of a format."""
        return given if isinstance(given, Arithmetic) else Arithmetic(given)

    @property
    def options(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        plain = {"accumulate": self.format, "fma": False, "rounding": "nearest-even", "underflow": "gradual"}
        plain["operands"] = None
        return {name: getattr(self, name) for name, value in plain.items() if getattr(self, name) != value}

    def __str__(self) -> str:
        return ", ".join([str(self.format), *(f"{name}={value}" for name, value in self.options.items())])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of arrays that hold numbers of the format: float64, or object if float64 doesn't hold them all."""
        return np.dtype(np.float64 if self.format.fits_float64 else object)

    @cached_property
    def contained(self) -> bool:
        """Whether the format of the operations holds every number of the other."""
        return self.accumulate == self.format or self.accumulate.holds(self.format)

    def stored(self, values: Array) -> Array:
        """Return coefficients or inputs, with time along the first axis, as they are stored and decoded."""
        if self.operands is None:
            return values
        kept = (
            self.operands.round(values, axis=0)
            if isinstance(self.operands, BlockFormat)
            else np.asarray(self.operands.round(values))
        )
        decoded = np.asarray(self.format.round(kept if self.format.fits_float64 else as_rationals(kept)))
        return decoded.astype(self.dtype, copy=False)

    def of_given_operands(self) -> Arithmetic:
        """Return it, for functions that don't store the operands.

        Raises
        ------
        OptionError
            If it does.
        """
        if self.operands is not None:
            raise OptionError(
                "can't be chosen here, because coefficients and inputs stay as they are given",
                "operands",
                given=str(self.operands),
                advice=f"leave it out, and pass what {self.operands}.round returns",
            )
        return self

    def random(self) -> np.random.Generator | None:
        """Return the random numbers of a run, if it takes any."""
        return generator(self.seed) if self.rounding == "stochastic" else None

    def array(self, values: Any) -> Operands:
        """Return an array that computes in this arithmetic.

        Parameters
        ----------
        values : array_like
            Real numbers. They are rounded to the format, and to that of the operations.

        Returns
        -------
        Operands
            The array. Sums, differences, products, quotients, logarithms and exponentials are rounded once. So is every
            partial result of ``multiply.accumulate`` and ``add.accumulate``. ``numpy.asarray`` returns the numbers.
            Quotients, logarithms and exponentials only support rounding to nearest even.

        Raises
        ------
        DTypeError
            If they aren't real numbers.

        Examples
        --------
        >>> from recfact import precision as pr
        >>> x = pr.Arithmetic("float16").array([1, 2**-11, 2**-11])
        >>> np.asarray(np.add.accumulate(x)).tolist(), np.asarray(np.log(x / 3)).tolist()
        ([1.0, 1.0, 1.0], [-1.0986328125, -8.7265625, -8.7265625])
        """
        reals = as_reals(values, "values")
        numbers = reals if self.format.fits_float64 else as_rationals(reals)
        random = self.random()
        for fmt in dict.fromkeys((self.format, self.accumulate)):
            numbers = Rounded(fmt, self, random).round(numbers)
        return Operands(Rounded(self.accumulate, self, random), numbers.copy())


class Rounded:
    """The operations of an arithmetic in one of its formats: of numbers, each rounded once.

    Parameters
    ----------
    format : FloatFormat
        The format.
    arithmetic : Arithmetic
        How it rounds, and whether it fuses.
    random : numpy.random.Generator, optional
        The random numbers of the run.
    """

    def __init__(self, format: FloatFormat, arithmetic: Arithmetic, random: np.random.Generator | None = None) -> None:
        self.format, self.arithmetic, self.fused = format, arithmetic, arithmetic.fma
        self.dtype = np.dtype(np.float64 if format.fits_float64 else object)
        self.options = arithmetic.rounding, arithmetic.underflow, format.overflow, random
        usual = self.options[:3] == ("nearest-even", "gradual", "infinity")
        self.native = _NATIVE.get(format) if usual else None
        p, lowest = format.fraction_bits, format.emin - format.fraction_bits
        self.products_fit = p <= 25 and 2 * lowest >= -1074 and 2 * format.emax + 2 <= 1023
        self.sums_fit = format.emax + 2 - lowest <= 53

    def round(self, x: Array) -> Array:
        """Return float64 or exact numbers rounded to the format."""
        if x.dtype == object or self.dtype == object:
            return round_objects(self.format, x, *self.options).astype(self.dtype)
        if self.native is np.float64:
            return x
        if self.native is not None:
            with np.errstate(all="ignore"):
                return np.asarray(x.astype(self.native).astype(np.float64))
        return round_array(self.format, np.ascontiguousarray(x).reshape(x.shape), *self.options)

    def enter(self, values: Array, _exact: Array | None = None, /) -> Parts:
        """Return given numbers as they are."""
        if self.dtype == object:
            return (as_rationals(values),)
        return (values if values.dtype == object else values.astype(np.float64),)

    def rounded(self, x: Parts) -> Parts:
        """Return numbers rounded to the format."""
        return (self.round(x[0]),)

    def multiply(self, x: Parts, y: Parts) -> Parts:
        """Return x y."""
        if not (self.native is np.float64 or self.products_fit):
            return self._exactly(_product, x, y)
        with np.errstate(all="ignore"):
            return (self.round(np.asarray(x[0] * y[0])),)

    def add(self, x: Parts, y: Parts) -> Parts:
        """Return x + y."""
        # Two roundings to nearest of a sum of two numbers, first to more than twice the bits, are one.
        if not (self.native or self.sums_fit or self.products_fit):
            return self._exactly(_sum, x, y)
        with np.errstate(all="ignore"):
            total = x[0] + y[0] if self.native or self.sums_fit else odd_sum(x[0], y[0])
            return (self.round(np.asarray(total)),)

    def subtract(self, x: Parts, y: Parts) -> Parts:
        """Return x - y."""
        return self.add(x, (-y[0],))

    def fma(self, x: Parts, y: Parts, z: Parts) -> Parts:
        """Return x y + z, rounded once."""
        if not self.products_fit:
            return self._exactly(lambda p, q, r: _sum(_product(p, q), r), x, y, z)
        with np.errstate(all="ignore"):
            return (self.round(odd_sum(x[0] * y[0], z[0])),)

    def divide(self, x: Parts, y: Parts) -> Parts:
        """Return x / y."""
        return (elementary.quotient(x[0], y[0], self._to_nearest()),)

    def log(self, x: Parts) -> Parts:
        """Return the logarithm of x."""
        return (elementary.logarithm(x[0], self._to_nearest()),)

    def exp(self, x: Parts) -> Parts:
        """Return the exponential of x."""
        return (elementary.exponential(x[0], self._to_nearest()),)

    def _to_nearest(self) -> FloatFormat:
        how = self.arithmetic
        if (how.rounding, how.underflow) != ("nearest-even", "gradual"):
            raise OptionError(
                f"quotients, logarithms and exponentials round to nearest even with gradual underflow, got {how}; pass "
                "an arithmetic that does"
            )
        return self.format

    def _exactly(self, operation: Callable[..., Number], *operands: Parts) -> Parts:
        """Apply an operation of exact scalars and round what it gives."""
        return (self.round(exactly(operation, *(values for (values,) in operands))),)


class Marked(Rounded):
    """Operations whose overflows are NaN, except that 0 times one is 0, as it is with what saturates.

    They have exponents of one more bit, and what passes the largest number of the format becomes NaN.
    """

    def __init__(self, format: FloatFormat, arithmetic: Arithmetic, random: np.random.Generator | None = None) -> None:
        wider = replace(format, name="wider", exponent_bits=format.exponent_bits + 1, nan_codes=0, infinities=True)
        super().__init__(wider, arithmetic, random)
        self.largest = format.max

    def round(self, x: Array) -> Array:
        """Return numbers rounded to the format, NaN beyond it."""
        rounded = super().round(x)
        with np.errstate(invalid="ignore"):
            return np.where(np.abs(rounded) > self.largest, np.nan, rounded)

    def multiply(self, x: Parts, y: Parts) -> Parts:
        """Return x y."""
        return (np.where((x[0] == 0) | (y[0] == 0), 0, super().multiply(x, y)[0]),)

    def fma(self, x: Parts, y: Parts, z: Parts) -> Parts:
        """Return x y + z."""
        return (np.where((x[0] == 0) | (y[0] == 0), self.round(z[0]), super().fma(x, y, z)[0]),)


_NATIVE = {FORMATS["binary32"]: np.float32, FORMATS["binary64"]: np.float64}
"""Formats that a conversion by NumPy rounds float64 to."""


def odd_sum(x: Array, y: Array) -> Array:
    """Return x + y in float64, rounded to odd."""
    total = np.asarray(x + y)
    part = total - x
    error = (x - (total - part)) + (y - part)  # Knuth's: exact without overflow
    adjust = (error != 0) & np.isfinite(total) & (total.view(np.int64) & 1 == 0)
    if adjust.any():
        total[adjust] = np.nextafter(total, np.copysign(np.inf, error))[adjust]
    return total


def _product(x: Number, y: Number) -> Number:
    if isinstance(x, Fraction) and isinstance(y, Fraction):
        return x * y
    return stand_in(x) * stand_in(y)


def _sum(x: Number, y: Number) -> Number:
    if isinstance(x, Fraction) and isinstance(y, Fraction):
        return x + y
    return stand_in(x) + stand_in(y)
