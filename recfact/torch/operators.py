"""The recurrence as one differentiable operator. Its derivatives are made of the operator itself.

There are two versions. `Recurrence` is an ``autograd.Function``: all of torch.func takes it, but torch.compile can't
follow it. Compiled code calls the custom operator ``recfact::solve``, which torch.func can't follow.

Gradients need the states as they were computed, in float32 for inputs in half precision. On a GPU the solve of such
inputs keeps a few of them as a second result, from which the gradients find the others: that takes fewer bytes than to
read all of them. Compiled code then calls ``recfact::solve_and_keep``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import TransformType
from torch._functorch.pyfunctorch import retrieve_all_functorch_interpreters

from recfact.arrays import broadcast_shape, holds_memory
from recfact.errors import OptionError
from recfact.gpu.gradients import starts_from_kept
from recfact.gpu.solves import PART_STEPS
from recfact.gradients.arguments import Given
from recfact.gradients.differentials import derivative, transposed_derivative
from recfact.gradients.initial_states import Starts
from recfact.gradients.products import pulled_back
from recfact.gradients.time_first import TimeFirst, summed
from recfact.solve import solve
from recfact.windows import Full, Window, window_of, window_text

HALVES = (torch.float16, torch.bfloat16)


def recurrence(
    a: Tensor, u: Tensor, x0: Tensor | None, offsets: Any, dim: int, reverse: bool, window: Window
) -> Tensor:
    """Solve differentiably.

    Parameters
    ----------
    a, u : tensor
        Coefficients and inputs of floats or complex numbers, with at least one axis in common.
    x0 : tensor, optional
        Initial state. It broadcasts to a step, or with `offsets` to the result with one step for each segment.
    offsets : ndarray of int64, optional
        Where segments start, and where the last one ends. In compiled code it is a tensor on the host.
    dim : int
        The axis of time, counted from the end because vmap may add leading axes.
    """
    plain = not reverse and isinstance(window, Full)
    keeps = plain and _keeps(a, u, 1 if offsets is None else len(offsets) - 1, dim)
    if torch.compiler.is_compiling():
        if keeps:
            kept_too: Tensor = torch.ops.recfact.solve_and_keep(a, u, x0, offsets, dim)[0]
            return kept_too
        moved: Tensor = torch.ops.recfact.solve(a, u, x0, offsets, dim, reverse, window_text(window))
        return moved
    states: Tensor = Recurrence.apply(keeps, a, u, x0, offsets, dim, reverse, window)[0]
    return states


def _keeps(a: Tensor, u: Tensor, sequences: int, dim: int) -> bool:
    """Say whether the gradients will start from states that the solve keeps."""
    if not (u.is_cuda and a.requires_grad and torch.is_grad_enabled()):
        return False
    if u.dtype not in HALVES or _computed(a, u) != torch.float32:
        return False
    multiprocessors = torch.cuda.get_device_properties(u.device).multi_processor_count
    return starts_from_kept(a.shape, broadcast_shape(a, u), dim, sequences, multiprocessors)


def _solve(a: Tensor, u: Tensor, x0: Tensor | None, offsets: Any, dim: int, reverse: bool, window: Window) -> Tensor:
    if not all(holds_memory(one) for one in (a, u, x0) if one is not None):  # batches of gradients: solve one by one
        batches: Tensor = compiled_solve(a, u, x0, _tensor(offsets), dim, reverse, window_text(window))
        return batches
    own = None if x0 is None else x0.detach()
    x: Tensor = solve(a.detach(), u.detach(), x0=own, axis=dim, offsets=offsets, reverse=reverse, window=window)
    return x


def _solve_and_keep(a: Tensor, u: Tensor, x0: Tensor | None, offsets: Any, dim: int) -> tuple[Tensor, Tensor]:
    """Solve without a window on a GPU, and return what `recfact.gpu.solver.solve_and_keep` does."""
    from recfact.gpu.solver import solve_and_keep

    own = None if x0 is None else x0.detach()
    x, kept = solve_and_keep(a.detach(), u.detach(), x0=own, axis=dim, offsets=offsets)
    return x, kept


class Recurrence(torch.autograd.Function):
    """`recurrence` for eager code and for torch.func, with states that are kept, or None."""

    @staticmethod
    def forward(
        keeps: bool, a: Tensor, u: Tensor, x0: Tensor | None, offsets: Any, dim: int, *others: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Return the states, and those that are kept."""
        if keeps and all(holds_memory(one) for one in (a, u, x0) if one is not None):
            return _solve_and_keep(a, u, x0, offsets, dim)
        return _solve(a, u, x0, offsets, dim, *others), None

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor | None]) -> None:
        """Keep the tensors that the derivatives need."""
        _, a, u, x0, *ctx.how = inputs
        x, kept = output
        if kept is not None:
            ctx.mark_non_differentiable(kept)
            x = None
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, u, x0, x, kept)
        ctx.save_for_forward(a, u, x0)

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any) -> tuple[Any, ...]:
        """Return the gradients. They are differentiable if torch asks for that."""
        if g is None:
            return (None,) * 8
        a, u, x0, x, kept = ctx.saved_tensors
        again = torch.is_grad_enabled() or not all(holds_memory(one) for one in (a, u, x, g) if one is not None)
        needed = ctx.needs_input_grad[1:4]
        if not needed[0]:
            found = _gradients_beside(a, u, x0, g, *ctx.how)
        elif again:
            found = _composed_gradients(a, u, x0, x, g, *ctx.how)
        else:
            found = _gradients(a, u, x0, x, kept, g, *ctx.how)
        return None, *(own if asked else None for own, asked in zip(found, needed, strict=True)), None, None, None, None

    @staticmethod
    def jvp(ctx: Any, _: Any, ta: Any, tu: Any, tx0: Any, *__: Any) -> tuple[Tensor, None]:
        """Return the tangent of the states."""
        check_forward_once()
        a, u, x0 = ctx.saved_tensors[:3]
        offsets, dim, reverse, window = ctx.how
        dtype = torch.promote_types(a.dtype, u.dtype)
        time = _time(a, u, dim)
        ta, tu = (torch.zeros_like(one) if moved is None else moved for one, moved in ((a, ta), (u, tu)))
        a, u, ta, tu = (time.front(_wide(one)) for one in (a, u, ta, tu))
        x0, tx0 = (_entering(time, one, offsets) for one in (x0, tx0))
        moved = derivative(a, u, ta, tu, x0, tx0, offsets, window, reverse, _along_first(offsets))
        tx: Tensor = time.back(moved, time.shape)
        return tx.to(dtype), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], _: Any, a: Tensor, u: Tensor, x0: Any, *how: Any) -> tuple[Any, Any]:
        """Return the states with the axis that vmap adds in front."""
        given = [(one, at) for one, at in zip((a, u, x0), in_dims[1:], strict=False)]
        axes = max(one.ndim - (at is not None) for one, at in given[:2])
        beside = axes - 1 if how[0] is None else axes  # axes of initial states, with an axis of segments or without
        a, u, x0 = (_in_front(*pair, count) for pair, count in zip(given, (axes, axes, beside), strict=True))
        if in_dims[1] is None and in_dims[2] is None:
            u = u.expand(info.batch_size, *u.shape)
        return (recurrence(a, u, x0, *how), None), (0, None)


