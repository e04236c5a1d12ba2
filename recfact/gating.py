"""The mixer of a Phalanx layer for any solver of its recurrence: gates that groups of heads share, and a residual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recfact.checks import integer
from recfact.errors import ShapeError


def gated(gate: Any, v: Any) -> Any:
    """Multiply heads by gates that groups of them share.

    Parameters
    ----------
    gate : array, shape (..., groups, d)
    v : array, shape (..., heads, d)
        Head h has the gate of group ``h // (heads // groups)``.
    """
    *lead, heads, d = v.shape
    groups = gate.shape[-2]
    return (gate[..., None, :] * v.reshape(*lead, groups, heads // groups, d)).reshape(v.shape)


def mixed(solve: Callable[[Any, Any], tuple[Any, Any]], a: Any, q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    """Return q x + v, where x solves the recurrence with inputs k v, and what `solve` returns besides x.

    Parameters
    ----------
    solve : callable
        Takes coefficients, with an axis of size 1 for the features of a head, and inputs.
    a : array, shape (..., heads)
    q, k : array, shape (..., groups, d), or None for gates of 1
    v : array, shape (..., heads, d)
    """
    x, end = solve(a[..., None], v if k is None else gated(k, v))
    return (x if q is None else gated(q, x)) + v, end


def time_before_heads(axis: Any, a: Any, q: Any, k: Any, v: Any) -> tuple[tuple[Any, Any, Any, Any], bool]:
    """Return the arrays of a mixer with time before the heads, and whether it came after them.

    Raises
    ------
    ShapeError
        If `axis` is neither the third axis of `v` from the end nor the second.
    """
    number = integer(axis, "axis")
    place = number if number < 0 else number - v.ndim
    if place not in (-3, -2):
        raise ShapeError("must be the third axis of v from the end or the second", "axis", given=axis)
    if place == -3:
        return (a, q, k, v), False
    q, k, v = (x if x is None else x.swapaxes(-2, -3) for x in (q, k, v))
    return (a.swapaxes(-1, -2), q, k, v), True


def check_gates(a: Any, q: Any, k: Any, v: Any) -> None:
    """Raise ShapeError if shapes don't fit together."""
    shape, given = tuple(v.shape), tuple(a.shape)
    if len(shape) < 3:
        required = f"must have the axes of steps, heads and features, (..., n, heads, d), got shape {shape}"
        raise ShapeError(required, "v", advice="heads of one feature have d = 1")
    whole = shape[:-1]
    known = whole[len(whole) - len(given) :]
    if len(given) > len(whole) or any(size not in (1, full) for size, full in zip(given, known, strict=True)):
        required = f"must have the shape of v without its features, {whole}, or sizes of 1 in it, got shape {given}"
        raise ShapeError(required, "a", advice="a is one number a head and step")
    for name, gate in (("q", q), ("k", k)):
        if gate is not None:
            _check_gate(tuple(gate.shape), shape, name)


def _check_gate(given: tuple[int, ...], shape: tuple[int, ...], name: str) -> None:
    *lead, heads, d = shape
    fits = len(given) == len(shape) and (*given[:-2], given[-1]) == (*lead, d)
    if not fits or given[-2] == 0 or heads % given[-2]:
        form = ", ".join(map(str, (*lead, "groups", d)))
        required = f"must have shape ({form}) with a number of groups that divides the {heads} heads, got {given}"
        raise ShapeError(required, name, advice="each group of heads shares a gate")
