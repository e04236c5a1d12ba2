"""The truncation errors of a constant coefficient, in closed form: the worst case of all coefficients up to it.

A uniform window of K lags is a jagged window with blocks of one step and K - 1 terms. So one set of formulas serves
both. With blocks of l steps and m terms, step k = 1 .. l of a block loses the state that lies m l + k steps before it.
The weight of that state is the product of m l + k coefficients. Values are evaluated in intervals and rounded up.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np

from recfact.precision.exact.outward import BITS, Upward, enclose_value
from recfact.windows import Jagged, Uniform, WindowLike, check_window


@dataclass(frozen=True, slots=True)
class Cut:
    """A window that leaves something out.

    Parameters
    ----------
    block, terms : int
        Block length and terms of the window. A uniform window is taken as the jagged window that it equals.
    lost : int, optional
        Number of steps that lose something. None means any number.
    """

    block: int
    terms: int
    lost: int | None

    @staticmethod
    def of(window: WindowLike, n: int | None) -> Cut | None:
        """Return what a window cuts off n steps; None if it keeps everything."""
        match check_window(window):
            case Uniform(lags):
                block, terms = 1, lags - 1
            case Jagged(block, terms):
                pass
            case _:
                return None
        lost = None if n is None else n - (terms + 1) * block
        return None if lost is not None and lost <= 0 else Cut(block, terms, lost)

    @property
    def first(self) -> int:
        """Index of the first step that loses something."""
        return (self.terms + 1) * self.block

    @property
    def longest(self) -> int:
        """Largest number of steps that lose the same state."""
        return self.block if self.lost is None else min(self.block, self.lost)

    @property
    def blocks(self) -> tuple[int, int]:
        """Number of blocks that lose something, and the length of the last one."""
        assert self.lost is not None
        blocks = -(-self.lost // self.block)
        return blocks, self.lost - (blocks - 1) * self.block

    @property
    def weight(self) -> int:
        """Number of coefficients that multiply a lost state in the first step of a block."""
        return self.terms * self.block + 1


def geometric(context: Any, x: Any, complement: Any, terms: int) -> Any:
    """Return 1 + x + ... + x^(terms - 1) as an interval, from x and 1 - x."""
    return context.mpf(terms) if complement == 0 else (1 - x**terms) / complement


def relative_norm(cut: Cut, rho: Fraction, order: Any) -> float:
    """Return the norm of N for constant coefficients rho."""
    if order == np.inf:
        power = cut.weight if rho <= 1 else cut.weight + cut.longest - 1
        return enclose_value(lambda _, x: x**power, rho)[1]
    if order == 1:
        return enclose_value(lambda context, x, y: x**cut.weight * geometric(context, x, y, cut.longest), rho, 1 - rho)[
            1
        ]
    if order == "fro" and cut.lost is None:
        return inf
    blocks, last = cut.blocks if order == "fro" else (1, cut.longest)

    def length(context: Any, x: Any, square: Any, y: Any) -> Any:
        whole = (blocks - 1) * geometric(context, square, y, cut.block)
        return x**cut.weight * context.sqrt(whole + geometric(context, square, y, last))

    return enclose_value(length, rho, rho**2, 1 - rho**2)[1]


def largest_error(cut: Cut, rho: Fraction, nu: Fraction, x0: Fraction) -> float:
    """Return the largest error of a step for constant coefficients rho, inputs nu and initial state x0."""
    if cut.lost is None and rho >= 1:
        return inf if nu or (x0 and rho > 1) else float(Upward.of(x0))

    def step(k: int, reached: int) -> float:
        """Return the error of step k of a block that loses the state at step `reached`."""
        return enclose_value(
            lambda context, x, y, v, z: (
                x ** (cut.weight + k - 1) * (v * geometric(context, x, y, reached) + x**reached * z)
            ),
            *(rho, 1 - rho, nu, x0),
        )[1]

    if cut.lost is None:
        # With the number of steps the states go one way, from the first that is lost to the limit.
        limit = enclose_value(lambda _, x, v: x**cut.weight * v, rho, nu / (1 - rho))[1]
        return max(step(1, cut.block), limit)
    blocks, last = cut.blocks
    if rho <= 1:
        return max(step(1, cut.block), step(1, blocks * cut.block))
    return max(step(last, blocks * cut.block), step(cut.block, (blocks - 1) * cut.block) if blocks > 1 else 0.0)


def error_norm(cut: Cut, rho: Fraction, order: Any) -> float:
    """Return the norm of E for constant coefficients rho, or an upper bound."""
    if cut.lost is None and (rho >= 1 or order == "fro"):
        return inf
    if order == 1:
        lost = cut.lost
        if lost is None:
            return enclose_value(lambda _, x, y: x**cut.weight / y, rho, 1 - rho)[1]
        power = cut.weight if rho <= 1 else cut.first
        return enclose_value(lambda context, x, y: x**power * geometric(context, x, y, lost), rho, 1 - rho)[1]
    if order == "fro":
        return frobenius_norm(cut, rho)
    return spectral_norm(cut, rho)


def frobenius_norm(cut: Cut, rho: Fraction) -> float:
    """Return the Frobenius norm of E: a row with weight w that loses the state at step N adds w^2 geo(N) in rho^2."""
    blocks, last = cut.blocks

    def norm(context: Any, x: Any, square: Any, y: Any) -> Any:
        whole = geometric(context, square, y, cut.block)
        reached = geometric(context, square, y, blocks * cut.block)
        # The sum of geo(t l) over the t < blocks that lose whole blocks.
        if y == 0:
            rows = context.mpf(cut.block * (blocks - 1) * blocks) / 2
        else:
            step = square**cut.block
            rows = (blocks - 1 - step * (1 - step ** (blocks - 1)) / (1 - step)) / y
        return x**cut.weight * context.sqrt(whole * rows + geometric(context, square, y, last) * reached)

    return enclose_value(norm, rho, rho**2, 1 - rho**2)[1]


def spectral_norm(cut: Cut, rho: Fraction) -> float:
    """Return the 2-norm of E for whole blocks; for rho > 1 the root of the product of its 1- and inf-norm."""
    if rho > 1:
        column, row = error_norm(cut, rho, 1), largest_error(cut, rho, Fraction(1), Fraction(0))
        return float((Upward.of(column) * Upward.of(row)) ** 0.5) if max(column, row) < inf else inf
    if cut.lost is None:
        return enclose_value(lambda _, x, y: x**cut.weight * (1 + x**cut.block) / y, rho, 1 - rho**2)[1]
    blocks, last = cut.blocks
    if blocks > 1:
        last = cut.block

    def norm(context: Any, x: Any, square: Any, y: Any) -> Any:
        column, row = geometric(context, square, y, last), geometric(context, square, y, cut.block)
        return x**cut.weight * context.sqrt(column * row) * carrier_gain(context, x**cut.block, blocks)

    return enclose_value(norm, rho, rho**2, 1 - rho**2)[1]


def carrier_gain(context: Any, c: Any, q: int) -> Any:
    """Return the 2-norm of the inverse of the q x q matrix I - cZ, 0 < c <= 1, as an interval.

    It is (1 + c^2 - 2c cos t)^(-1/2) for the only root t of sin((q+1)t) = c sin(qt) in [pi/(2q+1), pi/(q+1)]: the
    eigenvalues of (I - cZ)(I - cZ)^T are 1 + c^2 - 2c cos t at the roots, one in each of q such intervals.
    """
    low, high = context.pi / (2 * q + 1), context.pi / (q + 1)
    for _ in range(min(context.prec, 3 * BITS)):  # the interval is then a small fraction of the root
        middle = context.mpf((low.mid + high.mid) / 2)
        difference = context.sin((q + 1) * middle) - c * context.sin(q * middle)
        if difference > 0:
            low = middle
        elif difference < 0:
            high = middle
        else:
            break
    angle = context.mpf([low.a, high.b])
    # 1 + c^2 - 2c cos t, without a difference of nearly equal numbers.
    return 1 / context.sqrt((1 - c) ** 2 + 4 * c * context.sin(angle / 2) ** 2)
