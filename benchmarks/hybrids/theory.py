"""What a trained model loses if its windows are cut, and what recfact says about its coefficients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import recfact as rf
from benchmarks.hybrids.data import Corpus
from benchmarks.hybrids.model import Model
from recfact.gating import mixed
from recfact.precision import choose_window, verify
from recfact.windows import Window, check_window, window_text

HELD, PART = 512, 64
"""About how many sequences the loss is measured on, and its changes."""

CUTS = ("jagged:4", "jagged:8", "jagged:16:0", "jagged:16", "jagged:32", "jagged:64", "uniform:32", "full")
"""Windows that each model is run with after training."""

LAGS = 32
"""The first lag that no step of Jagged(16) keeps."""

SHIFT = 8
"""How many steps late blocks start in the measurement of whether that matters."""


def judged(model: Model, text: Corpus, folder: Path) -> dict[str, Any]:
    """Return the loss on bytes that are held out, and where there are recurrences how it changes; keep coefficients.

    All losses are in bits a byte. The coefficients of the first sequences are kept as gates-0.npy and so on, one file a
    layer, of shape (sequences, steps, heads).
    """
    found: dict[str, Any] = held_out(model, text)
    layers = [module for module in model.modules() if isinstance(module, rf.torch.Phalanx)]
    if not layers:
        return found
    part, own = text.held(PART), layers[0].window
    found["part"] = bits(model, part)
    found["shifted"] = bits(model, part, SHIFT) - found["part"]
    with solving(lambda a, u, **options: rf.torch.solve(a.bfloat16(), u.bfloat16(), **options)):
        found["bfloat16"] = bits(model, part) - found["part"]
    solved = recorded(model, part[0][0])
    proved = choose_window(np.stack([a for a, _ in solved]), format="bfloat16", axis=2).window
    found["proved"] = proved and window_text(proved)
    found["cuts"] = {}
    for window in dict.fromkeys((*CUTS, found["proved"] or CUTS[0])):
        for layer in layers:
            layer.window = check_window(window)
        found["cuts"][window] = bits(model, part) - found["part"]
    folder.mkdir(parents=True, exist_ok=True)
    found["layers"] = []
    for number, (layer, (a, u)) in enumerate(zip(layers, solved, strict=True)):
        layer.window = own
        np.save(folder / f"gates-{number}.npy", a)
        checked = verify(a[0], u[0, ..., 0], window=own, format="bfloat16", axis=0).to_dict()
        found["layers"].append(
            {"heads": [head(a[..., place], u[:, :, place]) for place in range(a.shape[2])]}
            | {what: checked[what] for what in ("holds", "truncation", "rounding")}
        )
    return found


def held_out(model: Model, text: Corpus) -> dict[str, float]:
    """Return the loss on bytes that are held out."""
    return {"loss": bits(model, text.held(HELD))}


def bits(model: Model, batches: list[tuple[Tensor, Tensor]], shift: int = 0) -> float:
    """Return the mean loss over batches, in bits a token."""
    losses = [
        functional.cross_entropy(model(tokens, shift).flatten(0, 1), targets.flatten(), reduction="sum")
        for tokens, targets in batches
    ]
    return float(sum(losses)) / sum(targets.numel() for _, targets in batches) / math.log(2)


def head(a: np.ndarray, u: np.ndarray) -> dict[str, Any]:
    """Return what recfact says about the coefficients of a head.

    Parameters
    ----------
    a, u : ndarray, shape (sequences, n) and (sequences, n, d)
    """
    wide, ones = a.astype(np.float64), np.ones_like(a, np.float64)
    whole, near = rf.solve(wide, ones), rf.solve(wide, ones, window=rf.Uniform(LAGS))
    x = rf.solve(a[..., None], u, axis=1)
    cut = x - rf.solve(a[..., None], u, axis=1, window=rf.Jagged(16))
    window = choose_window(a, format="bfloat16", axis=1).window
    return {
        "median": float(np.median(a)),
        "beyond": float(np.mean((whole - near) / whole)) if (a >= 0).all() else None,
        "cut off": float(np.sqrt(np.mean(cut**2) / np.mean(x**2))),
        "window": window and window_text(window),
    }


def recorded(model: Model, tokens: Tensor) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the coefficients and inputs that each recurrence gets, (batch, n, heads) and (batch, n, heads, d)."""
    found = []

    def keep(a: Tensor, u: Tensor, **options: Any) -> Any:
        found.append((a.expand(*u.shape[:-1], 1)[..., 0].numpy(), u.numpy()))
        return rf.torch.solve(a, u, **options)

    with solving(keep), torch.no_grad():
        model(tokens)
    return found


@contextmanager
def solving(solve: Callable[..., Any]) -> Iterator[None]:
    """Let Phalanx layers solve their recurrence by another function, between gates that torch multiplies."""

    def mix(a: Tensor, q: Any, k: Any, v: Tensor, window: Window) -> Tensor:
        y: Tensor = mixed(lambda a, u: (solve(a, u, dim=-3, window=window), None), a, q, k, v)[0]
        return y

    with patch("recfact.torch.phalanx.mix", mix):
        yield
