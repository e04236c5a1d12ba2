"""Put a report together: solve the recurrence, describe it, and try the windows on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from recfact import __version__
from recfact.arrays import Array
from recfact.checks import positive_integer
from recfact.factorizations.algorithm_costs import CostTable, cost_table
from recfact.factorizations.transfer import TransferOperator
from recfact.plot.window_costs import WindowCost, enough_windows, standard_windows, window_costs, window_error
from recfact.precision import BlockFormat, FloatFormat
from recfact.precision.truncation.window_choice import WindowChoice
from recfact.report.batch import SequenceNeeds, needs_findings
from recfact.report.findings import findings
from recfact.report.problem import Problem
from recfact.report.safety import FormatSafety, chosen_formats, format_needs, verified
from recfact.report.summary import Summary, summarize, transfer_operator
from recfact.solve import solve
from recfact.windows import Jagged, Uniform, Window


def growing() -> Any:
    """Leave out NumPy's warnings: what grows beyond its number type is reported, by infinite norms and NaN errors."""
    return np.errstate(over="ignore", invalid="ignore", under="ignore")


@dataclass(frozen=True, eq=False)
class Report:
    """All results that the page, the terminal and the JSON text show about a recurrence, computed when first asked for.

    Parameters
    ----------
    problem : Problem
        The recurrence.
    block : int
        Block length that the report looks at closely.
    chosen : tuple of FloatFormat and BlockFormat
        The number formats that it looks at.
    sequences : list of SequenceNeeds
        The needs of all sequences, of which this one is the worst. Empty if it is the only sequence.
    step : callable
        Called with a word on what is computed next.
    """

    problem: Problem
    block: int
    chosen: tuple[FloatFormat | BlockFormat, ...]
    sequences: list[SequenceNeeds] = field(default_factory=list)
    step: Callable[[str], None] = lambda _: None

    @cached_property
    def x(self) -> Array:
        """Exact states, of shape (n,)."""
        self.step("solving")
        with growing():
            return np.asarray(solve(self.problem.a, self.problem.u))

    @cached_property
    def transfer(self) -> tuple[TransferOperator, str]:
        """The transfer operator, and its warning of growth, empty if it gives none."""
        with growing():
            return transfer_operator(self.problem.a)

    @cached_property
    def errors(self) -> dict[Window, Array]:
        """What the windows that are drawn change: exact states minus truncated states, each of shape (n,)."""
        drawn: tuple[Window, ...] = (Jagged(self.block), Uniform(self.block), Jagged(self.block, 2))
        with growing():
            return {window: window_error(self.transfer[0], window, self.problem.u) for window in drawn}

    @cached_property
    def summary(self) -> Summary:
        """Its numbers."""
        x, (transfer, warning) = self.x, self.transfer
        self.step("measuring norms and horizon")
        with growing():
            return summarize(transfer, x, warning)

    @cached_property
    def costs(self) -> list[WindowCost]:
        """What the windows would cost."""
        x, (transfer, _) = self.x, self.transfer
        windows = standard_windows(len(x), self.block)
        with growing():
            return window_costs(transfer, self.problem.u, x, windows, lambda: self.step("trying windows"))

    @cached_property
    def enough(self) -> dict[str, WindowChoice]:
        """The cheapest windows that are proved to lose no more than some limits, whatever the inputs are."""
        with growing():
            limits = {"0.1 %": 1e-3, f"the eps of {self.summary.dtype}": self.summary.eps}
            return enough_windows(self.problem.a, limits)

    @property
    def algorithms(self) -> CostTable:
        """What the algorithms that solve it would cost."""
        return cost_table(len(self.problem.a), block=self.block)

    @cached_property
    def unverified(self) -> list[FormatSafety]:
        """What is proved about it in number formats."""
        with growing():
            return [format_needs(self.problem.a, self.problem.u, fmt) for fmt in self.chosen]

    @cached_property
    def formats(self) -> list[FormatSafety]:
        """What is proved and measured about it in number formats."""
        found = []
        for each in self.unverified:
            self.step(f"verifying {each.format.name}")
            with growing():
                found.append(verified(each, self.problem.a, self.problem.u, self.block))
        return found

    @property
    def findings(self) -> list[str]:
        """Return the findings, as sentences."""
        own = findings(self.summary, self.costs, self.block, self.enough, self.formats, self.problem.unit)
        return [*needs_findings(self.sequences), *own]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: the same keys in every release of one major version."""
        return {
            "recfact": __version__,
            "title": self.problem.title,
            "source": self.problem.source,
            "block": self.block,
            "recurrence": self.summary.as_dict(),
            "windows": [cost.as_dict() for cost in self.costs],
            "algorithms": [asdict(cost) for cost in self.algorithms],
            "formats": [found.as_dict() for found in self.formats],
            "sequences": [found.as_dict() for found in self.sequences],
            "findings": self.findings,
        }


def build_report(
    problem: Problem,
    block: int = 16,
    step: Callable[[str], None] = lambda _: None,
    formats: Sequence[str] = (),
    sequences: Sequence[SequenceNeeds] = (),
) -> Report:
    """Return the report on `problem`, with everything computed.

    Parameters
    ----------
    problem : Problem
        The recurrence.
    block : int, default 16
        Block length to look at closely.
    step : callable, optional
        Called `report_steps` times, each time with a word on what comes next, for a progress bar.
    formats : sequence of str, optional
        The number formats to look at. By default the usual ones.
    sequences : sequence of SequenceNeeds, optional
        The needs of all sequences, if `problem` is one of several.

    Raises
    ------
    OptionError
        If there is no such format.

    Examples
    --------
    >>> from recfact.report.problem import bundled_problem
    >>> report = build_report(bundled_problem(), block=16)
    >>> report.summary.n, report.summary.horizon, len(report.costs)
    (2225, 154, 24)
    """
    report = Report(problem, positive_integer(block, "block"), chosen_formats(formats), list(sequences), step)
    for part in ("x", "errors", "summary", "costs", "enough", "formats"):
        getattr(report, part)
    return report


def report_steps(problem: Problem, block: int, formats: Sequence[str] = ()) -> int:
    """Return how often `build_report` calls its `step`."""
    return 2 + len(standard_windows(len(problem.a), block)) + len(chosen_formats(formats))
