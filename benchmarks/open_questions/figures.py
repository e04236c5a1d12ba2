"""The pictures of the answers, each drawn from its record."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.open_questions import blocks as carried
from benchmarks.open_questions import constructions as built
from benchmarks.open_questions import jagged as cut
from recfact.plot.board import WIDTH, Board
from recfact.plot.colours import FORMATS, JAGGED, ROUNDING, TRUNCATION, UNIFORM
from recfact.plot.style import INK, styled
from recfact.written_numbers import power_of_ten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Answer = dict[str, Any]


def legend(board: Board, columns: int) -> None:
    """Write what the first axes show along the bottom."""
    handles, labels = board.figure.axes[0].get_legend_handles_labels()
    board.figure.legend(handles, labels, loc="lower center", ncols=columns, borderaxespad=0.2)


def powers(axes: Axes, *names: str) -> None:
    """Make axes logarithmic, with powers of ten in the font of the page."""
    for name in names:
        getattr(axes, f"set_{name}scale")("log")
        axis = getattr(axes, f"{name}axis")
        axis.set_major_formatter(lambda value, _: power_of_ten(round(np.log10(value))))
        axis.set_minor_formatter("")


def plain(axes: Axes, name: str, ticks: list[float]) -> None:
    """Make an axis logarithmic, with these ticks."""
    getattr(axes, f"set_{name}scale")("log")
    getattr(axes, f"set_{name}ticks")(ticks)
    axis = getattr(axes, f"{name}axis")
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter("")


@styled
def horizons(answer: Answer) -> Figure:
    """Draw what is predicted and what happens for each format, a line each."""
    rows = [each for each in answer["largest"] if each["share"] is not None and 0 < each["predicted"] < 1e30]
    rows = sorted((each for each in rows if "p3109" not in each["format"]), key=lambda each: each["predicted"])
    board = Board(WIDTH, 0.9 + 0.24 * len(rows))
    axes = board.axes(1.5, 0.15, WIDTH - 1.75, 0.24 * len(rows))
    marks = {
        "settles": ("a sum stops changing", "D", ROUNDING),
        "truncated": ("a truncated weight is 0", "v", TRUNCATION),
        "stays_from": ("a weight rounded to nearest stops falling", "s", UNIFORM),
        "predicted": ("predicted horizon", "o", INK),
    }
    for name, (label, marker, colour) in marks.items():
        points = [(each[name], place) for place, each in enumerate(rows) if each[name] is not None]
        axes.plot(*zip(*points, strict=True), marker, color=colour, markersize=5, fillstyle="none", label=label)
    powers(axes, "x")
    axes.set_yticks(range(len(rows)), [each["format"] for each in rows])
    axes.grid(axis="y", linewidth=0.3)
    axes.set_xlabel("steps, for the largest coefficient below 1")
    legend(board, 4)
    return board.figure


@styled
def jagged(answer: Answer) -> Figure:
    """Draw the error step by step, and equivalent windows against the decay over a block."""
    board = Board(WIDTH, 3.4)
    saw = answer["steps_of_three_blocks"]
    near = board.axes(0.6, 0.35, 3.85, 2.2)
    colours = (JAGGED[0], UNIFORM, UNIFORM, UNIFORM)
    for (name, errors), colour, line in zip(saw.items(), colours, ("-", ":", "-", "--"), strict=True):
        near.plot(np.arange(1, len(errors) + 1), errors, line, color=colour, linewidth=1.3, label=name)
    plain(near, "y", [0.1, 0.2, 0.4])
    near.set_title("rms error of each step, for a constant 0.9", loc="left")
    near.set_xlabel("step")
    near.set_ylabel("error")
    far = board.axes(5.3, 0.35, 3.65, 2.2)
    for block, colour, marker in zip(cut.BLOCKS, (FORMATS[1], FORMATS[0]), "os", strict=True):
        halvings = np.geomspace(0.02, 100, 100)
        curve = [cut.predicted(4 ** (-each / block), block) / block for each in halvings]
        far.plot(halvings, curve, color=colour, linewidth=1.2, label=f"predicted, blocks of {block}")
        some = [each for each in answer["rows"] if each["block"] == block and each["predicted"]]
        points = [(-block * np.log2(each["square"]) / 2, each["rms_equivalent"] / block) for each in some]
        far.plot(*zip(*points, strict=True), marker, color=colour, markersize=4, label="measured")
    plain(far, "x", [0.1, 1, 10, 100])
    far.set_title("lags of the uniform window that loses as much", loc="left")
    far.set_xlabel("halvings of the weights over a block")
    far.set_ylabel("lags / block")
    far.legend(loc="lower left")
    legend(board, 4)
    return board.figure


@styled
def constructions(answer: Answer) -> Figure:
    """Draw the errors of the other constructions relative to cumprod's, measured and predicted."""
    board = Board(WIDTH, 3.5)
    names = list(dict.fromkeys(each["format"] for each in answer["rows"]))
    blocks = list(dict.fromkeys(each["block"] for each in answer["rows"]))
    for left, block in zip((0.6, 5.3), blocks, strict=True):
        axes = board.axes(left, 0.35, 3.85, 2.2)
        for name, colour in zip(names, FORMATS, strict=False):
            some = [each for each in answer["rows"] if (each["format"], each["block"]) == (name, block)]
            points = [(each["decay"] * block, each["segsum"] / each["cumprod"]) for each in some if each["cumprod"]]
            axes.plot(*zip(*points, strict=True), "o", color=colour, markersize=3.5, label=name)
        decays = np.geomspace(0.002, 1, 100)
        for method, line in (("segsum", "-"), ("log-outer", "--"), ("ratio", ":")):
            ratios = [built.predicted(method, "binary32", block, decay) for decay in decays]
            axes.plot(decays * block, ratios, line, color=INK, linewidth=1, label=f"{method}, predicted")
        axes.axhline(1, color=INK, linewidth=0.4)
        plain(axes, "x", [0.1, 1, 10])
        plain(axes, "y", [0.2, 0.5, 1, 2, 5, 10, 20])
        axes.set_ylim(0.15, 30)
        axes.set_title(f"error of segsum / error of cumprod, blocks of {block}", loc="left")
        axes.set_xlabel("block times mean |log a|")
    legend(board, 5)
    return board.figure


