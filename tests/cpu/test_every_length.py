"""Every length on every number of threads: all states are written, in their place, and nothing else is touched.

What decides how a solve is split (segments, pieces of threads, tables of addresses, writes past the caches) is made so
small that a few thousand steps meet all of it. Arrays lie between pages that end the process if they are touched, and
results are full of NaN before. States are known in advance (`walks`), or are those of one thread to the last bit.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise, product
from random import Random
from typing import Any

import numpy as np
import pytest
from guarded import Fenced, check_in_child
from pairs import Grid
from samples import one_in
from walks import DTYPES, TWINS, Walk

import recfact as rf
from recfact.cpu import limits
from recfact.number_types import accumulator
from recfact.recurrence import windowed
from recfact.windows import Full, Jagged, Uniform, Window

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

SPAN = 256  # two tiles of float32, four of float64
LIMITS = {
    "SPAN": SPAN,
    "WORTH_THREADS": 1,
    "WORTH_TWO_THREADS": 1,
    "WORTH_TWO_PASSES": 2,
    "ROOM": 64,
    "SLIDING_ROOM": 512,
    "LEAST": 16,
    "LONG": 0,
    "PROBLEM": 0,
    "WIDE": 64,
    "MANY_ROWS": 8,
    "RUN": 160,
    "TABLED_RUN": 160,
}
NEVER = 1 << 60

WINDOWS = (
    Full(),
    Jagged(16),
    Jagged(16, 0),
    Jagged(3),
    Jagged(100),
    Jagged(20, 9),
    Uniform(5),
    Uniform(32),
    Uniform(48),
    Uniform(300),
)
SLIDING = Uniform(9)
"""For few channels in as many runs as others, which are too short for most windows of more states than are followed."""
ALL_WINDOWS = (*WINDOWS, SLIDING)
COMPLEX = ("complex64", "complex128")
REALS = ("float32", "float64", "float16", "bfloat16")
VARIED = "float32"
"""The type that the default run also writes past the caches and walks backwards, each by a kernel of its own."""
FAR = (Jagged(20, 9), Uniform(48))
"""Windows whose kernels differ from those of shorter blocks only in what they fetch ahead."""
OTHERS = tuple(dtype for dtype in DTYPES if dtype not in (VARIED, *TWINS))

THREADS = tuple(range(1, 10))
WAYS = ("forward", "from x0", "backward")

# Products of coefficients matter to the end of all steps, up to the next reset, to the end but rounded, for some tiles,
# or within one. States are known in advance of the first two.
NUMBERS = ("kept", "resets", "lasting", "fading", "faded")

PLACES: dict[str, tuple[Any, ...]] = {  # of arrays in memory, which lie against the others, how threads are asked for
    "steps": ((1,), (-1,), (2,), (1, 2), (1, -1)),
    "against": ("", "a", "x"),
    "at": ("start", "end"),
    "asked": ("threads", "processors"),
}
COMMON: dict[str, tuple[Any, ...]] = {
    "threads": THREADS,
    "way": WAYS,
    "numbers": NUMBERS,
    "out": ("apart", "in place"),
    "batch": (3, 1000),
    "streams": (False, True),
} | PLACES
SEQUENCES = {"n": tuple(range(1, 2 * SPAN + 2)), "dtype": (*REALS, *COMPLEX), "shape": ("n",)} | COMMON
ROWS = {
    "n": (*range(1, 150), *range(250, 260), *range(500, 516)),
    "dtype": (*REALS, *COMPLEX),
    "shape": ("2 n", "3 n", "8 n", "19 n", "150 n", "2 9 n"),
    "coefficients": ("own", "shared"),
} | COMMON
LENGTHS = (1, 2, 3, 16, 17, 41, 110)
CHANNELS = {
    "n": LENGTHS,
    "dtype": ("float32",),
    "shape": (*(f"n {width}" for width in range(2, 71)), "3 n 17", "n 5 3", "2 n 2 16"),
    "coefficients": ("own", "shared"),
} | COMMON
TYPES = CHANNELS | {
    "dtype": (*REALS, *COMPLEX),  # and few widths, because each is a kernel to be compiled
    "shape": ("n 16", "n 17", "n 64", "n 70", "2 n 33", "n 3 16"),
}
FEW = CHANNELS | {
    "n": (*range(64, 90), *range(300, 320), 519, 600),
    "dtype": (*REALS, *COMPLEX),
    "shape": ("n 2", "n 3", "n 5", "n 7", "n 2 2", "3 n 2", "9 n 3"),
}
GRIDS = {"one": SEQUENCES, "few": FEW, "rows": ROWS, "channels": CHANNELS, "types": TYPES}
STREAMS = {
    "n": (0, 1, 63, 64, 65, 127, 128, 129, 300, 555),
    "dtype": (*REALS, "complex64"),
    "shape": ("n", "3 n", "n 17", "2 n 16"),
    "threads": THREADS,
    "way": WAYS[:2],
    "numbers": NUMBERS,
    "pieces": (1, 2, 9, 100),
    "coefficients": ("own", "shared"),
}

Case = Mapping[str, Any]
Array = np.ndarray[Any, Any]


def channels_of(shape: str) -> tuple[tuple[int, ...], int]:
    """Return the axes but time, and the place of time among them."""
    words = shape.split()
    return tuple(int(word) for word in words if word != "n"), words.index("n")


@cache
def walk(numbers: str, dtype: str, channels: tuple[int, ...], most: int, shared: bool) -> Walk:
    return Walk(most, channels, DTYPES[dtype], 0.004 if numbers == "resets" else 0.0, shared)


@cache
def drawn(numbers: str, dtype: str, channels: tuple[int, ...], most: int, shared: bool) -> tuple[Array, Array, Array]:
    """Return coefficients, inputs and an initial state whose products and sums are rounded."""
    rng = np.random.default_rng(7)
    kind = DTYPES[dtype]
    turn = 1j if kind.kind == "c" else 1
    a = rng.uniform(-1, 1, (most, *channels[: -1 if shared else None], *[1] * (shared and bool(channels))))
    if numbers == "lasting":
        a = np.copysign(1 - abs(a) / 256, a)
    if numbers == "fading":  # after about a span of float32
        a = 1 - 0.5 * abs(a)
    u, x0 = rng.standard_normal((most, *channels)), rng.standard_normal(channels)
    return (a * turn).astype(kind), u.astype(kind), x0.astype(accumulator(kind))


def problem(case: Case, window: Window) -> tuple[Array, Array, Array | None, Array | None]:
    """Return coefficients, inputs and initial state of a case, and its states if they are known, time in its place."""
    n, reverse, initial = case["n"], case["way"] == "backward", case["way"] == "from x0"
    channels, axis = channels_of(case["shape"])
    shared = case.get("coefficients") == "shared"
    most = (1 << max(n, 300).bit_length()) if not channels else 600
    states = None
    if case["numbers"] in ("kept", "resets"):
        source = walk(case["numbers"], case["dtype"], channels, most, shared)
        (a, u), x0 = source.problem(n, reverse), source.x0
        states = np.moveaxis(source.states(n, window, reverse, initial), 0, axis)
    else:
        a, u, x0 = drawn(case["numbers"], case["dtype"], channels, most, shared)
        a, u = a[:n], u[:n]
    return np.moveaxis(a, 0, axis), np.moveaxis(u, 0, axis), x0 if initial else None, states


@cache
def memory(name: str, pages: int) -> Fenced:
    return Fenced(pages << 12)


def fenced(name: str, values: Array) -> Fenced:
    """Return memory in which there is room for an array with gaps."""
    return memory(name, 1 << (2 * values.nbytes >> 12).bit_length())


def check(case: Case, window: Window) -> None:
    """Solve a case and compare its states, in a child, whose limits are its own."""
    at, steps = case["at"], case["steps"]
    flipped = (-steps[0], *steps[1:])
    given_a, given_u, given_x0, expected = problem(case, window)
    a = fenced("a", given_a).copy(given_a, at, flipped if case["against"] == "a" else steps)
    u = fenced("u", given_u).copy(given_u, at, steps)
    in_place = case["out"] == "in place"
    out_steps = flipped if case["against"] == "x" and not in_place else steps
    axis = channels_of(case["shape"])[1]
    options: dict[str, Any] = {"axis": axis, "window": window, "reverse": case["way"] == "backward"}
    if given_x0 is not None:
        options["x0"] = fenced("x0", given_x0).copy(given_x0, at)
    threads = case["threads"]
    limits.STREAMED = limits.STREAMED_ROWS = 0 if case["streams"] else NEVER
    limits.BATCH = case["batch"]
    limits.processors = lambda: threads
    if expected is None:
        other = fenced("other", u).empty(u.shape, u.dtype, "end", out_steps)
        expected = rf.solve(a, u, out=other, threads=1, **options)
    place = fenced("u" if in_place else "x", u)
    out = u if in_place else place.empty(u.shape, u.dtype, at, out_steps)
    rf.solve(a, u, out=out, threads=None if case["asked"] == "processors" else threads, **options)
    assert_same_numbers(out, expected)
    assert place.untouched(out)
    assert_same_numbers(a, given_a)
    if out is not u:
        assert_same_numbers(u, given_u)


def assert_same_numbers(found: Array, expected: Array) -> None:
    """Assert that arrays are the same; NumPy's own way to say it takes as long as a solve."""
    if found.shape != expected.shape or not (found == expected).all():
        np.testing.assert_array_equal(found, expected)


