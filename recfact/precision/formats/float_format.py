"""Floating-point formats as data.

A format is a set of numbers of either sign: zero, the subnormals f * 2^(emin - p) with 0 < f < 2^p, and the normals
(2^p + f) * 2^(e - p) with 0 <= f < 2^p and emin <= e <= emax. Here p is the number of explicit fraction bits, and
emin = 1 - bias. Codes number the magnitudes in ascending order. The highest codes are NaN, as many as the format says.
The code below them is infinity, if there is one. The next code below is the largest number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from recfact.arrays import Array
from recfact.checks import boolean, choice, integer, positive_integer
from recfact.errors import OptionError, OptionTypeError, shown
from recfact.precision.formats.encoding import decode, encode, finite_values
from recfact.precision.formats.limits import FormatLimits
from recfact.precision.formats.rounding import round_rational, round_values
from recfact.precision.reals import in_decimal

MOST_EXPONENT_BITS = 19  # those of binary256: its largest number is an integer of 2^18 bits
MOST_FRACTION_BITS = 1 << 16
LARGEST_BIAS = 1 << 20
NANS = ("ieee", "top", "negative-zero", "none")


@dataclass(frozen=True, repr=False)
class FloatFormat(FormatLimits):
    """A binary floating-point format.

    Two formats are equal if they have the same numbers and codes, whatever their names.

    Parameters
    ----------
    name : str
        Name of the format.
    exponent_bits, fraction_bits : int
        Widths of the fields. `fraction_bits` counts the explicit bits, the paper's p.
    bias : int
        A normal number with the exponent field E is (1 + f / 2^p) * 2^(E - bias).
    nan_codes : int
        Number of NaN codes of each sign, which are the highest ones: 2^p - 1 as in IEEE 754, 1 as in ``float8_e4m3fn``,
        or 0.
    signed, infinities : bool, default True
        Whether there are negative numbers, and infinities.
    subnormals : bool, default True
        Whether the exponent field 0 holds subnormals. Without them it holds zero alone.
    zero : bool, default True
        Whether there is a zero. Without it the exponent field 0 holds normal numbers, as in ``float8_e8m0fnu``.
    negative_zero : bool, default True
        Whether there is a negative zero. Without it, its code is NaN in a signed format.

    See Also
    --------
    from_bits : Make a format from field widths, with the usual defaults.
    recfact.precision.format : The format with a name, or of a NumPy dtype.

    Examples
    --------
    >>> from recfact import precision as pr
    >>> fmt = pr.format("bfloat16")
    >>> fmt
    <FloatFormat bfloat16: 1 + 8 + 7 bits, bias 127, max 3.3895313892515355e+38, inf, nan>
    >>> fmt.eps, fmt.smallest_normal == 2.0**-126, fmt.largest_below_one
    (0.0078125, True, 0.99609375)
    >>> fmt.round([1.0, 1.01, 1e39])
    array([1.       , 1.0078125,       inf])
    """

    name: str = field(compare=False)
    exponent_bits: int
    fraction_bits: int
    bias: int
    nan_codes: int = field(kw_only=True)
    signed: bool = field(default=True, kw_only=True)
    infinities: bool = field(default=True, kw_only=True)
    subnormals: bool = field(default=True, kw_only=True)
    zero: bool = field(default=True, kw_only=True)
    negative_zero: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        for name, least in (("exponent_bits", 1), ("fraction_bits", 0), ("nan_codes", 0)):
            object.__setattr__(self, name, positive_integer(getattr(self, name), name, least))
        object.__setattr__(self, "bias", integer(self.bias, "bias"))
        check_widths(self.exponent_bits, self.fraction_bits)
        if abs(self.bias) > LARGEST_BIAS:
            raise OptionError(f"formats have biases up to {LARGEST_BIAS} in size, got {shown(self.bias)}")
        for flag in ("signed", "infinities", "subnormals", "zero", "negative_zero"):
            object.__setattr__(self, flag, boolean(getattr(self, flag), flag))
        if self.subnormals and not self.zero:
            raise OptionError("subnormals need a zero; pass subnormals=False as well, or zero=True")
        if self.negative_zero and not (self.signed and self.zero):
            raise OptionError("a negative zero needs signed=True and zero=True; pass negative_zero=False")
        if self.max_code < 0 or not self.max:
            raise OptionError(
                f"a format needs a number above zero, got {self.exponent_bits} exponent and {self.fraction_bits} "
                f"fraction bits with {shown(self.nan_codes)} codes for NaN and {int(self.infinities)} for infinity; "
                "widen it"
            )

    @classmethod
    def from_bits(
        cls,
        exponent: int,
        fraction: int,
        bias: int | None = None,
        *,
        signed: bool = True,
        infinities: bool | None = None,
        nan: str | None = None,
        subnormals: bool = True,
        zero: bool = True,
        name: str | None = None,
    ) -> FloatFormat:
        """Return a format made from its field widths. Options that aren't given are as in IEEE 754.

        Parameters
        ----------
        exponent, fraction : int
            Numbers of exponent bits (at least 1) and of explicit fraction bits (at least 0).
        bias : int, optional
            Exponent bias, by default 2^(exponent - 1) - 1.
        signed : bool, default True
            Whether there is a sign bit.
        infinities : bool, optional
            Whether there are infinities. By default there are only with ``nan="ieee"``.
        nan : {"ieee", "top", "negative-zero", "none"}, optional
            Which codes are NaN. "ieee": all with the highest exponent field except that of infinity. "top": the highest
            of each sign. "negative-zero": the code of -0, so there is no negative zero. "none": no code. The default is
            "top" with ``infinities=False`` or without fraction bits, and otherwise "ieee".
        subnormals, zero : bool, default True
            Whether there are subnormals, and whether there is a zero.
        name : str, optional
            Its name. By default it is made from the widths.

        Returns
        -------
        FloatFormat

        Raises
        ------
        OptionError
            If the parts exclude each other or nothing is left for numbers.

        Examples
        --------
        >>> FloatFormat.from_bits(exponent=5, fraction=10)
        <FloatFormat e5m10: 1 + 5 + 10 bits, bias 15, max 65504, inf, nan>
        >>> FloatFormat.from_bits(4, 3, infinities=False, name="mine").max
        448.0
        """
        exponent = positive_integer(exponent, "exponent")
        fraction = positive_integer(fraction, "fraction", least=0)
        check_widths(exponent, fraction)
        signed, subnormals, zero = (
            boolean(flag, name) for flag, name in ((signed, "signed"), (subnormals, "subnormals"), (zero, "zero"))
        )
        if nan is None:
            nan = "top" if infinities is False or fraction == 0 else "ieee"
        choice(nan, "nan", NANS)
        if infinities is None:
            infinities = nan == "ieee"
        infinities = boolean(infinities, "infinities")
        if nan == "negative-zero" and not (signed and zero):
            raise OptionError('nan="negative-zero" needs signed=True and zero=True; pass nan="top"')
        codes = {"ieee": (1 << fraction) - infinities, "top": 1, "negative-zero": 0, "none": 0}
        return cls(
            f"e{exponent}m{fraction}" if name is None else name,
            exponent,
            fraction,
            (1 << (exponent - 1)) - 1 if bias is None else integer(bias, "bias"),
            nan_codes=codes[nan],
            signed=signed,
            infinities=infinities,
            subnormals=subnormals and zero,
            zero=zero,
            negative_zero=signed and zero and nan != "negative-zero",
        )

    def round(
        self,
        values: Any,
        rounding: str = "nearest-even",
        *,
        underflow: str = "gradual",
        overflow: str | None = None,
        seed: Any = None,
    ) -> Any:
        """Return `values` rounded to this format. Each is rounded once and correctly.

        Parameters
        ----------
        values : array_like of any shape, or a scalar
            Floats of any width, integers, or exact scalars (Fraction, int, Decimal, mpf), also in object arrays.
        rounding : str, default "nearest-even"
            "nearest-even" and "nearest-away", which differ for ties, "toward-zero", "up", "down", or "stochastic".
            "stochastic" rounds up or down at random, with probabilities that make the mean exact.
        underflow : str, default "gradual"
            "gradual" keeps subnormal numbers. The others flush numbers below the smallest normal number to zero.
            "flush-before" does so if the exact value is below it (as ARM does). "flush-after" does so if the value
            rounded with an unbounded exponent is below it (as x86 does). "flush-result" does so if the rounded result
            is subnormal (as simulators do that round first).
        overflow : {"infinity", "nan", "saturate"}, optional
            The result for numbers that round to beyond ``max``, and for infinities that the format lacks. By default it
            is infinity; in a format without infinity it is NaN, and in a format without NaN the largest number. A
            finite number that a directed rounding takes toward zero never overflows.
        seed : int or numpy.random.Generator, optional
            Seed of "stochastic".

        Returns
        -------
        ndarray of float64, or a scalar for a scalar
            The rounded numbers. For exact scalars they are Fractions, or floats if infinite or NaN.

        Raises
        ------
        OptionError
            If an option isn't one of those above, or if it needs something that the format doesn't have.
        DTypeError
            If `values` aren't real numbers.

        Notes
        -----
        NaN stays NaN, even in a format without NaN. A format without a zero rounds smaller numbers to its smallest
        number. Zero is out of its range, as negative numbers are for an unsigned format. Their result is NaN, or the
        lowest number if saturating.

        Examples
        --------
        >>> from recfact import precision as pr
        >>> pr.format("float8_e4m3fn").round([464, 465, 0.3]).tolist()
        [448.0, nan, 0.3125]
        >>> pr.format("float8_e4m3fn").round(0.3, "down")
        0.28125
        """
        return round_values(self, values, rounding, underflow=underflow, overflow=overflow, seed=seed)

    def encode(self, values: Any) -> Any:
        """Return the codes of numbers of this format.

        Parameters
        ----------
        values : array_like, or a scalar
            Numbers of the format, including infinities and NaN if it has them. Other numbers must be rounded first.

        Returns
        -------
        ndarray of uint8, uint16, uint32 or uint64, whichever is wide enough, or an int for a scalar
            The codes. Beyond 64 bits they are an object array of int. NaN has a single code, for any sign and payload.

        Raises
        ------
        OptionError
            If a value isn't in the format.

        Examples
        --------
        >>> from recfact import precision as pr
        >>> pr.format("float8_e4m3fn").encode([0.0, 1.0, -448.0])
        array([  0,  56, 254], dtype=uint8)
        """
        return encode(self, values)

    def decode(self, codes: Any) -> Any:
        """Return the numbers that have these codes.

        Parameters
        ----------
        codes : array_like of integers, or an int
            Codes, from 0 to 2^bits - 1.

        Returns
        -------
        ndarray of float64, or a float for an int
            The numbers. They are Fractions if the format has numbers that float64 doesn't hold.

        Raises
        ------
        OptionError
            If a code has more bits than the format.

        Examples
        --------
        >>> from recfact import precision as pr
        >>> pr.format("float8_e4m3fn").decode([0x00, 0x38, 0xFE, 0xFF])
        array([   0.,    1., -448.,   nan])
        """
        return decode(self, codes)

    def holds(self, other: FloatFormat) -> bool:
        """Return whether every finite number of another format is one of this format.

        Parameters
        ----------
        other : FloatFormat
            The other format.

        Returns
        -------
        bool

        Raises
        ------
        OptionTypeError
            If `other` isn't a format.

        Examples
        --------
        >>> from recfact import precision as pr
        >>> half = pr.format("binary16")
        >>> pr.format("tf32").holds(half), pr.format("bfloat16").holds(half), half.holds(pr.format("float8_e4m3fn"))
        (True, False, True)
        """
        if not isinstance(other, FloatFormat):
            raise OptionTypeError(
                f"other must be a FloatFormat, got {shown(other)} of type {type(other).__name__}; pass "
                "recfact.precision.format(...) of its name"
            )
        # Four numbers speak for all: of the largest two, one has the longest significand; of the smallest two, one has
        # the lowest bit.
        first = 1 if other.subnormals else 1 << other.fraction_bits if other.zero else 0
        codes = first, min(first + 1, other.max_code), max(other.max_code - 1, first), other.max_code
        return (
            (self.zero or not other.zero)
            and (self.signed or not other.signed)
            and all(
                round_rational(self, Fraction(number), "nearest-even", "gradual", self.overflow) == number
                for number in map(other.magnitude, codes)
            )
        )

    def values(self) -> Array:
        """Return every finite number of the format in ascending order, with zero once. It may have up to 16 bits.

        Returns
        -------
        ndarray of float64

        Raises
        ------
        OptionError
            If the format is wider.

        Examples
        --------
        >>> from recfact import precision as pr
        >>> pr.format("float4_e2m1fn").values()
        array([-6. , -4. , -3. , -2. , -1.5, -1. , -0.5,  0. ,  0.5,  1. ,  1.5,  2. ,  3. ,  4. ,  6. ])
        """
        return finite_values(self)

    def __repr__(self) -> str:
        widths = [1] * self.signed + [self.exponent_bits, self.fraction_bits]
        traits = [
            *(["inf"] if self.infinities else []),
            *(["nan"] if self.has_nan else []),
            *([] if self.signed else ["no sign"]),
            *([] if self.zero else ["no zero"]),
            *([] if self.subnormals else ["no subnormals"]),
        ]
        return (
            f"<FloatFormat {self.name}: {' + '.join(map(str, widths))} bits, bias {self.bias}, "
            f"{', '.join([f'max {in_decimal(self.max)}', *traits])}>"
        )


def check_widths(exponent: int, fraction: int) -> None:
    """Raise OptionError if fields are wider than the largest that are computed with here."""
    if exponent > MOST_EXPONENT_BITS or fraction > MOST_FRACTION_BITS:
        raise OptionError(
            f"formats have at most {MOST_EXPONENT_BITS} exponent bits and {MOST_FRACTION_BITS} fraction bits, got "
            f"{shown(exponent)} and {shown(fraction)}"
        )
