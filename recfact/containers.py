"""Arrays of other libraries: how they are read, how their labels are matched, and how a result becomes one of them.

Types are recognised by their names and by those of their base classes, so no library is imported for that. A caller who
passes an array of a library has imported it already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Set
from typing import Any, NamedTuple

import numpy as np

from recfact.checks import integer
from recfact.errors import ArrayTypeError, DTypeError, ShapeError, shown


class Container(NamedTuple):
    """How the arrays of a library are treated.

    Parameters
    ----------
    read : function of (value, name)
        Returns the numbers as a plain array, of NumPy or of the library that holds them.
    wrap : function of (leader, result)
        Returns a plain result as an array like `leader`.
    fit : function of (value, leader, left_out, name), optional
        For arrays with labels: reads `value` as an array that broadcasts against `leader`. If an axis is left out, it
        broadcasts against one step of `leader`.
    axis : function of (axis, leader), optional
        For arrays with labels: returns the number of an axis.
    kinds : str
        Kinds of the number types that the library holds. Empty means all.
    """

    read: Callable[[Any, str], Any]
    wrap: Callable[[Any, Any], Any]
    fit: Callable[[Any, Any, int | None, str], Any] | None = None
    axis: Callable[[Any, Any], Any] | None = None
    kinds: str = ""


def names(kind: type[Any]) -> set[tuple[str, str]]:
    """Return the library and the name of a type and of its base classes."""
    return {(base.__module__.partition(".")[0], base.__name__) for base in kind.__mro__}


def container_of(value: Any) -> str:
    """Return the library of an array if results are wrapped as arrays of that library, otherwise an empty text.

    Raises
    ------
    ArrayTypeError
        For lazy arrays, which hold no numbers yet, and for collections of arrays.
    """
    library = container_of_any(value)  # and first, because a Proxy of torch.fx claims to have any attribute
    graph = getattr(value, "__dask_graph__", None)
    if graph is not None and graph() is not None:  # dask's own, and xarray's that dask computes
        raise ArrayTypeError(
            f"arrays must hold their numbers, got {type(value).__name__}, which dask computes later; pass its "
            ".compute(); to compute later, call solve, vjp or ewm of recfact.dask, or map any other function over "
            "chunks that hold all of time, by map_blocks"
        )
    return library


def container_of_any(value: Any) -> str:
    """Return the library of an array as `container_of` does, even if dask will compute the array later."""
    known = names(type(value))
    for name in known & REFUSED.keys():
        raise ArrayTypeError(f"arrays must hold their numbers, got {type(value).__name__}, {REFUSED[name]}")
    return next((LIBRARIES[name] for name in known & LIBRARIES.keys()), "")


def read(value: Any, name: str) -> Any:
    """Return the numbers of an array of another library as a plain array. Other values are returned unchanged."""
    for known in names(type(value)) & READERS.keys():
        return READERS[known](value, name)
    return value


def unwrapped(
    libraries: Set[str], a: Any, u: Any, x0: Any, axis: Any, out: Any
) -> tuple[Any, Any, Any, Any, Callable[[Any], Any]]:
    """Return plain coefficients, inputs, initial states and the axis, and the function that wraps the result.

    Parameters
    ----------
    libraries : set of str
        The libraries of `a` and `u`. At least one of them has a container.

    Raises
    ------
    ArrayTypeError
        If they are of two libraries other than NumPy, or if there is an `out`.
    ShapeError
        If labels differ, if the result has axes without labels, or if the axis of time isn't given.
    DTypeError
        If numbers are missing.
    """
    ours = libraries - {"numpy"}
    if len(ours) > 1:
        raise ArrayTypeError(
            f"a and u must be of one library, with which NumPy's arrays may stand, got {' and '.join(sorted(ours))}; "
            "convert one of them"
        )
    (library,) = ours
    container = CONTAINERS[library]
    if out is not None:
        raise ArrayTypeError(
            f"out must be left out if the result is an array of {library}, because others can't write to its memory; "
            "leave it out, or pass the numbers of a and u, with numpy.asarray"
        )
    held = {name: value for name, value in (("u", u), ("a", a)) if container_of_any(value)}
    leader = max(held.values(), key=lambda value: value.ndim if container.fit else 0)  # u, if as many axes
    if container.axis:
        axis = container.axis(axis, leader)

    def plain(value: Any, name: str, left_out: int | None = None) -> Any:
        if container_of_any(value) != library:
            return value
        return container.fit(value, leader, left_out, name) if container.fit else container.read(value, name)

    a, u = plain(a, "a"), plain(u, "u")
    if library != "jax":
        _check_labelled(np.shape(a), np.shape(u), leader)
    x0 = plain(x0, "x0", axis)

    def wrap(result: Any) -> Any:
        if container.kinds and result.dtype.kind not in container.kinds:
            raise DTypeError(f"{library} has no numbers of {result.dtype}; pass a and u as NumPy arrays")
        return container.wrap(leader, result)

    return a, u, x0, axis, wrap


def without_labels(a: Any, u: Any, x0: Any = None, axis: Any = 0) -> tuple[Any, Any, Any, Any]:
    """Return coefficients, inputs, initial states and the axis as `unwrapped` does, for a result without labels.

    Arrays of libraries without a container are returned unchanged.
    """
    if type(a) is type(u) is np.ndarray:
        return a, u, x0, axis
    libraries = {container_of(a), container_of(u)} - {""}
    return unwrapped(libraries, a, u, x0, axis, None)[:4] if libraries else (a, u, x0, axis)


def check_plain(value: Any, name: str, reason: str) -> None:
    """Raise ArrayTypeError for an array with labels, for the reason given."""
    library = container_of(value)
    if library and CONTAINERS[library].fit:
        raise ArrayTypeError(
            f"{name} must be an array without labels here, got a {type(value).__name__}, because {reason}; pass its "
            ".to_numpy()"
        )


def _check_labelled(first: tuple[int, ...], second: tuple[int, ...], leader: Any) -> None:
    """Raise ShapeError if two arrays broadcast to a shape that isn't the shape of the array with labels."""
    try:
        shape = np.broadcast_shapes(first, second)
    except ValueError:
        return  # this is checked for all arrays
    if shape != tuple(leader.shape):
        raise ShapeError(
            f"a and u must broadcast to the shape of the {type(leader).__name__}, {tuple(leader.shape)}, whose labels "
            f"the result gets, got {first} and {second}; pass NumPy arrays"
        )


