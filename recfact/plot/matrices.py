"""The matrices of a recurrence as pictures: the operator, its factors, its blocks and its windows.

Each function draws all given coefficients. Pass a short piece, because only 16 to 64 steps can be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from recfact.arrays import Array
from recfact.checks import LONGEST, positive_integer
from recfact.factorizations import BrentKung, KoggeStone, TransferOperator
from recfact.factorizations.hierarchical import Hierarchical
from recfact.factorizations.matrix_looks import UNIT, full_scale, has_phases, hues
from recfact.plot.board import WIDTH, Board, drawable
from recfact.plot.sequences import coefficients_of
from recfact.plot.style import styled
from recfact.windows import Jagged, Uniform
from recfact.written_numbers import superscript

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MARGIN = 0.05
"""Space beside the matrices of a figure, in inches."""

TITLE, KEY = 0.3, 0.45
"""Height of the title above a matrix and of the key below, in inches."""


@styled
def operator(a: Any) -> Figure:
    """Draw I - AZ, its inverse L, and the weights in the last row of L.

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, or an operator that has them.

    Examples
    --------
    >>> from recfact import plot
    >>> figure = plot.operator([0.5, 0.5, 0.25])
    >>> figure.savefig("operator.svg")  # doctest: +SKIP
    """
    from matplotlib.ticker import MaxNLocator

    a = coefficients_of(a)
    transfer = TransferOperator(a)
    dense = transfer.to_dense()
    scale = full_scale(dense)
    size = 2.2
    board = Board(WIDTH, TITLE + size + KEY)
    board.matrix(MARGIN, TITLE, size, size, transfer.inv().to_dense(), title="I − AZ", scale=scale)
    board.text(2.55, TITLE + size / 2, "inverse\n⟶")
    board.matrix(2.85, TITLE, size, size, dense, title="L = (I − AZ)⁻¹", scale=scale)
    board.key(MARGIN, TITLE + size + 0.18, dense)

    axes = board.axes(5.85, TITLE, 3.25, size - 0.2)
    axes.bar(np.arange(len(a))[::-1], drawable(dense[-1].real), width=0.78, color=hues(dense)[-1])
    axes.set_xlim(len(a) - 0.4, -0.6)
    axes.axhline(0, color=UNIT, linewidth=0.6)
    axes.set_title("last row of L: weight of each input")
    axes.set_xlabel("lag in steps back in time")
    axes.set_ylabel("real part of the weight" if has_phases(dense[-1:]) else "weight")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return board.figure


@styled
def kogge_stone(a: Any) -> Figure:
    """Draw L as the product of its Kogge-Stone factors.

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, or an operator that has them.

    Examples
    --------
    >>> from recfact import plot
    >>> figure = plot.kogge_stone([0.5, 0.5, 0.25, 0.5])
    >>> figure.savefig("kogge-stone.svg")  # doctest: +SKIP
    """
    a = coefficients_of(a)
    return _chain_figure(a, *_kogge_stone(a))


@styled
def brent_kung(a: Any) -> Figure:
    """Draw L as the product of its Brent-Kung factors, the up-sweep and then the down-sweep.

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, or an operator that has them.

    Examples
    --------
    >>> from recfact import plot
    >>> figure = plot.brent_kung([0.5, 0.5, 0.25, 0.5])
    >>> figure.savefig("brent-kung.svg")  # doctest: +SKIP
    """
    a = coefficients_of(a)
    factors = [factor.to_dense() for factor in BrentKung(a).factors]
    up = (len(factors) + 1) // 2
    return _chain_figure(a, factors, [f"up {k + 1}" if k < up else f"down {k + 1 - up}" for k in range(len(factors))])


@styled
def blocks(a: Any, block: int = 4) -> Figure:
    """Draw L as tiles, and as the sum D + G Z T R of its hierarchical decomposition.

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, or an operator that has them.
    block : int, default 4
        Block length.

    Examples
    --------
    >>> from recfact import plot
    >>> figure = plot.blocks([0.5] * 16, block=4)
    >>> figure.savefig("blocks.svg")  # doctest: +SKIP
    """
    a = coefficients_of(a)
    block = positive_integer(block, "block", most=LONGEST)
    board = Board(WIDTH, TITLE + _BLOCKS_SIZE + KEY)
    dense = _draw_blocks(board, TITLE, a, block)
    board.key(MARGIN, TITLE + _BLOCKS_SIZE + 0.18, dense)
    return board.figure


@styled
def windows(a: Any, block: int = 4) -> Figure:
    """Draw the parts of L that the uniform window and the jagged windows with up to two terms keep.

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, or an operator that has them.
    block : int, default 4
        Block length.

    Examples
    --------
    >>> from recfact import plot
    >>> figure = plot.windows([0.5] * 16, block=4)
    >>> figure.savefig("windows.svg")  # doctest: +SKIP
    """
    a = coefficients_of(a)
    size = _row_size(4)
    board = Board(WIDTH, TITLE + size + KEY)
    dense = _draw_windows(board, TITLE, a, [Uniform(block), *(Jagged(block, terms) for terms in (0, 1, 2))])
    board.key(MARGIN, TITLE + size + 0.18, dense)
    return board.figure


@styled
def overview(a: Any, block: int = 4, flat: int = 16) -> Figure:
    """Draw in one picture the operator and its Kogge-Stone factors, its blocks, and its windows.

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, or an operator that has them. The pictures of blocks and windows show all of them.
    block : int, default 4
        Block length.
    flat : int, default 16
        Number of first coefficients that the operator and its factors show.

    Examples
    --------
    >>> from recfact import plot
    >>> figure = plot.overview([0.5] * 16)
    >>> figure.savefig("overview.svg")  # doctest: +SKIP
    """
    a = coefficients_of(a)
    block = positive_integer(block, "block", most=LONGEST)
    flat = positive_integer(flat, "flat", most=LONGEST)
    factors, names = _kogge_stone(a[:flat])
    transfer = TransferOperator(a[:flat])
    heading = 0.42
    chain, windows = _row_size(len(factors) + 2), _row_size(4)
    board = Board(WIDTH, 3 * (heading + TITLE) + chain + _BLOCKS_SIZE + windows + KEY)
    options: dict[str, Any] = {"ha": "left", "fontsize": 11, "fontweight": "bold"}

    top = 0.15
    board.text(MARGIN, top, "The recurrence is a matrix; its inverse is a product of sparse factors", **options)
    matrices = [transfer.inv().to_dense(), transfer.to_dense(), *factors[::-1]]
    signs = ["", "→", "=", *["·"] * (len(factors) - 1)]
    _draw_row(board, top + heading, matrices, ["I − AZ", "L = (I − AZ)⁻¹", *names[::-1]], signs)
    top += heading + chain + TITLE
    board.text(MARGIN, top, "It is also a sum of blocks and rank-one tiles", **options)
    dense = _draw_blocks(board, top + heading, a, block)
    top += heading + _BLOCKS_SIZE + TITLE
    board.text(MARGIN, top, "A window keeps the part that matters", **options)
    _draw_windows(board, top + heading, a, [Uniform(block), *(Jagged(block, terms) for terms in (0, 1, 2))])
    board.key(MARGIN, top + heading + windows + 0.18, dense)
    return board.figure


def _kogge_stone(a: Array) -> tuple[list[Array], list[str]]:
    """Return the Kogge-Stone factors, the first applied first, and their names."""
    factors = [factor.to_dense() for factor in KoggeStone(a).factors]
    names = ["I + AZ", *(f"I + (AZ){superscript(1 << t)}" for t in range(1, len(factors)))]
    return factors, names


def _chain_figure(a: Array, factors: list[Array], names: list[str]) -> Figure:
    """Draw L = F_m ... F_1. The factor that acts first stands last."""
    matrices = [TransferOperator(a).to_dense(), *factors[::-1]]
    size = _row_size(len(matrices))
    board = Board(WIDTH, TITLE + size + KEY)
    signs = ["", "=", *["·"] * (len(factors) - 1)][: len(matrices)]
    _draw_row(board, TITLE, matrices, ["L", *names[: len(factors)][::-1]], signs)
    board.key(MARGIN, TITLE + size + 0.18, *matrices)
    return board.figure


_GAP = 0.24


def _row_size(count: int) -> float:
    """Return the side of `count` square matrices that fill the width."""
    return min(2.2, (WIDTH - 2 * MARGIN - _GAP * (count - 1)) / count)


def _draw_row(board: Board, top: float, matrices: list[Array], titles: list[str], signs: list[str]) -> None:
    """Draw square matrices side by side, each with a sign before it."""
    size, scale = _row_size(len(matrices)), full_scale(*matrices)
    for k, (matrix, title, sign) in enumerate(zip(matrices, titles, signs, strict=True)):
        left = MARGIN + k * (size + _GAP)
        board.matrix(left, top, size, size, matrix, title=title, scale=scale)
        board.text(left - _GAP / 2, top + size / 2, sign, fontsize=11)


_SIGN, _NEXT = 0.32, 0.1
_BLOCKS_SIZE = (WIDTH - 2 * MARGIN - 2 * _SIGN - 3 * _NEXT) / 4.2
"""Side of L and D; G, Z, T and R have sides of 1 and 0.4 of it."""


def _draw_blocks(board: Board, top: float, a: Array, block: int) -> Array:
    """Draw L = D + G Z T R at the scale of L. Return L."""
    dense = TransferOperator(a).to_dense()
    parts = Hierarchical(a, block=block).parts
    scale = full_scale(dense)
    size, small = _BLOCKS_SIZE, 0.4 * _BLOCKS_SIZE
    middle = top + size / 2

    board.matrix(MARGIN, top, size, size, dense, title="L", scale=scale, blocks=block)
    board.text(MARGIN + size + _SIGN / 2, middle, "=", fontsize=11)
    left = MARGIN + size + _SIGN
    board.matrix(left, top, size, size, parts.D.to_dense(), title="D", scale=scale, blocks=block)
    board.text(left + size + _SIGN / 2, middle, "+", fontsize=11)
    left += size + _SIGN
    for name, part, width, height in (
        ("G", parts.G, small, size),
        ("Z", parts.Z, small, small),
        ("T", parts.T, small, small),
        ("R", parts.R, size, small),
    ):
        board.matrix(left, middle - height / 2, width, height, part.to_dense(), title=name, scale=scale)
        left += width + _NEXT
    return dense


def _draw_windows(board: Board, top: float, a: Array, windows: Sequence[Uniform | Jagged]) -> Array:
    """Draw the kept part of L in colours and the dropped part in faint grey. Return L."""
    transfer = TransferOperator(a)
    dense = transfer.to_dense()
    scale = full_scale(dense)
    size = _row_size(len(windows))
    for k, window in enumerate(windows):
        kept = transfer.truncate(window).to_dense() != 0
        shown = np.where(kept, dense, 2e-3 * scale * (dense != 0))
        board.matrix(
            MARGIN + k * (size + _GAP), top, size, size, shown,
            title=repr(window),
            colours=np.where(kept, hues(dense), UNIT),
            scale=scale,
            blocks=window.block if isinstance(window, Jagged) else None,
        )  # fmt: skip
    return dense