@styled
def blocks(answer: Answer) -> Figure:
    """Draw both errors over the length of the block, and the crossings against the time constant."""
    board = Board(WIDTH, 3.3)
    curve = answer["curve"]
    near = board.axes(0.6, 0.35, 3.85, 2.2)
    lengths = np.geomspace(min(curve["blocks"]), max(curve["blocks"]), 100)
    for name, colour, law in (
        ("truncation", TRUNCATION, lambda length: carried.truncation(curve["q"], length)),
        ("rounding", ROUNDING, lambda length: carried.rounding(curve["q"], length, "bfloat16", "tensor cores")),
    ):
        near.plot(lengths, [law(each) for each in lengths], color=colour, linewidth=1.2, label=f"{name}, predicted")
        near.plot(curve["blocks"], curve[name], "o", color=colour, markersize=4, label=f"{name}, measured")
    powers(near, "y")
    plain(near, "x", [4, 8, 16, 32, 64, 128])
    near.axvline(carried.crossing(curve["q"], "bfloat16", "tensor cores"), color=INK, linewidth=0.5)
    near.set_title(f"bfloat16, a constant {curve['q'] ** 0.5:.4f}: share of the states", loc="left")
    near.set_xlabel("block")
    near.legend(loc="lower left")
    far = board.axes(5.3, 0.35, 3.65, 2.2)
    for name, colour in zip(dict.fromkeys(each["format"] for each in answer["rows"]), FORMATS, strict=False):
        times = np.geomspace(1.2, 300, 60)
        law = [carried.crossing(np.exp(-2 / time), name, "tensor cores") for time in times]
        far.plot(times, law, color=colour, linewidth=1.2, label=f"{name}, predicted")
        for kernel, marker in (("tensor cores", "o"), ("rf.solve", "x")):
            some = [each for each in answer["rows"] if (each["format"], each["kernel"]) == (name, kernel)]
            points = [(-2 / np.log(each["q"]), each["measured"]) for each in some if each["measured"]]
            far.plot(*zip(*points, strict=True), marker, color=colour, markersize=4, label=f"measured, {kernel}")
    plain(far, "x", [1, 10, 100])
    plain(far, "y", [10, 100, 1000])
    far.set_title("block at which rounding costs as much", loc="left")
    far.set_xlabel("time constant, −1 / log √q, in steps")
    far.legend(loc="upper left")
    return board.figure


FIGURES: dict[str, Callable[[Answer], Figure]] = {
    "horizons": horizons,
    "jagged": jagged,
    "constructions": constructions,
    "blocks": blocks,
}
