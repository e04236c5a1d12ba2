"""`solve`: the one call that runs the recurrence."""

from typing import Any

import numpy as np

from recfact.recurrence import backward, forward, windowed
from recfact.windows import Full, Window, check_window


def solve(
    a: Any,
    u: Any,
    *,
    x0: Any = None,
    axis: int = -1,
    reverse: bool = False,
    window: Window = Full(),  # noqa: B008 - frozen and shared on purpose
    out: Any = None,
    threads: int | None = None,
) -> Any:
    """Solve x_i = a_i x_{i-1} + u_i along `axis`."""
    window = check_window(window)
    a, u = np.broadcast_arrays(np.asarray(a), np.asarray(u))
    a, u = np.moveaxis(a, axis, 0), np.moveaxis(u, axis, 0)
    if not isinstance(window, Full):
        x = windowed(a, u, window, x0, reverse)
    else:
        x = backward(a, u) if reverse else forward(a, u, x0)
    return np.moveaxis(x, 0, axis)
