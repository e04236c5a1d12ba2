"""The tables of the page, of the rows that have been run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.hybrids.patterns import PATTERNS, RATES
from benchmarks.hybrids.tasks import TASKS
from benchmarks.hybrids.theory import CUTS
from recfact.windows import check_window

Records = dict[str, dict[int, dict[str, Any]]]
"""Records by name and seed."""

CORPORA = {"bible": "King James Bible", "python": "Python's standard library"}


def records(results: Path) -> Records:
    """Return all records in a folder."""
    found: Records = {}
    for path in sorted(results.rglob("*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise SystemExit(f"{path} is damaged ({error}); take it back from git, or remove it") from error
        found.setdefault(record["name"], {})[record["seed"]] = record
    return found


def summary(record: dict[str, Any]) -> str:
    """Return what a row found, in a line."""
    if "loss" in record["measured"]:
        return f"{record['name']}, seed {record['seed']}: {record['measured']['loss']:.4f} bits a byte"
    answers = record["measured"]["right"]
    return f"{record['name']}, seed {record['seed']}: {sum(answers) / len(answers):.3f} of the answers are right"


def spread(values: Iterable[float], digits: int = 3, sign: str = "") -> str:
    """Return the mean of values, and their range if they differ in print. What rounds to zero has no sign."""
    listed = list(values)
    if not listed:
        return ""
    mean, least, most = (
        f"{value:{sign}.{digits}f}" if round(value, digits) else f"{0:.{digits}f}"
        for value in (sum(listed) / len(listed), min(listed), max(listed))
    )
    text = mean if least == most else f"{mean} ({least} to {most})"
    return text.replace("-", "−")


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, or nothing without rows."""
    lines = ["| " + " | ".join(cells) + " |" for cells in rows]
    return "\n".join(["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles), *lines]) if lines else ""


def losses(found: Records, text: str) -> str:
    """Return the losses of all patterns on a text, and the differences to P of the same seed."""
    base = found.get(f"{text}/P", {})
    rows = []
    for variant, pattern in PATTERNS.items():
        seeds = found.get(f"{text}/{variant}", {})
        if not seeds:
            continue
        loss = {seed: record["measured"]["loss"] for seed, record in seeds.items()}
        apart = [loss[seed] - base[seed]["measured"]["loss"] for seed in loss if seed in base]
        first = next(iter(seeds.values()))
        difference = "" if variant == "P" else spread(apart, 4, "+")
        size = f"{first['parameters']:,}".replace(",", "\N{NO-BREAK SPACE}")
        rate = f"{first['settings']['rate']:g}"
        rows.append(
            (variant, pattern.what, pattern.letters, size, rate, str(len(seeds)), spread(loss.values()), difference)
        )
    titles = ("id", "model", "blocks", "weights", "rate", "seeds", "bits a byte", "minus P, same seed")
    return table(titles, rows)


def rates(found: Records) -> str:
    """Return the losses of the search for the learning rate."""
    rows = []
    for variant in PATTERNS:
        kept = [found.get(f"rate/{variant}-{rate:g}", {}) for rate in RATES]
        if any(kept):
            rows.append((variant, *(spread(each["measured"]["loss"] for each in seeds.values()) for seeds in kept)))
    return table(("id", *(f"{rate:g}" for rate in RATES)), rows)


def with_recurrences(found: Records, text: str) -> dict[str, list[dict[str, Any]]]:
    """Return what was measured of each pattern that has Phalanx layers, over seeds."""
    measured = {
        variant: [record["measured"] for record in found.get(f"{text}/{variant}", {}).values()] for variant in PATTERNS
    }
    return {variant: kept for variant, kept in measured.items() if kept and "cuts" in kept[0]}


def cuts(found: Records, text: str) -> str:
    """Return how the loss changes if the window of a trained model is changed."""
    rows = [
        (variant, *(spread([each["cuts"][window] for each in kept], 4, "+") for window in CUTS))
        for variant, kept in with_recurrences(found, text).items()
    ]
    return table(("trained as", *(f"`{window}`" for window in CUTS)), rows)


def others(found: Records, text: str) -> str:
    """Return how the loss changes with the number type, with the place of blocks, and with the proved window."""
    rows = []
    for variant, kept in with_recurrences(found, text).items():
        proved = [each for each in kept if each["proved"]]
        windows = ", ".join(each["proved"] or "none" for each in kept)
        rows.append(
            (
                variant,
                spread([each["bfloat16"] for each in kept], 4, "+"),
                spread([each["shifted"] for each in kept], 4, "+"),
                windows,
                spread([each["cuts"][each["proved"]] for each in proved], 4, "+"),
            )
        )
    titles = ("trained as", "in bfloat16", "blocks 8 steps late", "proved windows", "run with its proved window")
    return table(titles, rows)


def length(window: str | None) -> float:
    """Return the block of a jagged window, and infinity where there is no window."""
    return math.inf if window is None else check_window(window).block


def coefficients(found: Records, text: str) -> str:
    """Return what recfact says about the coefficients of each layer, over its heads and seeds."""
    rows = []
    for variant, kept in with_recurrences(found, text).items():
        for number in range(len(kept[0]["layers"])):
            layers = [each["layers"][number] for each in kept]
            heads = [head for layer in layers for head in layer["heads"]]
            proved = sorted({head["window"] for head in heads}, key=length)
            rows.append(
                (
                    variant,
                    str(number + 1),
                    spread([head["median"] for head in heads]),
                    spread([head["beyond"] for head in heads if head["beyond"] is not None]),
                    spread([head["cut off"] for head in heads]),
                    " to ".join(dict.fromkeys((proved[0] or "none", proved[-1] or "none"))),
                    spread([layer["truncation"]["largest"] for layer in layers]),
                    spread([layer["rounding"]["largest"] for layer in layers]),
                    "yes" if all(layer["holds"] for layer in layers) else "no",
                )
            )
    titles = (
        "trained as",
        "layer",
        "median coefficient",
        "weight from lag 32 on",
        "cut off by Jagged(16)",
        "proved windows",
        "truncation",
        "rounding",
        "bounds hold",
    )
    return table(titles, rows)


def answers(found: Records, kind: str) -> str:
    """Return the shares of right answers in a task."""
    rows = []
    for variant in TASKS[kind].variants:
        seeds = found.get(f"{kind}/{variant}", {})
        if seeds:
            shares = [record["measured"]["right"] for record in seeds.values()]
            rows.append((f"`{variant}`", str(len(seeds)), spread(sum(each) / len(each) for each in shares)))
    return table(("model", "seeds", "right answers"), rows)


def machines(found: Records) -> str:
    """Return on what the rows were run, and how long that took."""
    kept = [record for seeds in found.values() for record in seeds.values()]
    names = dict.fromkeys(
        f"{each['machine']['processor']}, torch {each['machine']['packages']['torch']}, "
        f"Python {each['machine']['python']}"
        for each in kept
    )
    hours = sum(record["minutes"] for record in kept) / 60
    how = f"{hours:.1f} hours in all, one core each and some beside other work"
    return f"{len(kept)} runs, {how}: {'; '.join(names)}." if kept else ""
