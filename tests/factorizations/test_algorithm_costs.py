"""The cost table, against the algorithms written out on counting scalars in a counting memory."""

from functools import partial

import numpy as np
import pytest
from counting import Counted, Memory, Tally
from noted import in_turn

import recfact as rf
from recfact.errors import OptionError

PROBLEMS = [
    (1, 16, 1),
    (2, 1, 1),
    (5, 8, 2),
    (8, 2, 1),
    (16, 4, 1),
    (16, 4, 3),
    (17, 4, 2),
    (19, 4, 1),
    (23, 5, 2),
    (32, 16, 1),
    (33, 16, 2),
    (40, 1, 1),
    (64, 8, 2),
]


class Run:
    """One run of an algorithm in a counting memory.

    Places are ("a", i), products of coefficients taking the place of coefficients, ("x", i), the inputs standing where
    the states will, and ("s", t) for the carriers of blocks.
    """

    def __init__(self, n, channels):
        self.n, self.channels, self.tally, self.multipliers = n, channels, Tally(), 0
        values = {("a", i): Counted(self.tally) for i in range(n)}
        values |= {("x", i, c): Counted(self.tally) for i in range(n) for c in range(channels)}
        self.memory = Memory(values)

    def read(self, *place):
        """Return the value of every channel."""
        return [self.memory[*place, c] for c in range(self.channels)]

    def write(self, place, values):
        for c, value in enumerate(values):
            self.memory[*place, c] = value

    def multiply_add(self, own, factor, other):
        """Return own + factor * other for every channel."""
        self.multipliers += 1
        return [x + factor * y for x, y in zip(own, other, strict=True)]

    def update(self, rows, lag):
        """Add to each row its factor times the row `lag` above it, all rows at once."""
        new = {i: self.multiply_add(self.read("x", i), self.memory["a", i], self.read("x", i - lag)) for i in rows}
        for i, values in new.items():
            self.write(("x", i), values)

    def multiply(self, rows, lag):
        """Multiply the factor of each row by that of the row `lag` above it, all rows at once."""
        new = {i: self.memory["a", i] * self.memory["a", i - lag] for i in rows}
        for i, value in new.items():
            self.memory["a", i] = value

    def cost(self):
        states = [self.memory.values["x", i, c] for i in range(self.n) for c in range(self.channels)]
        depth = max(state.depth for state in states)
        return depth, self.tally.multiplications, self.tally.additions, self.memory.words, self.multipliers


def run_sequential(n, block, channels):
    run = Run(n, channels)
    with run.memory.stage():
        for i in range(1, n):
            run.update([i], 1)
    return run.cost()


def run_kogge_stone(n, block, channels):
    run, lag = Run(n, channels), 1
    while lag < n:
        with run.memory.stage():
            run.update(range(lag, n), lag)
            run.multiply(range(2 * lag, n), lag)
        lag *= 2
    return run.cost()


def run_brent_kung(n, block, channels):
    run, lag = Run(n, channels), 1
    while 2 * lag <= n:
        with run.memory.stage():
            run.update(range(2 * lag - 1, n, 2 * lag), lag)
            run.multiply(range(4 * lag - 1, n, 2 * lag), lag)
        lag *= 2
    while lag >= 1:
        with run.memory.stage():
            run.update(range(3 * lag - 1, n, 2 * lag), lag)
        lag //= 2
    return run.cost()


def solve_locally(run, steps, solver, entered):
    """Solve one block in place; return its propagation factors if a carrier enters it."""
    first, length = steps[0], len(steps)
    if length == 1:
        return {}
    if solver == "sequential":
        g = {}
        for i in steps[1:]:
            run.update([i], 1)
            if entered:
                g[i] = run.memory["a", i] * g.get(i - 1, run.memory["a", first])
        return g
    if solver == "scan":
        f, lag = {i: run.memory["a", i] for i in steps[0 if entered else 1 :]}, 1
        x = {i: run.read("x", i) for i in steps}
        while lag < length:
            x |= {i: run.multiply_add(x[i], f[i], x[i - lag]) for i in steps[lag:]}
            f |= {i: f[i] * f[i - lag] for i in steps[lag if entered else 2 * lag :]}
            lag *= 2
        for i in steps[1:]:
            run.write(("x", i), x[i])
        return {i: f[i] for i in steps[1:]} if entered else {}
    L = {}
    for i in steps[1:]:
        own = run.memory["a", i]
        L |= {(i, j): own * L[i - 1, j] for j in range(first, i - 1)} | {(i, i - 1): own}
    u = {i: run.read("x", i) for i in steps}
    for i in steps[1:]:
        x = u[i]
        for j in range(first, i):
            x = run.multiply_add(x, L[i, j], u[j])
        run.write(("x", i), x)
    return {i: L[i, first] * run.memory["a", first] for i in steps[1:]} if entered else {}


