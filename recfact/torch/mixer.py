"""The mixer of a Phalanx layer as one differentiable operator, and as the operations it is made of.

On the CPU a kernel reads and writes each number once, forward and backward. On a GPU one does so where no derivatives
are asked for. Everything that they don't do is composed of `solve` and of torch's operations: other devices, number
types and layouts, windows of more terms, second derivatives, torch.func and torch.compile.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._C import _are_functorch_transforms_active, _is_tracing

from recfact.arrays import holds_memory
from recfact.gating import mixed
from recfact.gradients.time_first import summed
from recfact.torch.solver import solve
from recfact.windows import Window

NUMBERS = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}


def mix(a: Tensor, q: Tensor | None, k: Tensor | None, v: Tensor, window: Window) -> Tensor:
    """Return q x + v, where x solves the recurrence with inputs k v. The arguments are those of `recfact.phalanx`."""
    if torch.compiler.is_compiling() or _is_tracing() or _are_functorch_transforms_active():
        return composed(a, q, k, v, window)
    mixer = _in_one_pass(a, q, k, v, window)
    y: Tensor | None = _on_gpu(a, q, k, v, window) if mixer is None else Mix.apply(a, q, k, v, window, mixer)
    return composed(a, q, k, v, window) if y is None else y


def composed(a: Tensor, q: Tensor | None, k: Tensor | None, v: Tensor, window: Window) -> Tensor:
    """Return what `mix` does, by a product, a solve, and a product and a sum."""
    y: Tensor = mixed(lambda a, u: (solve(a, u, dim=-3, window=window), None), a, q, k, v)[0]
    return y


def _in_one_pass(a: Tensor, q: Tensor | None, k: Tensor | None, v: Tensor, window: Window) -> Any:
    """Return the engine's mixer for these tensors, or None."""
    dtype = NUMBERS.get(v.dtype)
    if dtype is None:
        return None
    for one in (a, q, k, v):
        if one is not None and not (one.dtype == v.dtype and _is_plain(one)):
            return None
    gate = k if q is None else q
    if gate is not None and k is not None and gate.shape != k.shape:
        return None
    return _engine()(dtype, v.shape, 1 if gate is None else gate.shape[-2], window)


def _on_gpu(a: Tensor, q: Tensor | None, k: Tensor | None, v: Tensor, window: Window) -> Tensor | None:
    """Return the result by one launch on a GPU. It has no gradients, so it is None where derivatives may be wanted."""
    given = [one for one in (a, q, k, v) if one is not None]
    if not all(one.is_cuda and _holds_numbers(one) for one in given) or (
        torch.is_grad_enabled() and any(one.requires_grad for one in given)
    ):
        return None
    if any(torch.autograd.forward_ad.unpack_dual(one).tangent is not None for one in given):
        return None
    from recfact.gpu.mixer import mixed as mixed_there

    y: Tensor | None = mixed_there(a, q, k, v, window)
    return y


def _holds_numbers(tensor: Tensor) -> bool:
    """Say whether a tensor isn't of a class that computes in its own way, such as those of pieces on several GPUs."""
    return type(tensor).__torch_dispatch__ is Tensor.__torch_dispatch__


def _is_plain(tensor: Tensor) -> bool:
    """Say whether a tensor is no more than its numbers on the host, in C order."""
    kind = type(tensor) is Tensor or type(tensor) is torch.nn.Parameter
    return kind and tensor.is_cpu and tensor.is_contiguous() and not tensor.is_neg() and holds_memory(tensor)


class Mix(torch.autograd.Function):
    """`mix` by kernels. Derivatives beyond the first, and those in forward mode, are those of `composed`."""

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, q: Tensor | None, k: Tensor | None, v: Tensor, window: Window, mixer: Any
    ) -> Tensor:
        """Return the results."""
        every, y = _for_every_head(a, v), torch.empty_like(v)
        kept = v.new_empty(mixer.kept if any(ctx.needs_input_grad) else 0)
        mixer.mix(*map(_address, (y, kept, every, q, k, v)))
        ctx.save_for_backward(a, q, k, v, kept)
        ctx.save_for_forward(a, q, k, v)
        ctx.how = window, mixer
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        """Return the gradients. They are differentiable if torch asks for that."""
        a, q, k, v, kept = ctx.saved_tensors
        window, mixer = ctx.how
        if torch.is_grad_enabled() or not holds_memory(g):
            return *_composed_gradients((a, q, k, v), g, window, ctx.needs_input_grad), None, None
        every, g = _for_every_head(a, v), g.resolve_neg().contiguous()
        da, dv = torch.empty_like(every), torch.empty_like(v)
        dq, dk = (None if gate is None else torch.empty_like(gate) for gate in (q, k))
        mixer.gradients(*map(_address, (dv, dk, dq, da, g, kept, every, q, k, v)))
        return da if da.shape == a.shape else summed(da, a.shape), dq, dk, dv, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        """Return the tangent of the results: the gradients are linear in those of the results, and this transposes."""
        given: list[Any] = [None if one is None else one.detach().requires_grad_() for one in ctx.saved_tensors]
        weights = torch.zeros_like(given[3], requires_grad=True)
        moved = [tangent for tangent in tangents if tangent is not None]
        found = _composed_gradients(given, weights, ctx.how[0], tuple(one is not None for one in tangents))
        of_those = [one for one in found if one is not None]
        tangent: Tensor = torch.autograd.grad(of_those, weights, moved)[0]
        return tangent


def _composed_gradients(given: Any, g: Tensor, window: Window, needed: tuple[bool, ...]) -> list[Any]:
    """Return gradients made of differentiable operations."""
    with torch.enable_grad():
        # Views, because some arguments may be made of others, and the gradients of each are those for itself alone.
        own: list[Any] = [None if one is None else one.view_as(one) for one in given]
        a, q, k, v = own
        wanted = [one for one, asked in zip(own, needed, strict=False) if asked]
        found = iter(torch.autograd.grad(composed(a, q, k, v, window), wanted, g, create_graph=True))
    return [next(found) if asked else None for asked in needed[:4]]


def _for_every_head(a: Tensor, v: Tensor) -> Tensor:
    """Return coefficients in C order, one a head and step."""
    shape = v.shape[:-1]
    return a if a.shape == shape else a.expand(shape).contiguous()


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


@cache
def _engine() -> Any:
    """Return the CPU engine's choice of a mixer. Importing it imports LLVM."""
    from recfact.cpu.mixer import mixer_of

    return mixer_of
