"""The table of the page on the engine, "The same bits": each of its cells is measured."""

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layouts import Layout
from walks import DTYPES

import recfact as rf
from recfact.cpu import limits
from recfact.windows import Full, Jagged, Uniform

Array = np.ndarray[Any, Any]
Arrays = tuple[Array, Array, dict[str, Any]]

PAGE = Path(__file__).parents[2] / "docs" / "engine.md"
FEW = ("float32", "float64", "complex64")
"""The types of the default run, each with every second window: each pair is many kernels to be compiled."""
WINDOWS = [Full(), Jagged(16), Jagged(100), Uniform(32), Uniform(48)]
OTHERS = [Full(), Jagged(16), Jagged(3), Uniform(5), Uniform(32)]
SHAPES = {
    "one sequence": (700,),
    "rows": (3, 5, 700),
    "a few channels": (3, 700, 2),
    "channels": (3, 200, 17),
}
AXES = {"one sequence": 0, "rows": 2, "a few channels": 1, "channels": 1}


def table() -> dict[str, dict[str, str]]:
    """Return the cells of the page's table, by row and column."""
    text = PAGE.read_text(encoding="utf-8").split("\n## The same bits\n")[1].split("\n## ")[0]
    header, _, *rows = [line.strip("| ").split("|") for line in text.splitlines() if line.startswith("|")]
    names = [name.strip() for name in header]
    cells = [dict(zip(names, map(str.strip, [*row, "", ""]), strict=False)) for row in rows]
    return {row[names[0]]: {name: row[name] for name in names[1:]} for row in cells}


def problems(column: str, dtypes: Iterable[str]) -> Iterator[Arrays]:
    """Yield coefficients and inputs, time in the column's place, and options."""
    rng = np.random.default_rng(3)
    shape, axis = SHAPES[column], AXES[column]
    windows = OTHERS if column == "channels" else WINDOWS
    if column == "a few channels":
        dtypes, windows = ("float32", "float16", "bfloat16"), [Full()]
    every = product(enumerate(DTYPES[name] for name in dtypes), enumerate(windows), ("x0", "forward", "reverse"))
    for (place, dtype), (number, window), way in every:
        if dtypes == FEW and (place + number) % 2:
            continue
        turns = [1, -1, 0.6 + 0.8j] if dtype.kind == "c" else [1, -1]
        a = (1 - rng.uniform(0, 0.02, shape)) * rng.choice(turns, shape)
        options = {"window": window, "axis": axis, "reverse": way == "reverse"}
        if way == "x0":
            options["x0"] = rng.standard_normal((*shape[:axis], *shape[axis + 1 :])).astype(np.float32)
        yield a.astype(dtype), rng.standard_normal(shape).astype(dtype), options


def same_calls(a: Array, u: Array, options: dict[str, Any]) -> Iterator[Array]:
    yield rf.solve(a, u, **options)


def threads(a: Array, u: Array, options: dict[str, Any]) -> Iterator[Array]:
    for count in (2, 3, 5):
        yield rf.solve(a, u, threads=count, **options)


def addresses(a: Array, u: Array, options: dict[str, Any]) -> Iterator[Array]:
    for offset in (a.itemsize, 16, 64 - a.itemsize):
        layout = Layout(tuple(range(a.ndim)), (1,) * a.ndim, offset)
        yield rf.solve(layout.array(a), layout.array(u), out=layout.empty(u.shape, u.dtype)[0], **options)


def in_place(a: Array, u: Array, options: dict[str, Any]) -> Iterator[Array]:
    x = u.copy()
    yield rf.solve(a, x, out=x, **options)


def time_strides(a: Array, u: Array, options: dict[str, Any]) -> Iterator[Array]:
    for step in (2, -1, -3):
        layout = Layout(tuple(range(a.ndim)), tuple(step if i == options["axis"] else 1 for i in range(a.ndim)))
        yield rf.solve(layout.array(a), layout.array(u), out=layout.empty(u.shape, u.dtype)[0], **options)


def other_axes(a: Array, u: Array, options: dict[str, Any]) -> Iterator[Array]:
    axis = options["axis"]
    others = [i for i in range(a.ndim) if i != axis]
    for order, steps in (((*others[::-1],), (1, 2)), ((*others,), (-1, 3)), ((*others[::-1],), (-2, -1))):
        whole = (*order, axis) if axis == a.ndim - 1 else (axis, *order)
        layout = Layout(whole, tuple(1 if i == axis else steps[others.index(i)] for i in range(a.ndim)))
        yield rf.solve(layout.array(a), layout.array(u), out=layout.empty(u.shape, u.dtype)[0], **options)


def part(options: dict[str, Any], first: int, last: int) -> dict[str, Any]:
    return options | ({"x0": options["x0"][first:last]} if "x0" in options else {})


def beside(a: Array, u: Array, options: dict[str, Any]) -> Iterator[Array]:
    """Solve the sequences in two parts, or groups of a few channels."""
    parts = [rf.solve(a[i:j], u[i:j], **part(options, i, j)) for i, j in ((0, 1), (1, len(u)))]
    yield np.concatenate(parts)


def alone(a: Array, u: Array, options: dict[str, Any]) -> Iterator[Array]:
    axis, x = options["axis"], np.empty_like(u)
    for there in np.ndindex(*u.shape[:axis], *u.shape[axis + 1 :]):
        one = (*there[:axis], slice(None), *there[axis:])
        state = {"x0": options["x0"][there]} if "x0" in options else {}
        x[one] = rf.solve(a[one].copy(), u[one].copy(), **options | state | {"axis": 0})
    yield x


