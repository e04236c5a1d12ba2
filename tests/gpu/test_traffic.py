"""The kernels' PTX: no fault and the same bits in any order of threads, and the traffic that the documents promise."""

from __future__ import annotations

import numpy as np
import pytest
from gpu.bounds import bound, reference
from gpu.cases import LAYOUTS, Case
from gpu.test_kernels import H100, NO_TENSOR_CORES, make_case

from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.windows import Full, Jagged, Uniform, Window
from tools.gpu.emulator import RANDOM, TOGETHER, Report, Schedule, execute

pytestmark = [pytest.mark.slow, pytest.mark.machine_code]

HEADS, ROWS = "head, time, channel", "head, channel, time"
T4 = Device((7, 5), 40)
SMALL = Device((9, 0), 8)  # to 8 heads what an H100's 132 multiprocessors are to 128


def run(
    case: Case,
    window: Window,
    *,
    reverse: bool = False,
    device: Device = H100,
    schedule: Schedule = TOGETHER,
    check: bool = True,
) -> tuple[Launch, Report]:
    """Execute a case; see that it has no fault and a result within its bound, with what GPUs flush to zero."""
    launch = case.plan(window, reverse=reverse, device=device)
    arrays = {"a": case.a, "u": case.u, "x": case.x}
    if case.x0 is not None:
        arrays["x0"] = case.x0
    target = max(device.capability, (7, 5))  # the oldest that the compiler knows
    report = execute(launch, arrays, target, schedule=schedule).check()
    if check:
        x, most = bound(launch, case, window, reverse, flushed=True)
        assert (np.abs(np.moveaxis(case.x, case.axis, 0).astype(x.dtype) - x) <= most).all()
    return launch, report


RUNS = {
    "sweep": (HEADS, "bfloat16", Jagged(16), {"device": NO_TENSOR_CORES}, {}),
    "sweep along time": (ROWS, "float32", Jagged(16), {"reverse": True}, {}),
    "sliding": (HEADS, "float32", Uniform(9), {}, {"initial": True}),
    "sliding in global memory": (HEADS, "complex64", Uniform(150), {}, {"shared": False}),
    "chain": (HEADS, "float32", Full(), {}, {"initial": True}),
    "chain along time": (ROWS, "bfloat16", Full(), {"reverse": True, "device": NO_TENSOR_CORES}, {}),
    "b2p": (HEADS, "bfloat16", Jagged(16), {}, {}),
    "b2p backwards": (HEADS, "float16", Jagged(16), {"reverse": True}, {}),
    "b2p along time": (ROWS, "bfloat16", Jagged(32), {}, {"initial": True, "a_dtype": "float32"}),
    "b2p shifted": (HEADS, "bfloat16", Jagged(20), {}, {"initial": True}),
    "b2p shifted along time backwards": (ROWS, "float16", Jagged(37), {"reverse": True}, {}),
    "b2p in two stages": (HEADS, "float16", Jagged(16), {"device": T4}, {"initial": True}),
    "b2p in two stages, along time": (ROWS, "float16", Jagged(32), {"device": T4, "reverse": True}, {}),
}


@pytest.mark.parametrize("name", RUNS)
def test_no_faults_and_the_same_bits_in_every_order(name):
    layout, dtype, window, options, arrays = RUNS[name]
    results = set()
    for schedule in (TOGETHER, *RANDOM):
        case = make_case(layout, 3, 264, 16, dtype, **arrays)
        launch, report = run(case, window, schedule=schedule, **options)
        results.add(case.x.tobytes())
        assert launch.kernel == name.split()[0]
        if schedule == TOGETHER:
            assert report.arrays["x"].written == case.x.nbytes
            if options.get("device") != T4:  # there the compiler of machine code makes one access of four
                assert report.wavefront_excess <= 1.05
        if launch.kernel != "chain":
            assert report.counts["block_barriers"] == 0
    assert len(results) == 1


REPEATED = {
    "b2p": (HEADS, "bfloat16", Jagged(16), {}, {}),
    "b2p long blocks backwards": (HEADS, "float16", Jagged(32), {"reverse": True}, {}),
    "b2p along time": (ROWS, "bfloat16", Jagged(32), {}, {"initial": True}),
    "b2p along time backwards": (ROWS, "float16", Jagged(16), {"reverse": True}, {}),
    "b2p shifted": (HEADS, "bfloat16", Jagged(19), {}, {"initial": True}),
    "b2p shifted along time": (ROWS, "float16", Jagged(25), {}, {}),
    "b2p shifted backwards": (HEADS, "float16", Jagged(18), {"reverse": True}, {}),
    "b2p blocks alone": (HEADS, "bfloat16", Jagged(16, 0), {}, {"initial": True}),
}


@pytest.mark.parametrize("name", REPEATED)
def test_no_faults_where_tiles_are_repeated(name):
    layout, dtype, window, options, arrays = REPEATED[name]
    for schedule in (TOGETHER, RANDOM[1]):
        case = make_case(layout, 2, 136, 16, dtype, **arrays)
        u = np.moveaxis(case.u, case.axis, 0)
        u[37], u[100] = np.inf, np.nan
        with np.errstate(all="ignore"):
            launch, _ = run(case, window, schedule=schedule, check=False, **options)
            plain, *_ = reference(case, window, options.get("reverse", False))
        assert launch.kernel == "b2p"
        got = np.moveaxis(case.x, case.axis, 0)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(plain))
        np.testing.assert_array_equal(np.isinf(got), np.isinf(plain))


