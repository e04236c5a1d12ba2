"""Values of which some are missing, for tests of averages."""

import numpy as np


def gappy(rng, shape, share):
    """Return numbers around 100, a share of them missing."""
    values = rng.standard_normal(shape) + 100
    values[rng.random(shape) < share] = np.nan
    return values
