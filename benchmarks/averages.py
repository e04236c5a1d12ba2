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
LIBRARIES = ("recfact", "pandas", "pandas, numba", "polars", "xarray")


def cases() -> dict[str, dict[str, Callable[[], Any]]]:
    """Return the calls of each case, by library. Those that have nothing for it are left out."""
    rng = np.random.default_rng(30)
    values = rng.standard_normal(VALUES)
    gappy = np.where(rng.random(VALUES) < 0.1, np.nan, values)
    times = pd.Timestamp("2001-01-01") + pd.to_timedelta(rng.integers(1, 10**6, VALUES).cumsum(), "ms")
    offsets = np.sort(np.concatenate([[0], rng.integers(0, VALUES, GROUPS - 1), [VALUES]]))
    groups = np.repeat(np.arange(GROUPS), np.diff(offsets))
    series, polars = pd.Series(values), pl.Series(values)
    frame = pl.DataFrame({"group": groups, "value": values})

    def pandas_of(window: Any) -> dict[str, Callable[[], Any]]:
        return {"pandas": window.mean, "pandas, numba": partial(window.mean, engine="numba")}

    return {
        "mean": {
            "recfact": partial(rf.ewm, values, halflife=10),
            **pandas_of(series.ewm(halflife=10)),
            "polars": partial(polars.ewm_mean, half_life=10),
            "xarray": xr.DataArray(values, dims="t").rolling_exp(t=10, window_type="halflife").mean,
        },
        "mean, recursive": {
            "recfact": partial(rf.ewm, values, halflife=10, adjust=False),
            **pandas_of(series.ewm(halflife=10, adjust=False)),
            "polars": partial(polars.ewm_mean, half_life=10, adjust=False),
        },
        "variance": {
            "recfact": partial(rf.ewm, values, halflife=10, stat="var"),
            "pandas": series.ewm(halflife=10).var,
            "polars": partial(polars.ewm_var, half_life=10),
            "xarray": xr.DataArray(values, dims="t").rolling_exp(t=10, window_type="halflife").var,
        },
        "mean, a tenth missing": {
            "recfact": partial(rf.ewm, gappy, halflife=10),
            **pandas_of(pd.Series(gappy).ewm(halflife=10)),
            "xarray": xr.DataArray(gappy, dims="t").rolling_exp(t=10, window_type="halflife").mean,
        },
        "mean, uneven times": {
            "recfact": partial(rf.ewm, values, halflife="10min", times=times),
            **pandas_of(pd.Series(values, times).ewm(halflife="10min", times=times)),
        },
        "mean of a million groups": {
            "recfact": partial(rf.ewm, values, halflife=10, offsets=offsets),
            **pandas_of(series.groupby(groups).ewm(halflife=10)),
            "polars": lambda: frame.select(pl.col("value").ewm_mean(half_life=10).over("group")),
        },
    }


def main(*chosen: str) -> None:
    """Print a table of medians in milliseconds, and the machine."""
    print("| |", " | ".join(LIBRARIES), "|")
    print("|---" * (len(LIBRARIES) + 1) + "|")
    for name, calls in cases().items():
        if not chosen or name in chosen:
            times = zip(*interleave(list(calls.values()), EFFORT), strict=True)
            medians = dict(zip(calls, (f"{Quartiles.of(each).median * 1e3:.0f}" for each in times), strict=True))
            print(f"| {name} |", " | ".join(medians.get(library, "") for library in LIBRARIES), "|", flush=True)
    versions = ", ".join(f"{each.__name__} {each.__version__}" for each in (pd, pl, xr, np))
    print(f"\nMilliseconds for {VALUES} values of float64. {describe()['processor']}; {versions}.")


if __name__ == "__main__":
    main(*sys.argv[1:])
