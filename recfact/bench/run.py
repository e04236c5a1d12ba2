"""Run the benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from recfact import __version__
from recfact.arrays import Array
from recfact.bench import machine
from recfact.bench.cases import MULTIPLY, all_cases, inputs, short_call, tensor_calls
from recfact.bench.child import import_seconds
from recfact.bench.growth import Growth, measure_growth
from recfact.bench.memory import largest_extra
from recfact.bench.peers import PEERS
from recfact.bench.record import Record, Row
from recfact.bench.timing import Comparison, Effort, Quartiles, compare, interleave
from recfact.cpu.limits import processors
from recfact.errors import MissingExtraError
from recfact.solve import solve

Step = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """Sizes, and how long to measure.

    Parameters
    ----------
    numbers : int
        Numbers in each array.
    lengths : tuple of int
        Lengths of sequences at which growth is measured.
    passes : int
        How often all cases are measured, one after the other. A slow minute of the machine then affects a part of each.
    cases, growth, peers : Effort
        Effort for a case in a pass, for each length, and for the slow peers.
    imports : int
        Fresh processes that import recfact.
    """

    numbers: int
    lengths: tuple[int, ...]
    passes: int
    cases: Effort
    growth: Effort
    peers: Effort
    imports: int


FULL = Plan(
    numbers=1 << 23,
    lengths=tuple(1 << k for k in range(10, 27)),
    passes=5,
    cases=Effort(seconds=0.8, least=3, most=61, pause=0.01),
    growth=Effort(seconds=0.8, least=5, most=21, pause=0.005),
    peers=Effort(seconds=2.5, least=3, most=21, pause=0.01),
    imports=9,
)

_ONCE = Effort(seconds=0, least=1, most=1, pause=0)

_SHORT = tuple(1 << k for k in range(10, 15))

SMOKE = Plan(1 << 16, _SHORT, passes=1, cases=_ONCE, growth=_ONCE, peers=_ONCE, imports=1)


def steps(plan: Plan) -> int:
    """Return how often a run says what comes next."""
    return plan.passes * (len(list(all_cases())) + 1) + len(PEERS) + 4


def run(plan: Plan, step: Step) -> Record:
    """Run the benchmarks.

    Parameters
    ----------
    plan : Plan
        `FULL`, which takes about seven minutes and 1 GiB, or `SMOKE`, which only shows that everything runs.
    step : callable
        Is called with a word on what comes next.
    """
    skipped: dict[str, str] = {}
    rows = [*measure_cases(plan, step, skipped), *measure_process(plan, step, skipped)]
    step("growth with the length")
    growth = measure_growth(plan.lengths, plan.growth)
    # The peers come last, because their libraries leave threads behind.
    rows += [growth_row(growth), *measure_tensors(plan, step, skipped), *measure_peers(plan, step, skipped)]
    today = datetime.now(UTC).date().isoformat()
    return Record(__version__, today, plan is SMOKE, machine.describe(), tuple(rows), growth, skipped)


def measure_cases(plan: Plan, step: Step, skipped: dict[str, str]) -> Iterator[Row]:
    """Time the cases whose figures are ratios, and a short call."""
    available = processors()
    cases = []
    for case in all_cases():
        if case.cores > available:
            skipped[case.name] = f"needs {case.cores} processors, and this process may use {available}"
        else:
            cases.append(case)
    rounds: dict[str, list[tuple[float, ...]]] = {case.name: [] for case in cases}
    calls: list[float] = []
    for _ in range(plan.passes):
        for case in cases:
            step(case.name)
            rounds[case.name] += interleave(case.make(plan.numbers), plan.cases)  # whose arrays are gone afterwards
        step("a short call")
        calls += [1e6 * seconds for (seconds,) in interleave((short_call(),), plan.cases)]
    for case in cases:
        yield Row.ratio(case.name, case.against, Comparison.of(rounds[case.name]), case.at_most)
    yield Row("one call with n = 1000, float32", "", "µs", Quartiles.of(calls), 10)


def measure_process(plan: Plan, step: Step, skipped: dict[str, str]) -> Iterator[Row]:
    """Measure the other costs of recfact: the time before it starts, and memory."""
    step("import")
    import_seconds("recfact")  # reads the files from disk
    rounds = [(import_seconds("recfact"), import_seconds("numpy")) for _ in range(plan.imports)]
    ours, numpys = (Quartiles.of(sample) for sample in zip(*rounds, strict=True))
    yield Row("import recfact", f"of which numpy takes {numpys.median:.2f} s", "s", ours, 0.35)

    step("extra memory")
    name = "memory beyond inputs and output"
    if Path("/proc/self/clear_refs").exists():
        worst, extra = largest_extra(plan.numbers)
        yield Row.amount(name, f"the most: {worst}", "MiB", extra, 4)
    else:
        skipped[name] = "only Linux tells a process the peak of its memory from now on"


def measure_tensors(plan: Plan, step: Step, skipped: dict[str, str]) -> Iterator[Row]:
    """Measure the extra time of a short call of `recfact.torch.solve` over one of `solve`."""
    case = "recfact.torch.solve beyond solve, n = 100, float32"
    step(case)
    try:
        rounds = interleave(tensor_calls(), plan.cases)
    except MissingExtraError as error:
        skipped[case] = str(error)
        return
    alone = 1e6 * median(seconds for _, seconds in rounds)
    beyond = Quartiles.of([1e6 * (ours - seconds) for ours, seconds in rounds])
    yield Row(case, f"solve of tensors takes {alone:.0f} µs", "µs", beyond, 60)


def growth_row(growth: Growth) -> Row:
    """Make the line on the growth of time."""
    solve, multiply = growth.exponents()
    first, last = (n.bit_length() - 1 for n in (growth.fitted_from, growth.numbers[-1]))
    case = f"growth of time, n = 2^{first} to 2^{last}, float32"
    return Row.amount(case, f"np.multiply: n^{multiply:.2f}", "power", solve)


def measure_peers(plan: Plan, step: Step, skipped: dict[str, str]) -> Iterator[Row]:
    """Time the peers that are installed."""
    a, u, x = inputs((plan.numbers,))
    multiply = partial(np.multiply, a, u, out=x)
    same = np.full_like(a, 0.9)
    for peer in PEERS:
        step(peer.name)
        coefficients = same if peer.constant else a
        try:
            call = peer.make(coefficients, u)
        except ImportError as error:
            skipped[peer.name] = f"{error}; install it with: pip install {peer.package}"
            continue
        difference = largest_difference(call, coefficients, u)
        found = compare(call, multiply, plan.peers)
        yield Row.ratio(f"peer: {peer.name}, float32", MULTIPLY, found, difference=difference)


def largest_difference(call: Callable[[], Any], a: Array, u: Array) -> float:
    """Return the largest difference of a peer's states from recfact's, relative to the largest state."""
    states = solve(a, u)
    largest = float(np.abs(states).max())
    states -= np.asarray(call()).reshape(-1)
    return float(np.abs(states).max()) / largest
