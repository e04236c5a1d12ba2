"""Put a report together: solve the recurrence, describe it, and try the windows on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from recfact import __version__
from recfact.arrays import Array
from recfact.checks import positive_integer
from recfact.factorizations.algorithm_costs import CostTable, cost_table
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.truncation.window_choice import WindowChoice
from recfact.report.problem import Problem
from recfact.report.safety import FormatSafety, chosen_formats, safety
from recfact.report.summary import Summary, summarize, transfer_operator
from recfact.report.window_costs import WindowCost, enough_windows, standard_windows, window_costs, window_error
from recfact.report.words import findings
from recfact.solve import solve
from recfact.windows import Jagged, Uniform, Window


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that the page, the terminal and the JSON text say about a recurrence.

    Parameters
    ----------
    problem : Problem
        The recurrence.
    block : int
        Block length that the report looks at closely.
    x : ndarray, shape (n,)
        Exact states.
    errors : dict of window to ndarray, shape (n,)
        What the windows that are drawn change: exact states minus truncated states.
    summary : Summary
        Its numbers.
    costs : list of WindowCost
        What the windows would cost.
    enough : dict of str to WindowChoice
        The cheapest windows that are proved to lose no more than some limits, whatever the inputs are.
    algorithms : CostTable
        What the algorithms that solve it would cost.
    formats : list of FormatSafety
        What is proved and measured about it in number formats.
    """

    problem: Problem
    block: int
    x: Array
    errors: dict[Window, Array]
    summary: Summary
    costs: list[WindowCost]
    enough: dict[str, WindowChoice]
    algorithms: CostTable
    formats: list[FormatSafety]

    @property
    def findings(self) -> list[str]:
        """What the numbers say, in sentences."""
        return findings(self.summary, self.costs, self.block, self.enough, self.formats)

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
            "findings": self.findings,
        }


def build_report(
    problem: Problem, block: int = 16, step: Callable[[str], None] = lambda _: None, formats: Sequence[str] = ()
) -> Report:
    """Return the report on `problem`.

    Parameters
    ----------
    problem : Problem
        The recurrence.
    block : int, default 16
        Block length to look at closely.
    step : callable, optional
        Called with a word on what comes next, for a progress bar: `report_steps` times in all.
    formats : sequence of str, optional
        The number formats to look at; the usual ones if none is given.

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
    block = positive_integer(block, "block")
    # A recurrence that grows beyond its number type is reported as such: infinite norms, NaN errors.
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return _build(problem, block, step, chosen_formats(formats))


def _build(problem: Problem, block: int, step: Callable[[str], None], formats: tuple[FloatFormat, ...]) -> Report:
    step("solving")
    x = np.asarray(solve(problem.a, problem.u))
    drawn: tuple[Window, ...] = (Jagged(block), Uniform(block), Jagged(block, 2))
    step("measuring norms and horizon")
    transfer, warning = transfer_operator(problem.a)
    errors = {window: window_error(transfer, window, problem.u) for window in drawn}
    summary = summarize(transfer, x, warning)
    windows = standard_windows(len(x), block)
    costs = window_costs(transfer, problem.u, x, windows, lambda: step("trying windows"))
    enough = enough_windows(problem.a, {"one in a thousand": 1e-3, f"the eps of {summary.dtype}": summary.eps})
    safe = safety(problem.a, problem.u, formats, block, step)
    return Report(problem, block, x, errors, summary, costs, enough, cost_table(len(x), block=block), safe)


def report_steps(problem: Problem, block: int, formats: Sequence[str] = ()) -> int:
    """Return how often `build_report` calls its `step`."""
    return 2 + len(standard_windows(len(problem.a), block)) + len(chosen_formats(formats))
