"""The matrices of a recurrence as pictures: the operator, its factors, its blocks and its windows.

Each function draws the coefficients that it is given, so it is given a short piece: 16 to 64 steps can be seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recfact.factorizations import BrentKung, Hierarchical, KoggeStone, TransferOperator
from recfact.report.drawing import Board
from recfact.report.style import BLUE, GREEN, ORANGE, PURPLE, UNIT, styled
from recfact.windows import Jagged, Uniform, Window

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray[Any, Any]

WIDTH = 9.2
"""Width of a figure in inches."""

DISTANCE_HUES = (BLUE, GREEN, ORANGE, PURPLE)
"""Colours of the tiles by how many blocks apart their rows and columns are."""


@styled
def operator_figure(a: Array) -> Figure:
    """Draw I - AZ, its inverse L, and the weights in the last row of L."""
    transfer = TransferOperator(a)
    dense = transfer.to_dense()
    scale = _scale(dense)
    board = Board(WIDTH, 2.95)
    board.matrix(0.05, 0.3, 2.2, 2.2, transfer.inv().to_dense(), title="I − AZ", scale=scale)
    board.text(2.55, 1.4, "inverse\n⟶")
    board.matrix(2.85, 0.3, 2.2, 2.2, dense, title="L = (I − AZ)⁻¹", scale=scale)
    board.magnitude_key(0.05, 2.72, scale)

    weights = dense[-1].real
    axes = board.axes(5.85, 0.3, 3.25, 2.0)
    lags = np.arange(len(a))[::-1]
    axes.bar(lags, weights, width=0.78, color=[BLUE] * (len(a) - 1) + [UNIT])
    axes.set_xlim(len(a) - 0.4, -0.6)
    axes.axhline(0, color=UNIT, linewidth=0.6)
    axes.set_title("last row of L: weight of each input")
    axes.set_xlabel("lag: steps back in time")
    return board.figure


@styled
def kogge_stone_figure(a: Array) -> Figure:
    """Draw L as the product of its Kogge-Stone factors."""
    return _chain_figure(a, KoggeStone(a), ["I + AZ", *(f"I + (AZ){_superscript(1 << t)}" for t in range(1, 64))])


@styled
def brent_kung_figure(a: Array) -> Figure:
    """Draw L as the product of its Brent-Kung factors, the up-sweep and then the down-sweep."""
    chain = BrentKung(a)
    up = (len(chain.factors) + 1) // 2
    titles = [f"up {k + 1}" if k < up else f"down {k + 1 - up}" for k in range(len(chain.factors))]
    return _chain_figure(a, chain, titles)


def _chain_figure(a: Array, chain: Any, titles: list[str]) -> Figure:
    """Draw L = F_m ... F_1, the factor that acts first standing last."""
    dense = TransferOperator(a).to_dense()
    matrices = [dense, *(factor.to_dense() for factor in reversed(chain.factors))]
    names = ["L", *reversed(titles[: len(chain.factors)])]
    gap = 0.22
    size = min(2.0, (WIDTH - 0.1 - gap * (len(matrices) - 1)) / len(matrices))
    board = Board(WIDTH, size + 0.75)
    scale = _scale(*matrices)
    for k, (matrix, name) in enumerate(zip(matrices, names, strict=True)):
        left = 0.05 + k * (size + gap)
        board.matrix(left, 0.3, size, size, matrix, title=name, scale=scale)
        if k:
            board.text(left - gap / 2, 0.3 + size / 2, "=" if k == 1 else "·", fontsize=11)
    board.magnitude_key(0.05, size + 0.48, scale)
    return board.figure


@styled
def blocks_figure(a: Array, block: int) -> Figure:
    """Draw L as tiles, and as the sum D + G Z T R of its hierarchical decomposition."""
    dense = TransferOperator(a).to_dense()
    parts = Hierarchical(a, block=block).parts
    scale = _scale(dense)
    tile = np.arange(len(a)) // block
    distance = np.maximum(tile[:, None] - tile, 0)
    hues = np.array(DISTANCE_HUES)[np.minimum(distance, len(DISTANCE_HUES) - 1)]

    gap, sign = 0.1, 0.32
    size = (WIDTH - 0.1 - 2 * sign - 3 * gap) / 4.2
    small = 0.4 * size
    top, middle = 0.3, 0.3 + size / 2
    board = Board(WIDTH, size + 0.75)
    board.matrix(0.05, top, size, size, dense, title="L", hues=hues, scale=scale, blocks=block)
    left = 0.05 + size
    for name, matrix, width, height, before in (
        ("D", parts.D, size, size, "="),
        ("G", parts.G, small, size, "+"),
        ("Z", parts.Z, small, small, ""),
        ("T", parts.T, small, small, ""),
        ("R", parts.R, size, small, ""),
    ):
        if before:
            board.text(left + sign / 2, middle, before, fontsize=11)
        left += sign if before else gap
        entries = matrix.to_dense()
        colours = (
            hues if name == "D" else np.full(entries.shape, {"G": GREEN, "Z": UNIT, "T": ORANGE, "R": GREEN}[name])
        )
        board.matrix(
            left, middle - height / 2, width, height, entries, title=name, hues=colours, scale=scale,
            blocks=block if name == "D" else None,
        )  # fmt: skip
        left += width
    board.magnitude_key(0.05, size + 0.48, scale)
    return board.figure


@styled
def windows_figure(a: Array, block: int) -> Figure:
    """Draw what the uniform window and the jagged windows with one and two terms keep of L."""
    board = Board(WIDTH, 2.95)
    size, gap = 2.12, 0.2
    choices: list[tuple[str, Window, int | None]] = [
        (f"Uniform({block})", Uniform(block), None),
        (f"Jagged({block}, terms=0)", Jagged(block, 0), block),
        (f"Jagged({block})", Jagged(block), block),
        (f"Jagged({block}, terms=2)", Jagged(block, 2), block),
    ]
    transfer = TransferOperator(a)
    dense = transfer.to_dense()
    scale = _scale(dense)
    for k, (title, window, blocks) in enumerate(choices):
        kept = transfer.truncate(window).to_dense() != 0
        hues = np.where(kept, BLUE, UNIT)
        ghost = np.where(kept, dense, 2e-3 * scale * (dense != 0))
        board.matrix(
            0.05 + k * (size + gap), 0.3, size, size, ghost, title=title, hues=hues, scale=scale, blocks=blocks
        )
    board.magnitude_key(0.05, 2.72, scale)
    return board.figure


def _scale(*matrices: Array) -> float:
    """Return the magnitude to draw at full opacity: 1, or the largest finite entry where there are larger ones."""
    sizes = np.concatenate([np.abs(matrix).ravel().astype(np.float64) for matrix in matrices])
    return float(max(1.0, sizes[np.isfinite(sizes)].max(initial=0.0)))


def _superscript(number: int) -> str:
    """Return `number` in superscript digits."""
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
