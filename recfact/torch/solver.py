"""`solve` for tensors, with gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from recfact.arrays import broadcast_shape
from recfact.checks import boolean, integer
from recfact.errors import ArrayTypeError, OptionError, ShapeError
from recfact.offsets import check_offsets
from recfact.torch.operators import computed_type, recurrence
from recfact.torch.states import solve_through
from recfact.windows import Full, WindowLike, check_window


def solve(
    a: Any,
    u: Any,
    *,
    x0: Any = None,
    state: Any = None,
    return_state: bool = False,
    offsets: Any = None,
    dim: int = -1,
    reverse: bool = False,
    window: WindowLike = Full(),
) -> Any:
    """Solve the recurrence x_i = a_i x_{i-1} + u_i along an axis of tensors, with gradients of any order.

    This is `recfact.solve` with the derivatives of torch: backward and forward mode, the transforms of torch.func
    (grad, vmap, jvp, jacrev, hessian), and torch.compile with ``fullgraph=True``.

    Parameters
    ----------
    a, u : tensor or number
        Coefficients and inputs. At least one of them is a tensor. They broadcast. Integers become float64.
    x0 : tensor or number, optional
        Initial state, as for `recfact.solve`.
    state : State, optional
        The State that another solve with the same window returned, of `recfact.torch` or of `recfact`. Gradients pass
        through its ``parts``, unless it is detached. It excludes `x0` and `reverse`. With `offsets` it has an axis of
        segments in the place of time.
    return_state : bool, default False
        Whether to return the State after the last step as well. It excludes `reverse`. With `offsets`, each segment is
        then solved by a call of its own.
    offsets : tensor or array_like of int, shape (N + 1,), optional
        Where segments start, and where the last one ends, as for `recfact.solve`.
    dim : int, default -1
        The axis along which the recurrence runs.
    reverse, window
        As for `recfact.solve`.

    Returns
    -------
    tensor
        The states. With `return_state` the result is a pair: the states and a `State`.

    Raises
    ------
    ShapeError, OptionError
        (ValueErrors) If shapes don't fit, or if options are out of range or exclude each other.
    DTypeError, ArrayTypeError, OptionTypeError
        (TypeErrors) If recfact doesn't compute in a number type, or if an argument has a wrong type.

    Notes
    -----
    The gradients are those of `recfact.gradients.vjp`. For complex numbers they are what torch defines. The gradients
    of float16 and bfloat16 are computed in float32 and rounded once. torch.autocast changes no number type here. Under
    torch.compile there are only first derivatives.

    Examples
    --------
    >>> import torch, recfact as rf
    >>> u = torch.ones(3, requires_grad=True)
    >>> rf.torch.solve(0.5, u).sum().backward()
    >>> u.grad
    tensor([1.7500, 1.5000, 1.0000])
    """
    window, reverse = check_window(window), boolean(reverse, "reverse")
    a, u, dim = operands(a, u, dim)
    if x0 is not None and not isinstance(x0, Tensor):
        x0 = torch.as_tensor(x0, dtype=computed_type(torch.promote_types(a.dtype, u.dtype)), device=u.device)
    if offsets is not None:
        if torch.compiler.is_compiling():
            offsets = torch.as_tensor(offsets, device="cpu")
        else:
            steps = broadcast_shape(a, u)[dim]
            offsets = check_offsets(offsets.cpu() if isinstance(offsets, Tensor) else offsets, steps)
    if state is None and not boolean(return_state, "return_state"):
        return recurrence(a, u, x0, offsets, dim, reverse, window)
    others = {"x0": x0 is not None and state is not None, "reverse": reverse}
    for name in (name for name, given in others.items() if given):
        raise OptionError("doesn't go with state and return_state here", name, advice="leave one of them out")
    if offsets is not None and isinstance(offsets, Tensor):
        raise OptionError("don't go with a State in code that is compiled", "offsets", advice="call it outside of that")
    x, end = solve_through(a, u, x0, state, offsets, dim, window)
    return (x, end) if return_state else x


def operands(a: Any, u: Any, dim: Any) -> tuple[Tensor, Tensor, int]:
    """Return coefficients and inputs as tensors of floats or complex numbers, and the axis of time from the end."""
    tensors = [value for value in (u, a) if isinstance(value, Tensor)]
    if not tensors:
        raise ArrayTypeError(
            f"a or u must be a torch tensor, got {type(a).__name__} and {type(u).__name__}; recfact.solve takes other "
            "arrays"
        )
    a, u = _operand(a, "a", tensors[0]), _operand(u, "u", tensors[0])
    ndim = max(a.ndim, u.ndim)
    if ndim == 0:
        raise ShapeError("a and u must have at least one axis for the recurrence, got two scalars; pass sequences")
    dim = integer(dim, "dim")
    if not -ndim <= dim < ndim:
        raise ShapeError(f"must be an axis of the result, {-ndim} to {ndim - 1}", "dim", given=dim)
    return a, u, dim if dim < 0 else dim - ndim


def _operand(value: Any, name: str, leader: Tensor) -> Tensor:
    if isinstance(value, int | float | complex):
        kind = leader.dtype if leader.is_floating_point() or leader.is_complex() else torch.float64
        if isinstance(value, complex):
            kind = torch.promote_types(kind, torch.complex64)
        value = torch.as_tensor(value, dtype=kind, device=leader.device)
    if not isinstance(value, Tensor):
        raise ArrayTypeError(
            f"{name} must be a torch tensor or a number, got {type(value).__name__}; convert it with torch.as_tensor"
        )
    return value if value.is_floating_point() or value.is_complex() else value.double()
