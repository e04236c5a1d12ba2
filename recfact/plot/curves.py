"""Pictures of numbers over time and over windows: the solution, and its changes by windows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from recfact.arrays import Array
from recfact.checks import LONGEST, positive_integer
from recfact.errors import GrowthWarning, OptionTypeError
from recfact.factorizations import TransferOperator
from recfact.factorizations.matrix_looks import UNIT
from recfact.plot.board import PLAIN_TITLE, WIDTH, Board, drawable
from recfact.plot.colours import JAGGED, UNIFORM, window_colour
from recfact.plot.sequences import beside_steps, floating, one_sequence
from recfact.plot.style import INK, PAPER, styled
from recfact.plot.window_costs import (
    WindowCost,
    standard_windows,
    window_costs,
    window_error,
)
from recfact.solve import solve
from recfact.windows import Jagged, Uniform, Window
from recfact.written_numbers import power_of_ten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


POINTS, PEAKS = 1500, 150
"""Buckets that a long line, and the peaks of an error, are drawn in: more can't be told apart on a page."""

ON_LINES = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.8}
"""The box of a label that lines may run into."""


def errors(a: Any, u: Any, block: int = 16) -> Figure:
    """Draw the largest error of the states against the length of the window, for these inputs and for the worst ones.

    Parameters
    ----------
    a, u : array_like, shape (n,)
        Coefficients and inputs.
    block : int, default 16
        A block length to draw in addition to the usual ones.

    Examples
    --------
    >>> from recfact import plot
    >>> figure = plot.errors([0.5] * 40, [1.0] * 40)
    """
    a, u, transfer = _transfer(a, u)
    x = np.asarray(solve(a, u))
    costs = window_costs(transfer, u, x, standard_windows(len(x), positive_integer(block, "block", most=LONGEST)))
    return error_figure(costs, float(ml_dtypes.finfo(a.dtype).eps), str(a.dtype))  # type: ignore[no-untyped-call]


def solution(
    a: Any,
    u: Any,
    block: int = 16,
    *,
    time: Any = None,
    value: Any = None,
    unit: str = "",
    title: str = "",
) -> Figure:
    """Draw the states, a close look at the states of three windows, and the error of each window over time.

    Parameters
    ----------
    a, u : array_like, shape (n,)
        Coefficients and inputs.
    block : int, default 16
        Block length of the windows.
    time : array_like of datetime64, shape (n,), optional
        The times of the steps. By default steps are numbered.
    value : array_like, shape (n,), optional
        Measured values that the states smooth.
    unit, title : str
        Unit of the states, and their name.

    Examples
    --------
    >>> from recfact import plot
    >>> figure = plot.solution([0.5] * 40, [1.0] * 40, block=8)
    """
    a, u, transfer = _transfer(a, u)
    block = positive_integer(block, "block", most=LONGEST)
    for name, text in (("unit", unit), ("title", title)):
        if not isinstance(text, str):
            raise OptionTypeError("must be a text", name, given=text)
    windows: tuple[Window, ...] = (Jagged(block), Uniform(block), Jagged(block, 2))
    lost = {window: window_error(transfer, window, u) for window in windows}
    dates, values = beside_steps(time, "time", len(a)), beside_steps(value, "value", len(a))
    x = np.asarray(solve(a, u))
    return solution_figure(x, lost, block, time=dates, value=values, unit=unit, title=title)


def _transfer(a: Any, u: Any) -> tuple[Array, Array, TransferOperator]:
    """Return the numbers of one sequence, and its operator without a warning that it grows."""
    a, u = one_sequence(a, u)
    a, u = floating(a, "a"), floating(u, "u")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GrowthWarning)
        return a, u, TransferOperator(a)


