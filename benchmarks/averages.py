"""Time exponential averages of ten million values in recfact, pandas, its numba engine, polars and xarray.

python benchmarks/averages.py [CASE [LIBRARY ...]]

It takes some minutes, most of them for a million groups in pandas; one case alone can be named, and of it some
libraries. All calls run once before they are timed. One that takes more than five seconds is timed once. pandas needs
numba for its engine, and xarray needs numbagg: pip install pandas polars xarray numba numbagg. The engine of pandas
compiles the times of all values into its code, which takes half a minute for ten thousand values. So it is only timed
with so many.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import xarray as xr

import recfact as rf
from recfact.bench.machine import describe
from recfact.bench.timing import Effort, Quartiles, interleave, run_once

VALUES = 10**7
GROUP = 10  # values of a group, on average
FEW = 10**4  # values for which the numba engine of pandas still compiles
SLOW = 5.0  # seconds
EFFORT = Effort(seconds=4, least=3, most=9, pause=0.01)
Calls = dict[str, Callable[[], Any]]
LIBRARIES = ("recfact", "pandas", "pandas, numba", "polars", "xarray")


def rolling(values: Any) -> Any:
    """Return what xarray averages."""
    return xr.DataArray(values, dims="t").rolling_exp(t=10, window_type="halflife")


def mean(values: Any) -> Calls:
    """Return the calls for the weighted mean of all values so far."""
    return {
        "recfact": partial(rf.ewm, values, halflife=10),
        "pandas": pd.Series(values).ewm(halflife=10).mean,
        "polars": partial(pl.Series(values).ewm_mean, half_life=10),
        "xarray": rolling(values).mean,
    }


def mean_of_few(values: Any) -> Calls:
    """Return the calls for the weighted mean of few values."""
    values = values[:FEW]
    compiled = partial(pd.Series(values).ewm(halflife=10).mean, engine="numba")
    return {**mean(values), "pandas, numba": compiled}


def recursive(values: Any) -> Calls:
    """Return the calls for the mean that starts from the first value."""
    return {
        "recfact": partial(rf.ewm, values, halflife=10, adjust=False),
        "pandas": pd.Series(values).ewm(halflife=10, adjust=False).mean,
        "polars": partial(pl.Series(values).ewm_mean, half_life=10, adjust=False),
    }


def variance(values: Any) -> Calls:
    """Return the calls for the variance."""
    return {
        "recfact": partial(rf.ewm, values, halflife=10, stat="var"),
        "pandas": pd.Series(values).ewm(halflife=10).var,
        "polars": partial(pl.Series(values).ewm_var, half_life=10),
        "xarray": rolling(values).var,
    }


def gappy(values: Any) -> Calls:
    """Return the calls for the mean of values of which a tenth is missing. polars has no NaN that it skips."""
    there = np.where(np.random.default_rng(31).random(len(values)) < 0.1, np.nan, values)
    calls = mean(there)
    del calls["polars"]
    return calls


def uneven_times(values: Any) -> Any:
    """Return when values are measured: every 500 seconds, on average."""
    steps = np.random.default_rng(32).integers(1, 10**6, len(values))
    return pd.Timestamp("2001-01-01") + pd.to_timedelta(steps.cumsum(), "ms")


def uneven(values: Any) -> Calls:
    """Return the calls for the mean over uneven times."""
    times = uneven_times(values)
    return {
        "recfact": partial(rf.ewm, values, halflife="10min", times=times),
        "pandas": pd.Series(values, times).ewm(halflife="10min", times=times).mean,
    }


def uneven_recursive(values: Any) -> Calls:
    """Return the calls for the mean over uneven times that starts from the first value."""
    times = uneven_times(values)
    frame = pl.DataFrame({"time": times.to_numpy(), "value": values})
    return {
        "recfact": partial(rf.ewm, values, halflife="10min", times=times, adjust=False),
        "pandas": pd.Series(values, times).ewm(halflife="10min", times=times, adjust=False).mean,
        "polars": lambda: frame.select(pl.col("value").ewm_mean_by("time", half_life="10m")),
    }


def groups(values: Any) -> Calls:
    """Return the calls for the mean in each group."""
    n, count = len(values), len(values) // GROUP
    offsets = np.sort(np.concatenate([[0], np.random.default_rng(33).integers(0, n, count - 1), [n]]))
    group = np.repeat(np.arange(count), np.diff(offsets))
    frame = pl.DataFrame({"group": group, "value": values})
    return {
        "recfact": partial(rf.ewm, values, halflife=10, offsets=offsets),
        "pandas": pd.Series(values).groupby(group).ewm(halflife=10).mean,
        "polars": lambda: frame.select(pl.col("value").ewm_mean(half_life=10).over("group")),
    }


CASES: dict[str, Callable[[Any], Calls]] = {
    "mean": mean,
    "mean of 10,000 values": mean_of_few,
    "mean, recursive": recursive,
    "variance": variance,
    "mean, a tenth missing": gappy,
    "mean, uneven times": uneven,
    "mean, recursive, uneven times": uneven_recursive,
    "mean of a million groups": groups,
}
"""What makes the calls of each case, by library. Libraries that have nothing for it are left out."""


def medians(calls: Calls) -> dict[str, float]:
    """Return the seconds that each call takes: the median of several, or one time if it is slow."""
    for call in calls.values():
        call()
    found = {name: run_once(call, 1) for name, call in calls.items()}
    quick = {name: calls[name] for name, seconds in found.items() if seconds < SLOW}
    times = zip(*interleave(list(quick.values()), EFFORT), strict=True)
    return found | {name: Quartiles.of(each).median for name, each in zip(quick, times, strict=True)}


def main(*chosen: str) -> None:
    """Print a table of milliseconds, and the machine."""
    case, libraries = chosen[:1], chosen[1:] or LIBRARIES
    print("| |", " | ".join(libraries), "|")
    print("|---" * (len(libraries) + 1) + "|")
    values = np.random.default_rng(30).standard_normal(VALUES)
    for name, make in CASES.items():
        if not case or name in case:
            found = medians({library: call for library, call in make(values).items() if library in libraries})
            cells = (f"{found[library] * 1e3:.3g}" if library in found else "" for library in libraries)
            print(f"| {name} |", " | ".join(cells), "|", flush=True)
    versions = ", ".join(f"{each.__name__} {each.__version__}" for each in (pd, pl, xr, np))
    print(f"\nMilliseconds for {VALUES} values of float64. {describe()['processor']}; {versions}.")


if __name__ == "__main__":
    main(*sys.argv[1:])
