"""Training steps a second of P, beside the same model with other ways to compute its recurrence, and beside T.

The ways are torch's own operations: a loop over all steps, a loop over the 16 steps of all blocks at once, and products
with 16 x 16 matrices. Each round times one step of every model, one after another, and the table shows medians over
rounds.

A second table has the mixer alone, forward and backward, five times in a row in each round, beside a bound. The mixer
must read coefficients, gates and values twice and the gradient of its result once. It must write the result and four
gradients. The bound is the time of five multiplies, one for each array that is written, in proportion to the bytes:
together they read one array of values more than the mixer must. Both write new memory. The loops have rounds of their
own: they leave memory in pieces, and what comes next would look for new memory in all of them.
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
from recfact.gating import mixed
from recfact.torch.mixer import mix

BLOCK = 16
REPEATS = 5


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


def taken(calls: dict[str, Callable[[], Any]], rounds: int, repeats: int = 1) -> dict[str, float]:
    """Return the median seconds of each call, over rounds that make each of them `repeats` times in a row."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            for _ in range(repeats):
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


def mixers(rounds: int, heads: int) -> dict[str, float]:
    """Return the seconds of the mixer, forward and backward, and as "bound" those of multiplies of as many bytes."""
    groups, d = SIZE["groups"], SIZE["dim"] // SIZE["heads"]
    a = torch.rand(BATCH, LENGTH, heads)
    q, k = torch.randn(2, BATCH, LENGTH, groups, d)
    v, g = torch.randn(2, BATCH, LENGTH, heads, d)
    given = [one.clone().requires_grad_() for one in (a, q, k, v)]
    pairs = (a, a.clone()), (q, k), (k, q), (v, g), (v, g)

    def both(mixing: Callable[..., Tensor]) -> None:
        torch.autograd.grad(mixing(*given), given, g)

    def gated(way: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda *given: mixed(lambda a, u: (way(a, u), None), *given)[0]

    own: dict[str, Callable[..., Tensor]] = {
        "recfact, Jagged(16)": partial(mix, window=rf.Jagged(BLOCK)),
        "recfact, Full()": partial(mix, window=rf.Full()),
    }
    others: dict[str, Callable[..., Tensor]] = {
        "gates of torch, and solve": gated(partial(rf.torch.solve, dim=1, window=rf.Jagged(BLOCK))),
        "loop over steps": gated(by_steps),
        "loop over places": gated(by_places),
        "16 x 16 matrices": gated(by_matrices),
    }
    once: dict[str, Callable[[], Any]] = {"bound": lambda: [one * other for one, other in pairs]}
    found = taken(once | {name: partial(both, way) for name, way in own.items()}, rounds, REPEATS)
    found |= taken({name: partial(both, way) for name, way in others.items()}, rounds, REPEATS)
    small = 3 * (a.numel() + q.numel() + k.numel())
    found["bound"] *= (small + 5 * v.numel()) / (small + 6 * v.numel())
    return found


def tables(rounds: int) -> str:
    """Return both tables as text, the second one for the heads of P and for twice as many."""
    whole = steps(rounds)
    lines = [
        f"{name:28}{1 / seconds:8.2f} steps a second{seconds / whole['P']:8.2f} of P" for name, seconds in whole.items()
    ]
    for heads in (SIZE["heads"], 2 * SIZE["heads"]):
        alone = mixers(rounds, heads)
        lines += ["", f"the mixer of {heads} heads"]
        lines += [
            f"{name:28}{1e3 * seconds:8.2f} ms{seconds / alone['bound']:20.2f} of the bound"
            for name, seconds in alone.items()
        ]
    return "\n".join(lines)