@styled
def error_figure(costs: list[WindowCost], eps: float, typename: str) -> Figure:
    """Draw the relative error of the states against the length of the window, a line for each kind of window.

    Parameters
    ----------
    costs : list of WindowCost
        The result of `window_costs`.
    eps : float
        Spacing of the number type at 1. It is drawn as the smallest visible error.
    typename : str
        Name of that number type.
    """
    board = Board(WIDTH, 3.35)
    uniform = {
        "color": UNIFORM,
        "marker": "s",
        "markersize": 7,
        "markerfacecolor": "none",
        "linestyle": "--",
    }
    kinds: list[tuple[str, dict[str, Any], list[WindowCost]]] = [
        ("Uniform(k)", uniform, [c for c in costs if isinstance(c.window, Uniform)])
    ]
    for terms, marker in ((1, "o"), (2, "^"), (3, "D")):
        look = {"color": JAGGED[terms - 1], "marker": marker, "markersize": 4.5}
        some = [c for c in costs if isinstance(c.window, Jagged) and c.window.terms == terms]
        kinds.append((f"Jagged(k, {terms})" if terms > 1 else "Jagged(k)", look, some))
    for left, title, measure in (
        (0.6, "these inputs", "relative_error"),
        (5.3, "the worst inputs", "relative_error_norm"),
    ):
        axes = board.axes(left, 0.35, 3.65, 2.1)
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
        axes.axhline(eps, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.text(0.01, eps, f"eps of {typename}", color=INK, transform=axes.get_yaxis_transform(),
                  ha="left", va="bottom", fontsize=7.5, bbox=ON_LINES)  # fmt: skip
        axes.set_title(f"{title}: largest error relative to the largest state", **PLAIN_TITLE)
        axes.set_xlabel("k in steps: block length, or number of lags")
        axes.set_ylabel("share of the largest state")
    _legend_below(board)
    return board.figure


@styled
def solution_figure(
    x: Array,
    errors: Mapping[Window, Array],
    block: int,
    *,
    time: Array | None = None,
    value: Array | None = None,
    unit: str = "",
    title: str = "",
) -> Figure:
    """Draw the states, a close look at the states of windows, and the error of each window over time.

    Parameters
    ----------
    x : ndarray, shape (n,)
        Exact states.
    errors : mapping of window to ndarray, shape (n,)
        Exact minus truncated states.
    block : int
        Block length. The close look shows the borders of blocks.
    time, value, unit, title
        As for `solution`.
    """
    board = Board(WIDTH, 5.85)
    n = len(x)
    shown = drawable(x.real)
    steps = np.arange(n) if time is None else time
    label = "step" if time is None else "date"
    quantity = unit or ("real part of the state" if np.iscomplexobj(x) else "state")

    axes = board.axes(0.64, 0.3, 8.31, 2.2)  # half a date fits beside it, for a label at the last step
    if value is not None:
        axes.plot(*envelope(steps, value), color=UNIT, linewidth=0.8, alpha=0.8)
    axes.plot(*envelope(steps, shown), color=INK, linewidth=1)
    axes.set_ylabel(quantity)
    axes.set_title(title, loc="left")

    look = slice(max(0, (n // block - 6) * block), n)
    near = board.axes(0.64, 3.2, 3.91, 1.95)
    if value is not None:
        near.plot(steps[look], value[look], ".", markersize=3.2, color=UNIT, label="measured")
    near.plot(steps[look], shown[look], color=INK, linewidth=2, label="states")
    far = board.axes(5.3, 3.2, 3.65, 1.95)
    sizes = np.zeros(0)
    for window, error in errors.items():
        colour = window_colour(window)
        near.plot(steps[look], drawable((x - error).real[look]), color=colour, linewidth=1.1, label=repr(window))
        where, size = peaks(steps, drawable(np.abs(error)))
        far.plot(where, np.where(size > 0, size, np.nan), color=colour, linewidth=1.3, label=repr(window))
        sizes = np.append(sizes, size)
    for border in steps[look][::block]:
        near.axvline(border, color=INK, linewidth=0.5, alpha=0.25)
    near.set_title(f"the last blocks of {block}", loc="left")
    near.set_ylabel(quantity)
    far.set_title("error of each window", **PLAIN_TITLE)
    far.set_ylabel(f"error in {unit}" if unit else "error")
    visible = sizes[np.isfinite(sizes) & (sizes > 0)]
    if len(visible):
        _log_scale(far, max(visible.min() / 2, 1e-150), 2 * visible.max())
    else:
        far.set_yticks([])
        far.text(0.5, 0.5, "none", transform=far.transAxes, ha="center", va="center")
    for part, ticks in ((axes, 9), (near, 6), (far, 6)):
        part.set_xlabel(label)
        if time is not None:
            _date_axis(part, ticks)
    for part in (axes, far):
        part.set_xlim(steps[0], steps[-1] if n > 1 else None)
    _legend_below(board, near)
    return board.figure


def envelope(steps: Array, values: Array) -> tuple[Array, Array]:
    """Return a line of at most 2 `POINTS` points that looks like all of `values`.

    Long lines are cut into buckets. Each is drawn by its smallest and its largest value.
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
    """Give `axes` a logarithmic ordinate. Its powers of ten are plain text, which takes the font of the page."""
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
