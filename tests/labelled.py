"""Arrays of other libraries, one and several axes, with labels where the library has them."""

import numpy as np
import pytest

A, U = np.array([0.5, 0.25, -1.0, 0.5]), np.array([1.0, 2.0, -3.0, 4.0])
TABLE = np.arange(12.0).reshape(4, 3)
DAYS = np.array(["2026-01-01", "2026-01-03", "2026-01-04", "2026-02-01"], "M8[ns]")


def pandas():
    return pytest.importorskip("pandas", reason="pandas is not installed")


def xarray():
    return pytest.importorskip("xarray", reason="xarray is not installed")


def polars():
    return pytest.importorskip("polars", reason="polars is not installed")


def jax():
    return pytest.importorskip("jax", reason="JAX is not installed")


def dask_array():
    return pytest.importorskip("dask.array", reason="dask is not installed")


def series(values=U, **options):
    return pandas().Series(values, **{"index": DAYS[: len(values)], "name": "load", **options})


def frame(values=TABLE, **options):
    return pandas().DataFrame(values, **{"index": DAYS, "columns": ["x", "y", "z"], **options})


def data_array(values=TABLE, dims=("time", "channel"), **options):
    coords = {"time": DAYS[: len(values)], "channel": ["x", "y", "z"], "place": ("channel", [1, 2, 3]), "run": 7}
    kept = {
        name: of for name, of in coords.items() if name in (*dims, "run") or (name, "channel") == ("place", dims[-1])
    }
    return xarray().DataArray(values, dims=dims, **{"coords": kept, "name": "load", **options})


def labels(value):
    """Return all of an array of another library but its numbers."""
    match type(value).__module__.partition(".")[0]:
        case "pandas":
            return type(value), [index.to_list() for index in value.axes], getattr(value, "name", None)
        case "xarray":
            return type(value), value.dims, {name: of.values.tolist() for name, of in value.coords.items()}, value.name
        case "polars":
            return type(value), value.name
        case _:
            return (type(value),)


ONE_AXIS = {
    "pandas": series,
    "xarray": lambda values=U: data_array(values, dims=("time",)),
    "polars": lambda values=U: polars().Series("load", values),
    "jax": lambda values=U: jax().numpy.asarray(values),
    "jax, as device": lambda values=U: jax().device_put(values, jax().devices("cpu")[0]),
}
one_axis = pytest.mark.parametrize("make", ONE_AXIS.values(), ids=ONE_AXIS)