def check_all(cases: Iterable[Case], window: Window, each: Callable[[Case, Window], None] = check) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LIMITS.items():
            patch.setattr(limits, name, value)
        check_in_child(lambda case: each(case, window), cases)


def split_length(row: Case) -> Case:
    """Make a sequence so long that each thread has two spans, and the last one as many steps as were drawn."""
    return {**row, "n": 2 * row["threads"] * SPAN + row["n"] % SPAN}


def with_few_kernels(row: Case, window: Window) -> Case:
    """Return a row for the default run: of the types it has, and laid and written in one way but for one of them.

    Of that one, one array lies against the others, or all of them lie backwards.
    """
    row = {**row, "dtype": TWINS.get(row["dtype"], row["dtype"])}
    varied = row["dtype"] == VARIED and window not in FAR
    if not varied:
        row["streams"] = False
    if not varied or row["streams"]:
        row |= {"steps": tuple(map(abs, row["steps"])), "against": ""}
    if row["steps"][0] < 0:
        row["against"] = ""
    return row


def met_by_none(choices: Case, one: str) -> frozenset[tuple[str, str]]:
    """Return what leaves it open with which values of the other choices those of one choice meet."""
    return frozenset(pair for name in choices for pair in ((one, name), (name, one)))


def part(rows: Iterable[Case], window: Window, run: str) -> list[Case]:
    """Return the rows of the default run, or those that it changes, for the slow tests."""
    if run == "default":
        return [with_few_kernels(row, window) for row in rows]
    return [row for row in rows if with_few_kernels(row, window) != row]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("dtype", "run"),
    [
        *((dtype, "default") for dtype in (VARIED, *OTHERS)),
        *(pytest.param(dtype, "slow", marks=pytest.mark.slow) for dtype in DTYPES),
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_sequences_split_among_threads(way, dtype, run):
    """Every length modulo a span on every number of threads, where the state before a piece matters to its end.

    Each in one of the ways; `test_all_products` has them in all. The default run has some of the types and ways, each
    with every length on one number of threads.
    """
    whole = run == "slow"
    first = 3 * WAYS.index(way) + (VARIED, *OTHERS).index(dtype) % 3 if not whole else WAYS.index(way)
    share = 3 if whole else 9
    choices = {**SEQUENCES, "n": range(SPAN), "dtype": (dtype,), "way": (way,)}
    given = [
        {"n": n, "threads": threads, "numbers": "kept", "out": "apart", "steps": (1,)}
        for n, threads in product(range(SPAN), THREADS)
        if (n + threads) % share == first
    ]
    apart = frozenset() if whole else met_by_none(choices, "n")
    rows = Grid(choices, apart).sample(Random(dtype + way), given)
    check_all(map(split_length, rows if whole else part(rows, Full(), run)), Full())


@pytest.mark.parametrize(
    ("kind", "window"),
    [
        *(
            pytest.param(kind, window, marks=[pytest.mark.slow] * ((place + number) % 3 > 0))
            for (place, kind), (number, window) in product(enumerate(GRIDS), enumerate(WINDOWS))
        ),
        ("few", SLIDING),
    ],
    ids=str,
)
def test_sequences(kind, window):
    """Every length, or every shape, in a third of the windows, each time on another number of threads.

    The default run has each kind of sequences in every third window, with every length in one of these or two. It has
    each window for one kind or two.
    """
    choices = GRIDS[kind]
    longest = max(choices, key=lambda name: len(choices[name]))
    number = ALL_WINDOWS.index(window)
    given = [
        {longest: value, "threads": threads}
        for (place, value), threads in product(enumerate(choices[longest]), THREADS)
        if (place + threads + number) % len(THREADS) == 0 and (place // len(THREADS) + number // 3) % 3 == 0
    ]
    apart = met_by_none(choices, longest)
    check_all(part(Grid(choices, apart).sample(Random(f"{kind} {window}"), given), window, "default"), window)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "window"), [*product(GRIDS, WINDOWS), ("few", SLIDING)], ids=str)