def test_each_line_of_a_segment_has_its_slots_in_global_memory():
    # Two thread blocks for a segment, the second with few lines: any slot taken by two would show in some order.
    case = make_case(HEADS, 9, 1600, 16, "complex64", shared=False)
    launch, _ = run(case, Uniform(98), schedule=RANDOM[3])
    segments = next(argument.value for argument in launch.arguments if argument.name == "segments")
    assert (launch.kernel, launch.grid[0]) == ("sliding", 2 * segments)
    (slots,) = launch.scratch
    assert slots.bytes == segments * 9 * 16 * 97 * 2 * 8  # of each line, and of each block: a sum and a product


def test_look_back_gives_the_same_bits_in_every_order():
    results = set()
    for schedule in (TOGETHER, *RANDOM):
        case = make_case(HEADS, 3, 900, 16, "float32", initial=True, size=0.999)
        launch, _ = run(case, Full(), schedule=schedule)
        assert launch.kernel == "chain"
        results.add(case.x.tobytes())
    assert len(results) == 1


def test_look_back_past_more_tiles_than_a_warp_has_lanes():
    # Tiles in step with each other have all published an aggregate when the first has its state.
    results, passed = set(), []
    for schedule in (Schedule(resident=70), Schedule(resident=1)):
        case = make_case(HEADS, 1, 6200, 4, "float32", size=0.999)
        launch, report = run(case, Full(), schedule=schedule)
        assert (launch.kernel, launch.grid[0]) == ("chain", 71)
        aggregates = report.arrays["aggregates"]
        passed.append(aggregates.read / (aggregates.written / 70))  # the first tile publishes none
        results.add(case.x.tobytes())
    assert passed[0] > 71 * 16 > passed[1] == 0
    assert len(results) == 1


def test_look_back_past_overflow_in_every_order():
    results = set()
    for schedule in (TOGETHER, *RANDOM):
        case = make_case(HEADS, 3, 900, 16, "float32")
        case.u[0, 100, 3], case.a[0, 300], case.a[1, 200:260], case.a[1, 400] = np.inf, 0, 1e30, 0
        with np.errstate(all="ignore"):
            run(case, Full(), schedule=schedule, check=False)
        results.add(case.x.tobytes())
        assert np.isnan(case.x[0, 300:, 3]).all()
        assert np.isfinite(case.x[0, :100]).all()
    assert len(results) == 1


def test_look_back_does_not_pass_what_overflows_on_its_way():
    # The products of the tile of steps 700 and 701 are small, and so is what it reaches itself. What enters isn't.
    for schedule in (TOGETHER, *RANDOM):
        case = make_case(HEADS, 1, 900, 16, "float32")
        case.a[...], case.u[...], case.u[0, 1] = 1, 0, 1e22
        case.a[0, 700], case.a[0, 701] = 1e17, 1e-17
        launch, _ = run(case, Full(), schedule=schedule, check=False)
        assert launch.kernel == "chain"
        np.testing.assert_array_equal(np.isinf(case.x[0, :, 3]), np.arange(900) >= 700)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_traffic_of_b2p(layout):
    case = make_case(layout, 8, 8192, 16, "bfloat16")
    launch, report = run(case, Jagged(16), device=SMALL, check=False)
    assert launch.kernel == "b2p"
    read = report.arrays["u"].read + report.arrays["a"].read
    assert read <= 1.05 * (case.u.nbytes + case.a.nbytes)
    assert report.arrays["x"].written == case.x.nbytes
    assert report.share_by_16_bytes >= 0.95
    assert report.wavefront_excess <= 1.05
    assert report.counts["block_barriers"] == 0
    sectors = report.arrays["u"].read_sectors + report.arrays["x"].write_sectors
    assert sectors * 32 == report.arrays["u"].read + report.arrays["x"].written
    # Where heads are next to each other in time, a coefficient's sector holds those of 16 heads, whose warps run side
    # by side: each asks for it, the first from memory and the others from the cache.
    if layout == "time, head, channel":
        # Two steps of these 8 heads share a sector; the first coefficient of each isn't read.
        assert report.arrays["a"].read_sectors == (report.arrays["a"].read / case.a.itemsize + 8) / 2
    else:
        assert report.sector_efficiency >= 0.98


def test_traffic_of_sweep():
    case = make_case(HEADS, 64, 2048, 16, "bfloat16")
    launch, report = run(case, Jagged(16), device=Device((7, 0), 1), check=False)
    assert launch.kernel == "sweep"
    assert report.arrays["u"].read + report.arrays["a"].read <= 1.05 * (case.u.nbytes + case.a.nbytes)
    assert report.arrays["x"].written == case.x.nbytes
    assert report.share_by_16_bytes >= 0.95
    assert report.arrays["u"].read_sectors * 32 == report.arrays["u"].read
    # A sector holds 16 coefficients of a head, and a lane takes eight of them at once.
    assert report.sector_efficiency >= 0.95


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_traffic_of_the_exact_recurrence(dtype):
    case = make_case("time, head, channel", 32, 2048, 16, dtype)
    launch, report = run(case, Full(), device=NO_TENSOR_CORES, schedule=TOGETHER)
    assert launch.kernel == "chain"
    moved = sum(array.read + array.written for array in report.arrays.values())
    assert moved <= 1.10 * (case.u.nbytes + case.a.nbytes + case.x.nbytes)


@pytest.mark.parametrize("heads", [1, 4, 16])
def test_lanes_without_a_line_move_nothing(heads):
    case = make_case(HEADS, heads, 2048, 16, "bfloat16")
    launch, report = run(case, Full(), device=NO_TENSOR_CORES, schedule=TOGETHER)
    assert launch.kernel == "chain"
    moved = sum(array.read + array.written for array in report.arrays.values())
    assert moved <= 1.10 * (case.u.nbytes + case.a.nbytes + case.x.nbytes)
