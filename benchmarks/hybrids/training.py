"""Training that saves itself and goes on where it stopped, with the same bits as if it hadn't stopped."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.hybrids.model import Model
from recfact.bench.machine import describe

NOTHING = -100
"""The target of a step that isn't asked."""

EVERY = 180.0
"""Seconds from one checkpoint to the next."""

SPAN = 10
"""Steps whose mean loss is one number of a record."""


@dataclass(frozen=True)
class Run:
    """One row of a table for one seed.

    Parameters
    ----------
    name : str
        Kind and variant, such as "bible/P".
    seed : int
        Of the weights and of the order of the data.
    settings : dict
        What the row is, in plain values: the `steps` and the `rate` of training, and what the rest depends on.
    make : callable
        Returns the model with new weights.
    batch : callable
        Takes the number of a step. Returns tokens and targets, and how many steps late blocks start.
    judge : callable
        Takes the trained model and a folder for files. Returns what was measured, in plain values.
    """

    name: str
    seed: int
    settings: dict[str, Any]
    make: Callable[[], Model]
    batch: Callable[[int], tuple[Tensor, Tensor, int]]
    judge: Callable[[Model, Path], dict[str, Any]]

    @property
    def place(self) -> str:
        """The path of the row's files below a folder."""
        return f"{self.name}-{self.seed}"


def train(
    run: Run, work: Path, results: Path, report: Callable[[int, float], None], every: float = EVERY
) -> dict[str, Any]:
    """Train the model of a row from its last checkpoint on, judge it, and keep the record.

    Parameters
    ----------
    work, results : Path
        Folders for checkpoints, and for records.
    report : callable
        Is called after each step with the number of steps done and the loss in bits.
    every : float
        Seconds between checkpoints.
    """
    folder = (results / run.place).parent
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise SystemExit(f"{folder} must be writable, for the record of the row")
    torch.manual_seed(run.seed)
    model = run.make()
    optimiser = torch.optim.AdamW(groups_of(model), betas=(0.9, 0.95))
    steps, rate = run.settings["steps"], run.settings["rate"]
    settings = {**run.settings, "seed": run.seed}
    checkpoint = work / f"{run.place}.pt"
    losses, seconds = [], 0.0
    if checkpoint.exists():
        kept = read(checkpoint)
        if kept["settings"] != settings:
            raise SystemExit(f"{checkpoint} is of other settings, {kept['settings']}; remove it to start anew")
        model.load_state_dict(kept["model"])
        optimiser.load_state_dict(kept["optimiser"])
        losses, seconds = kept["losses"], kept["seconds"]
    started, saved = time.monotonic() - seconds, seconds

    def save() -> None:
        parts = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "settings": settings}
        replace(checkpoint, lambda path: torch.save({**parts, "losses": losses, "seconds": seconds}, path))

    for step in range(len(losses), steps):
        for group in optimiser.param_groups:
            group["lr"] = rate * schedule(step, steps)
        tokens, targets, shift = run.batch(step)
        loss = functional.cross_entropy(model(tokens, shift).flatten(0, 1), targets.flatten(), ignore_index=NOTHING)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item() / math.log(2))
        seconds = time.monotonic() - started
        if step + 1 == steps or seconds - saved >= every:
            saved = seconds
            save()
        report(step + 1, losses[-1])
    model.eval()
    record = {
        "name": run.name,
        "seed": run.seed,
        "settings": run.settings,
        "parameters": sum(weights.numel() for weights in model.parameters()),
        "losses": [round(sum(part) / len(part), 4) for part in spans(losses)],
        "minutes": round(seconds / 60, 1),
        "machine": describe(),
    }
    with torch.no_grad():
        record["measured"] = run.judge(model, work / run.place)
    text = json.dumps(record, indent=1) + "\n"
    replace(results / f"{run.place}.json", lambda path: path.write_text(text, encoding="utf-8"))
    return record


def read(checkpoint: Path) -> dict[str, Any]:
    """Return what a checkpoint holds, or end with a line that says that it is damaged."""
    try:
        kept: dict[str, Any] = torch.load(checkpoint)
    except (EOFError, OSError, RuntimeError, UnpicklingError) as error:
        raise SystemExit(f"{checkpoint} is damaged ({error}); remove it to start anew") from error
    return kept


def groups_of(model: Model) -> list[dict[str, Any]]:
    """Return the parameters in two groups: matrices, whose weights decay, and the others."""
    parameters = list(model.parameters())
    return [
        {"params": [each for each in parameters if each.ndim > 1], "weight_decay": 0.1},
        {"params": [each for each in parameters if each.ndim <= 1], "weight_decay": 0.0},
    ]


def schedule(step: int, steps: int) -> float:
    """Return the factor of the learning rate: a rise over the first 5 %, then half a cosine down to a tenth."""
    rise = min(1.0, (step + 1) / (0.05 * steps))
    return rise * (0.55 + 0.45 * math.cos(math.pi * step / steps))


def spans(losses: list[float]) -> list[list[float]]:
    """Cut losses into spans."""
    return [losses[start : start + SPAN] for start in range(0, len(losses), SPAN)]


def replace(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file that appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f"{path.name}.{os.getpid()}")
    write(half)
    half.replace(path)
