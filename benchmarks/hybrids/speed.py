"""Training steps a second of P, beside the same model with other ways to compute its recurrence, and beside T.

The ways are torch's own operations: a loop over all steps, a loop over the 16 steps of all blocks at once, and products
with 16 x 16 matrices. Each round times one step of every model, one after another, and the table shows medians over
rounds. A second table has the recurrence alone, beside an elementwise multiply. Forward and backward read and write at
least 5 arrays, and a multiply 3. The solve has to find new memory, so one of two multiplies does as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import recfact as rf
from benchmarks.hybrids.data import BATCH, LENGTH
from benchmarks.hybrids.model import Model
from benchmarks.hybrids.patterns import PATTERNS, SIZE
from benchmarks.hybrids.theory import solving

BLOCK = 16


def blocks(x: Tensor) -> Tensor:
    """Cut steps, the third axis from the end, into blocks; the last may need steps of zeros."""
    return functional.pad(x, (0, 0, 0, 0, 0, -x.shape[-3] % BLOCK)).unflatten(-3, (-1, BLOCK))


def with_carriers(local: Tensor, products: Tensor, n: int) -> Tensor:
    """Add to each block what the last step of the block before brings, as Jagged(16) has it."""
    before = functional.pad(local[:, :-1, -1:], (0, 0, 0, 0, 0, 0, 1, 0))
    return (local + products * before).flatten(1, 2)[:, :n]


def by_steps(a: Tensor, u: Tensor, **_: Any) -> Tensor:
    """Solve Jagged(16) step by step. `a` is (batch, n, heads, 1), `u` (batch, n, heads, d)."""
    states: list[Tensor] = []
    own = before = torch.zeros_like(u[:, 0])
    for place, (coefficient, value) in enumerate(zip(a.unbind(1), u.unbind(1), strict=True)):
        if place % BLOCK == 0:
            own, before = torch.zeros_like(own), own
        own, before = torch.addcmul(value, coefficient, own), coefficient * before
        states.append(own + before)
    return torch.stack(states, 1)


def by_places(a: Tensor, u: Tensor, **_: Any) -> Tensor:
    """Solve Jagged(16) by a loop over the places in a block."""
    states: list[Tensor] = []
    products: list[Tensor] = []
    for coefficient, value in zip(blocks(a).unbind(2), blocks(u).unbind(2), strict=True):
        states.append(torch.addcmul(value, coefficient, states[-1]) if states else value)
        products.append(coefficient * products[-1] if products else coefficient)
    return with_carriers(torch.stack(states, 2), torch.stack(products, 2), u.shape[1])


def by_matrices(a: Tensor, u: Tensor, **_: Any) -> Tensor:
    """Solve Jagged(16) by a product of each block with the matrix of its coefficients."""
    logs = blocks(a)[..., 0].movedim(-1, -2).clamp_min(1e-30).log().cumsum(-1)
    matrices = (logs[..., :, None] - logs[..., None, :]).tril().exp().tril()
    local = (matrices @ blocks(u).transpose(2, 3)).transpose(2, 3)
    return with_carriers(local, logs.exp().movedim(-1, -2)[..., None], u.shape[1])


def taken(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each call, over rounds that go through all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if number:  # the first round compiles, and finds memory
                seconds[name].append(time.perf_counter() - start)
    return {name: median(each) for name, each in seconds.items()}


def steps(rounds: int) -> dict[str, float]:
    """Return the seconds of a training step of each model."""
    tokens = torch.randint(256, (BATCH, LENGTH))

    def one(model: Model, way: Callable[..., Any] | None) -> None:
        with solving(way) if way else nullcontext():
            functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()

    ways = {
        "P": None,
        "P by a loop over steps": by_steps,
        "P by a loop over places": by_places,
        "P by 16 x 16 matrices": by_matrices,
        "T": None,
    }
    calls: dict[str, Callable[[], Any]] = {}
    for name, way in ways.items():
        pattern = PATTERNS[name[0]]
        model = Model(pattern.letters, **SIZE, options=pattern.options)
        calls[name] = partial(one, model, way)
    return taken(calls, rounds)


def recurrences(rounds: int) -> dict[str, float]:
    """Return the seconds of the recurrence alone, forward and backward, and those of a multiply of as many numbers."""
    shape = BATCH, LENGTH, 16, 16
    u, g, out = torch.randn(shape, requires_grad=True), torch.randn(shape), torch.empty(shape)
    a = torch.rand(*shape[:-1], 1, requires_grad=True)

    def both(way: Callable[..., Any], **options: Any) -> None:
        torch.autograd.grad(way(a, u, **options), (a, u), g)

    calls: dict[str, Callable[[], Any]] = {
        "multiply": lambda: torch.mul(u.detach(), g, out=out),
        "multiply, new memory": lambda: torch.mul(u.detach(), g),
        "Jagged(16)": lambda: both(rf.torch.solve, dim=1, window=rf.Jagged(BLOCK)),
        "Full()": lambda: both(rf.torch.solve, dim=1),
        "loop over steps": lambda: both(by_steps),
        "loop over places": lambda: both(by_places),
        "16 x 16 matrices": lambda: both(by_matrices),
    }
    return taken(calls, rounds)


def tables(rounds: int) -> str:
    """Return both tables as text."""
    whole, alone = steps(rounds), recurrences(rounds)
    lines = [
        f"{name:24}{1 / seconds:8.2f} steps a second{seconds / whole['P']:8.2f} of P" for name, seconds in whole.items()
    ]
    bound = 5 / 3 * alone["multiply"]
    lines += [
        f"{name:24}{1e3 * seconds:8.2f} ms{seconds / bound:20.2f} of 5/3 multiplies" for name, seconds in alone.items()
    ]
    return "\n".join(lines)
