"""Every kernel over the grid of what it takes: a sample of it, in which every two values meet, at many lengths.

The grid is data. That its sample reaches what it should is a test of its own: of the plans, which say what kernel a
solve comes to, so that a change of the plans can't leave a kernel without its tests.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from functools import cache
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from gpu.bare_run import need_compiler
from gpu.cases import H100, LAYOUTS, NUMPY, Case, described
from gpu.test_kernels import FEW, NO_TENSOR_CORES, check, compare, framed, make_case, solve
from pairs import Grid, Pair

from recfact.gpu.b2p import TILE
from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.gpu.solves import ENDLESS, blocks_of
from recfact.number_types import NUMBER_TYPES
from recfact.windows import LONGEST, Full, Jagged, Uniform, Window

HEADS, TURNED, ROWS = LAYOUTS
HALVES = ("float16", "bfloat16")
# Of inputs, coefficients and result.
MIXED = tuple((half, a, x) for half in HALVES for a in (half, "float32") for x in (half, "float32"))
TYPES = MIXED + tuple((dtype,) * 3 for dtype in NUMPY if dtype not in HALVES)
FORWARDS, FROM_STATE, BACKWARDS = "forwards", "from x0", "backwards"
D = (1, 3, 16, 17, 64)
SOME, THOUSANDS = 312, 2056  # steps at the most; neither is whole tiles


class Row(NamedTuple):
    """A point of the grid. At each of its lengths that the plan gives to the kernel it is run."""

    kernel: str
    types: tuple[str, str, str]
    layout: str
    window: Window
    way: str
    shared: bool
    d: int
    longest: int
    precision: str


EVERYWHERE: dict[str, tuple[Any, ...]] = {
    "types": TYPES,
    "layout": tuple(LAYOUTS),
    "way": (FORWARDS, FROM_STATE, BACKWARDS),
    "shared": (True, False),
    "d": D,
    "longest": (SOME, THOUSANDS),
    "precision": ("full",),
}
CHOICES: dict[str, dict[str, tuple[Any, ...]]] = {
    "sweep": EVERYWHERE | {"window": (Full(), Jagged(16), Jagged(32, 0), Jagged(48), Uniform(1), Uniform(2))},
    "sliding": EVERYWHERE | {"window": (Uniform(3), Uniform(17), Jagged(5, 3), Jagged(16, 2))},
    "chain": EVERYWHERE | {"window": (Full(),)},
    "b2p": EVERYWHERE
    | {
        "types": MIXED,
        "window": (Full(), Jagged(16), Jagged(16, 0), Jagged(32, 0), Jagged(48), Jagged(17), Jagged(44)),
        "shared": (True,),
        "d": (16, 17, 64),
        "precision": ("full", "paper"),
    },
}
APART = frozenset({("types", "d"), ("types", "window")})  # more pairs than may have to do with each other
SEQUENCES = 5  # enough that tensor cores take the full window on a GPU with few multiprocessors

GRID = {kernel: Grid(choices, APART) for kernel, choices in CHOICES.items()}


@cache
def sample(kernel: str) -> tuple[Row, ...]:
    """Return rows in which every pair of values meets."""
    return tuple(Row(kernel, **row) for row in GRID[kernel].sample(Random(kernel)))


def channels(row: Row) -> int:
    """Return the channels of a row: tensor cores take whole groups of 8, if channels are contiguous."""
    return 24 if row.kernel == "b2p" and row.d == 17 and row.layout != ROWS else row.d


def device_of(kernel: str, window: Window) -> Device:
    """Return a GPU on which a window comes to a kernel."""
    if kernel == "b2p":
        return FEW if window == Full() else H100
    return NO_TENSOR_CORES


def planned(row: Row, n: int, device: Device | None = None) -> Launch:
    """Plan a row at a length, for the GPU on which it comes to its kernel or for another one."""
    u, a, x = row.types
    return described(
        row.layout,
        SEQUENCES,
        n,
        channels(row),
        u,
        row.window,
        shared=row.shared,
        a_dtype=a,
        out=x,
        initial=row.way == FROM_STATE,
        reverse=row.way == BACKWARDS,
        device=device or device_of(row.kernel, row.window),
        precision=row.precision,
    )


@cache
def lengths(row: Row) -> tuple[int, ...]:
    """Return at which lengths a row is run: each up to two blocks and a tile, if it comes to the row's kernel."""
    block, terms = blocks_of(row.window, LONGEST)
    if row.kernel == "chain":
        # From where it begins; and, whatever the size of its tiles, where the next one begins.
        first = bisect_left(range(SOME), True, key=lambda n: n > 0 and planned(row, n).kernel == "chain")
        tiles = [array.bytes for array in planned(row, first).scratch]
        more = bisect_right(range(THOUSANDS), tiles, first, key=lambda n: [s.bytes for s in planned(row, n).scratch])
        near = [*range(first, first + 2 * TILE + 2), more - 1, more, more + 1]
    else:
        span = TILE if block == ENDLESS else max(TILE, block * max(terms or 0, 1))
        near = list(range(1, 2 * span + TILE + 2))
    if row.layout == ROWS and row.kernel != "b2p":
        # How time is aligned goes by its length, and what is compiled by that: rows of a window share the lengths.
        share = [other for other in sample(row.kernel) if (other.layout, other.window) == (ROWS, row.window)]
        near = [n for n in near if n % 8 % len(share) == share.index(row) % 8]
    last = row.longest if row.layout == ROWS else row.longest + 5
    longest = next((n for n in range(last, 0, -8) if planned(row, n).kernel == row.kernel), last)
    # Where a window leaves nothing out it is the full one, which has rows of its own.
    apart = [n for n in near if row.window == Full() or blocks_of(row.window, n).terms is not None]
    return tuple(n for n in dict.fromkeys([*apart, longest]) if planned(row, n).kernel == row.kernel)


