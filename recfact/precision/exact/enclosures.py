"""Rigorous enclosures of the exact states of a long recurrence, in fixed-point integers of bounded size.

A float is an integer times a power of two, and so is every number here. A state is an integer center and an integer
radius, in units of 2^-scale. A product is shifted back to the scale. Only bits that the shift drops are added to the
radius. So if the radius is 0, the center is the state itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice, tee
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy
from recfact.checks import positive_integer
from recfact.containers import without_labels
from recfact.errors import OptionError, ShapeError
from recfact.precision.exact.balls import Balls
from recfact.precision.exact.dyadic import MAX_SHIFT, Dyadic, shift_left
from recfact.precision.sequences import check_sequence
from recfact.windows import Full, Jagged, Uniform, Window, WindowLike, check_window

PIECE = 1024
"""Steps that are converted at a time."""

Coefficient = tuple[int, int, int]
"""A center, a radius and the number of bits behind the point."""


class Sequence:
    """Coefficients and inputs as integers, piece by piece.

    Parameters
    ----------
    a, u : ndarray, shape (n,)
        Coefficients and inputs.
    first : Dyadic
        The first input, with the initial state.
    """

    def __init__(self, a: Array, u: Array, first: Dyadic) -> None:
        self.a, self.u, self.first = a, u, first
        start = first.exponent
        # Every input is a multiple of 2^lowest and below 2^highest in magnitude.
        self.lowest, self.highest = exponent_range(u[1:]) or (start, start)
        if first:
            self.lowest = min(self.lowest, start)
            self.highest = max(self.highest, start + first.significand.bit_length())
        if self.highest - self.lowest > MAX_SHIFT:
            raise OptionError(
                f"the inputs' exponents span {self.highest - self.lowest} bits, more than the {MAX_SHIFT} that are "
                "held at a time; scale the inputs, or leave out what is negligible"
            )

    @staticmethod
    def of(a: Any, u: Any, x0: Any = None) -> Sequence:
        """Check the arguments of a caller."""
        a, u, _, _ = without_labels(a, u)
        coefficients, inputs = as_numpy(a, "a"), as_numpy(u, "u")
        check_sequence(coefficients, "a")
        check_sequence(inputs, "u")
        if len(coefficients) != len(inputs):
            raise ShapeError(
                f"a and u must be sequences of one length, got {len(coefficients)} and {len(inputs)} steps; give each "
                "step its coefficient"
            )
        if len(inputs) == 0:
            return Sequence(coefficients, inputs, Dyadic(0))
        first = Dyadic.of(inputs[0])
        if x0 is not None:
            first = Dyadic.of(coefficients[0]) * Dyadic.of(x0) + first
        return Sequence(coefficients, inputs, Dyadic(*_odd(first)))

    def __len__(self) -> int:
        return len(self.u)

    def coefficients(self, start: int = 0, stop: int | None = None) -> Iterator[Coefficient]:
        """Yield center, radius 0 and bits behind the point of each coefficient. The first one is 0."""
        for i in range(start, len(self) if stop is None else stop, PIECE):
            if i == 0:
                yield 0, 0, 0
            end = min(i + PIECE, len(self) if stop is None else stop)
            for m, e in zip(*integers(self.a[max(i, 1) : end]), strict=True):
                yield (m, 0, -e) if e <= 0 else (shift_left(m, e), 0, 0)

    def inputs(self, scale: int, start: int = 0, stop: int | None = None) -> Iterator[int]:
        """Yield the inputs in units of 2^-scale, rounded down if they are finer."""
        for i in range(start, len(self) if stop is None else stop, PIECE):
            if i == 0:
                yield shifted(self.first.significand, self.first.exponent + scale)
            end = min(i + PIECE, len(self) if stop is None else stop)
            for m, e in zip(*integers(self.u[max(i, 1) : end]), strict=True):
                e += scale
                yield m << e if e >= 0 else m >> -e


def shifted(m: int, shift: int) -> int:
    """Return m 2^shift, rounded down."""
    return m << shift if shift >= 0 else m >> -shift


def integers(values: Array) -> tuple[list[int], list[int]]:
    """Return odd integers m (or 0) and exponents e with values = m 2^e."""
    if _are_floats(values):
        m, exponents = _odd_floats(values)
        return m.tolist(), exponents.tolist()
    scalars = values.tolist() if values.dtype.kind in "iu" else values
    odd = [_odd(Dyadic.of(value)) for value in scalars]
    return [m for m, _ in odd], [e for _, e in odd]


def _are_floats(values: Array) -> bool:
    """Return whether float64 holds all numbers of the type."""
    return values.dtype.kind in "fV" and values.dtype.itemsize <= 8  # V: the formats of ml_dtypes


def _odd_floats(values: Array) -> tuple[Array, Array]:
    """Return the `integers` of floats as arrays."""
    floats = values.astype(np.float64)
    if not np.all(np.isfinite(floats)):
        raise OptionError("exact arithmetic needs finite numbers, got NaN or infinity; replace them first")
    fractions, exponents = np.frexp(floats)
    m = np.ldexp(fractions, 53).astype(np.int64)
    lowest = m & -m
    zeros = np.where(m == 0, 53, np.frexp(lowest.astype(np.float64))[1] - 1)
    return m >> zeros, np.where(m == 0, 0, exponents - 53 + zeros)


def _odd(number: Dyadic) -> tuple[int, int]:
    """Return the odd significand (or 0) of a number and its exponent."""
    m = number.significand
    zeros = (m & -m).bit_length() - 1
    return (m >> zeros, number.exponent + zeros) if m else (0, 0)


def exponent_range(values: Array) -> tuple[int, int] | None:
    """Return low and high: all values are multiples of 2^low and below 2^high in magnitude. None if all are 0."""
    if _are_floats(values):
        _, exponents = _odd_floats(nonzero := values[values != 0])
        return (int(exponents.min()), int(np.frexp(nonzero.astype(np.float64))[1].max())) if len(nonzero) else None
    lows, highs = [], []
    for start in range(0, len(values), PIECE):
        pairs = [(e, e + m.bit_length()) for m, e in zip(*integers(values[start : start + PIECE]), strict=True) if m]
        if pairs:
            lows.append(min(low for low, _ in pairs))
            highs.append(max(high for _, high in pairs))
    return (min(lows), max(highs)) if lows else None


BITS = 128
"""Bits kept below the last bit of the finest input."""

Ball = tuple[int, int]
"""A center and a radius."""


def enclose(a: Any, u: Any, window: WindowLike = Full(), x0: Any = None, *, bits: int = BITS) -> Iterator[Balls]:
    """Yield enclosures of the exact, or exactly truncated, states of one sequence, piece by piece.

    Parameters
    ----------
    a, u : array_like, shape (n,)
        Coefficients and inputs: floats of any format, integers, or an object array of dyadic numbers. ``a[0]`` is not
        read without `x0`.
    window : Full, Uniform, Jagged or str
        What is kept.
    x0 : scalar, optional
        State before the first step. It is part of the first input, as in `recfact.solve`.
    bits : int, default 128
        Number of bits to keep below the last bit of the finest input.

    Yields
    ------
    Balls
        Enclosures of about a thousand steps each. The memory holds one piece at a time, and the integers of the inputs
        in one window.

    Raises
    ------
    ShapeError
        If `a` and `u` aren't sequences of one length.
    OptionError
        If a number isn't finite, or if the exponents are too far apart for the memory.
    DTypeError
        If the numbers aren't dyadic.

    Notes
    -----
    A step takes one product of integers for the full recurrence, two for a jagged window and six for a uniform window,
    for any size of window. With K lags, step k of a block of K steps is w + g S. Here w is its solution from zero, g
    the product of its coefficients, and S the sum of what reaches it from the block before (the sliding-window trick of
    van Herk, 1992, and Gil and Werman, 1993, for affine maps). A step multiplies a radius by the coefficient and adds 2
    units.

    Examples
    --------
    >>> (piece,) = enclose([0.5, 0.5, 0.5], [1.0, 1.0, 1.0], bits=4)
    >>> piece.scale, piece.centers, piece.radii
    (4, [16, 24, 28], [0, 0, 0])
    """
    positive_integer(bits, "bits")
    yield from enclosed(Sequence.of(a, u, x0), check_window(window), bits)


def enclosed(sequence: Sequence, window: Window, bits: int, finest: int = 0) -> Iterator[Balls]:
    """Yield the balls of `enclose`, with at least `finest` bits behind the point, for checked arguments."""
    scale = max(finest, bits - sequence.lowest)
    # Weights and coefficients of whole blocks have as many bits behind the point as the inputs have in all.
    weight_scale = max(scale + sequence.highest, bits) + 64
    n = len(sequence)
    match window:
        case Uniform(lags) if lags < n:
            steps = sliding(sequence.coefficients(), ((v, 0) for v in sequence.inputs(scale)), lags, weight_scale)
            yield from pieces(steps, scale)
        case Jagged(block, terms) if (terms + 1) * block < n:
            yield from pieces(jagged(sequence, scale, weight_scale, block, terms), scale)
        case _:
            yield from full(sequence, scale, 4 * bits + 4096)


def pieces(steps: Iterator[Ball], scale: int) -> Iterator[Balls]:
    """Yield single steps in pieces."""
    start = 0
    while batch := list(islice(steps, PIECE)):
        centers, radii = zip(*batch, strict=True)
        yield Balls(list(centers), list(radii), scale, start)
        start += len(batch)


def advance(coefficients: Iterable[Coefficient], inputs: Iterable[int], state: Ball, extra: int = 0) -> list[Ball]:
    """Run the recurrence from a state, with exact coefficients and with inputs known up to `extra`."""
    x, r = state
    states = []
    for (m, _, shift), v in zip(coefficients, inputs, strict=True):
        product = m * x
        x = product >> shift
        if r:
            r = (abs(m) * r >> shift) + 2 if m else 0
        elif x << shift != product:
            r = 1
        x += v
        r += extra
        states.append((x, r))
    return states


def full(sequence: Sequence, finest: int, largest: int) -> Iterator[Balls]:
    """Enclose the states of the full recurrence. States that have grown beyond `largest` bits lose their last bits.

    If bits were dropped, states lie from r - 1 units below the center to r units above it. The reason is that shifts
    round down, and that radii grow by 3 units a step: 2 for the shifts of product and input, and 1 for that of the
    radius itself. So the difference to a number that is also shifted down is within r units.
    """
    x, r, scale = 0, 0, finest
    for start in range(0, len(sequence), PIECE):
        coarser = max(x.bit_length() - largest, scale - finest)
        if coarser > 0:
            x, r = x >> coarser, (r >> coarser) + 2
        elif coarser < 0:
            x, r = x << -coarser, r << -coarser
        scale -= coarser
        stop = min(start + PIECE, len(sequence))
        states = advance(
            sequence.coefficients(start, stop), sequence.inputs(scale, start, stop), (x, r), int(scale < finest)
        )
        centers, radii = map(list, zip(*states, strict=True))
        yield Balls(centers, radii, scale, start)
        x, r = states[-1]


def times(coefficient: Coefficient, x: int, dx: int) -> Ball:
    """Multiply a ball by a coefficient."""
    m, dm, shift = coefficient
    product = m * x
    center = product >> shift
    if not (dm or dx):
        return center, int(center << shift != product)
    if (m or dm) and (x or dx):
        return center, (abs(m) * dx + (abs(x) + dx) * dm >> shift) + 2
    return 0, 0


def sliding(
    coefficients: Iterator[Coefficient], inputs: Iterator[Ball], lags: int, weight_scale: int
) -> Iterator[Ball]:
    """Enclose the states of a uniform window, in blocks of as many steps as it has lags."""
    one = (1 << weight_scale, 0)
    suffixes: list[Ball] = []
    while block := list(islice(zip(coefficients, inputs, strict=True), lags)):
        x, dx = 0, 0
        weight = one
        for k, (a, (v, dv)) in enumerate(block):
            x, dx = times(a, x, dx)
            x, dx = x + v, dx + dv
            if suffixes:
                weight = times(a, *weight)
                y, dy = times((*weight, weight_scale), *suffixes[k])
                yield x + y, dx + dy
            else:
                yield x, dx
        x, dx = 0, 0
        weight = one
        suffixes = []
        for a, given in reversed(block):
            suffixes.append((x, dx))
            y, dy = times((*weight, weight_scale), *given)
            x, dx = x + y, dx + dy
            weight = times(a, *weight)
        suffixes.reverse()


def jagged(sequence: Sequence, scale: int, weight_scale: int, block: int, terms: int) -> Iterator[Ball]:
    """Enclose the states of a jagged window. Each block starts from the carrier that reaches it."""

    def blocks() -> Iterator[tuple[list[Coefficient], list[int]]]:
        coefficients, inputs = sequence.coefficients(), sequence.inputs(scale)
        while part := list(islice(coefficients, block)):
            yield part, list(islice(inputs, len(part)))

    def ends(blocks: Iterator[tuple[list[Coefficient], list[int]]]) -> Iterator[tuple[Coefficient, Ball]]:
        for coefficients, inputs in blocks:
            weight = (1 << weight_scale, 0)
            if terms > 1:
                for a in coefficients:
                    weight = times(a, *weight)
            yield (*weight, weight_scale), advance(coefficients, inputs, (0, 0))[-1]

    here, before = tee(blocks())
    carriers: Iterator[Ball]
    if terms == 0:
        carriers = ((0, 0) for _ in before)
    elif terms == 1:
        carriers = (end for _, end in ends(before))
    else:
        factors, locals_ = tee(ends(before))
        carriers = sliding((c for c, _ in factors), (v for _, v in locals_), terms, weight_scale)
    for (coefficients, inputs), carrier in zip(here, chain([(0, 0)], carriers)):  # noqa: B905 - one carrier is left over
        yield from advance(coefficients, inputs, carrier)
