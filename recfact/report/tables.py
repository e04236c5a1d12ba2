"""A report as text: its findings and tables for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from recfact.plot.window_costs import TERMS, WindowCost, in_sight
from recfact.report.batch import LIMITS, SequenceNeeds
from recfact.report.build import Report
from recfact.report.rows import framed
from recfact.report.safety import STEPS, FormatSafety
from recfact.report.words import coefficient, counted, first_steps, number, number_at_most, percent, percent_at_most
from recfact.windows import Jagged, Uniform


def report_text(report: Report) -> RenderableType:
    """Return the report for the terminal: the findings, the numbers and the windows."""
    sentences = Table.grid(padding=(0, 1))
    for sentence in report.findings:
        sentences.add_row("•", Text(sentence))
    several: list[RenderableType] = []
    if report.sequences:
        several = [*_lines(sequences_table(report)), *_lines(worst_sequences_table(report))]
    return Group(
        Text(report.problem.title, style="bold"),
        Text(report.problem.source, style="dim"),
        Padding(sentences, (1, 0)),
        *several,
        *_lines(summary_table(report)),
        *_lines(windows_table(report)),
        *_lines(worst_table(report)),
        *_lines(formats_table(report)),
        *_lines(verified_table(report)),
        Text(f"the smallest k with (AZ)^k = 0: {report.summary.nilpotency_index}", style="dim"),
    )


def sequences_table(report: Report) -> Table:
    """Return the horizons of all sequences, how many look further than some windows, and the window good for all."""
    title = "all sequences: the furthest that each looks back down to the unit roundoff, and a window good for all"
    limits = [f"> {limit}" for limit in LIMITS]
    table = framed(
        title, ["", "median", "largest", *limits, "good window", "loses"], ["left", *["right"] * 7, "left", "right"]
    )
    for found in report.sequences:
        table.add_row(found.format.name, *needs_cells(found))
    return table


def needs_cells(found: SequenceNeeds) -> list[str]:
    """Return the cells of one format in the table of all sequences, without its name."""
    if found.horizons is None:
        return ["–"] * (2 + len(LIMITS)) + ["out of range", "–"]
    counts = [str(found.horizons.above(limit)) for limit in LIMITS]
    loses = number_at_most(found.good.error) if found.good else "–"
    return [str(found.horizons.quantile(0.5)[0]), str(found.horizons.largest), *counts, found.window or "none", loses]


def _lines(table: Table) -> list[RenderableType]:
    """Return a table, its title before it, so that a narrow table doesn't break a long title, and an empty line."""
    title, table.title = str(table.title), None
    return [Text(title, style="bold"), table, Text()]


def worst_sequences_table(report: Report) -> Table:
    """Return the sequences that look back furthest, by format."""
    names = [found.format.name for found in report.sequences if found.horizons is not None]
    table = framed("the sequences that look back furthest, and how far", names, ["left"] * len(names))
    for row in worst_rows(report.sequences):
        table.add_row(*row)
    return table


def worst_rows(sequences: Sequence[SequenceNeeds]) -> list[list[str]]:
    """Return the cells of the sequences that look back furthest, a column for each format."""
    columns = [[f"{place} {horizon}" for place, horizon in found.worst()] for found in sequences if found.horizons]
    return [list(row) for row in zip(*columns, strict=True)]


def summary_table(report: Report) -> Table:
    """Return the numbers that describe the recurrence."""
    s = report.summary
    table = framed("the recurrence", ["", "", "", ""], ["left", "right", "left", "right"], header=False)
    magnitude = " in magnitude" if s.dtype.startswith("complex") else ""
    norms = ("1", s.norm_1, s.cond_1), ("2", s.norm_2, s.cond_2), ("∞", s.norm_inf, s.cond_inf)
    left = [
        ("steps", f"{s.n} ({s.dtype})"),
        (f"coefficients after the first{magnitude}", f"{coefficient(s.smallest)} … {coefficient(s.largest)}"),
        ("of them zero, negative, above 1", f"{s.zeros}, {s.negative}, {s.above_one}"),
        ("growth, largest entry of L", number(s.growth)),
        ("horizon down to eps, median row", f"{s.horizon}, {s.median_horizon}"),
        ("largest state", f"{number(s.largest_state)} {report.problem.unit}".rstrip()),
    ]
    right = [(f"{name}-norm of L", number(norm)) for name, norm, _ in norms]
    right += [(f"condition in the {name}-norm", number(cond)) for name, _, cond in norms]
    for first, second in zip(left, right, strict=True):
        table.add_row(*first, *second)
    return table


