"""Made-up tasks that tell mechanisms apart better than text does: recall, parity, and copying over a gap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.hybrids.model import Model
from benchmarks.hybrids.training import NOTHING, Run

Examples = tuple[np.ndarray, np.ndarray]
"""Tokens, and what is to be said after each of them, or `NOTHING`."""

PAIRS, KINDS, REST = 8, 64, 48
"""Of recall: pairs of a sequence, how many keys and values there are, and steps after the pairs."""

LONGER = 256
"""Steps on which parity is judged, four times as many as in training."""

JUDGED = 256
"""Sequences on which a model is judged, for each gap."""

VALUES, GAPS = 8, 64
"""Of copying: kinds of marked tokens, and the longest gap."""


def recall(rng: np.random.Generator, count: int) -> Examples:
    """Return pairs of keys and values, then the keys among fillers: each asks for its value (MQAR, Arora et al. 2023).

    Token 0 fills, keys are 1 to KINDS - 1, and values KINDS to 2 KINDS - 1.
    """
    tokens = np.zeros((count, 2 * PAIRS + REST), np.int64)
    targets = np.full_like(tokens, NOTHING)
    keys = rng.permuted(np.tile(np.arange(1, KINDS), (count, 1)), axis=1)[:, :PAIRS]
    values = rng.integers(KINDS, 2 * KINDS, (count, PAIRS))
    tokens[:, : 2 * PAIRS : 2], tokens[:, 1 : 2 * PAIRS : 2] = keys, values
    places = 2 * PAIRS + rng.permuted(np.tile(np.arange(REST), (count, 1)), axis=1)[:, :PAIRS]
    np.put_along_axis(tokens, places, keys, 1)
    np.put_along_axis(targets, places, values, 1)
    return tokens, targets


def parity(rng: np.random.Generator, count: int, steps: int = LONGER // 4) -> Examples:
    """Return bits, and after each whether the number of ones so far is odd."""
    tokens = rng.integers(0, 2, (count, steps))
    return tokens, tokens.cumsum(1) % 2


def copying(rng: np.random.Generator, count: int, gap: int | None = None) -> Examples:
    """Return noise with one marked token, and a question for it that comes `gap` steps later, 1 to GAPS.

    Noise is 0 to VALUES - 1, the marked tokens are VALUES to 2 VALUES - 1, and the question is 2 VALUES.
    """
    tokens = rng.integers(0, VALUES, (count, GAPS + 32))
    targets = np.full_like(tokens, NOTHING)
    rows, places = np.arange(count), rng.integers(0, 32, count)
    gaps = rng.integers(1, GAPS + 1, count) if gap is None else gap
    marked = rng.integers(VALUES, 2 * VALUES, count)
    tokens[rows, places], tokens[rows, places + gaps], targets[rows, places + gaps] = marked, 2 * VALUES, marked
    return tokens, targets


def right(model: Model, examples: Examples) -> np.ndarray:
    """Return where the likeliest answer is the right one, and NaN where nothing is asked."""
    tokens, targets = examples
    found = model(torch.from_numpy(tokens)).argmax(-1).numpy() == targets
    return np.where(targets == NOTHING, np.nan, found)


def by_step(model: Model, rng: np.random.Generator) -> list[float]:
    """Return the share of right answers for each step of long sequences of bits."""
    shares: list[float] = right(model, parity(rng, JUDGED, LONGER)).mean(0).round(4).tolist()
    return shares


def by_gap(model: Model, rng: np.random.Generator) -> list[float]:
    """Return the share of right answers for each gap."""
    shares = [np.nanmean(right(model, copying(rng, JUDGED, gap))) for gap in range(1, GAPS + 1)]
    return [round(float(share), 4) for share in shares]


def at_once(model: Model, rng: np.random.Generator) -> list[float]:
    """Return the share of right answers as the one number of a list."""
    return [round(float(np.nanmean(right(model, recall(rng, JUDGED)))), 4)]


@dataclass(frozen=True)
class Task:
    """Examples, how a model is judged on them, and its size and training. `variants` names what is compared."""

    examples: Callable[[np.random.Generator, int], Examples]
    judge: Callable[[Model, np.random.Generator], list[float]]
    size: Mapping[str, int]
    batch: int
    steps: int
    rate: float
    variants: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)


WINDOWS = {"full": "full", "uniform": "uniform:32", "jagged": "jagged:16"}

TASKS = {
    "recall": Task(
        recall, at_once, {"dim": 64, "heads": 4, "groups": 4, "vocabulary": 2 * KINDS}, 32, 1500, 3e-3,
        {letters: (letters, {"window": "jagged:16"}) for letters in ("AA", "PA", "PP")},
    ),
    "parity": Task(
        parity, by_step, {"dim": 16, "heads": 4, "groups": 4, "vocabulary": 2}, 32, 200, 1e-2,
        {
            f"{kind}-{name}": ("P", {"window": WINDOWS[name], "coefficient": kind})
            for kind in ("tanh", "sigmoid")
            for name in ("full", "jagged")
        },
    ),
    "copying": Task(
        copying, by_gap, {"dim": 64, "heads": 4, "groups": 4, "vocabulary": 2 * VALUES + 1}, 32, 800, 3e-3,
        {name: ("P", {"window": window}) for name, window in WINDOWS.items()},
    ),
}  # fmt: skip


def task_run(kind: str, variant: str, seed: int, *, steps: int | None = None) -> Run:
    """Return the row of a task, a key of `TASKS`, for one of its variants."""
    task = TASKS[kind]
    letters, options = task.variants[variant]
    settings = {
        "letters": letters,
        "options": dict(options),
        "rate": task.rate,
        "steps": task.steps if steps is None else steps,
        "size": dict(task.size),
        "batch": task.batch,
    }

    def batch(step: int) -> tuple[Tensor, Tensor, int]:
        tokens, targets = task.examples(np.random.default_rng([seed, step]), task.batch)
        return torch.from_numpy(tokens), torch.from_numpy(targets), 0

    def judge(model: Model, _: Path) -> dict[str, Any]:
        return {"right": task.judge(model, np.random.default_rng(1 << 32))}

    return Run(f"{kind}/{variant}", seed, settings, partial(Model, letters, **task.size, options=options), batch, judge)
