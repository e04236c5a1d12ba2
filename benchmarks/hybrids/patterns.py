"""The language models that are compared, as rows: which layers they have, and which question they answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hybrids.data import corpus
from benchmarks.hybrids.model import Model
from benchmarks.hybrids.theory import held_out, judged
from benchmarks.hybrids.training import Run

STEPS = 900
"""Steps of training. Those of a search for the learning rate are a quarter."""

RATES = (3e-4, 1e-3, 3e-3, 1e-2)

SIZE = {"dim": 128, "heads": 8, "groups": 2, "vocabulary": 256}
"""Of the models: about 0.73 million parameters, and as many in a Phalanx layer as in attention."""


@dataclass(frozen=True)
class Pattern:
    """A model: the letters of its blocks (see `Model`), and the options of its Phalanx layers.

    `searched` is the pattern whose learning rate it takes. `shifted` says that in training each batch starts its blocks
    at another place.
    """

    letters: str
    what: str
    options: Mapping[str, Any] = field(default_factory=dict)
    searched: str = "P"
    shifted: bool = False


PATTERNS = {
    "T": Pattern("AAAA", "attention only", searched="T"),
    "S": Pattern("SASA", "attention in a window of 32 with sinks, 1:1", searched="S"),
    "P": Pattern("PAPA", "Phalanx with Jagged(16), 1:1", {"window": "jagged:16"}),
    "P31": Pattern("PPPA", "P at 3:1", {"window": "jagged:16"}),
    "F": Pattern("PAPA", "P without truncation", {"window": "full"}, searched="F"),
    "U": Pattern("PAPA", "P with Uniform(32)", {"window": "uniform:32"}),
    "P8": Pattern("PAPA", "P with Jagged(8)", {"window": "jagged:8"}),
    "P64": Pattern("PAPA", "P with Jagged(64)", {"window": "jagged:64"}),
    "m0": Pattern("PAPA", "P with Jagged(16, 0)", {"window": "jagged:16:0"}),
    "decay": Pattern("PAPA", "P with coefficients up to 0.8", {"window": "jagged:16", "most": 0.8}),
    "fixed": Pattern(
        "PAPA", "P with one learned coefficient a head", {"window": "jagged:16", "coefficient": "learned"}
    ),
    "nogate": Pattern("PAPA", "P without gates", {"window": "jagged:16", "gates": False}),
    "phase": Pattern("PAPA", "P with blocks at random places in training", {"window": "jagged:16"}, shifted=True),
}


def text_run(variant: str, seed: int, rate: float, text: str = "bible", steps: int = STEPS) -> Run:
    """Return the row of a pattern, a key of `PATTERNS`, on a text."""
    pattern, data = PATTERNS[variant], corpus(text)
    settings = {
        "letters": pattern.letters,
        "options": dict(pattern.options),
        "shifted": pattern.shifted,
        "rate": rate,
        "steps": steps,
        "text": [text, data.digest],
    }

    def batch(step: int) -> Any:
        shift = int(np.random.default_rng([seed, step]).integers(16)) if pattern.shifted else 0
        return *data.batch(seed, step), shift

    make = partial(Model, pattern.letters, **SIZE, options=pattern.options)
    return Run(f"{text}/{variant}", seed, settings, make, batch, lambda model, folder: judged(model, data, folder))


def rate_run(variant: str, rate: float) -> Run:
    """Return the row that tries a learning rate, for a quarter of the steps."""
    whole = text_run(variant, 0, rate, steps=STEPS // 4)
    return replace(whole, name=f"rate/{variant}-{rate:g}", judge=lambda model, _: held_out(model, corpus("bible")))


def best_rate(variant: str, results: Path) -> float:
    """Return the learning rate with the lowest loss in the search for a pattern."""
    losses = {}
    for rate in RATES:
        record = results / "rate" / f"{variant}-{rate:g}-0.json"
        if not record.exists():
            raise SystemExit(f"the learning rate isn't known yet: run rate/{variant}-{rate:g} first, seed 0")
        losses[json.loads(record.read_text(encoding="utf-8"))["measured"]["loss"]] = rate
    return losses[min(losses)]