def name_of(row: Row) -> str:
    return "-".join(str(part) for part in (*row[:1], "/".join(row.types), *row[2:]))


# Which values meet in the rows of the default run. All rows run with the slow tests.
OFTEN = frozenset({("layout", "way"), ("layout", "window")})


@cache
def often(kernel: str) -> tuple[Row, ...]:
    """Return rows of the sample in which every value occurs, and every layout meets every window."""
    has = {}
    for row in sample(kernel):
        values = row._asdict()
        pairs = {pair for pair in GRID[kernel].pairs_of(values) if (pair[0][0], pair[1][0]) in OFTEN}
        has[row] = pairs | values.items()
    rows, left = [], set().union(*has.values())
    while left:
        rows.append(max(has, key=lambda row: len(has[row] & left)))
        left -= has[rows[-1]]
    return tuple(rows)


SPARSE = 3  # of so many lengths of such a row one is run by default, and another one of the next row


def share(row: Row, default: bool) -> list[int]:
    """Return the lengths of the default run, or those that are left to the slow tests. The longest is of the former."""
    *near, longest = lengths(row)
    chosen, some = often(row.kernel), set()
    if row in chosen:
        # Rows along time have few lengths each already.
        some = {*(near if row.layout == ROWS else near[chosen.index(row) % SPARSE :: SPARSE]), longest}
    return [n for n in (*near, longest) if (n in some) == default]


def rows_of(kernel: str) -> list[Any]:
    """Return the parameters of all rows: some with the lengths of the default run, and all with those that are left."""
    some = [pytest.param(row, True, id=f"{name_of(row)}-some") for row in often(kernel)]
    left = [pytest.param(row, False, id=f"{name_of(row)}-left", marks=pytest.mark.slow) for row in sample(kernel)]
    return [*some, *left]


@pytest.mark.parametrize(("row", "default"), [case for kernel in GRID for case in rows_of(kernel)])
def test_kernel_is_within_its_bound(row, default):
    need_compiler()
    u, a, x = row.types
    for n in share(row, default):
        case = make_case(
            row.layout,
            SEQUENCES,
            n,
            channels(row),
            u,
            shared=row.shared,
            a_dtype=a,
            out=x,
            initial=row.way == FROM_STATE,
            seed=n,
        )
        near_one(case.a)
        launch = check(
            case,
            row.window,
            reverse=row.way == BACKWARDS,
            device=device_of(row.kernel, row.window),
            precision=row.precision,
        )
        assert launch.kernel == row.kernel


def near_one(a: np.ndarray) -> None:
    """Raise the magnitudes of coefficients to almost 1, so that what is lost of a state is seen many steps later."""
    small = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    a[...] = (np.sign(small) * (1 - abs(small) / 32)).astype(a.dtype)


def test_the_grid_has_all_there_is():
    assert {types[0] for types in TYPES} == {dtype.name for dtype in NUMBER_TYPES}
    assert {type(window) for choices in CHOICES.values() for window in choices["window"]} == {Full, Jagged, Uniform}
    for kernel, rows in ((kernel, sample(kernel)) for kernel in GRID):
        met = {pair for row in rows for pair in GRID[kernel].pairs_of(row._asdict())}
        assert met == set(GRID[kernel].all_pairs())


@pytest.mark.parametrize("kernel", GRID)
def test_the_sample_reaches_the_kernel_with_every_pair(kernel):
    met: set[Pair] = set()
    steps = defaultdict(set)
    segments = set()
    for row in sample(kernel):
        for n in lengths(row):
            launch = planned(row, n)
            assert launch.kernel == kernel
            steps[row.layout].add(n)
            segments |= {argument.value for argument in launch.arguments if argument.name == "segments"}
            met |= set(GRID[kernel].pairs_of(row._asdict()))
    assert met == set(GRID[kernel].all_pairs())
    for layout, reached in steps.items():
        first, step = min(reached), 8 if kernel == "b2p" and layout == ROWS else 1
        assert reached.issuperset(range(first, 2 * TILE + 2 if kernel != "chain" else first + 2 * TILE + 2, step))
        assert kernel == "chain" or first <= {"sliding": 4}.get(kernel, step)
    assert kernel == "chain" or {1, 2} < segments


