"""Time exponential averages of ten million values in recfact, pandas and polars.

python benchmarks/averages.py
"""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl

import recfact as rf
from recfact.bench.timing import Effort, Quartiles, interleave

VALUES, GROUPS = 10**7, 10**6
EFFORT = Effort(seconds=10, least=3, most=9, pause=0.01)


def main() -> None:
    """Print a table of medians in milliseconds."""
    rng = np.random.default_rng(30)
    values = rng.standard_normal(VALUES)
    gappy = np.where(rng.random(VALUES) < 0.1, np.nan, values)
    times = pd.Timestamp("2001-01-01") + pd.to_timedelta(rng.integers(1, 10**6, VALUES).cumsum(), "ms")
    offsets = np.sort(np.concatenate([[0], rng.integers(0, VALUES, GROUPS - 1), [VALUES]]))
    groups = np.repeat(np.arange(GROUPS), np.diff(offsets))
    series, polars = pd.Series(values), pl.Series(values)
    frame = pl.DataFrame({"group": groups, "value": values})
    cases = {
        "mean": [
            partial(rf.ewm, values, halflife=10),
            series.ewm(halflife=10).mean,
            partial(polars.ewm_mean, half_life=10),
        ],
        "mean, recursive": [
            partial(rf.ewm, values, halflife=10, adjust=False),
            series.ewm(halflife=10, adjust=False).mean,
            partial(polars.ewm_mean, half_life=10, adjust=False),
        ],
        "variance": [
            partial(rf.ewm, values, halflife=10, stat="var"),
            series.ewm(halflife=10).var,
            partial(polars.ewm_var, half_life=10),
        ],
        "mean, a tenth missing": [
            partial(rf.ewm, gappy, halflife=10),
            pd.Series(gappy).ewm(halflife=10).mean,
        ],
        "mean, uneven times": [
            partial(rf.ewm, values, halflife="10min", times=times),
            pd.Series(values, times).ewm(halflife="10min", times=times).mean,
        ],
        "mean of a million groups": [
            partial(rf.ewm, values, halflife=10, offsets=offsets),
            series.groupby(groups).ewm(halflife=10).mean,
            lambda: frame.select(pl.col("value").ewm_mean(half_life=10).over("group")),
        ],
    }
    rows = [["", "recfact", "pandas", "polars"]]
    for name, calls in cases.items():
        medians = [Quartiles.of(seconds).median * 1e3 for seconds in zip(*interleave(calls, EFFORT), strict=True)]
        rows.append([name, *(f"{median:.0f}" for median in medians), *[""] * (3 - len(medians))])
    print(f"milliseconds for {VALUES} values of float64")
    for row in rows:
        print("{:26}{:>9}{:>9}{:>9}".format(*row))


if __name__ == "__main__":
    main()
