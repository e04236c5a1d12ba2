"""Every row by its name, and the order in which they are worth their time."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from benchmarks.hybrids.patterns import PATTERNS, RATES, best_rate, rate_run, text_run
from benchmarks.hybrids.tasks import TASKS, task_run
from benchmarks.hybrids.training import Run

HERE = Path(__file__).parent
RESULTS = HERE / "results"
WORK = HERE.parents[1] / "build" / "hybrids"
"""Where checkpoints and coefficients lie. Git ignores it."""

MAIN = ("P", "F", "T", "S", "U", "decay", "fixed", "nogate")
SEARCHED = ("P", "F", "T", "S")
"""The patterns that have a search for the learning rate of their own."""

SEEDS = (0, 1, 2)


def stages() -> list[list[tuple[str, int]]]:
    """Return names and seeds of all rows, in stages. A stage needs what the stages before it found."""
    tasks = [(f"{kind}/{variant}", seed) for kind, task in TASKS.items() for variant in task.variants for seed in SEEDS]
    rates = [(f"rate/{variant}-{rate:g}", 0) for variant, rate in product(SEARCHED, RATES)]
    main = [(f"bible/{variant}", seed) for seed, variant in product(SEEDS, MAIN)]
    others = [(f"bible/{variant}", 0) for variant in PATTERNS if variant not in MAIN]
    python = [(f"python/{variant}", seed) for seed, variant in product(SEEDS, SEARCHED)]
    again = [(name, seed) for seed, (name, _) in product(SEEDS[1:], others)]
    return [rates, main, tasks, others, python, again]


def row(name: str, seed: int, results: Path = RESULTS) -> Run:
    """Return the row of a name such as "bible/P", "rate/T-0.01" or "recall/PA"."""
    if (name, seed) not in {each for stage in stages() for each in stage}:
        raise SystemExit(f"there is no row {name} of seed {seed}; `python -m benchmarks.hybrids rows` lists them")
    kind, variant = name.split("/")
    if kind in TASKS:
        return task_run(kind, variant, seed)
    if kind == "rate":
        pattern, rate = variant.split("-", 1)
        return rate_run(pattern, float(rate))
    return text_run(variant, seed, best_rate(PATTERNS[variant].searched, results), kind)
