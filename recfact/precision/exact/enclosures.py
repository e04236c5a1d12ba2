"""Rigorous enclosures of the exact states of a long recurrence, in fixed-point integers of bounded size.

A float is an integer times a power of two, and so is everything here: a state is held as an integer center and an
integer radius in units of 2^-scale. A product is shifted back to the scale; what the shift drops is added to the
radius, and only then. So a radius of 0 says that the center is the state itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice, tee
from typing import Any

from recfact.checks import positive_integer
from recfact.precision.exact.dyadic_sequence import PIECE, Coefficient, Sequence
from recfact.windows import Full, Jagged, Uniform, Window, WindowLike, check_window

BITS = 128
"""Bits kept below the last bit of the finest input."""

Ball = tuple[int, int]
"""A center and a radius."""


@dataclass(frozen=True, slots=True)
class Enclosures:
    """Enclosures of consecutive exact states: ``|x[start + i] * 2**scale - centers[i]| <= radii[i]``.

    Parameters
    ----------
    start : int
        Index of the first state.
    scale : int
        Number of bits behind the point.
    centers, radii : list of int
        In units of 2^-scale.

    Notes
    -----
    Derived on the page on truncation bounds ("Exact states, and errors measured against them").
    """

    start: int
    scale: int
    centers: list[int]
    radii: list[int]

    def __len__(self) -> int:
        return len(self.centers)


def enclose(
    a: Any, u: Any, window: WindowLike = Full(), x0: Any = None, *, bits: int = BITS, finest: int = 0
) -> Iterator[Enclosures]:
    """Yield enclosures of the exact, or exactly truncated, states of one sequence, piece by piece.

    Parameters
    ----------
    a, u : array_like, shape (n,)
        Coefficients and inputs: floats of any format, integers, or an object array of whatever is dyadic.
        ``a[0]`` is not read without `x0`.
    window : Full, Uniform, Jagged or str
        What is kept.
    x0 : scalar, optional
        State before the first step, part of the first input as in `recfact.solve`.
    bits : int, default 128
        Bits to keep below the last bit of the finest input.
    finest : int, default 0
        Least number of bits behind the point, whatever the inputs are.

    Yields
    ------
    Enclosures
        About a thousand steps each. What is held at a time is one piece, and the inputs' integers over one window.

    Raises
    ------
    ShapeError
        If `a` and `u` aren't sequences of one length.
    OptionError
        If a number isn't finite, or their exponents are too far apart for memory.
    DTypeError
        If they aren't dyadic numbers.

    Notes
    -----
    A step of the full recurrence takes one product of integers, a step of a jagged window two, a step of a uniform
    window six, whatever the window's size: with K lags, step k of a block of K steps is w + g S, its solution from zero
    plus the product of its coefficients times the sum of what reaches it from the block before (the sliding-window
    trick of van Herk, 1992, and Gil and Werman, 1993, for affine maps). A step multiplies a radius by the coefficient
    and adds 2 units.

    Examples
    --------
    >>> (piece,) = enclose([0.5, 0.5, 0.5], [1.0, 1.0, 1.0], bits=4)
    >>> piece.scale, piece.centers, piece.radii
    (4, [16, 24, 28], [0, 0, 0])
    """
    positive_integer(bits, "bits")
    yield from enclosed(Sequence.of(a, u, x0), check_window(window), bits, finest)


def enclosed(sequence: Sequence, window: Window, bits: int, finest: int = 0) -> Iterator[Enclosures]:
    """Yield what `enclose` does, for arguments that have been checked."""
    scale = max(finest, bits - sequence.lowest)
    # Weights, and coefficients of whole blocks, have as many bits behind the point as the inputs have in all.
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


def pieces(steps: Iterator[Ball], scale: int) -> Iterator[Enclosures]:
    """Yield single steps in pieces."""
    start = 0
    while batch := list(islice(steps, PIECE)):
        centers, radii = zip(*batch, strict=True)
        yield Enclosures(start, scale, list(centers), list(radii))
        start += len(batch)


def advance(coefficients: Iterable[Coefficient], inputs: Iterable[int], state: Ball, extra: int = 0) -> list[Ball]:
    """Run the recurrence from a state, with exact coefficients and inputs that are right up to `extra`."""
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


def full(sequence: Sequence, finest: int, largest: int) -> Iterator[Enclosures]:
    """Enclose the states of the full recurrence; drop bits from states that have grown beyond `largest` bits.

    Where bits were dropped, states lie from r - 1 units below the center to r above: shifts round down, and radii grow
    by 3 units a step, of which 2 are for the shifts of product and input and 1 for that of the radius itself. So the
    difference to a number that is shifted down as well is within r units.
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
        yield Enclosures(start, scale, centers, radii)
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
    """Enclose the states that a uniform window keeps, in blocks of as many steps as it has lags."""
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
    """Enclose the states that a jagged window keeps: each block from the carrier that reaches it."""

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
