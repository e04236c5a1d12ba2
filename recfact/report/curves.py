"""Pictures of numbers over time and over windows: the solution, and what the windows change in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from recfact.arrays import Array
from recfact.report.board import WIDTH, Board, drawable
from recfact.report.problem import Problem
from recfact.report.style import BLUE, GREEN, INK, ORANGE, PURPLE, UNIT, VERMILLION, styled
from recfact.report.window_costs import WindowCost, window_name
from recfact.report.words import power_of_ten
from recfact.windows import Jagged, Uniform, Window

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


POINTS, PEAKS = 1500, 150
"""Buckets that a long line, and the peaks of an error, are drawn in: more can't be told apart on a page."""


@styled
def error_figure(costs: list[WindowCost], eps: float, typename: str) -> Figure:
    """Draw the relative error of the states against the length of the window, a line for each kind of window.

    Parameters
    ----------
    costs : list of WindowCost
        What `window_costs` returned.
    eps : float
        Spacing of the number type at 1, drawn as the floor of what can be seen.
    typename : str
        Name of that number type.
    """
    board = Board(WIDTH, 3.35)
    uniform = {"color": UNIT, "marker": "s", "markersize": 7, "markerfacecolor": "none", "linestyle": "--"}
    kinds: list[tuple[str, dict[str, Any], list[WindowCost]]] = [
        ("Uniform(k)", uniform, [c for c in costs if isinstance(c.window, Uniform)])
    ]
    for terms, colour, marker in ((1, BLUE, "o"), (2, GREEN, "^"), (3, ORANGE, "D")):
        look = {"color": colour, "marker": marker, "markersize": 4.5}
        some = [c for c in costs if isinstance(c.window, Jagged) and c.window.terms == terms]
        kinds.append((f"Jagged(k, terms={terms})", look, some))
    for left, title, measure in (
        (0.6, "these inputs", "relative_error"),
        (5.3, "the worst inputs", "relative_error_norm"),
    ):
        axes = board.axes(left, 0.35, 3.85, 2.1)
        for name, options, some in kinds:
            lengths = [c.window.lags if isinstance(c.window, Uniform) else c.window.block for c in some]
            values = drawable(np.array([getattr(c, measure) for c in some]))
            axes.plot(lengths, np.where(values > 0, values, np.nan), linewidth=1.3, label=name, **options)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted({c.window.lags for c in costs if isinstance(c.window, Uniform)}))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f}")
        axes.minorticks_off()
        positive = [value for value in (getattr(c, measure) for c in costs) if 0 < value < 1e150]
        lowest, highest = min([*positive, eps]), max(positive, default=1.0)
        _log_scale(axes, max(lowest, eps / 100) / 3, 3 * max(highest, eps))
        axes.axhline(eps, color=VERMILLION, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.text(0.01, eps, f"eps of {typename}", color=VERMILLION, transform=axes.get_yaxis_transform(),
                  ha="left", va="bottom", fontsize=7.5)  # fmt: skip
        axes.set_title(f"{title}: largest error relative to the largest state", loc="left")
        axes.set_xlabel("k: block length, or number of lags")
    _legend_below(board)
    return board.figure


@styled
def solution_figure(problem: Problem, x: Array, errors: Mapping[Window, Array], block: int) -> Figure:
    """Draw the states, a close look at what windows make of them, and the error of each window over time.

    Parameters
    ----------
    problem : Problem
        The recurrence.
    x : ndarray, shape (n,)
        Its exact states.
    errors : mapping of window to ndarray, shape (n,)
        Exact minus truncated states.
    block : int
        Block length whose borders the close look shows.
    """
    board = Board(WIDTH, 5.85)
    n = len(x)
    shown = drawable(x.real)
    steps = np.arange(n) if problem.time is None else problem.time
    label = "step" if problem.time is None else ""
    quantity = problem.unit or ("real part of the state" if np.iscomplexobj(x) else "state")

    axes = board.axes(0.6, 0.3, 8.55, 2.2)
    if problem.value is not None:
        axes.plot(*envelope(steps, problem.value), color=UNIT, linewidth=0.8, alpha=0.8)
    axes.plot(*envelope(steps, shown), color=BLUE, linewidth=1.2)
    axes.set_ylabel(quantity)
    axes.set_title(problem.title, loc="left")

    look = slice(max(0, (n // block - 6) * block), n)
    near = board.axes(0.6, 3.2, 3.95, 1.95)
    if problem.value is not None:
        near.plot(steps[look], problem.value[look], ".", markersize=3.2, color=UNIT, label="measured")
    near.plot(steps[look], shown[look], color=BLUE, linewidth=2.2, label="states")
    far = board.axes(5.3, 3.2, 3.85, 1.95)
    sizes = np.zeros(0)
    for (window, error), colour in zip(errors.items(), (VERMILLION, GREEN, PURPLE), strict=True):
        near.plot(steps[look], drawable((x - error).real[look]), color=colour, linewidth=1.1, label=window_name(window))
        where, size = peaks(steps, drawable(np.abs(error)))
        far.plot(where, np.where(size > 0, size, np.nan), color=colour, linewidth=1.3, label=window_name(window))
        sizes = np.append(sizes, size)
    for border in steps[look][::block]:
        near.axvline(border, color=INK, linewidth=0.5, alpha=0.25)
    near.set_title(f"the last blocks of {block}", loc="left")
    near.set_ylabel(quantity)
    far.set_title("error of each window", loc="left")
    visible = sizes[np.isfinite(sizes) & (sizes > 0)]
    if len(visible):
        _log_scale(far, max(visible.min() / 2, 1e-150), 2 * visible.max())
    else:
        far.set_yticks([])
        far.text(0.5, 0.5, "none", transform=far.transAxes, ha="center", va="center")
    for part, ticks in ((axes, 9), (near, 6), (far, 6)):
        part.set_xlabel(label)
        if problem.time is not None:
            _date_axis(part, ticks)
    for part in (axes, far):
        part.set_xlim(steps[0], steps[-1] if n > 1 else None)
    _legend_below(board, near)
    return board.figure


def envelope(steps: Array, values: Array) -> tuple[Array, Array]:
    """Return a line of at most 2 `POINTS` points that looks like all of `values`.

    Long lines are cut into buckets, each drawn by its smallest and its largest value.
    """
    if len(values) <= 2 * POINTS:
        return steps, values
    edges = np.linspace(0, len(values), POINTS + 1).astype(int)[:-1]
    ends = [np.fmin.reduceat(values, edges), np.fmax.reduceat(values, edges)]
    return np.repeat(steps[edges], 2), np.stack(ends, axis=1).ravel()


def peaks(steps: Array, values: Array) -> tuple[Array, Array]:
    """Return the largest of `values` in each of at most `PEAKS` stretches, in the middle of the stretch."""
    count = min(PEAKS, len(values))
    edges = np.linspace(0, len(values), count + 1).astype(int)
    return steps[(edges[:-1] + edges[1:]) // 2], np.fmax.reduceat(values, edges[:-1])


def _legend_below(board: Board, axes: Axes | None = None) -> None:
    """Write the legend of `axes`, the first ones if left out, in a row along the bottom of the figure."""
    handles, labels = (axes or board.figure.axes[0]).get_legend_handles_labels()
    board.figure.legend(handles, labels, loc="lower center", ncols=len(labels), borderaxespad=0.2)


def _log_scale(axes: Axes, low: float, high: float) -> None:
    """Give `axes` a logarithmic ordinate with powers of ten in plain text, which takes the page's own font."""
    axes.set_autoscaley_on(False)
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.yaxis.set_major_formatter(lambda value, _: power_of_ten(round(np.log10(value))))
    axes.yaxis.set_minor_formatter("")


def _date_axis(axes: Axes, ticks: int) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=ticks)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
