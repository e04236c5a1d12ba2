"""Time exponential averages of ten million values in recfact, pandas, its numba engine, polars and xarray.

python benchmarks/averages.py [CASE]

It takes some minutes, most of them for a million groups in pandas; one case alone can be named. pandas needs numba for
its engine, and xarray needs numbagg: pip install pandas polars xarray numba numbagg. If numba takes all memory when it
compiles, set NUMBA_LOOP_VECTORIZE=0: a recurrence isn't vectorized anyway.
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
from recfact.bench.timing import Effort, Quartiles, interleave

VALUES, GROUPS = 10**7, 10**6
EFFORT = Effort(seconds=4, least=3, most=9, pause=0.01)
Calls = dict[str, Callable[[], Any]]
LIBRARIES = ("recfact", "pandas", "pandas, numba", "polars", "xarray")


def pandas_of(window: Any) -> Calls:
    """Return the mean of pandas, and that of its numba engine."""
    return {"pandas": window.mean, "pandas, numba": partial(window.mean, engine="numba")}


def rolling(values: Any) -> Any:
    """Return what xarray averages."""
    return xr.DataArray(values, dims="t").rolling_exp(t=10, window_type="halflife")


def mean(values: Any) -> Calls:
    """Return the calls for the weighted mean of all values so far."""
    return {
        "recfact": partial(rf.ewm, values, halflife=10),
        **pandas_of(pd.Series(values).ewm(halflife=10)),
        "polars": partial(pl.Series(values).ewm_mean, half_life=10),
        "xarray": rolling(values).mean,
    }


def recursive(values: Any) -> Calls:
    """Return the calls for the mean that starts from the first value."""
    return {
        "recfact": partial(rf.ewm, values, halflife=10, adjust=False),
        **pandas_of(pd.Series(values).ewm(halflife=10, adjust=False)),
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
    there = np.where(np.random.default_rng(31).random(VALUES) < 0.1, np.nan, values)
    calls = mean(there)
    del calls["polars"]
    return calls


def uneven(values: Any) -> Calls:
    """Return the calls for the mean over uneven times."""
    steps = np.random.default_rng(32).integers(1, 10**6, VALUES)
    times = pd.Timestamp("2001-01-01") + pd.to_timedelta(steps.cumsum(), "ms")
    return {
        "recfact": partial(rf.ewm, values, halflife="10min", times=times),
        **pandas_of(pd.Series(values, times).ewm(halflife="10min", times=times)),
    }


def groups(values: Any) -> Calls:
    """Return the calls for the mean in each group."""
    cuts = np.random.default_rng(33).integers(0, VALUES, GROUPS - 1)
    offsets = np.sort(np.concatenate([[0], cuts, [VALUES]]))
    group = np.repeat(np.arange(GROUPS), np.diff(offsets))
    frame = pl.DataFrame({"group": group, "value": values})
    return {
        "recfact": partial(rf.ewm, values, halflife=10, offsets=offsets),
        **pandas_of(pd.Series(values).groupby(group).ewm(halflife=10)),
        "polars": lambda: frame.select(pl.col("value").ewm_mean(half_life=10).over("group")),
    }


CASES: dict[str, Callable[[Any], Calls]] = {
    "mean": mean,
    "mean, recursive": recursive,
    "variance": variance,
    "mean, a tenth missing": gappy,
    "mean, uneven times": uneven,
    "mean of a million groups": groups,
}
"""What makes the calls of each case, by library. Libraries that have nothing for it are left out."""


def main(*chosen: str) -> None:
    """Print a table of medians in milliseconds, and the machine."""
    print("| |", " | ".join(LIBRARIES), "|")
    print("|---" * (len(LIBRARIES) + 1) + "|")
    values = np.random.default_rng(30).standard_normal(VALUES)
    for name, make in CASES.items():
        if not chosen or name in chosen:
            calls = make(values)
            times = zip(*interleave(list(calls.values()), EFFORT), strict=True)
            medians = dict(zip(calls, (f"{Quartiles.of(each).median * 1e3:.0f}" for each in times), strict=True))
            print(f"| {name} |", " | ".join(medians.get(library, "") for library in LIBRARIES), "|", flush=True)
    versions = ", ".join(f"{each.__name__} {each.__version__}" for each in (pd, pl, xr, np))
    print(f"\nMilliseconds for {VALUES} values of float64. {describe()['processor']}; {versions}.")


if __name__ == "__main__":
    main(*sys.argv[1:])
