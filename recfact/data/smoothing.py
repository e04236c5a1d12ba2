"""The exponential average over uneven time steps, written as a recurrence."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from recfact.containers import without_labels
from recfact.errors import OptionError, ShapeError

Array = np.ndarray[Any, np.dtype[np.float64]]


def exponential_average(dt: ArrayLike, y: ArrayLike, tau: float) -> tuple[Array, Array]:
    """Return the coefficients and inputs of the recurrence that averages `y` over the time constant `tau`.

    The average forgets at the rate 1/tau: a_i = exp(-dt_i / tau) and u_i = (1 - a_i) y_i, so that every state is a
    weighted mean of the values so far. The longer the step before a value, the less of the past survives it.

    Parameters
    ----------
    dt : array_like, shape (n,)
        Time steps, not negative. dt[i] goes from value i-1 to value i. An infinite step forgets everything, so ``dt[0]
        = inf`` starts at the first value.
    y : array_like, shape (n,)
        The values.
    tau : float
        Time constant in the unit of `dt`, positive and finite.

    Returns
    -------
    a, u : ndarray of float64, shape (n,)

    Raises
    ------
    OptionError
        If `tau` isn't positive and finite, or a step is negative or NaN.
    ShapeError
        If `dt` and `y` aren't single sequences of one length.

    References
    ----------
    A. Eckner (2012), "Algorithms for unevenly spaced time series: moving averages and other rolling operators": the
    exponential average with next-point interpolation.

    Examples
    --------
    >>> a, u = exponential_average([np.inf, 1.0, 2.0], [5.0, 5.0, 5.0], tau=1 / np.log(2))
    >>> a.round(12).tolist()
    [0.0, 0.5, 0.25]
    >>> import recfact
    >>> recfact.solve(a, u).tolist()
    [5.0, 5.0, 5.0]
    """
    if not (np.isfinite(tau) and tau > 0):
        raise OptionError(f"tau must be positive and finite, got {tau}")
    dt, y, _, _ = without_labels(dt, y)
    steps, values = np.asarray(dt, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if steps.ndim != 1 or steps.shape != values.shape:
        raise ShapeError(
            f"dt and y must each be one sequence, and equally long, got shapes {steps.shape} and {values.shape}; "
            "call it for each channel"
        )
    if not np.all(steps >= 0):
        worst = int(np.flatnonzero(~(steps >= 0))[0])
        raise OptionError(f"time steps must not be negative or NaN, got dt[{worst}] = {steps[worst]}; sort the values")
    # expm1 gives 1 - a with all its digits even if tau is many steps long. A subtraction would lose some.
    with np.errstate(over="ignore"):  # a step of many times tau has the coefficient 0
        ages = steps / tau
    return np.exp(-ages), -np.expm1(-ages) * values
