"""The mixer of a Phalanx layer as one differentiable operator, and as the operations it is made of.

On the CPU a kernel reads and writes each number once, forward and backward. Everything that it doesn't do is composed
of `recurrence` and of torch's operations: other devices, number types and layouts, windows of more terms, second
derivatives, forward mode, torch.func and torch.compile.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from recfact.arrays import holds_memory
from recfact.gating import mixed
from recfact.gradients.time_first import summed
from recfact.torch.operators import recurrence
from recfact.windows import Window

NUMBERS = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}


def mix(a: Tensor, q: Tensor | None, k: Tensor | None, v: Tensor, window: Window) -> Tensor:
    """Return q x + v, where x solves the recurrence with inputs k v. The arguments are those of `recfact.phalanx`."""
    mixer = None if torch.compiler.is_compiling() else _in_one_pass(a, q, k, v, window)
    if mixer is None:
        return composed(a, q, k, v, window)
    y: Tensor = Mix.apply(a, q, k, v, window, mixer)
    return y


def composed(a: Tensor, q: Tensor | None, k: Tensor | None, v: Tensor, window: Window) -> Tensor:
    """Return what `mix` does, by a product, a solve, and a product and a sum."""
    y: Tensor = mixed(lambda a, u: (recurrence(a, u, None, None, -3, False, window), None), a, q, k, v)[0]
    return y


def _in_one_pass(a: Tensor, q: Tensor | None, k: Tensor | None, v: Tensor, window: Window) -> Any:
    """Return the engine's mixer for these tensors, or None."""
    gates = [gate for gate in (q, k) if gate is not None]
    given = [a, v, *gates]
    if v.dtype not in NUMBERS or any(one.dtype != v.dtype or one.device.type != "cpu" for one in given):
        return None
    ordered = all(one.is_contiguous() for one in given[1:]) and len({gate.shape for gate in gates}) < 2
    if not (ordered and all(map(_is_plain, given))) or torch.jit.is_tracing():
        return None
    from recfact.cpu.mixer import mixer_of

    return mixer_of(NUMBERS[v.dtype], tuple(v.shape), gates[0].shape[-2] if gates else 1, window)


def _is_plain(tensor: Tensor) -> bool:
    """Say whether a tensor is its numbers in memory, and nothing else."""
    if type(tensor) not in (Tensor, torch.nn.Parameter) or tensor.is_neg() or not holds_memory(tensor):
        return False
    return forward_ad.unpack_dual(tensor).tangent is None


class Mix(torch.autograd.Function):
    """`mix` by kernels. Derivatives beyond the first are those of `composed`."""

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, q: Tensor | None, k: Tensor | None, v: Tensor, window: Window, mixer: Any
    ) -> Tensor:
        """Return the results."""
        every, y = _for_every_head(a, v), torch.empty_like(v)
        kept = v.new_empty(mixer.kept if any(ctx.needs_input_grad) else 0)
        mixer.mix(*map(_address, (y, kept, every, q, k, v)))
        ctx.save_for_backward(a, q, k, v, kept)
        ctx.how = window, mixer
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        """Return the gradients. They are differentiable if torch asks for that."""
        *given, kept = ctx.saved_tensors
        window, mixer = ctx.how
        if torch.is_grad_enabled() or not holds_memory(g):
            return *_composed_gradients(given, g, window, ctx.needs_input_grad), None, None
        a, q, k, v = given
        every, g = _for_every_head(a, v), g.contiguous()
        da, dq, dk, dv = (None if one is None else torch.empty_like(one) for one in (every, q, k, v))
        mixer.gradients(*map(_address, (dv, dk, dq, da, g, kept, every, q, k, v)))
        return summed(da, a.shape), dq, dk, dv, None, None


def _composed_gradients(given: list[Any], g: Tensor, window: Window, needed: tuple[bool, ...]) -> list[Any]:
    """Return gradients made of differentiable operations."""
    with torch.enable_grad():
        # Views, because some arguments may be made of others, and the gradients of each are those for itself alone.
        own = [None if one is None else one.view_as(one) for one in given]
        asked = [one for one, asked in zip(own, needed, strict=False) if asked]
        found = iter(torch.autograd.grad(composed(*own, window), asked, g, create_graph=True))
    return [next(found) if asked else None for asked in needed[:4]]


def _for_every_head(a: Tensor, v: Tensor) -> Tensor:
    """Return coefficients in C order, one a head and step."""
    return a.expand(v.shape[:-1]).contiguous()


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()