@pytest.mark.parametrize("kernel", GRID)
def test_the_default_run_has_every_value_and_place_in_a_tile(kernel):
    met, rests, segments = set(), defaultdict(set), set()
    for row in often(kernel):
        met |= set(row._asdict().items())
        for n in share(row, True):
            rests[row.layout].add(n % TILE)
            numbers = {argument.name: argument.value for argument in planned(row, n).arguments}
            segments.add(numbers.get("segments"))
    assert met == {("kernel", kernel)} | {(name, value) for name, values in CHOICES[kernel].items() for value in values}
    for layout, reached in rests.items():
        if layout != ROWS:
            assert reached == set(range(TILE))
        elif kernel != "b2p":
            assert {n % 4 for n in reached} == {0, 1, 2, 3}
    assert kernel == "chain" or {1, 2} < segments


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("reverse", [False, True])
def test_full_sweep_over_thousands(layout, reverse):
    # Of so many channels that time isn't split among thread blocks.
    need_compiler()
    case = make_case(layout, 130, THOUSANDS, 3, "float32", initial=not reverse)
    near_one(case.a)
    assert check(case, Full(), reverse=reverse, device=FEW).kernel == "sweep"


# Layout, number type, window, channels and steps, and a GPU so large that the kernel is chosen.
MANY: dict[str, tuple[str, str, Window, int, int, Device]] = {
    "sweep": (HEADS, "float32", Uniform(2), 8, 3, H100),
    "sliding": (HEADS, "float32", Uniform(3), 2, 6, H100),
    "chain": (HEADS, "float32", Full(), 1, 260, Device((7, 0), 1000)),
    "b2p": (ROWS, "bfloat16", Jagged(16), 8, 8, H100),
}
LONG = ("chain", "b2p")  # to compute, for grids that are made as those of the others


@pytest.mark.parametrize(
    "kernel", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in MANY]
)
def test_more_sequences_than_a_grid_dimension(kernel):
    need_compiler()
    layout, dtype, window, d, n, device = MANY[kernel]
    case = make_case(layout, 66_000, n, d, dtype)
    launch = solve(case, window, device=device)
    assert launch.kernel == kernel
    assert np.isfinite(case.x.astype(np.float32)).all()
    seen = np.r_[:66_000:997, 65_530:66_000]
    compare(launch, Case(case.a[seen], case.u[seen], case.x[seen], case.axis), window)


@pytest.mark.parametrize("kernel", GRID)
@pytest.mark.parametrize("reverse", [False, True])
def test_batches_that_do_not_run_on_into_each_other(kernel, reverse):
    # Three of four heads of each batch; x0 of all.
    need_compiler()
    window = {"sliding": Uniform(17), "chain": Full()}.get(kernel, Jagged(16))
    n, d = 300, 16
    whole = make_case(HEADS, 8, n, d, "bfloat16")
    near_one(whole.a)
    a, u, x = (array.reshape(2, 4, n, -1)[:, :3] for array in (whole.a, whole.u, whole.x))
    x0 = None if reverse else framed((2, 4, 1, d), "float32")[1][:, :3]
    if x0 is not None:
        x0[...] = np.arange(x0.size).reshape(x0.shape) / x0.size
    launch = check(Case(a, u, x, 2, x0), window, reverse=reverse, device=device_of(kernel, window))
    assert launch.kernel == kernel
    assert {argument.name: argument.value for argument in launch.arguments}["batch"] == 2
    assert (whole.x.reshape(2, 4, n, d)[:, 3].view(np.uint8) == 255).all()


@pytest.mark.parametrize("kernel", ["sweep", "sliding", "chain"])
@pytest.mark.parametrize("reverse", [False, True])
def test_rows_of_longer_ones(kernel, reverse):
    # Rows are aligned, and where they end isn't: backwards no access may begin there.
    need_compiler()
    window = {"sliding": Uniform(17), "chain": Full()}.get(kernel, Jagged(16))
    for n in (297, 300):
        whole = make_case(ROWS, 2, 304, 16, "float32")
        case = Case(*(array[..., :n] for array in (whole.a, whole.u, whole.x)), 2)
        assert check(case, window, reverse=reverse, device=NO_TENSOR_CORES).kernel == kernel
        assert (whole.x[..., n:].copy().view(np.uint8) == 255).all()


@pytest.mark.parametrize("kernel", ["sweep", "sliding", "chain"])
@pytest.mark.parametrize("shared", [False, True])
def test_some_channels_of_more(kernel, shared):
    # Channels are aligned, and aren't whole accesses.
    need_compiler()
    window = {"sliding": Uniform(17), "chain": Full()}.get(kernel, Jagged(16))
    for dtype, d in (("bfloat16", 17), ("float32", 18)):
        whole = make_case(HEADS, 2, 300, 24, dtype, shared=shared)
        case = Case(*(array[..., :d] for array in (whole.a, whole.u, whole.x)), 1)
        assert check(case, window, device=H100 if kernel == "sweep" else NO_TENSOR_CORES).kernel == kernel
        assert (whole.x[..., d:].copy().view(np.uint8) == 255).all()