vars(Recurrence.forward)["__signature__"] = signature(Recurrence.forward)  # torch looks for it at every call


def check_forward_once() -> None:
    """Raise OptionError in forward mode of forward mode, where torch drops a part of the tangent."""
    if sum(level.key() == TransformType.Jvp for level in retrieve_all_functorch_interpreters()) > 1:
        raise OptionError(
            "torch has no forward mode of forward mode through functions such as solve: it would leave out a part of "
            "the derivative; take one of the two in reverse mode, as torch.func.hessian and jacfwd(jacrev(f)) do"
        )


def _in_front(tensor: Any, at: int | None, axes: int) -> Any:
    """Return a tensor with vmap's axis in front of `axes` other axes, so that it broadcasts with none of them."""
    if at is None:
        return tensor
    tensor = tensor.movedim(at, 0)
    return tensor.reshape(len(tensor), *(1,) * (axes + 1 - tensor.ndim), *tensor.shape[1:])


def _gradients(
    a: Tensor,
    u: Tensor,
    x0: Tensor | None,
    x: Tensor | None,
    kept: Tensor | None,
    g: Tensor,
    offsets: Any,
    dim: int,
    reverse: bool,
    window: Window,
) -> list[Any]:
    """Return the gradients of `a`, `u` and `x0`, which are not differentiable themselves."""
    with torch.no_grad():
        given = Given(a, u, x0, dim, offsets, reverse, own_types=True)
        return _fitting(pulled_back(given, a, u, g.conj(), None, None, window, x, None, kept), (a, u, x0))


