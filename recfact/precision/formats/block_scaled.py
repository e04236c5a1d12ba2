"""Block-scaled formats: numbers of few bits, with one scale for each block of numbers.

A stored number is the product of an element and the scale of its block. In a format of two levels, it is also
multiplied by the scale of the whole array. The scale follows from the largest number of the block. So the precision of
a small number depends on its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from typing import Any, NamedTuple

import numpy as np

from recfact.arrays import Array, check_axis, library_of, to_torch
from recfact.checks import choice, generator, positive_integer
from recfact.errors import OptionError, ShapeError, shown
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.formats.rounding import ROUNDINGS
from recfact.precision.reals import as_rational, as_reals


class BlockParts(NamedTuple):
    """The parts that a block-scaled format stores of an array."""

    elements: Array
    """Numbers of the format's element, in the shape of the array."""

    scales: Array
    """The scale of each block, in the same shape but for the axis of blocks; NaN where a whole block is NaN."""

    tensor: float
    """The scale of the whole array; 1 in a format of one level."""


@dataclass(frozen=True, repr=False)
class BlockFormat:
    """A format in which each block of numbers shares a scale.

    Two formats are equal if they store the same numbers, whatever their names.

    Parameters
    ----------
    name : str
        Name of the format.
    element : str, dtype or FloatFormat
        The format of the elements. It must have a sign, a zero and subnormals.
    block : int
        Number of neighbours along an axis that share a scale. The last block of an axis may be shorter.
    scale : str, dtype or FloatFormat
        The format of the scales. Without `tensor` its numbers must be powers of two.
    tensor : str, dtype or FloatFormat, optional
        The format of a second scale, which the whole array shares.

    Raises
    ------
    OptionError
        If a format can't be used for its purpose.

    See Also
    --------
    recfact.precision.block_format : The block-scaled format with a name.

    Notes
    -----
    OCP Microscaling Formats (MX) Specification 1.0 (2023), section 6.3, has one level. Take the largest power of two
    that isn't above the largest magnitude of the block. The scale is this power over the largest power of two among the
    elements. Each number over its scale is rounded once. Results beyond the largest element become the largest element.

    NVIDIA's NVFP4 (Abecassis et al., 2025) has two levels. Let A be the largest magnitude of the array, M that of a
    block, e the largest element and s the largest scale. The scale of the array is A / (e s), and that of the block is
    M / (e A / (e s)). Both are rounded to nearest even.

    What they keep is derived on the page on number formats ("What a block keeps").

    Examples
    --------
    >>> from recfact import precision as pr
    >>> fmt = pr.block_format("mxfp4")
    >>> fmt
    <BlockFormat mxfp4: 32 of float4_e2m1fn share a float8_e8m0fnu, 4.25 bits a number>
    >>> fmt.round([0.99, 0.5, 0.3, 0.01]).tolist()
    [0.75, 0.5, 0.25, 0.0]
    """

    name: str = field(compare=False)
    element: FloatFormat
    block: int
    scale: FloatFormat
    tensor: FloatFormat | None = None

    def __post_init__(self) -> None:
        for part in ("element", "scale", "tensor"):
            given = getattr(self, part)
            object.__setattr__(self, part, given if given is None and part == "tensor" else format_of(given))
        object.__setattr__(self, "block", positive_integer(self.block, "block"))
        element, scale, tensor = self.element, self.scale, self.tensor
        if not (element.signed and element.subnormals and element.bits <= 8):
            required = "must have a sign, subnormals and at most 8 bits"
            raise OptionError(required, "element", given=element.name, advice="pass another")
        if not scale.has_nan or scale.bits > 8 or (tensor is None) != (scale.fraction_bits == 0):
            required = "must have NaN and at most 8 bits, with fraction bits if there is a tensor and without if not"
            raise OptionError(required, "scale", given=scale.name, advice="'float8_e8m0fnu', or give a tensor's too")
        if tensor is not None and not (scale.zero and FORMATS["binary32"].holds(tensor) and tensor.zero):
            required = "must be one whose numbers binary32 holds, beside a scale with a zero"
            raise OptionError(required, "tensor", given=tensor.name, advice="pass 'binary32'")

    @property
    def bits(self) -> float:
        """Bits per number in a whole block, including its share of the scale."""
        return self.element.bits + self.scale.bits / self.block

    @property
    def largest_below_one(self) -> float | None:
        """The largest number that can be stored of a block whose numbers are all below 1, as gates are.

        None in a format of two levels, because it depends there on the largest number of the array.
        """
        return None if self.tensor is not None else float(Fraction(self.element.max) / 2 ** (self.element.emax + 1))

    def round(self, values: Any, rounding: str = "nearest-even", *, axis: int = -1, seed: Any = None) -> Any:
        """Return `values` as the format stores them.

        Parameters
        ----------
        values : array_like
            Floats, integers or exact scalars. In a format of two levels the whole array has one second scale.
        rounding : str, default "nearest-even"
            How elements are rounded, as in ``FloatFormat.round``. Scales are always as in the notes of the class.
        axis : int, default -1
            The axis along which blocks lie.
        seed : int or numpy.random.Generator, optional
            Seed of "stochastic".

        Returns
        -------
        ndarray of float64
            The stored numbers, in the shape of `values`. If the elements have no NaN, a number that isn't finite makes
            its whole block NaN. Otherwise only the number itself is affected: NaN stays NaN, and an infinity becomes
            NaN if the elements have no infinity.

        Raises
        ------
        OptionError
            If `rounding` isn't one of those.
        ShapeError
            If there is no such axis.
        DTypeError
            If `values` aren't real numbers.

        Examples
        --------
        >>> from recfact import precision as pr
        >>> pr.block_format("mxfp8 e4m3").round([0.99, 0.5, 0.3]).tolist()
        [0.875, 0.5, 0.3125]
        """
        rounded = self.decode(self.split(values, rounding, axis=axis, seed=seed), axis=axis)
        return to_torch(rounded) if library_of(values) == "torch" else rounded

    def split(self, values: Any, rounding: str = "nearest-even", *, axis: int = -1, seed: Any = None) -> BlockParts:
        """Return the elements and scales that represent `values`. The `encode` of their formats gives the codes.

        Parameters
        ----------
        values, rounding, axis, seed
            As for `round`.

        Returns
        -------
        BlockParts
            The tuple (elements, scales, tensor): numbers of the element's format in the shape of `values`; the scale of
            each block, NaN where a whole block is NaN; and the scale of the array, 1 in a format of one level. A block
            of zeros has the smallest scale.

        Raises
        ------
        OptionError, ShapeError, DTypeError
            As for `round`.

        Examples
        --------
        >>> from recfact import precision as pr
        >>> fmt = pr.block_format("mxfp4")
        >>> parts = fmt.split([0.99, 0.5, 0.3, 0.01])
        >>> parts.elements.tolist(), parts.scales.tolist(), fmt.element.encode(parts.elements).tolist()
        ([6.0, 4.0, 2.0, 0.0], [0.125], [7, 6, 4, 0])
        """
        choice(rounding, "rounding", ROUNDINGS)
        random = generator(seed) if rounding == "stochastic" else None
        x = np.moveaxis(_odd(as_reals(values, "values")), *self._axis(values, axis))
        usable = np.isfinite(x)
        sizes = np.where(usable, np.abs(x), 0.0)
        starts = np.arange(0, len(x), min(self.block, len(x)) or 1)
        largest = np.maximum.reduceat(sizes, starts) if len(x) else sizes
        tensor, scales = self._scales(largest)
        shared = self._spread(scales * tensor, len(x))
        quotients = _quotient(np.where(usable, x, 0.0), np.where(shared == 0, np.inf, shared))
        elements = np.asarray(self.element.round(quotients, rounding, overflow="saturate", seed=random))
        lost = np.where(np.isinf(x) & self.element.infinities, x, np.nan)
        if self.element.has_nan:
            elements = np.where(usable, elements, lost)
        elif not usable.all():
            spoiled = np.logical_or.reduceat(~usable, starts)
            scales = np.where(spoiled, np.nan, scales)
            elements = np.where(self._spread(spoiled, len(x)), 0.0, elements)
        return BlockParts(np.moveaxis(elements, 0, axis), np.moveaxis(scales, 0, axis), tensor)

    def decode(self, parts: BlockParts, *, axis: int = -1) -> Array:
        """Return the numbers that elements and scales represent, which are their exact products.

        Parameters
        ----------
        parts : BlockParts, or (elements, scales, tensor)
            The parts, as `split` returns them.
        axis : int, default -1
            The axis along which blocks lie.

        Returns
        -------
        ndarray of float64

        Raises
        ------
        ShapeError
            If there isn't a scale for each block.

        Examples
        --------
        >>> from recfact import precision as pr
        >>> pr.block_format("nvfp4").decode(([6.0, -0.5], [448.0], 2.0**-11)).tolist()
        [1.3125, -0.109375]
        """
        elements, scales = as_reals(parts[0], "elements"), as_reals(parts[1], "scales")
        elements = np.moveaxis(elements, *self._axis(elements, axis))
        scales = np.moveaxis(scales, *self._axis(scales, axis))
        required = (-(-len(elements) // self.block), *elements.shape[1:])
        if scales.shape != required:
            raise ShapeError(
                f"scales must be one for each block of {self.block}, {required} with blocks first, got {scales.shape}; "
                "pass what split returned"
            )
        with np.errstate(invalid="ignore"):
            return np.moveaxis(elements * (self._spread(scales, len(elements)) * parts[2]), 0, axis)

    def error_bound(self, values: Any, *, axis: int = -1) -> Array:
        """Bound the distance of each number from its stored form, for rounding to nearest.

        Parameters
        ----------
        values, axis
            As for `round`. The numbers must be finite.

        Returns
        -------
        ndarray of float64
            The bounds, in the shape of `values`. A bound is the largest of three numbers: ``u |x|``, where u is the
            unit roundoff of the elements; half the smallest element times the scale; and the excess of ``|x|`` over the
            largest element times the scale.

        Raises
        ------
        ShapeError, DTypeError
            As for `round`.

        Notes
        -----
        Derived on the page on number formats ("What a block keeps").

        Examples
        --------
        >>> from recfact import precision as pr
        >>> pr.block_format("mxfp4").error_bound([0.99, 0.5, 0.3, 0.01]).tolist()
        [0.2475, 0.125, 0.075, 0.03125]
        """
        sizes = np.abs(as_reals(values, "values"))
        _, scales, tensor = self.split(sizes, axis=axis)
        x = np.moveaxis(_up(sizes), *self._axis(values, axis))
        scales = np.moveaxis(scales, axis, 0)
        shared = self._spread(scales * tensor, len(x))
        half = shared * (float(self.element.smallest_subnormal) / 2)
        beyond = x - shared * float(self.element.max)
        beyond = np.where(shared == 0, x, np.nextafter(beyond, np.inf))
        return np.moveaxis(np.maximum.reduce([x * float(self.element.unit_roundoff), half, beyond]), 0, axis)

    def _axis(self, values: Any, axis: Any) -> tuple[int, int]:
        """Return the axis of blocks, and the axis to which they are moved."""
        ndim = np.ndim(values)
        if ndim == 0:
            raise ShapeError(f"{self} stores blocks of an array, got the number {shown(values)}; pass an array")
        return check_axis(axis, ndim), 0

    def _spread(self, each: Array, length: int) -> Array:
        """Return values of blocks repeated for each of their numbers."""
        return np.repeat(each, min(self.block, length), axis=0)[:length]

    def _scales(self, largest: Array) -> tuple[float, Array]:
        """Return the scale of the array, and those of blocks with these largest magnitudes."""
        if self.tensor is None:
            exponents = np.frexp(largest)[1] - 1 - self.element.emax
            exponents = np.where(largest > 0, np.clip(exponents, self.scale.emin, self.scale.emax), self.scale.emin)
            return 1.0, np.ldexp(1.0, exponents)
        whole = np.max(largest, initial=0.0, keepdims=True).reshape(1)
        reach = np.array([float(self.element.max) * float(self.scale.max)])
        tensor = float(self.tensor.round(_quotient(whole, reach), overflow="saturate")[0]) or 1.0
        quotients = _quotient(largest, np.float64(float(self.element.max) * tensor))
        return tensor, np.asarray(self.scale.round(quotients, overflow="saturate"))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        second = "" if self.tensor is None else f", and all a {self.tensor}"
        return (
            f"<BlockFormat {self.name}: {self.block} of {self.element} share a {self.scale}{second}, "
            f"{self.bits:g} bits a number>"
        )


def _up(reals: Array) -> Array:
    """Return magnitudes as float64, rounded up."""
    if reals.dtype != object:
        return reals
    return np.array([_up_float(as_rational(value)) for value in reals.flat], dtype=np.float64).reshape(reals.shape)


def _up_float(number: float | Fraction) -> float:
    try:
        nearest = float(number)
    except OverflowError:
        return inf
    return float(np.nextafter(nearest, np.inf)) if nearest < number else nearest


def _odd(reals: Array) -> Array:
    """Return real numbers as float64, rounded to odd, so that none passes a boundary of a format of few bits."""
    if reals.dtype != object:
        return reals
    return np.array([_odd_float(as_rational(value)) for value in reals.flat], dtype=np.float64).reshape(reals.shape)


def _odd_float(number: float | Fraction) -> float:
    if isinstance(number, float):
        return number
    try:
        nearest = float(number)
    except OverflowError:  # beyond what any block stores
        return float(np.copysign(np.finfo(np.float64).max, -1 if number < 0 else 1))
    if nearest == number or np.float64(nearest).view(np.int64) & 1:
        return nearest
    return float(np.nextafter(nearest, np.inf if number > nearest else -np.inf))


def _quotient(x: Array, y: Any) -> Array:
    """Return x / y in float64, on the same side as the exact quotient of every boundary t between numbers of a format.

    If t y has at most 53 bits, x differs from it by a unit of its last place or not at all. That unit is more than y
    times half a unit of t, so the quotient isn't rounded to t unless it is t.
    """
    with np.errstate(under="ignore"):
        quotient = np.asarray(x / y)
    return np.where((quotient == 0) & (x != 0) & np.isfinite(y), np.copysign(2.0**-1074, x), quotient)
