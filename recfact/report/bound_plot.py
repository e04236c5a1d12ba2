"""Errors against the size of the window, as they are measured and as they are proved to be at most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recfact.arrays import Array
from recfact.precision import verify
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.verification.result import Verification
from recfact.precision.verification.sweep import makes
from recfact.report.board import WIDTH, Board, drawable
from recfact.report.style import BLUE, INK, VERMILLION, styled
from recfact.report.words import power_of_ten
from recfact.windows import Jagged, Uniform

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEPS = 512
"""Steps that a line is measured on: the first ones of the sequence."""

SIZES = (1, 2, 4, 8, 16, 32, 64, 128)

COLUMNS = 3

DEPTH = 1e-3
"""How far below the bound of rounding an error is drawn; what is smaller has no part in the total."""

LOOKS = (("total", "#8ecfb9", 2.6, 6.0), ("truncation", VERMILLION, 1.2, 3.5), ("rounding", BLUE, 1.2, 3.5))
"""The errors, with colour, width of the line and size of the dots: the sum below its parts, which often cover it."""


@dataclass(frozen=True)
class WindowSweep:
    """Verifications of windows of one kind, in one format.

    Parameters
    ----------
    title : str
        What they have in common.
    sizes : tuple of int
        Block lengths or numbers of lags.
    found : tuple of Verification
        What was found for each.
    """

    title: str
    sizes: tuple[int, ...]
    found: tuple[Verification, ...]


def sweep_windows(
    a: Array,
    u: Array,
    fmt: FloatFormat,
    kind: type[Jagged] | type[Uniform] = Jagged,
    algorithm: str = "hierarchical",
    step: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> WindowSweep:
    """Verify windows of all `SIZES` on the first steps of a sequence.

    Parameters
    ----------
    a, u : ndarray, shape (n,)
        Coefficients and inputs, real.
    fmt : FloatFormat
        The format.
    kind : Jagged or Uniform
        Which windows.
    algorithm : str
        What computes the states; "sequential" takes its place for windows that it doesn't make.
    step : callable, optional
        Called with a word on what comes next, once for each of `SIZES`.
    **options
        The arithmetic, as in `verify`.
    """
    found = []
    for size in SIZES:
        step(f"trying {kind.__name__}({size})")
        window = kind(size)
        used = algorithm if makes(algorithm, fmt, window=window, **options) else "sequential"
        found.append(verify(a[:STEPS], u[:STEPS], window=window, format=fmt, algorithm=used, **options))
    steps = min(len(a), STEPS)
    return WindowSweep(f"{kind.__name__}(k) in {fmt.name}, {steps} step{'s' * (steps != 1)}", SIZES, tuple(found))


@styled
def bound_figure(sweeps: Sequence[WindowSweep]) -> Figure:
    """Draw the largest errors of each sweep, dotted, below their bounds, as lines.

    Parameters
    ----------
    sweeps : sequence of WindowSweep
        A panel for each, three in a row.
    """
    columns = min(len(sweeps), COLUMNS)
    rows = -(-len(sweeps) // columns)
    wide, high = (WIDTH - 0.6) / columns, 2.75
    board = Board(WIDTH, rows * high + 0.45)
    for k, sweep in enumerate(sweeps):
        left, top = 0.6 + wide * (k % columns), 0.3 + high * (k // columns)
        axes = board.axes(left, top, wide - 0.55, high - 0.75)
        _panel(axes, sweep)
        if k % columns == 0:
            axes.set_ylabel("error of a state")
    first = board.figure.axes[0]
    first.plot([], [], "o", color=INK, markersize=4, label="measured exactly")
    first.plot([], [], "-", color=INK, linewidth=1.2, label="proved bound")
    handles, labels = first.get_legend_handles_labels()
    board.figure.legend(handles, labels, loc="lower center", ncols=len(labels), borderaxespad=0.2)
    return board.figure


def _panel(axes: Axes, sweep: WindowSweep) -> None:
    shown = []
    for name, colour, width, dot in LOOKS:
        checks = [getattr(found, name) for found in sweep.found]
        bound, largest = (_positive([getattr(check, part) for check in checks]) for part in ("bound", "largest"))
        axes.plot(sweep.sizes, bound, "-", linewidth=width, label=name, color=colour)
        axes.plot(sweep.sizes, largest, "o", markersize=dot, color=colour)
        shown += [value for value in (*bound, *largest) if value > 0]
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    if shown:
        floor = min((found.rounding.bound for found in sweep.found if found.rounding.bound > 0), default=0.0)
        axes.set_ylim(max(min(shown) / 2, DEPTH * floor), 2 * max(shown))
    else:
        axes.text(0.5, 0.5, "no error, or no finite one", transform=axes.transAxes, ha="center", va="center")
        axes.set_ylim(0.5, 2)
    axes.set_xticks(sweep.sizes)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: power_of_ten(round(np.log10(value))))
    axes.yaxis.set_minor_formatter("")
    axes.minorticks_off()
    axes.set_title(sweep.title, loc="left", fontsize=8.5)
    axes.set_xlabel("k: block length, or number of lags")


def _positive(values: Sequence[float]) -> Array:
    """Return what a logarithmic scale shows of `values`."""
    known = drawable(np.array(values, dtype=np.float64))
    return np.where(known > 0, known, np.nan)