def test_sequences_in_all_pairs(kind, window):
    """Every length and every shape on every number of threads, with every type and in every place."""
    check_all(Grid(GRIDS[kind]).sample(Random(f"{kind} {window}")), window)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("run", ["default", pytest.param("slow", marks=pytest.mark.slow)])
@pytest.mark.parametrize("processors", [1, 2, 3, 5, 64])
@pytest.mark.parametrize("window", [Full(), Jagged(16), Uniform(32)], ids=str)
def test_as_many_threads_as_processors(window, processors, run):
    rest = (0, 1, 63, 64, 128, 200)
    grid = Grid({**SEQUENCES, "n": rest, "threads": (processors,), "asked": ("processors",)})
    given = [
        {"n": n, "dtype": dtype, "way": way, "numbers": "kept", "out": "apart"}
        for n, dtype, way in product(rest, REALS, WAYS)
    ]
    check_all(map(split_length, part(grid.sample(Random(processors), given), window, run)), window)


def check_stream(case: Case, window: Window) -> None:
    """Solve the pieces of a case, each in the memory of the one before, and compare with what one call makes of all."""
    a, u, x0, known = problem(case, window)
    axis = channels_of(case["shape"])[1]
    cuts = [0, *sorted(Random(str(case)).choices(range(case["n"] + 1), k=case["pieces"] - 1)), case["n"]]

    def pieces() -> Iterator[tuple[Array, Array]]:
        for first, last in pairwise(cuts):
            there = (*[slice(None)] * axis, slice(first, last))
            yield fenced("a", a).copy(a[there]), fenced("u", u).copy(u[there])

    options: dict[str, Any] = {"axis": axis, "window": window, "x0": x0}
    whole = rf.solve(np.ascontiguousarray(a), np.ascontiguousarray(u), threads=1, **options)
    found = np.concatenate(list(rf.solve_chunks(pieces(), threads=case["threads"], **options)), axis)
    np.testing.assert_array_equal(found, whole)
    if known is not None:
        np.testing.assert_array_equal(found, known)