def _composed_gradients(
    a: Tensor,
    u: Tensor,
    x0: Tensor | None,
    x: Tensor | None,
    g: Tensor,
    offsets: Any,
    dim: int,
    reverse: bool,
    window: Window,
) -> list[Any]:
    """Return the gradients of `a`, `u` and `x0`, made of differentiable operations."""
    time = _time(a, u, dim)
    own_a, own_u, own_g = (time.front(_wide(one)) for one in (a, u, g.conj()))
    entering, known = _entering(time, x0, offsets), None if x is None or x.dtype in HALVES else time.front(x)
    along = _along_first(offsets)
    da, du, d0 = transposed_derivative(own_a, own_u, own_g, entering, offsets, window, reverse, along, known)
    d0 = None if x0 is None else time.back_state(d0, x0.shape, offsets is not None)
    return _fitting((time.back(da, a.shape), time.back(du, u.shape), d0), (a, u, x0))


def _gradients_beside(
    a: Tensor, u: Tensor, x0: Tensor | None, g: Tensor, offsets: Any, dim: int, reverse: bool, window: Window
) -> list[Any]:
    """Return the gradients of `u` and `x0`, which take one solve, and None."""
    time = _time(a, u, dim)
    du, d0 = recurrence(a, g.conj(), None, offsets, dim, not reverse, window), None
    if x0 is not None:
        starts = Starts(time.steps, offsets)
        first, entering = (starts.taken(time.front(_wide(one))) for one in (a, du))
        d0 = time.back_state(first * entering, x0.shape, offsets is not None)
    return _fitting((None, summed(du, u.shape), d0), (a, u, x0))


def _fitting(found: Iterable[Any], like: Iterable[Any]) -> list[Any]:
    """Return gradients as torch defines them: conjugated, and in the number types of the arguments."""
    return [None if own is None else _in_type(own.conj(), one) for own, one in zip(found, like, strict=True)]


def _in_type(found: Tensor, like: Tensor) -> Tensor:
    return (found if like.is_complex() or not found.is_complex() else found.real).to(like.dtype)


def _time(a: Tensor, u: Tensor, dim: int) -> TimeFirst:
    shape = broadcast_shape(a, u)
    return TimeFirst(shape, dim % len(shape))


def _computed(a: Tensor, u: Tensor) -> torch.dtype:
    return computed_type(torch.promote_types(a.dtype, u.dtype))


def computed_type(dtype: torch.dtype) -> torch.dtype:
    """Return the number type in which states of a given number type are computed."""
    return torch.float32 if dtype in HALVES else dtype


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(computed_type(tensor.dtype))


def _entering(time: TimeFirst, x0: Tensor | None, offsets: Any) -> Any:
    return None if x0 is None else time.front_state(_wide(x0), None if offsets is None else len(offsets) - 1)


def _tensor(offsets: Any) -> Tensor | None:
    return None if offsets is None else torch.from_numpy(offsets)


def _along_first(offsets: Any) -> Callable[[Tensor, Tensor, Window, bool], Tensor]:
    """Return a function that solves along the first axis."""

    def solve_along(a: Tensor, u: Tensor, window: Window, reverse: bool) -> Tensor:
        return recurrence(a, u, None, offsets, -max(a.ndim, u.ndim), reverse, window)

    return solve_along