def windows_table(report: Report) -> Table:
    """Return the relative error of the states for the inputs at hand, by block length and kind of window."""
    title = "for these inputs, largest error relative to the largest state: Jagged(k) with 1 to 3 terms, and Uniform(k)"
    table = framed(title, ["k", *_KINDS, "keeps", "uniform keeps"], ["right"] * 7)
    for k, costs in _by_length(report).items():
        cells = [_in_sight(cost.relative_error, number, report) for cost in costs]
        table.add_row(str(k), *cells, percent(costs[0].kept), percent(costs[-1].kept), style=_chosen(k, report))
    return table


def worst_table(report: Report) -> Table:
    """Return the relative error of the states for the worst inputs, by block length and kind of window."""
    table = framed("for the worst inputs there can be, the same error", ["k", *_KINDS], ["right"] * 5)
    for k, costs in _by_length(report).items():
        cells = [_in_sight(cost.relative_error_norm, number_at_most, report) for cost in costs]
        table.add_row(str(k), *cells, style=_chosen(k, report))
    return table


def _in_sight(error: float, written: Callable[[float], str], report: Report) -> str:
    """Return an error as text, or a note that it is too small for the number type to see."""
    return "< eps" if 0 < error < report.summary.eps else written(error)


_KINDS = (*(counted(terms, "term") for terms in TERMS), "uniform")


def _by_length(report: Report) -> dict[int, list[WindowCost]]:
    """Return the costs for each length: those of its jagged windows by terms, then that of its uniform window."""
    by_window = {cost.window: cost for cost in report.costs}
    # A uniform window keeps the fewest inputs of its length. If its error can't be seen, no error of that length can.
    costs = in_sight([c for c in report.costs if isinstance(c.window, Uniform)], report.summary.eps, report.block)
    lengths = [c.window.lags for c in costs if isinstance(c.window, Uniform)]
    return {k: [*(by_window[Jagged(k, terms)] for terms in TERMS), by_window[Uniform(k)]] for k in lengths}


def _chosen(k: int, report: Report) -> str:
    return "bold" if k == report.block else ""


def formats_table(report: Report) -> Table:
    """Return the effect of rounding on the coefficients and the window proved good enough, by number format."""
    title = (
        "number formats: coefficients after the first, horizons down to the unit roundoff, and windows that cost no "
        "more than rounding"
    )
    headings = ["", "largest", "become 1", "horizon", "median row", "good window", "loses"]
    table = framed(title, headings, ["left", *["right"] * 4, "left", "right"])
    for found in report.formats:
        table.add_row(found.format.name, *format_cells(found))
    return table


def format_cells(found: FormatSafety) -> list[str]:
    """Return the cells of one format in the table of formats, without its name."""
    if found.choice is None:
        return ["–"] * 4 + ["out of range", "–"]
    cells = [coefficient(found.largest), str(found.ones), str(found.largest_horizon), str(found.median_horizon)]
    return [*cells, found.window or "none", number_at_most(found.good.error) if found.good else "–"]


def verified_table(report: Report) -> Table:
    """Return the exactly measured errors of the report's jagged window and their bounds, by number format."""
    steps = first_steps(min(report.summary.n, STEPS))
    unit = f", in {report.problem.unit}" if report.problem.unit else ""
    title = f"errors of Jagged({report.block}) in number formats{unit}, measured exactly on {steps} of these inputs"
    headings = ["", "inputs off", "truncation", "rounding", "total", "proved bound", "error / bound", "holds"]
    table = framed(title, headings, ["left", *["right"] * 6, "left"])
    for found in report.formats:
        table.add_row(found.format.name, *verified_cells(found))
    return table


def verified_cells(found: FormatSafety) -> list[str]:
    """Return the cells of one format in the table of errors, without its name."""
    v = found.verification
    if v is None:
        return ["–"] * 6 + ["not measured"]
    values = v.truncation.largest, v.rounding.largest, v.total.largest, v.total.bound, v.total.ratio
    verdict = f"{v.nonfinite} overflow" if v.nonfinite else {True: "yes", False: "NO", None: "undecided"}[v.holds]
    return [percent_at_most(v.inputs_change), *map(number_at_most, values), verdict]