def _no_missing(missing: Any, name: str, call: str) -> None:
    if missing:
        raise DTypeError(f"{name} must hold all its numbers, got missing ones; fill them with .{call}(value)")


def _read_pandas(value: Any, name: str) -> Any:
    dtypes = list(value.dtypes) if hasattr(value, "columns") else [value.dtype]
    ours = [isinstance(dtype, np.dtype) for dtype in dtypes]
    if not all(ours):
        missing = value.loc[:, [not own for own in ours]] if hasattr(value, "columns") else value
        _no_missing(np.asarray(missing.isna()).any(), name, "fillna")
    kinds = [getattr(dtype, "numpy_dtype", dtype) for dtype in dtypes]
    numbers = kinds and all(isinstance(kind, np.dtype) and kind.kind in "biufc" for kind in kinds)
    # pandas itself makes objects of booleans beside other numbers.
    return value.to_numpy(dtype=np.result_type(*kinds) if numbers else None)


def _fit_pandas(value: Any, leader: Any, left_out: int | None, name: str) -> Any:
    numbers = _read_pandas(value, name)
    theirs = [index for place, index in enumerate(leader.axes) if place != left_out]
    fits = [[index.equals(other) for other in theirs] for index in value.axes]
    if len(fits) == len(theirs):
        if all(row[place] for place, row in enumerate(fits)):
            return numbers
    elif len(fits) == 1 == sum(fits[0]):  # a Series of one of the axes of a DataFrame
        return numbers[:, None] if fits[0][0] else numbers
    what = "the labels" if left_out is None else "the labels of one step, without time,"
    one = " (those of exactly one of its axes)" if value.ndim < len(theirs) else ""
    raise ShapeError(
        f"{name} must have {what} of the {type(leader).__name__} beside it{one}, got a {type(value).__name__} with "
        "others; align it with .reindex, or pass .to_numpy()"
    )


def _axis_pandas(axis: Any, leader: Any) -> int:
    allowed = {0: 0, "index": 0} | ({-1: 0} if leader.ndim == 1 else {1: 1, "columns": 1})
    if isinstance(axis, bool) or not isinstance(axis, str | int | np.integer) or axis not in allowed:
        raise ShapeError(
            f"axis must say which axis of the {type(leader).__name__} is time, {' or '.join(map(repr, allowed))}, got "
            f"{shown(axis)}"
        )
    return allowed[axis]


def _wrap_pandas(leader: Any, result: Any) -> Any:
    labels = {"name": leader.name} if leader.ndim == 1 else {"columns": leader.columns}
    return leader._constructor(result, index=leader.index, copy=False, **labels).__finalize__(leader)


def _fit_xarray(value: Any, leader: Any, left_out: int | None, name: str) -> Any:
    dims = [dim for place, dim in enumerate(leader.dims) if place != left_out]
    if not set(value.dims) <= set(dims):
        raise ShapeError(
            f"{name} must have dimensions among {', '.join(map(repr, dims)) or 'none'}, got "
            f"{', '.join(map(repr, value.dims))}; rename them, or pass .to_numpy()"
        )
    try:
        sys.modules["xarray"].align(value, leader, join="exact", copy=False)
    except ValueError as error:
        raise ShapeError(
            f"{name} must have the coordinates of the DataArray beside it, got others ({error}); align them with "
            "xarray.align, or pass .to_numpy()"
        ) from error
    return value.expand_dims([dim for dim in dims if dim not in value.dims]).transpose(*dims).data


