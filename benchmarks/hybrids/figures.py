"""The pictures of the page, of the rows that have been run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.hybrids.display import Records
from benchmarks.hybrids.patterns import PATTERNS
from benchmarks.hybrids.tasks import TASKS, VALUES
from benchmarks.hybrids.training import SPAN
from recfact.plot.style import styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1b2330", "#999999")
WIDTHS = (2.2, 1.6, 1.0, 0.6)
"""Of lines that may lie on each other: those drawn later are thinner, so that those below are seen."""


def variants(found: Records, text: str) -> list[str]:
    """Return the patterns that have been run on a text."""
    return [variant for variant in PATTERNS if found.get(f"{text}/{variant}")]


@styled
def curves(found: Records, text: str) -> Figure:
    """Draw the losses in training, and beside them their differences to P of the same seed. Dashes mark one seed."""
    figure, (whole, apart) = new(2)
    base = found.get(f"{text}/P", {})
    looks = {several: product(("-", "-.") if several else ("--", ":"), COLOURS) for several in (True, False)}
    for variant in variants(found, text):
        seeds = found[f"{text}/{variant}"]
        line, colour = next(looks[len(seeds) > 1])
        style: dict[str, Any] = {
            "color": colour,
            "linestyle": line,
            "linewidth": WIDTHS[0] if variant == "P" else 1.1,  # rows that equal P lie on it
        }
        drawn(whole, [record["losses"] for record in seeds.values()], variant, style)
        differences = [
            smooth(np.subtract(record["losses"], base[seed]["losses"]))
            for seed, record in seeds.items()
            if seed in base
        ]
        if differences:
            drawn(apart, differences, variant, style)
    whole.set_ylabel("bits a byte, not yet seen in training")
    apart.set_ylabel("minus P of the same seed, smoothed")
    whole.set_ylim(top=3.0)
    apart.set_ylim(-0.03, 0.2)
    for axes in (whole, apart):
        axes.set_xlabel("steps of training")
    figure.legend(*whole.get_legend_handles_labels(), loc="outside upper center", ncols=7)
    return figure


@styled
def ranges(found: Records, text: str) -> Figure:
    """Draw the losses on bytes that are held out, a dot a seed."""
    figure, (axes,) = new(1)
    names = variants(found, text)
    for place, variant in enumerate(names):
        loss = [record["measured"]["loss"] for record in found[f"{text}/{variant}"].values()]
        axes.plot([min(loss), max(loss)], [place, place], color=COLOURS[0], linewidth=1)
        axes.plot(loss, [place] * len(loss), "o", markersize=4, color=COLOURS[0])
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("bits a byte, held out; a dot is a seed")
    return figure


@styled
def recall(found: Records) -> Figure:
    """Draw the losses of recall in training, a line a seed."""
    figure, (axes,) = new(1)
    by_variant(axes, found, "recall", lambda record: record["losses"], SPAN)
    axes.set_xlabel("steps of training")
    axes.set_ylabel("bits an answer")
    axes.set_ylim(bottom=0)
    return figure


@styled
def parity(found: Records) -> Figure:
    """Draw the share of right answers for each step of long sequences of bits."""
    figure, (axes,) = new(1)
    answered(axes, found, "parity")
    axes.axvline(64, color="#999999", linewidth=0.6)
    axes.set_xlabel("step; training has 64")
    return figure


@styled
def copying(found: Records) -> Figure:
    """Draw the share of right answers for each gap, and what Jagged(16) lets through at most without guessing."""
    figure, (axes,) = new(1)
    gaps = answered(axes, found, "copying")
    reached = np.clip((32 - gaps) / 16, 0, 1)
    axes.plot(gaps, reached + (1 - reached) / VALUES, "--", color="#1b2330", linewidth=0.8, label="reach of Jagged(16)")
    axes.set_xlabel("steps from the marked token to the question")
    axes.legend()
    return figure


def answered(axes: Axes, found: Records, kind: str) -> np.ndarray:
    """Draw the right answers of a task's variants over what they depend on, and return that: 1, 2, ..."""
    places = by_variant(axes, found, kind, lambda record: record["measured"]["right"], 1)
    axes.set_ylabel("share of right answers")
    axes.set_ylim(0, 1.05)
    return places


def by_variant(
    axes: Axes, found: Records, kind: str, values: Callable[[dict[str, Any]], list[float]], apart: int
) -> np.ndarray:
    """Draw values of a task's variants, a line a seed, and return the places of the values: `apart`, 2 `apart`, ..."""
    places = np.zeros(0)
    for colour, width, variant in zip(COLOURS, WIDTHS, TASKS[kind].variants, strict=False):
        seeds = found.get(f"{kind}/{variant}", {})
        if seeds:
            columns = np.transpose([values(record) for record in seeds.values()])
            places = apart * np.arange(1, len(columns) + 1)
            lines = axes.plot(places, columns, color=colour, linewidth=width)
            lines[0].set_label(variant)
    axes.legend()
    return places


def drawn(axes: Axes, lines: list[Any], label: str, style: dict[str, Any]) -> None:
    """Draw the mean of losses, a line for each seed, over a band from the least to the greatest."""
    values = np.asarray(lines)
    places = SPAN * np.arange(1, values.shape[1] + 1)
    axes.plot(places, values.mean(0), label=label, **style)
    axes.fill_between(places, values.min(0), values.max(0), color=style["color"], alpha=0.2, linewidth=0)


def smooth(values: np.ndarray, width: int = 9) -> np.ndarray:
    """Return means over neighbours."""
    padded = np.pad(values, width // 2, mode="edge")
    return np.convolve(padded, np.full(width, 1 / width), mode="valid")


def new(parts: int) -> tuple[Figure, Any]:
    """Return a figure of the page's width, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    return figure, figure.subplots(1, parts, squeeze=False)[0]


def available(found: Records) -> dict[str, Callable[[], Figure]]:
    """Return how to draw each picture for which something has been run."""
    drawings: dict[str, Callable[[], Figure]] = {}
    for text in ("bible", "python"):
        if variants(found, text):
            drawings[f"{text}-losses"] = partial(ranges, found, text)
            drawings[f"{text}-curves"] = partial(curves, found, text)
    for kind, draw in (("recall", recall), ("parity", parity), ("copying", copying)):
        if any(name.startswith(f"{kind}/") for name in found):
            drawings[kind] = partial(draw, found)
    return drawings
