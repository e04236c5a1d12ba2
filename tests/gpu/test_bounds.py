"""What the kernels are compared with."""

import numpy as np
import pytest
from gpu.bounds import loop
from gpu.cases import random_numbers

from recfact.recurrence import windowed
from recfact.windows import Jagged, Uniform


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "window", [Jagged(1), Jagged(5), Jagged(5, 0), Jagged(4, 2), Jagged(2, 2**70), Uniform(1), Uniform(2), Uniform(7)]
)
def test_shared_loops_have_the_bits_of_the_definition(rng, window, reverse):
    for n in range(1, 24):
        for dtype in ("float32", "complex128"):
            a, u = random_numbers(rng, (n, 1, 3), dtype), random_numbers(rng, (n, 2, 3), dtype)
            x0 = None if reverse else random_numbers(rng, (2, 3), dtype)
            a[n // 2], u[n // 3] = np.inf, np.nan
            with np.errstate(invalid="ignore"):
                found, expected = (solve(a, u, window, x0, reverse) for solve in (loop, windowed))
            np.testing.assert_array_equal(found, expected)
