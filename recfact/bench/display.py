"""A record of the benchmarks for people: a table, sentences and a picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from recfact.bench.record import Record
from recfact.factorizations.matrix_looks import BLUE, VERMILLION
from recfact.plot.style import styled
from recfact.report.rows import rows_markdown, rows_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DECISIVE = (
    "one sequence, float32",
    "one sequence, Jagged(16), float32",
    "64 channels, time first, float32",
    "one call with n = 1000, float32",
    "peer: scipy lfilter, constant a, float32",
    "peer: JAX associative_scan, float32",
)
"""The cases that the README shows, because they decide whether recfact is worth a try."""

NOISY = 0.1
"""The spread of the baseline's own times from which on a machine is called noisy."""


def amount(value: float, unit: str) -> str:
    """Return a measured amount with its unit.

    Examples
    --------
    >>> amount(1.0849, "x"), amount(31.4, "x"), amount(7.25, "µs"), amount(0.0312, "MiB"), amount(1.013, "power")
    ('1.08x', '31x', '7.2 µs', '0.03 MiB', 'n^1.01')
    """
    match unit:
        case "x":
            return f"{value:.2f}x" if value < 9.995 else f"{value:.0f}x"
        case "power":
            return f"n^{value:.2f}"
        case "µs":
            return f"{value:.1f} µs"
    return f"{value:.2f} {unit}"


def table_rows(record: Record) -> list[dict[str, str]]:
    """Return the rows of the table as texts."""
    rows = []
    for row in record.rows:
        low, median, high = (amount(value, row.unit) for value in row.measured)
        rows.append(
            {
                "case": row.case,
                "measured": median,
                "middle half": "" if row.measured.low == row.measured.high else f"{low} to {high}",
                "at most": "" if row.at_most is None else amount(row.at_most, row.unit),
                "against": row.against,
            }
        )
    return rows


def sentences(record: Record) -> list[str]:
    """Return the rest: the machine, its noise, the cases above their limits, and what was left out."""
    machine = record.machine
    memory = "" if machine["memory"] is None else f", {machine['memory']} GiB"
    versions = ", ".join(f"{name} {number}" for name, number in machine["packages"].items())
    about = (
        f"{machine['processor']}, {machine['cores']} cores{memory}, {machine['system']}; Python {machine['python']}, "
        f"{versions}; recfact {record.version}, {record.date}."
    )
    if record.smoke:
        return [about, "A smoke run: the sizes are so small that these numbers say nothing.", *left_out(record)]
    noise = (
        f"The baselines' own times spread by {record.noise:.0%} (interquartile range over median, median of all cases)."
    )
    found = [about, noise]
    if record.noise > NOISY:
        found.append("This machine is noisy: measure again when it is quieter.")
    above = [
        f"{row.case} ({amount(row.measured.median, row.unit)}, at most {amount(row.at_most, row.unit)})"
        for row in record.rows
        if row.at_most is not None and row.above
    ]
    found.append(f"Above its figure: {'; '.join(above)}." if above else "No case is above what it is held to.")
    differences = [row.difference for row in record.rows if row.difference is not None]
    if differences:
        found.append(f"Peers' states differ from recfact's by {max(differences):.1e} of the largest state at most.")
    return [*found, *left_out(record)]


def left_out(record: Record) -> list[str]:
    """Return the cases that weren't measured, and why."""
    return [f"Not measured: {name}: {reason}." for name, reason in record.skipped.items()]


def text(record: Record) -> RenderableType:
    """Return the record for the terminal."""
    return Group(rows_table(table_rows(record)), Text(), *map(Text, sentences(record)))


def markdown(record: Record) -> str:
    """Return the record as a Markdown table and a paragraph."""
    return "\n".join([rows_markdown(table_rows(record)), "", *sentences(record)])


def headlines(record: Record) -> str:
    """Return the rows that decide a choice as a Markdown table, and the machine."""
    return _some_rows(record, lambda case: case in DECISIVE)


def peers(record: Record) -> str:
    """Return the rows of other libraries, below that of recfact, as a Markdown table, and the machine."""
    return _some_rows(record, lambda case: case == DECISIVE[0] or case.startswith("peer: "))


def _some_rows(record: Record, wanted: Callable[[str], bool]) -> str:
    rows = [row for row in table_rows(record) if wanted(row["case"])]
    return "\n".join([rows_markdown(rows), "", sentences(record)[0]])


@styled
def growth_figure(record: Record) -> Figure:
    """Draw the time for one number against the length of the sequence. It is level if time grows linearly."""
    from matplotlib.figure import Figure

    growth = record.growth
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    axes = figure.subplots()
    for label, seconds, colour in (
        ("recfact.solve(a, u, out=x)", growth.solve, VERMILLION),
        ("np.multiply(a, u, out=x)", growth.multiply, BLUE),
    ):
        nanoseconds = [1e9 * time / n for time, n in zip(seconds, growth.numbers, strict=True)]
        axes.plot(growth.numbers, nanoseconds, "o-", markersize=3, linewidth=1.2, color=colour, label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("n, steps of one float32 sequence")
    axes.set_ylabel("ns for each number")
    axes.set_title(f"one thread, {record.machine['processor']}")
    axes.legend()
    return figure