@torch.library.custom_op("recfact::solve", mutates_args=())
def compiled_solve(
    a: Tensor, u: Tensor, x0: Tensor | None, offsets: Tensor | None, dim: int, reverse: bool, window: str
) -> Tensor:
    """Solve in compiled code."""
    return _solve(a, u, x0, offsets, dim, reverse, window_of(window))


@compiled_solve.register_fake
def _(a: Tensor, u: Tensor, *_: Any) -> Tensor:
    """Return a tensor that lies in memory as the states will. Compiled code relies on its strides."""
    dtype = torch.promote_types(a.dtype, u.dtype)
    if not u.is_cuda:
        return torch.empty_like(torch.mul(a, u), dtype=dtype)
    shape = torch.broadcast_shapes(a.shape, u.shape)  # on a GPU axes lie as those of the inputs
    strides = u.stride()
    order = sorted(range(u.ndim), key=lambda k: -strides[k]) if u.shape == shape else range(len(shape))
    return torch.empty_permuted(shape, list(order), dtype=dtype, device=u.device)


@torch.library.custom_op("recfact::solve_and_keep", mutates_args=())
def compiled_solve_and_keep(
    a: Tensor, u: Tensor, x0: Tensor | None, offsets: Tensor | None, dim: int
) -> tuple[Tensor, Tensor]:
    """Solve in compiled code without a window, and keep states."""
    return _solve_and_keep(a, u, x0, offsets, dim)


@compiled_solve_and_keep.register_fake
def _(a: Tensor, u: Tensor, x0: Any, offsets: Any, dim: int) -> tuple[Tensor, Tensor]:
    """Return tensors that lie in memory as the states will. The parts of time are outermost for those that are kept."""
    x: Tensor = compiled_solve(a, u, x0, offsets, dim, False, "full")
    time, strides, shape = dim % x.ndim, x.stride(), list(x.shape)
    order = sorted(range(x.ndim), key=lambda k: (k != time, -strides[k]))
    shape[time] //= PART_STEPS
    return x, torch.empty_permuted(shape, order, dtype=computed_type(x.dtype), device=x.device)


@torch.library.custom_op("recfact::solve_gradients", mutates_args=())
def compiled_gradients(
    a: Tensor,
    u: Tensor,
    x0: Tensor | None,
    x: Tensor | None,
    kept: Tensor | None,
    g: Tensor,
    offsets: Tensor | None,
    dim: int,
    reverse: bool,
    window: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of coefficients, inputs and initial state. The last is empty without an initial state."""
    da, du, d0 = _gradients(a, u, x0, x, kept, g, offsets, dim, reverse, window_of(window))
    return da.contiguous(), du.contiguous(), a.new_empty(0) if d0 is None else d0.contiguous()


@compiled_gradients.register_fake
def _(a: Tensor, u: Tensor, x0: Any, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return a.new_empty(a.shape), u.new_empty(u.shape), a.new_empty(0) if x0 is None else x0.new_empty(x0.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    a, u, x0, offsets, *ctx.how = inputs
    ctx.save_for_backward(a, u, x0, output, offsets)


def _compiled_backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    a, u, x0, x, offsets = ctx.saved_tensors
    da, du, d0 = compiled_gradients(a, u, x0, x, None, g, offsets, *ctx.how)
    return da, du, None if x0 is None else d0, None, None, None, None


def _keep_parts(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    a, u, x0, offsets, ctx.dim = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(a, u, x0, output[1], offsets)


def _backward_from_parts(ctx: Any, g: Tensor, _: Any) -> tuple[Any, ...]:
    a, u, x0, kept, offsets = ctx.saved_tensors
    da, du, d0 = compiled_gradients(a, u, x0, None, kept, g, offsets, ctx.dim, False, "full")
    return da, du, None if x0 is None else d0, None, None


compiled_solve.register_autograd(_compiled_backward, setup_context=_keep)
compiled_solve_and_keep.register_autograd(_backward_from_parts, setup_context=_keep_parts)