def _axis_xarray(axis: Any, leader: Any) -> Any:
    if isinstance(axis, str) and axis in leader.dims:
        return leader.dims.index(axis)
    if isinstance(axis, str) or (leader.ndim > 1 and integer(axis, "axis") < 0):
        raise ShapeError(
            f"axis must say which dimension of the DataArray is time, one of {', '.join(map(repr, leader.dims))}, or "
            f"its number from 0, got {shown(axis)}"
        )
    return 0 if leader.ndim == 1 and axis == -1 else axis


def _wrap_xarray(leader: Any, result: Any) -> Any:
    wrapped = leader.copy(data=result)
    wrapped.encoding = {}  # how the file had those numbers, perhaps as small integers
    return wrapped


def _read_polars(value: Any, name: str) -> Any:
    _no_missing(value.null_count(), name, "fill_null")
    if value.dtype.is_nested():
        raise DTypeError(f"{name} must hold numbers, got a Series of {value.dtype}; pass .to_list()")
    if str(value.dtype) in ("Int128", "UInt128"):
        raise DTypeError(f"{name} must be of a number type that NumPy has, got {value.dtype}; .cast it")
    return value.to_numpy()


def with_gaps(value: Any) -> Any:
    """Return the numbers of pandas or polars, with NaN for missing ones; float64 if they aren't plain floats."""
    if container_of(value) == "polars":
        if not (value.dtype.is_numeric() or str(value.dtype) in ("Boolean", "Null")):
            raise DTypeError(f"u must hold real numbers, got a Series of {value.dtype}; .cast it to Float64")
        return value.to_numpy() if value.dtype.is_float() else value.cast(sys.modules["polars"].Float64).to_numpy()
    names, dtypes = (value.columns, value.dtypes) if hasattr(value, "columns") else ([value.name], [value.dtype])
    if all(isinstance(dtype, np.dtype) and dtype.kind == "f" for dtype in dtypes):
        return value.to_numpy()
    try:
        if any(dtype.kind in "cmM" for dtype in dtypes):
            raise TypeError("neither complex numbers nor times are real numbers")
        return value.to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError) as error:
        held = {str(dtype): name for name, dtype in zip(names, dtypes, strict=True)}
        kinds = ", ".join(f"{dtype} in {name!r}" for dtype, name in held.items())
        raise DTypeError(f"u must hold real numbers, got {kinds}; choose the columns that do") from error


def _read_jax(value: Any, name: str) -> Any:
    if value.is_deleted():
        raise ArrayTypeError(f"{name} must hold its numbers, got an array that JAX has deleted (or that was donated)")
    if len(value.devices()) > 1 or next(iter(value.devices())).platform != "cpu":
        raise ArrayTypeError(
            f"{name} must lie on one CPU device of JAX, got {value.sharding}; move it with jax.device_put"
        )
    return np.asarray(value)


def _wrap_jax(leader: Any, result: Any) -> Any:
    return sys.modules["jax"].device_put(result, leader.sharding if leader.committed else None)


CONTAINERS = {
    "jax": Container(_read_jax, _wrap_jax, kinds="fcV"),
    "pandas": Container(_read_pandas, _wrap_pandas, _fit_pandas, _axis_pandas),
    "polars": Container(_read_polars, lambda leader, result: type(leader)(leader.name, result), kinds="fO"),
    "xarray": Container(lambda value, _: value.data, _wrap_xarray, _fit_xarray, _axis_xarray),
}

LIBRARIES = {
    ("jaxlib", "ArrayImpl"): "jax",
    ("pandas", "DataFrame"): "pandas",
    ("pandas", "Series"): "pandas",
    ("polars", "Series"): "polars",
    ("xarray", "DataArray"): "xarray",
}

READERS = {name: CONTAINERS[library].read for name, library in LIBRARIES.items()} | {
    ("pandas", "ExtensionArray"): _read_pandas,
    ("pandas", "Index"): _read_pandas,
}

IN_GROUPS = (
    "whose rows are in groups; sort the table by them, and pass columns of it, with offsets=, where groups start"
)

REFUSED = {
    (
        "jax",
        "Tracer",
    ): "which JAX traces (jit, vmap, grad) and which holds no numbers yet; call recfact outside of that, or "
    "in a function for jax.pure_callback that first makes NumPy arrays of its arguments",
    ("pandas", "BaseWindow"): "which is a window over a table; pass the table or the Series itself",
    ("pandas", "GroupBy"): f"{IN_GROUPS}, [0, *groups.size().cumsum()]",
    ("polars", "DataFrame"): "which is a table; pass its columns as Series, or .to_numpy()",
    ("polars", "Expr"): "which is an expression; evaluate it, and pass the Series",
    ("polars", "GroupBy"): IN_GROUPS,
    ("polars", "LazyFrame"): "which is computed later; .collect() it, and pass its columns as Series",
    ("torch", "Proxy"): "which torch.fx traces and which holds no numbers yet; call recfact outside of what is traced",
    ("xarray", "Dataset"): "which is a collection; pass one of its DataArrays, or .to_dataarray()",
}