def broadcast(a: Array, u: Array, options: dict[str, Any]) -> Iterator[Array]:
    """Solve with coefficients of one number and of one step, and return what both ways to write them give."""
    for shared in (a[:1], a[..., :1], a.ravel()[:1].reshape((1,) * a.ndim)):
        written = rf.solve(np.broadcast_to(shared, a.shape).copy(), u, **options)
        yield np.stack([written, rf.solve(shared, u, **options)])


def more_steps(a: Array, u: Array, options: dict[str, Any]) -> Iterator[Array]:
    if options["reverse"]:
        return
    axis = options["axis"]
    for n in (64, 129, 191) if axis == 0 or u.shape[axis] < 512 else (512, 577, 639):
        first = (*[slice(None)] * axis, slice(n))
        yield np.concatenate([rf.solve(a[first].copy(), u[first].copy(), **options)])


def pieces(a: Array, u: Array, options: dict[str, Any]) -> Iterator[Array]:
    axis, n = options["axis"], u.shape[options["axis"]]
    given = {name: value for name, value in options.items() if name != "reverse"}
    if options["reverse"]:
        return
    for step in (5, 37, 64, 150):
        cuts = range(step, n, step)
        chunks = zip(np.split(a, cuts, axis), np.split(u, cuts, axis), strict=True)
        yield np.concatenate(list(rf.solve_chunks(chunks, **given)), axis)


Check = Callable[[Array, Array, dict[str, Any]], Iterator[Array]]
CHECKS: dict[str, Check] = {
    "the call": same_calls,
    "the number of threads": threads,
    "the addresses": addresses,
    "whether `out` is `u`": in_place,
    "the bytes from step to step": time_strides,
    "the order of the other axes, and the bytes between their numbers": other_axes,
    "the sequences beside one": beside,
    "coefficients written out or broadcast": broadcast,
    "the steps that follow, forwards, if all states are finite": more_steps,
    "the cuts of `solve_chunks`, if all states are finite": pieces,
}


def same(check: Check, a: Array, u: Array, options: dict[str, Any]) -> bool:
    """Return whether all that a check finds has the bits of one call on arrays in C order."""
    x = rf.solve(a, u, threads=1, **options)
    for found in check(a, u, options):
        if check is broadcast:
            right = found[0].tobytes() == found[1].tobytes()
        else:
            steps = found.shape[options["axis"]]
            right = found.tobytes() == x[(*[slice(None)] * options["axis"], slice(steps))].tobytes()
        if not right:
            return False
    return True


@pytest.fixture
def small(monkeypatch):
    """Several threads, segments and writes past the caches on few steps."""
    for name, value in {"SPAN": 256, "WORTH_THREADS": 1, "WORTH_TWO_PASSES": 2, "LEAST": 16, "ROOM": 64}.items():
        monkeypatch.setattr(limits, name, value)
    for name in ("STREAMED", "STREAMED_ROWS", "LONG", "PROBLEM"):
        monkeypatch.setattr(limits, name, 0)


def test_every_row_is_measured():
    assert list(table()) == list(CHECKS)
    assert all(list(cells) == list(SHAPES) for cells in table().values())


@pytest.mark.parametrize("dtypes", [FEW, pytest.param((*FEW, "float16", "bfloat16"), marks=pytest.mark.slow)], ids=len)
@pytest.mark.parametrize("column", SHAPES)
@pytest.mark.parametrize("row", CHECKS)
def test_cell(row, column, dtypes, small):
    cell = table()[row][column]
    assert cell.split(",")[0].split(":")[0] in ("yes", "no", "")
    if not cell:
        assert len(SHAPES[column]) == 1  # there are no other axes
        return
    found = [same(CHECKS[row], *problem) for problem in problems(column, dtypes)]
    if cell.startswith("yes"):
        assert all(found)
    else:
        assert not all(found)
    if row == "the sequences beside one":
        assert all(same(alone, *problem) for problem in problems(column, dtypes)) == ("not alone" not in cell)


def test_long_blocks_and_segments_of_complex_numbers_are_solved_as_channels_are(rng, small):
    long = limits.LONG_RUN // 8 + 1
    a = (1 - rng.uniform(0, 0.02, (4, long + 99))).astype(np.complex64)
    u = rng.standard_normal((4, long + 99)).astype(np.complex64)
    for options in ({"window": Jagged(long)}, {"offsets": [0, 70, long + 99]}, {"window": Uniform(long)}):
        rows = rf.solve(a, u, **options)
        columns = rf.solve(a.T.copy(), u.T.copy(), axis=0, **options).T
        one = np.stack([rf.solve(a[i], u[i], **options) for i in range(4)])
        assert rows.tobytes() == np.ascontiguousarray(columns).tobytes() == one.tobytes()


def test_what_differs(rng):
    a, u = (1 - rng.uniform(0, 0.02, (9, 600))).astype(np.float32), rng.standard_normal((9, 600)).astype(np.float32)
    x = rf.solve(a, u)
    assert x.tobytes() != np.ascontiguousarray(rf.solve(a.T.copy(), u.T.copy(), axis=0).T).tobytes()
    assert x[:, :511].tobytes() != rf.solve(a[:, :511].copy(), u[:, :511].copy()).tobytes()
    flipped = rf.solve(np.roll(a[:, ::-1], 1, axis=1), u[:, ::-1].copy(), reverse=True)[:, ::-1]
    assert x.tobytes() != flipped.tobytes()