def run_hierarchical(n, block, channels, solver):
    run = Run(n, channels)
    blocks = [range(start, min(start + block, n)) for start in range(0, n, block)]
    with run.memory.stage():
        for t, steps in enumerate(blocks):
            for i, product in solve_locally(run, steps, solver, entered=t > 0).items():
                run.memory["a", i] = product
    carrier = {0: ("x", blocks[0][-1])}
    with run.memory.stage():
        for t, steps in enumerate(blocks[1:-1], start=1):
            carrier[t] = ("s", t)
            own, before = run.read("x", steps[-1]), run.read(*carrier[t - 1])
            run.write(carrier[t], run.multiply_add(own, run.memory["a", steps[-1]], before))
    with run.memory.stage():
        for t, steps in enumerate(blocks[1:], start=1):
            before = run.read(*carrier[t - 1])
            for i in steps:
                run.write(("x", i), run.multiply_add(run.read("x", i), run.memory["a", i], before))
    return run.cost()


def run_b2p(n, block, channels):
    run = Run(n, channels)
    blocks = [range(start, min(start + block, n)) for start in range(0, n, block)]
    with run.memory.stage():
        g = {}
        for t, steps in enumerate(blocks):
            g |= solve_locally(run, steps, "gemm", entered=t > 0)
        carriers = [run.read("x", steps[-1]) for steps in blocks[:-1]]
        for steps, carrier in zip(blocks[1:], carriers, strict=True):
            for i in steps:
                factor = g.get(i) or run.memory["a", i]
                run.write(("x", i), run.multiply_add(run.read("x", i), factor, carrier))
    return run.cost()


RUNS = {
    "sequential": run_sequential,
    "kogge-stone": run_kogge_stone,
    "brent-kung": run_brent_kung,
    **{f"hierarchical {solver}": partial(run_hierarchical, solver=solver) for solver in ("gemm", "scan", "sequential")},
    "b2p": run_b2p,
}


@pytest.mark.parametrize("algorithm", RUNS)
@in_turn("problem", PROBLEMS)
def test_costs_are_what_a_run_counts(algorithm, problem):
    n, block, channels = problem
    row = rf.cost_table(n, block=block, channels=channels)[algorithm]
    depth, multiplications, additions, words, nonzeros = RUNS[algorithm](*problem)
    assert (row.multiplications, row.additions, row.words, row.nonzeros) == (
        multiplications,
        additions,
        words,
        nonzeros,
    )
    # A step of the schedule may wait for nothing: the last row of Brent-Kung's up-sweep, or a shorter last block.
    slack = algorithm == "brent-kung" or (n % block > 0 and algorithm not in ("sequential", "kogge-stone"))
    assert depth <= row.depth <= depth + slack


def test_table_has_a_row_for_every_algorithm():
    table = rf.cost_table(64)
    assert [row.algorithm for row in table] == list(RUNS)
    assert len(table) == len(RUNS)
    with pytest.raises(KeyError, match="no algorithm 'magic'; the table has sequential, kogge-stone"):
        table["magic"]


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 1000])
def test_flat_rows_agree_with_the_chains(n):
    table = rf.cost_table(n)
    for name, make in (("kogge-stone", rf.KoggeStone), ("brent-kung", rf.BrentKung)):
        chain, row = make(np.full(n, 0.5)), table[name]
        assert (row.depth, row.nonzeros) == (chain.depth, chain.nnz)
        assert (row.multiplications, row.additions) == (chain.work.multiplications, chain.work.additions)


def test_huge_problems_cost_no_time():
    row = rf.cost_table(10**12, block=64, channels=1024)["hierarchical sequential"]
    assert row.additions == 1024 * row.nonzeros
    assert 2 * 10**12 < row.nonzeros + 10**12 / 32 < 2.1 * 10**12


def test_table_prints_aligned():
    lines = str(rf.cost_table(1000, block=10, channels=3)).splitlines()
    assert lines[0] == "n = 1000, block = 10, channels = 3"
    assert lines[1].split() == ["algorithm", "depth", "multiplications", "additions", "words", "nonzeros"]
    assert len({len(line) for line in lines[1:]}) == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"n": 0}, OptionError),
        ({"n": 2**70}, OptionError),
        ({"n": 8.0}, TypeError),
        ({"n": 8, "block": 0}, OptionError),
        ({"n": 8, "block": True}, TypeError),
        ({"n": 8, "channels": -1}, OptionError),
        ({"n": 8, "channels": "2"}, TypeError),
    ],
)
def test_bad_problems(arguments, error):
    with pytest.raises(error, match="must be"):
        rf.cost_table(**arguments)
