"""Plans: which kernel, how time is split, and that every element is covered once. Arithmetic only."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from importlib import resources
from itertools import product

import numpy as np
import pytest
from gpu.cases import H100, LAYOUTS, NUMPY, Case, described, random_numbers, strided
from gpu.stand_in_kernels import parameters

from recfact.errors import ShapeError
from recfact.gpu.compiler import options_of, source_of
from recfact.gpu.geometry import geometry_of
from recfact.gpu.launch import plan
from recfact.gpu.multiprocessors import MULTIPROCESSORS, Device, Warps, warps_wanted
from recfact.gpu.plans import Launch
from recfact.gpu.segments import Cost, Split, pace
from recfact.gpu.solves import ENDLESS, Solve, blocks_of
from recfact.number_types import FLOAT32
from recfact.recurrence import first_kept
from recfact.strides import Strided, contiguous
from recfact.windows import Full, Jagged, Uniform

HEADS, ROWS, STEPS = "head, time, channel", "head, channel, time", "time, head, channel"
WINDOWS = (Full(), Jagged(16), Jagged(16, 0), Jagged(64), Jagged(16, 3), Uniform(1), Uniform(2), Uniform(40))


def value(launch: Launch, name: str) -> int:
    (found,) = (argument.value for argument in launch.arguments if argument.name == name)
    assert isinstance(found, int)
    return found


def macro(launch: Launch, name: str) -> str:
    return dict(launch.macros)[name]


def every_launch() -> list[Launch]:
    """Plan launches of every kernel, number type and layout."""
    return [
        described(layout, heads, 4096, d, dtype, window, shared=shared, reverse=reverse, initial=initial)
        for layout in LAYOUTS
        for heads, d in ((4, 16), (8192, 16), (3, 1), (2, 17))
        for dtype in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
        for window in WINDOWS
        for shared, reverse, initial in ((True, False, True), (False, True, False))
    ]


@pytest.fixture(scope="module")
def launches() -> list[Launch]:
    return every_launch()


def test_every_kernel_is_chosen(launches):
    assert {launch.kernel for launch in launches} == {"sweep", "sliding", "chain", "b2p"}


def test_arguments_are_those_of_the_kernel(launches):
    # Names, order and types, parsed from the source.
    for launch in launches:
        given_types = []
        for argument in launch.arguments:
            c_type = argument.c_type
            if argument.name in ("a_step", "u_step", "x_step") and launch.kernel != "b2p":
                assert c_type == macro(launch, "STRIDE")
                c_type = "STRIDE"
            given_types.append((c_type, argument.name))
        assert given_types == parameters(launch.kernel, launch.macros)


def test_macros_are_those_of_the_kernel(launches):
    for launch in launches:
        assert f"-DINPUT={macro(launch, 'INPUT')}" in options_of(launch)
    for kernel, name in {(launch.kernel, name) for launch in launches for name, _ in launch.macros}:
        assert re.search(rf"\b{name}\b", source_of(kernel)), f"{kernel} doesn't use {name}"
        header = {"sweep": "lines.cuh", "chain": "lines.cuh"}.get(kernel, f"{kernel}.cu")
        text = "".join(
            (resources.files("recfact.gpu") / "kernels" / file).read_text()
            for file in {header, f"{kernel}.cu", "lines.cuh"}
        )
        assert re.search(rf"^//.*\b{name}\b", text, re.MULTILINE), f"{kernel} doesn't explain {name}"


def test_numbers_fit_their_types(launches):
    for launch in launches:
        for argument in launch.arguments:
            if isinstance(argument.value, int):
                bits = 32 if argument.c_type == "int" else 64
                assert -(2 ** (bits - 1)) <= argument.value < 2 ** (bits - 1)
        assert launch.grid[0] < 2**31
        assert launch.grid[1:] == (1, 1)
        assert launch.block[0] <= 1024
        assert all(launch.reasons)


@pytest.mark.parametrize("kernel", ["sweep", "sliding", "chain", "b2p"])
def test_sources_stand_alone(kernel):
    source = source_of(kernel)
    assert not re.search(r'^#include "(?!accessors\.h)', source, re.MULTILINE), "a local header was left out"
    assert source.count('#line 1 "memory.cuh"') == 1
    assert "#pragma once" not in source
    # A line says where it comes from.
    line = next(k for k, text in enumerate(source.splitlines()) if f"{kernel}(\n" in text + "\n" and "extern" in text)
    markers = [(k, text) for k, text in enumerate(source.splitlines()[:line]) if text.startswith("#line")]
    at, marker = markers[-1]
    number, name = marker.split()[1:]
    file = (resources.files("recfact.gpu") / "kernels" / name.strip('"')).read_text().splitlines()
    assert file[int(number) - 1 + line - at - 1] == source.splitlines()[line]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("n", [1, 15, 16, 17, 40, 41, 100])
def test_blocks_are_the_window(n, window):
    length, terms = blocks_of(window, n)
    for i in range(n):
        kept = 0 if terms is None else max(0, i // length - terms) * length
        assert kept == first_kept(i, window)


def test_table_of_the_docs():
    # Batch 1, n = 8192, 128 heads, d = 16, bfloat16: enough warps, and at most 5 % read twice.
    for layout in LAYOUTS:
        launch = described(layout, 128, 8192, 16, "bfloat16", Jagged(16))
        assert launch.kernel == "b2p"
        segments = value(launch, "segments")
        assert 128 * segments / H100.multiprocessors >= 8
        assert (512 + segments - 1) / 512 <= 1.05
        short = described(layout, 128, 1024, 16, "bfloat16", Jagged(16))
        assert 128 * value(short, "segments") / H100.multiprocessors >= 4


def test_sweep_where_there_are_channels_enough():
    launch = described(HEADS, 8192, 4096, 16, "bfloat16", Jagged(16))
    assert (launch.kernel, macro(launch, "CHANNELS")) == ("sweep", "8")
    assert "enough" in launch.reasons[0]
    # A request of `sweep` along time would touch half-used sectors.
    assert described(ROWS, 8192, 4096, 16, "bfloat16", Jagged(16)).kernel == "b2p"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dtype": "float32"}, "float32 isn't a half-precision type"),
        ({"device": Device((7, 5), 40)}, "needs compute capability 8.0"),
        ({"shared": False}, "fewer than 8 channels share"),
        ({"d": 12}, "whole groups of 8"),
        ({"window": Jagged(12)}, "shorter than tiles of 16"),
        ({"window": Jagged(24, 0)}, "alone and not whole tiles of 16"),
    ],
)
def test_says_why_not_tensor_cores(change, reason):
    options = {"heads": 2, "n": 4096, "d": 16, "dtype": "bfloat16", "window": Jagged(16), **change}
    launch = described(HEADS, **options)
    assert launch.kernel == "sweep"
    assert reason in launch.reasons[0]


def test_exact_recurrence():
    few = described(HEADS, 4, 8192, 16, "float32", Full())
    assert few.kernel == "chain"
    assert [array.zeroed for array in few.scratch] == [True, False, False]
    assert described(HEADS, 8192, 8192, 16, "float32", Full()).kernel == "sweep"
    assert described(HEADS, 4, 100, 16, "float32", Full()).kernel == "sweep"
    # 600 heads are enough warps for b2p, and too few for sweep.
    assert described(HEADS, 600, 8192, 16, "float16", Full()).kernel == "b2p"


def test_window_that_leaves_nothing_out_is_full():
    for window in (Jagged(64), Jagged(16, 3), Uniform(64)):
        assert described(HEADS, 2, 64, 16, "float32", window).kernel == "sweep"
        assert value(described(HEADS, 2, 64, 16, "float32", window), "block") == ENDLESS


@pytest.mark.parametrize("n", [10**7, 10**9])
def test_scratch_is_small_beside_the_arrays(n):
    # A thread block has 128 threads also where there is one line.
    for window in (Uniform(n // 100), Uniform(500), Jagged(16, n // 1600)):
        (slots,) = described(HEADS, 1, n, 1, "float32", window).scratch
        assert slots.bytes <= n * 4 / 4  # two numbers a block, of a group in eight at the most


def test_b2p_counts_tiles_in_32_bits():
    longest, longer = (described(ROWS, 1, n, 16, "bfloat16", Jagged(16)) for n in (2**34, 2**34 + 16))
    assert [longest.kernel, longer.kernel] == ["b2p", "sweep"]
    tiles, ahead = value(longest, "blocks") * value(longest, "segments"), int(macro(longest, "STAGES"))
    assert 2**30 <= tiles < 2**31 - ahead


@pytest.mark.parametrize("capability", MULTIPROCESSORS)
def test_warps_wanted_have_enough_on_its_way_or_fill_the_room(capability):
    device = Device(capability, 10)
    for warp_bytes, room in ((512, 12), (1024, 24), (2048, 12), (2048, 20), (4096, 20), (1 << 20, 16)):
        wanted, places = (warps // 10 for warps in warps_wanted(warp_bytes, room, device))
        assert places == room
        assert 4 <= wanted <= room
        assert wanted == room or wanted * warp_bytes >= device.limits.bytes_wanted
        assert wanted == 4 or (wanted - 1) * warp_bytes < device.limits.bytes_wanted


T4, A10, RTX_5090, B200 = Device((7, 5), 40), Device((8, 6), 72), Device((12, 0), 170), Device((10, 0), 148)


def test_turing_copies_tile_by_tile():
    # Tiles on their way are in registers there, 3 of 512 bytes, so that 8 warps have the 12 KiB that memory wants.
    launch = described(HEADS, 128, 1024, 16, "float16", Jagged(16), device=T4)
    assert (launch.kernel, macro(launch, "STAGES"), macro(launch, "ASYNCHRONOUS")) == ("b2p", "4", "0")
    assert launch.reasons[2].endswith(f"{8 * 40} warps wanted")
    # Lanes of `sweep` have 4 KiB on their way.
    long = described(HEADS, 128, 8192, 16, "float16", Jagged(16), device=T4)
    assert long.reasons[0] == "sweep: 4.0 warps on a multiprocessor are enough, and it issues least"


def test_what_moves_a_kib_sooner_is_chosen():
    # The B200 has registers for 20 warps of b2p, with 50 of the 68 KiB that memory wants. A KiB takes 40 cycles from
    # memory, and 45 for its instructions. 12.7 warps of sweep have 51 KiB, and 10.8 have 43.
    launch = described(HEADS, 1200, 8192, 16, "float16", Jagged(16), device=B200)
    assert launch.reasons[0] == ("sweep: 12.7 warps on a multiprocessor take 41 cycles for a KiB, and b2p takes 46")
    assert described(HEADS, 1024, 8192, 16, "float16", Jagged(16), device=B200).kernel == "b2p"
    assert described(ROWS, 1024, 8192, 16, "float16", Jagged(16), device=B200).kernel == "b2p"
    # A single head leaves 30 lanes of a warp of sweep without a line.
    for device in (T4, A10, B200):
        assert described(HEADS, 1, 8192, 16, "float16", Jagged(16), device=device).kernel == "b2p"
        assert described(HEADS, 32, 8192, 16, "float16", Jagged(16), device=device).kernel == "b2p"


@pytest.mark.parametrize("slowest", ["memory", "instructions", "cycles"])
def test_the_pace_is_that_of_the_slowest_of_three(slowest):
    device, split = Device((9, 0), 100), Split(10, 1, "")
    cost = {"memory": Cost(1, 1), "instructions": Cost(1000, 1), "cycles": Cost(1, 1000)}[slowest]
    wanted = Warps(800, 1600)
    # 8 warps on a multiprocessor: with 2 KiB each half of what memory wants is under way.
    expected = {"memory": 2000 / 16, "instructions": 1000 / 4, "cycles": 1000 / 8}[slowest]
    assert pace(cost, 800, 2048, wanted, split, True, device) == expected
    assert (
        pace(cost, 800, 2048, wanted, Split(10, 2, ""), True, device) == 1.1 * expected
    )  # a block in 10 is read twice
    assert pace(cost, 800, 2048, wanted, Split(10, 2, ""), False, device) == expected
    if slowest == "memory":  # and more than it wants doesn't help
        assert pace(cost, 3200, 4096, wanted, split, True, device) == 2000 / 32


@pytest.mark.parametrize(("device", "warps"), [(A10, 7), (RTX_5090, 7), (B200, 17)])
def test_warps_follow_the_bandwidth_of_a_multiprocessor_and_its_room(device, warps):
    # 16 KiB are 7 times 2.5 KiB. The 68 KiB of the B200 would be 28 warps, and there are registers for 20, of which
    # 5 segments of 512 warps leave 2.7 free.
    launch = described(HEADS, 512, 65536, 16, "bfloat16", Jagged(16), device=device)
    along = described(ROWS, 512, 65536, 16, "bfloat16", Jagged(16), device=device)
    assert along.kernel == "b2p"
    assert warps * device.multiprocessors <= 512 * value(along, "segments")
    assert launch.kernel == "sweep"


def test_sweep_is_not_preferred_for_short_segments():
    # 12.5 % would be read twice, with no more warps than are needed; b2p has enough with less.
    launch = described(HEADS, 128, 8192, 16, "bfloat16", Jagged(16), device=Device((8, 9), 128))
    assert launch.reasons[0] == (
        "b2p: sweep would have 4.0 warps on a multiprocessor in short segments, and b2p has 7.0"
    )
    assert "short" not in launch.reasons[2]


@pytest.mark.parametrize("device", [T4, A10, H100])
@pytest.mark.parametrize("terms", [4, 30, 63, 100, 127, 128])
def test_slots_are_shared_where_four_warps_have_room_for_theirs(device, terms):
    launch = described(HEADS, 128, 65536, 16, "float32", Uniform(terms + 1), device=device)
    slots = 32 * 12 * terms  # two sums and a product in float32 for each lane
    limits = device.limits
    shared = macro(launch, "SLOTS_SHARED") == "1"
    assert shared == (4 * (slots + limits.reserved_bytes) <= limits.shared_bytes and slots <= 48 * 1024)
    assert launch.shared_bytes == (slots if shared else 0)


def test_nothing_to_do():
    for shape in ((0, 3), (4, 0)):
        array = contiguous(FLOAT32, shape)
        assert plan(Solve(array, array, array, None, 0, Full()), H100) is None


def test_more_sequences_than_a_grid_dimension():
    launch = described(HEADS, 200_000, 5, 16, "bfloat16", Jagged(16))
    assert launch.grid[0] * launch.block[0] >= 200_000 * 2


def test_dimensions_merge():
    u = random_numbers(np.random.default_rng(0), (2, 3, 40, 4, 5), "float32")
    own = strided(u)
    geometry = geometry_of(2, own, own, own, None, False)
    assert (geometry.batch, geometry.heads, geometry.channels) == (1, 6, 20)
    geometry = geometry_of(2, strided(u[..., :1]), own, own, None, False)
    assert (geometry.batch, geometry.heads, geometry.channels) == (6, 4, 5)


def test_too_many_dimensions():
    u = np.zeros((4, 4, 4, 4, 40), np.float32)[:, :3, :3, :3]
    case = Case(u, u, u, 4)
    with pytest.raises(ShapeError, match="copy the arrays"):
        case.plan(Full())


def launches_in_c_order(lengths: tuple[int, ...]) -> Counter[int]:
    """Count how many launches solves take whose arrays lie in C order, wherever time is and whatever `a` shares."""
    counts: Counter[int] = Counter()
    for axis in range(len(lengths) + 1):
        shape = (*lengths[:axis], 64, *lengths[axis:])
        u = contiguous(FLOAT32, shape)
        for own in product((False, True), repeat=len(lengths)):
            kept = (*own[:axis], True, *own[axis:])
            a = contiguous(FLOAT32, tuple(n if one else 1 for n, one in zip(shape, kept, strict=True)))
            counts[slices_of(Solve(a, u, u, None, axis, Full()))] += 1
    return counts


def slices_of(solve: Solve) -> int:
    try:
        return int(plan(solve, H100) is not None)
    except ShapeError:
        return sum(map(slices_of, solve.slices()))


def test_few_arrays_of_four_dimensions_take_several_launches():
    assert launches_in_c_order((4, 8, 16)) == {1: 4 * 8}
    assert launches_in_c_order((2, 4, 8, 16)) == {1: 64, 2: 16}  # as docs/gpu/index.md says
    assert launches_in_c_order((5, 8, 3, 16)) == {1: 64, 3: 16}


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "complex128"])
def test_access_width_follows_alignment(dtype):
    size = {"bfloat16": 2, "float32": 4, "complex128": 16}[dtype]
    for shift in range(16 // size):
        u = Strided(NUMPY[dtype], (40, 64), ((64 + 8) * size, size), size * shift)
        launch = plan(Solve(u, u, u, None, 0, Jagged(8)), H100)
        channels = int(macro(launch, "CHANNELS"))
        assert channels * size == (16 if shift == 0 else min(16, (size * shift) & -(size * shift)))


def test_long_strides_take_wide_arithmetic():
    near, far = (Strided(FLOAT32, (64, 1024), (step, 4)) for step in (4096, 1 << 33))
    for array, wanted in ((near, "int"), (far, "long long")):
        launch = plan(Solve(array, array, array, None, 0, Full()), H100)
        assert macro(launch, "STRIDE") == wanted


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("dtype", "window"), [("bfloat16", Jagged(16)), ("float32", Uniform(9)), ("float32", Full())])
def test_arrays_walked_backwards_together_are_planned_as_forwards(layout, dtype, window, reverse):
    make, axis = LAYOUTS[layout]
    shape = make(3, 400, 16)
    arrays = {name: random_numbers(np.random.default_rng(0), shape, dtype) for name in "aux"}
    if not reverse:
        arrays["x0"] = random_numbers(np.random.default_rng(0), shape, "float32").take([0], axis)
    others = [k for k in range(3) if k != axis]
    turned = {name: np.flip(array, others) for name, array in arrays.items()}
    forwards, backwards = (
        Case(axis=axis, **each).plan(window, reverse=reverse, device=H100) for each in (arrays, turned)
    )
    to_start = {name: arrays[name].ctypes.data - array.ctypes.data for name, array in turned.items()}
    moved = [replace(each, offset=each.offset + to_start.get(each.value, 0)) for each in forwards.arguments]
    assert backwards == replace(forwards, arguments=tuple(moved))
