"""Which states an overflow reaches, for tests of bounds, which hold for the others."""

import numpy as np

from recfact.precision.run import CASTS, Task
from recfact.windows import Full


def overflows(a, u, format, algorithm="sequential", *, window=Full(), casts=CASTS):
    """Return which states of `rounded_solve` depend on an operation that overflows, along axis 0."""
    task = Task.of(format, algorithm, window, casts)
    return task.overflows([(np.asarray(a, dtype=float), np.asarray(u, dtype=float), None)])