@pytest.mark.parametrize("run", ["default", pytest.param("slow", marks=pytest.mark.slow)])
@pytest.mark.parametrize("window", one_in(2, WINDOWS), ids=str)
def test_streams(window, run):
    """In the slow tests every length on every number of threads."""
    apart = [("n", "threads"), ("threads", "n")] if run == "default" else []
    check_all(Grid(STREAMS, frozenset(apart)).sample(Random(str(window))), window, check_stream)


@pytest.mark.exhaustive
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("kind", ["split", *GRIDS])
def test_all_products(kind, window):
    """All choices with all others; only where arrays lie is drawn, and how threads are asked for."""
    choices = SEQUENCES | {"n": tuple(range(SPAN))} if kind == "split" else GRIDS[kind]
    rng = Random(f"all {kind} {window}")
    names = [name for name in choices if name not in PLACES]
    rows = (
        dict(zip(names, values, strict=True)) | {name: rng.choice(values) for name, values in PLACES.items()}
        for values in product(*(choices[name] for name in names))
    )
    check_all(map(split_length, rows) if kind == "split" else rows, window)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", WAYS)
def test_known_states_are_those_of_the_definition(dtype, way):
    for window, shared in product((*WINDOWS, Jagged(4), Uniform(3)), (False, True)):
        case = {"n": 45, "shape": "n 3", "dtype": dtype, "way": way, "numbers": "resets"}
        a, u, x0, states = problem(case | {"coefficients": "shared" if shared else "own"}, window)
        wide = np.result_type(accumulator(DTYPES[dtype]), np.float64)
        a, u = a.astype(wide), u.astype(wide)
        expected = windowed(np.broadcast_to(a, u.shape), u, window, None if x0 is None else x0, way == "backward")
        np.testing.assert_array_equal(states.astype(wide), expected)


def test_a_sample_holds_what_is_given_and_all_pairs():
    grid = Grid({"a": range(7), "b": "xyz", "c": (None, 1)})
    given = [{"a": a, "b": "x"} for a in range(7)]
    rows = grid.sample(Random(1), given)
    assert [{"a": row["a"], "b": row["b"]} for row in rows[:7]] == given
    assert {pair for row in rows for pair in grid.pairs_of(row)} == set(grid.all_pairs())
    assert len(grid.all_pairs()) == 7 * 3 + 7 * 2 + 3 * 2


@pytest.mark.parametrize(("index", "at"), [(0, "start"), (8, "end")])
def test_a_touch_outside_of_an_array_is_found(index, at):
    """One number before it or behind it; where no page ends, in the bytes that must stay as they were."""
    outside = {"start": -1, "end": 1}[at]

    def touch(beside: str) -> None:
        faulthandler.disable()  # the end that is meant to come
        array = fenced("x", np.zeros(8)).empty((8,), np.float64, at)
        there = np.lib.stride_tricks.as_strided(array, (9,), (8,)) if beside == "behind" else array
        if beside == "before":
            there = np.lib.stride_tricks.as_strided(np.flip(array), (9,), (-8,))
        there[8] = 1.0
        assert fenced("x", np.zeros(8)).untouched(array)

    fatal, marked = ("before", "behind")[::-outside]
    with pytest.raises(pytest.fail.Exception, match=f"{fatal} ended the process"):
        check_in_child(touch, [fatal])
    with pytest.raises(pytest.fail.Exception, match="AssertionError"):
        check_in_child(touch, [marked])
