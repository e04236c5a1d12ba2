"""The matrices of a recurrence as pictures: the operator, its factors, its blocks and its windows.

Each function draws the coefficients that it is given, so it is given a short piece: 16 to 64 steps can be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from recfact.arrays import Array
from recfact.factorizations import BrentKung, KoggeStone, TransferOperator
from recfact.factorizations.hierarchical import Hierarchical
from recfact.report.board import WIDTH, Board, drawable
from recfact.report.style import BLUE, GREEN, ORANGE, PURPLE, UNIT, styled
from recfact.report.window_costs import window_name
from recfact.report.words import superscript
from recfact.windows import Jagged, Uniform

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MARGIN = 0.05
"""Space beside the matrices of a figure, in inches."""

TITLE, KEY = 0.3, 0.45
"""Height of the title above a matrix and of the key below, in inches."""

DISTANCE_HUES = (BLUE, GREEN, ORANGE, PURPLE)
"""Colours of the tiles by how many blocks apart their rows and columns are."""


@styled
def operator_figure(a: Array) -> Figure:
    """Draw I - AZ, its inverse L, and the weights in the last row of L."""
    transfer = TransferOperator(a)
    dense = transfer.to_dense()
    scale = full_scale(dense)
    size = 2.2
    board = Board(WIDTH, TITLE + size + KEY)
    board.matrix(MARGIN, TITLE, size, size, transfer.inv().to_dense(), title="I − AZ", scale=scale)
    board.text(2.55, TITLE + size / 2, "inverse\n⟶")
    board.matrix(2.85, TITLE, size, size, dense, title="L = (I − AZ)⁻¹", scale=scale)
    board.magnitude_key(MARGIN, TITLE + size + 0.18, scale)

    axes = board.axes(5.85, TITLE, 3.25, size - 0.2)
    axes.bar(np.arange(len(a))[::-1], drawable(dense[-1].real), width=0.78, color=[BLUE] * (len(a) - 1) + [UNIT])
    axes.set_xlim(len(a) - 0.4, -0.6)
    axes.axhline(0, color=UNIT, linewidth=0.6)
    axes.set_title("last row of L: weight of each input")
    axes.set_xlabel("lag: steps back in time")
    return board.figure


@styled
def kogge_stone_figure(a: Array) -> Figure:
    """Draw L as the product of its Kogge-Stone factors."""
    return _chain_figure(a, *_kogge_stone(a))


@styled
def brent_kung_figure(a: Array) -> Figure:
    """Draw L as the product of its Brent-Kung factors, the up-sweep and then the down-sweep."""
    factors = [factor.to_dense() for factor in BrentKung(a).factors]
    up = (len(factors) + 1) // 2
    return _chain_figure(a, factors, [f"up {k + 1}" if k < up else f"down {k + 1 - up}" for k in range(len(factors))])


@styled
def blocks_figure(a: Array, block: int) -> Figure:
    """Draw L as tiles, and as the sum D + G Z T R of its hierarchical decomposition."""
    board = Board(WIDTH, TITLE + _BLOCKS_SIZE + KEY)
    scale = _draw_blocks(board, TITLE, a, block)
    board.magnitude_key(MARGIN, TITLE + _BLOCKS_SIZE + 0.18, scale)
    return board.figure


@styled
def windows_figure(a: Array, block: int) -> Figure:
    """Draw what the uniform window and the jagged windows with up to two terms keep of L."""
    size = _row_size(4)
    board = Board(WIDTH, TITLE + size + KEY)
    scale = _draw_windows(board, TITLE, a, [Uniform(block), *(Jagged(block, terms) for terms in (0, 1, 2))])
    board.magnitude_key(MARGIN, TITLE + size + 0.18, scale)
    return board.figure


@styled
def overview_figure(a: Array, block: int, flat: int) -> Figure:
    """Draw in one picture the operator and its Kogge-Stone factors, its blocks, and its windows.

    Parameters
    ----------
    a : ndarray, shape (n,)
        Coefficients; the pictures of blocks and windows show all of them.
    block : int
        Block length.
    flat : int
        How many of the first coefficients the operator and its factors show.
    """
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
    scale = _draw_blocks(board, top + heading, a, block)
    top += heading + _BLOCKS_SIZE + TITLE
    board.text(MARGIN, top, "A window keeps the part that matters", **options)
    _draw_windows(board, top + heading, a, [Uniform(block), *(Jagged(block, terms) for terms in (0, 1, 2))])
    board.magnitude_key(MARGIN, top + heading + windows + 0.18, scale)
    return board.figure


def _kogge_stone(a: Array) -> tuple[list[Array], list[str]]:
    """Return the Kogge-Stone factors, the first applied first, and their names."""
    factors = [factor.to_dense() for factor in KoggeStone(a).factors]
    names = ["I + AZ", *(f"I + (AZ){superscript(1 << t)}" for t in range(1, len(factors)))]
    return factors, names


def _chain_figure(a: Array, factors: list[Array], names: list[str]) -> Figure:
    """Draw L = F_m ... F_1, the factor that acts first standing last."""
    matrices = [TransferOperator(a).to_dense(), *factors[::-1]]
    size = _row_size(len(matrices))
    board = Board(WIDTH, TITLE + size + KEY)
    signs = ["", "=", *["·"] * (len(factors) - 1)][: len(matrices)]
    scale = _draw_row(board, TITLE, matrices, ["L", *names[: len(factors)][::-1]], signs)
    board.magnitude_key(MARGIN, TITLE + size + 0.18, scale)
    return board.figure


_GAP = 0.24


def _row_size(count: int) -> float:
    """Return the side of `count` square matrices that fill the width."""
    return min(2.2, (WIDTH - 2 * MARGIN - _GAP * (count - 1)) / count)


def _draw_row(board: Board, top: float, matrices: list[Array], titles: list[str], signs: list[str]) -> float:
    """Draw square matrices side by side, each with a sign before it; return the scale of their opacity."""
    size, scale = _row_size(len(matrices)), full_scale(*matrices)
    for k, (matrix, title, sign) in enumerate(zip(matrices, titles, signs, strict=True)):
        left = MARGIN + k * (size + _GAP)
        board.matrix(left, top, size, size, matrix, title=title, scale=scale)
        board.text(left - _GAP / 2, top + size / 2, sign, fontsize=11)
    return scale


_SIGN, _NEXT = 0.32, 0.1
_BLOCKS_SIZE = (WIDTH - 2 * MARGIN - 2 * _SIGN - 3 * _NEXT) / 4.2
"""Side of L and D; G, Z, T and R have sides of 1 and 0.4 of it."""


def _draw_blocks(board: Board, top: float, a: Array, block: int) -> float:
    """Draw L = D + G Z T R; return the scale of the opacity."""
    dense = TransferOperator(a).to_dense()
    parts = Hierarchical(a, block=block).parts
    scale = full_scale(dense)
    tile = np.arange(len(a)) // block
    distance = np.maximum(tile[:, None] - tile, 0)
    hues = np.array(DISTANCE_HUES)[np.minimum(distance, len(DISTANCE_HUES) - 1)]
    size, small = _BLOCKS_SIZE, 0.4 * _BLOCKS_SIZE
    middle = top + size / 2

    board.matrix(MARGIN, top, size, size, dense, title="L", hues=hues, scale=scale, blocks=block)
    board.text(MARGIN + size + _SIGN / 2, middle, "=", fontsize=11)
    left = MARGIN + size + _SIGN
    board.matrix(left, top, size, size, parts.D.to_dense(), title="D", hues=hues, scale=scale, blocks=block)
    board.text(left + size + _SIGN / 2, middle, "+", fontsize=11)
    left += size + _SIGN
    for name, part, hue, width, height in (
        ("G", parts.G, GREEN, small, size),
        ("Z", parts.Z, UNIT, small, small),
        ("T", parts.T, ORANGE, small, small),
        ("R", parts.R, GREEN, size, small),
    ):
        entries = part.to_dense()
        colours = np.full(entries.shape, hue)
        board.matrix(left, middle - height / 2, width, height, entries, title=name, hues=colours, scale=scale)
        left += width + _NEXT
    return scale


def _draw_windows(board: Board, top: float, a: Array, windows: Sequence[Uniform | Jagged]) -> float:
    """Draw what each window keeps of L in blue and what it drops in grey; return the scale of the opacity."""
    transfer = TransferOperator(a)
    dense = transfer.to_dense()
    scale = full_scale(dense)
    size = _row_size(len(windows))
    for k, window in enumerate(windows):
        kept = transfer.truncate(window).to_dense() != 0
        shown = np.where(kept, dense, 2e-3 * scale * (dense != 0))
        board.matrix(
            MARGIN + k * (size + _GAP), top, size, size, shown,
            title=window_name(window),
            hues=np.where(kept, BLUE, UNIT),
            scale=scale,
            blocks=window.block if isinstance(window, Jagged) else None,
        )  # fmt: skip
    return scale


def full_scale(*matrices: Array) -> float:
    """Return the magnitude to draw at full opacity: 1, or the largest finite entry where there are larger ones."""
    sizes = np.concatenate([np.abs(matrix).ravel().astype(np.float64) for matrix in matrices])
    return float(max(1.0, sizes[np.isfinite(sizes)].max(initial=0.0)))
