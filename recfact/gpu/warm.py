"""`warm_up`: kernels compiled before they are needed."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from recfact.arrays import SCALARS
from recfact.errors import ArrayTypeError, DTypeError, shown
from recfact.gpu.availability import current_gpu, require
from recfact.gpu.device_arrays import laid_out
from recfact.gpu.operands import check_types, given_arrays, solve_options
from recfact.gpu.run import launches_of
from recfact.gpu.sequences import together
from recfact.gpu.solves import Solve
from recfact.number_types import accumulator
from recfact.windows import Full, WindowLike


def warm_up(
    a: Any,
    u: Any,
    *,
    x0: Any = None,
    axis: int = -1,
    reverse: bool = False,
    window: WindowLike = Full(),
    offsets: Any = None,
    precision: str = "full",
) -> tuple[str, ...]:
    """Compile the kernels of a solve for CuPy's current GPU, without arrays.

    Afterwards `solve` compiles nothing for such arrays in this process. A CUDA graph can then capture it at once. CuPy
    keeps what was compiled on disk, so later processes only load it.

    Parameters
    ----------
    a, u : number, or object with ``shape`` and ``dtype``
        What is known of coefficients and inputs: arrays of any library on any device, torch's meta tensors, or
        ``jax.ShapeDtypeStruct``. Their numbers aren't read. The arrays to solve are taken to be in C order.
    x0 : number, or object with ``shape`` and ``dtype``, optional
        The same of initial states.
    axis, reverse, window, offsets, precision
        As for `recfact.gpu.solve`.

    Returns
    -------
    tuple of str
        The kernels that such a solve launches, each with the reason for it.

    Raises
    ------
    ShapeError, OptionError, DTypeError, ArrayTypeError, DeviceError
        As for `recfact.gpu.solve`.

    Examples
    --------
    >>> import numpy as np
    >>> from recfact import gpu
    >>> u = np.broadcast_to(np.float32(0), (8192, 4096, 16))  # takes no memory
    >>> if gpu.why_unavailable() is None:
    ...     print(*gpu.warm_up(u[:, :, :1], u, axis=1, window="jagged:16"))
    """
    window, reverse = solve_options(window, reverse, precision, x0)
    require(current_gpu())
    given = given_arrays(a, u, x0=x0)
    known = {name: _described(value, name) for name, value in given.items()}
    asked = check_types(given, known, axis, offsets)
    kinds = {"a": asked.dtype, "u": asked.inputs, "x0": accumulator(asked.dtype)}
    arrays = {name: laid_out(value.shape, kinds[name]) for name, value in known.items()}
    x = laid_out(asked.shape, asked.dtype)
    solve = Solve(arrays["a"], arrays["u"], x, arrays.get("x0"), asked.axis, window, reverse, precision)
    launches = (prepared for _, prepared in launches_of(together(solve, asked.offsets)) if prepared)
    return tuple(dict.fromkeys(prepared.launch.reasons[0] for prepared in launches))


def _described(value: Any, name: str) -> Any:
    """Return an array without memory for what is known of one, or a number as an array."""
    if type(value) in SCALARS:
        return np.asarray(value)
    try:
        shape = tuple(map(index, value.shape))
        kind = str(value.dtype).removeprefix("torch.")
    except (AttributeError, TypeError) as error:
        raise ArrayTypeError(
            f"{name} must be a number or have a shape and a dtype, got {shown(value)}; pass numpy.empty(shape, dtype)"
        ) from error
    try:
        return laid_out(shape, np.dtype(kind))
    except TypeError as error:
        raise DTypeError(f"{name} must be of a number type that NumPy or ml_dtypes has, got {kind}") from error
