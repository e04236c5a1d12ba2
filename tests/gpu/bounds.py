"""How wrong a kernel may be: the bound of its own order of operations, evaluated for the arrays at hand.

With gamma_N = N u / (1 - N u), an input u_j that meets N roundings on its way to x_i adds at most |L_ij| |u_j| gamma_N
to the error (Higham 2002, section 3.1). N is counted from the kernels' source for each row, from its lags d_i.
"""

from __future__ import annotations

import numpy as np
from gpu.cases import COMPUTED, Case

from recfact.gpu.plans import Launch
from recfact.recurrence import backward, first_kept_rows, folded, forward
from recfact.windows import Full, Window, blocks_and_terms

UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
UNIT |= {"complex64": UNIT["float32"], "complex128": UNIT["float64"]}
TENSOR_CORE = 2.0**-23  # their sums may be truncated
RAISED = 2.0**-36  # below float16's normal numbers a rest is at most 2^-25, stored 2^16 times larger, rounded once
HALF_SPACING = {"float16": 2.0**-25, "bfloat16": 2.0**-134}  # of subnormals; float32 and float64 have far smaller ones


def loop(a: np.ndarray, u: np.ndarray, window: Window, x0: np.ndarray | None, reverse: bool) -> np.ndarray:
    """Solve by the definition, in the arithmetic of the arrays.

    The bits are those of `recfact.recurrence.windowed`, which begins anew for each row: here the rows of a block, which
    begin at the same step, share a loop, and the rows of a band go through theirs together.
    """
    if window == Full():
        return backward(a, u) if reverse else forward(a, u, x0)
    a, u = np.broadcast_arrays(a, u)
    u = folded(a, u, x0)
    n, (block, terms) = len(u), blocks_and_terms(window)
    if block > 1:
        x, halo = np.empty(u.shape, np.result_type(a, u)), block * terms
        for start in range(0, n, block):
            end = min(start + block, n)
            if reverse:
                x[start:end] = backward(a[start : end + halo], u[start : end + halo])[: end - start]
            else:
                first = max(0, start - halo)
                x[start:end] = forward(a[first:end], u[first:end])[start - first :]
        return x
    x, whole = (backward if reverse else forward)(a, u), max(0, n - terms)  # right for the rows that see an end
    if reverse:
        state = u[terms:]
        for k in range(terms - 1, -1, -1):
            state = state * a[k + 1 : k + 1 + whole] + u[k : k + whole]
        x[:whole] = state
    else:
        state = u[:whole]
        for k in range(1, terms + 1):
            state = a[k : k + whole] * state + u[k : k + whole]
        x[terms:] = state
    return x


def reference(case: Case, window: Window, reverse: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the plain loop in float64, the same of all magnitudes, and the steps that each row sees; time first."""
    wide = np.complex128 if case.u.dtype.kind == "c" else np.float64
    a, u = (np.moveaxis(np.broadcast_to(v, case.x.shape), case.axis, 0).astype(wide) for v in (case.a, case.u))
    x0 = None if case.x0 is None else np.moveaxis(case.x0, case.axis, 0)[0].astype(wide)
    with np.errstate(all="ignore"):
        x = loop(a, u, window, x0, reverse)
        sizes = loop(abs(a), abs(u), window, None if x0 is None else abs(x0), reverse)
    n = len(u)
    firsts = first_kept_rows(n, window)
    if reverse:
        seen = np.searchsorted(firsts, np.arange(n), side="right") - np.arange(n)
    else:
        seen = np.arange(n) - firsts + 1
    return x, sizes, seen.reshape(-1, *(1,) * (u.ndim - 1))


def roundings(launch: Launch, case: Case, seen: np.ndarray) -> np.ndarray:
    """Return the most roundings between an input and each row."""
    numbers = {argument.name: argument.value for argument in launch.arguments}
    match launch.kernel:
        case "sweep":  # one multiply-add a step, and one for the initial state
            most = seen + 1
        case "sliding":  # one a step; the sums over the blocks of a group, or the one that joins two
            most = seen - 1 + max(2, numbers["terms"])
        case "chain":  # one a coefficient; and as a step joins its warp's, they the tile's, and these the state before
            most = seen + 2
        case "b2p":  # products; the sums of a tile product (one or two terms, with 18 roundings each); one a tile
            most = seen + 36 + case.x.shape[case.axis] // 16
    return most * (4 if case.u.dtype.kind == "c" else 1)  # a complex multiply-add is wrong by less than gamma_4


def lost_to_zero(case: Case, sizes: np.ndarray, seen: np.ndarray, count: np.ndarray, unit: float) -> np.ndarray:
    """Return the most that is lost where numbers below the normal ones become zero, for coefficients up to 1."""
    # A number that becomes zero loses at most F, the smallest normal one. A row has seen + 1 terms at most, a^d u_j and
    # that of the initial state. In each, N results may lose F, as many roundings as it meets; so may what is given, d
    # coefficients and what they multiply, N at most (N > d); and what is stored at the end: 2 N + 1 losses. What b2p
    # rounds to halves on the way is among them, because there N > d + 35. On its way to the row a loss is multiplied by
    # coefficients, up to 1, and by at most one sum or input, if it is a product of coefficients that loses: up to S,
    # the largest of them. Roundings make both larger by no more than 1 / (1 - N u).
    assert abs(case.a).max() <= 1
    smallest = float(np.finfo(np.float32 if unit > UNIT["float64"] else np.float64).smallest_normal)
    largest = sizes.max(axis=0)
    if case.x0 is not None:
        largest = np.maximum(largest, abs(np.moveaxis(case.x0, case.axis, 0)[0]))
    return (seen + 1) * (2 * count + 1) * smallest * np.maximum(1, largest) / (1 - count * unit) ** 2


def bound(
    launch: Launch, case: Case, window: Window, reverse: bool, *, flushed: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the plain loop in float64 and the most that the kernel's states may be away from it; time first.

    What underflows counts only where numbers below the normal ones are flushed to zero, as GPUs do.
    """
    x, sizes, seen = reference(case, window, reverse)
    dtype, out = case.u.dtype.name, case.x.dtype.name
    unit = TENSOR_CORE if launch.kernel == "b2p" else UNIT[COMPUTED.get(dtype, dtype)]
    count = roundings(launch, case, seen)
    error = sizes * count * unit / (1 - count * unit)
    if launch.kernel == "b2p":
        # An entry of L_t is stored rounded once, or twice; below the normal numbers by its spacing.
        stored = UNIT[dtype] ** (2 if dict(launch.macros)["SPLIT"] == "1" else 1)
        error = error + sizes * stored
        a = np.moveaxis(np.broadcast_to(case.a, case.x.shape), case.axis, 0).astype(np.float64)
        spread = loop(abs(a), np.ones_like(a), window, None, reverse)
        u = np.abs(case.u.astype(np.float64))
        largest = u[np.isfinite(u)].max()
        spacing = RAISED if dtype == "float16" and stored < UNIT[dtype] else HALF_SPACING[dtype]
        error = error + spacing * 16 * largest * (1 + spread)
    if flushed:
        error = error + lost_to_zero(case, sizes, seen, count, unit)
    if out in COMPUTED:
        error = error + UNIT[out] * (np.abs(x) + error) + HALF_SPACING[out]
    return x, error
