"""`ewm`: exponentially weighted means, sums and variances as users of pandas know them, as recurrences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy, check_axis, library_of, native, to_torch
from recfact.checks import LONGEST, boolean, choice, positive_integer
from recfact.containers import CONTAINERS, container_of, with_gaps
from recfact.cpu import limits
from recfact.decay import check_decay, read_times
from recfact.errors import ArrayTypeError, DTypeError, OptionError, ShapeError
from recfact.number_types import REALS
from recfact.offsets import check_offsets
from recfact.weighted import Average, Weighting, no_state
from recfact.windows import Full, WindowLike, check_window

STATISTICS = ("mean", "sum", "var", "std")


def ewm(
    u: Any,
    *,
    halflife: Any = None,
    tau: Any = None,
    span: float | None = None,
    com: float | None = None,
    alpha: float | None = None,
    times: Any = None,
    adjust: bool = True,
    ignore_na: bool = False,
    min_periods: int = 0,
    bias: bool = False,
    offsets: Any = None,
    axis: int | str = -1,
    window: WindowLike = Full(),
    stat: str = "mean",
) -> Any:
    """Return exponentially weighted means, sums, variances or standard deviations along an axis.

    The older a value is, the less it counts. Definitions and defaults are those of ``pandas.DataFrame.ewm``. Some
    options go further than pandas: all statistics take `times`, and sums and means take a window.

    Parameters
    ----------
    u : array_like
        Real values. NaN and infinity count as missing, and so do None and the missing values of pandas and polars.
    halflife, tau : float or duration
        The number of steps after which a weight has fallen to a half (`halflife`) or to 1/e (`tau`). With `times` it is
        the time after which it has. If the times are instants, give a timedelta or a text such as "30D", "12h" or
        "5min".
    span, com, alpha : float
        Three other ways to say the same. `span` is at least 1 step: alpha = 2 / (span + 1). `com`, the centre of mass
        of the weights, is at least 0 steps: alpha = 1 / (com + 1). `alpha` is the weight of the newest value itself,
        0 < alpha <= 1.
    times : array_like, shape (n,), optional
        When the values were measured: numbers, instants or elapsed times that never fall. By default values are one
        step apart.
    adjust : bool, default True
        Whether to divide by the sum of the weights. False takes the recursive form, which starts from the first value:
        y_i = (1 - alpha) y_{i-1} + alpha u_i.
    ignore_na : bool, default False
        Whether no time passes at missing values.
    min_periods : int, default 0
        Results are NaN until there are so many values, and at least 1.
    bias : bool, default False
        Whether to leave out the correction that makes variances unbiased.
    offsets : array_like of int, shape (N + 1,), optional
        Where groups start, and where the last one ends, as for `solve`. Nothing passes from one group to another.
    axis : int or str, default -1
        The axis along which time runs. For a DataFrame the default is its index.
    window : Full, Uniform, Jagged or str, default Full()
        Which values are seen at all. Sums take a window, and means with `adjust`.
    stat : {"mean", "sum", "var", "std"}, default "mean"
        What is computed.

    Returns
    -------
    array
        The statistics, in the shape and the library of `u` and with its labels. The number type is that of `u`, or
        float64 for integers and booleans. At a missing value a mean or variance keeps its last value.

    Raises
    ------
    OptionError, ShapeError
        (ValueErrors) If options are out of range or exclude each other, or if times fall or don't fit.
    DTypeError, ArrayTypeError, OptionTypeError
        (TypeErrors) If values aren't real numbers, if they lie on a GPU, or if an option has a wrong type.

    Notes
    -----
    Let r_i be the weight that the earlier values keep beside the i-th. Three recurrences give the statistics:

    * the mean m_i = r_i m_{i-1} + (1 - r_i) u_i
    * the biased variance v_i = r_i v_{i-1} + r_i (1 - r_i) (u_i - m_{i-1})^2
    * q_i = r_i^2 q_{i-1} + 2 r_i (1 - r_i), by which v_i is divided to make it unbiased

    Nothing cancels in them (West, 1979, for weighted data). The mean of equal values is that value (in a window, up to
    rounding), and their variance is 0.

    There are two deliberate differences from pandas. The number type stays, where pandas returns float64. And with
    ``adjust=False`` and alpha = 0.5, gaps are weighted as for any other alpha.

    Examples
    --------
    >>> import recfact as rf
    >>> rf.ewm([1.0, 2.0, 4.0], alpha=0.5)
    array([1.        , 1.66666667, 3.        ])
    >>> rf.ewm([1.0, 2.0, 4.0], alpha=0.5, adjust=False)
    array([1.  , 1.5 , 2.75])
    >>> rf.ewm([1.0, 3.0], halflife="7D", times=np.array(["2001-01-01", "2001-01-15"], "datetime64[D]"))
    array([1. , 2.6])
    """
    values, axis, wrap = _read(u, axis)
    _check_labels(u, times, axis)
    decay = {"halflife": halflife, "tau": tau, "span": span, "com": com, "alpha": alpha}
    options = {"adjust": adjust, "ignore_na": ignore_na, "min_periods": min_periods, "bias": bias}
    wanted = check_average(values.shape[axis], decay, times, offsets, window, stat, **options)
    found = np.empty(values.shape, values.dtype)
    wanted.put(values, found, axis, no_state(values.size // max(1, values.shape[axis])), threads=limits.MOST_THREADS)
    return wrap(found)


def check_average(
    steps: int,
    decay: Mapping[str, Any],
    times: Any,
    offsets: Any,
    window: WindowLike,
    stat: Any,
    *,
    adjust: Any,
    ignore_na: Any,
    min_periods: Any,
    bias: Any,
) -> Average:
    """Return what `ewm` computes of so many steps, from its arguments.

    Parameters
    ----------
    decay : mapping
        The arguments halflife, tau, span, com and alpha. All except one are None.
    """
    stat = choice(stat, "stat", STATISTICS)
    window = check_window(window)
    adjust, ignore_na, bias = boolean(adjust, "adjust"), boolean(ignore_na, "ignore_na"), boolean(bias, "bias")
    if stat == "sum" and not adjust:
        raise OptionError("adjust=False has no sums, only stat='mean', 'var' and 'std'; leave adjust out")
    if window != Full() and (stat in ("var", "std") or not adjust):
        raise OptionError(f"a window goes with means and sums, and with adjust=True, got {window}; leave it out")
    starts = np.array([0, steps]) if offsets is None else check_offsets(offsets, steps)
    starts = starts[np.diff(starts, prepend=-1) > 0]  # no empty groups
    at = None if times is None else read_times(times, steps)
    least = max(1, positive_integer(min_periods, "min_periods", least=0, most=LONGEST))
    forgets = check_decay(**decay, instants=None if at is None else at.dtype.kind == "M")
    kind = ("biased" if bias else "unbiased") if stat in ("var", "std") else stat
    return Average(Weighting(starts, at, forgets, adjust, ignore_na, least), kind, stat == "std", window)


def _check_labels(u: Any, times: Any, axis: int) -> None:
    """Raise ShapeError if times of pandas have other labels than the values."""
    if container_of(u) == container_of(times) == "pandas" and not times.index.equals(u.axes[axis]):
        raise ShapeError(
            f"times must have the labels of the {type(u).__name__} beside it, got others; align it with .reindex, or "
            "pass .to_numpy()"
        )


def _read(u: Any, axis: Any) -> tuple[Array, int, Callable[[Array], Any]]:
    """Return the values, NaN where they are missing, the axis of time, and what wraps the result."""
    library = library_of(u) if not isinstance(u, np.ma.MaskedArray) else "numpy"
    if library == "gpu":
        raise ArrayTypeError(
            f"u must be on the host, got a {type(u).__name__} on a GPU; copy it with cupy.asnumpy or .cpu()"
        )
    wrap: Callable[[Array], Any] = to_torch if library == "torch" else np.asarray
    if library in CONTAINERS:
        container = CONTAINERS[library]
        wrap = partial(container.wrap, u)
        if container.axis:
            of_a_table = library == "pandas" and u.ndim == 2 and isinstance(axis, Integral) and axis == -1
            axis = 0 if of_a_table else container.axis(axis, u)
        u = with_gaps(u) if library in ("pandas", "polars") else container.read(u, "u")
    elif isinstance(u, np.ma.MaskedArray):
        u = np.ma.filled(u.astype(float) if u.dtype.kind in "biu" else u, np.nan if u.dtype.kind != "M" else None)
    values = _plain(as_numpy(u, "u"))
    if not values.ndim and values.dtype != object:
        raise ShapeError("u must have at least one axis, got a scalar; pass a sequence")
    if values.dtype.kind in "biu":
        values = values.astype(float)
    if native(values.dtype) not in {kind.dtype for kind in REALS.values()}:
        raise DTypeError(f"u must hold real numbers, got {values.dtype}; convert them to float64")
    values = values.astype(native(values.dtype), copy=False)
    return values, check_axis(axis, values.ndim), wrap


def _plain(values: Array) -> Array:
    """Return real numbers that an array holds as objects as floats, with NaN for None and NA. Others stay objects."""
    if values.dtype != object or values.ndim == 0:
        return values
    there = np.array([value is not None and type(value).__name__ != "NAType" for value in values.flat], dtype=bool)
    try:
        numbers = np.array(values.ravel()[there].tolist())
    except ValueError:  # lists of unequal lengths
        return values
    if numbers.ndim > 1 or numbers.dtype.kind not in "biuf":
        return values
    found = np.full(values.size, np.nan, numbers.dtype if numbers.dtype.kind == "f" else float)
    found[there] = numbers
    return found.reshape(values.shape)
