"""How plans split time: into segments that run at once, or in waves that are full."""

from __future__ import annotations

from itertools import product

import pytest
from gpu.cases import LAYOUTS, described
from hypothesis import given
from hypothesis import strategies as st

from recfact.gpu import b2p
from recfact.gpu.multiprocessors import MULTIPROCESSORS, Device, Warps
from recfact.gpu.plans import Launch
from recfact.gpu.segments import SEGMENT_BLOCKS, SHORT_BLOCKS, WAVES, split_time
from recfact.windows import Jagged, Uniform
from tools.gpu.examples import described_gradients, described_mixer

HEADS, _, ROWS = LAYOUTS


@given(
    warps=st.integers(1, 5000),
    blocks=st.integers(1, 100_000),
    halo=st.integers(0, 4),
    wanted=st.integers(4, 64),
    room=st.integers(4, 64),
    multiprocessors=st.integers(1, 200),
)
def test_segments_cover_time_once(warps, blocks, halo, wanted, room, multiprocessors):
    places = room * multiprocessors
    enough = Warps(min(wanted, room) * multiprocessors, places)
    split = split_time(warps, blocks, halo, enough, Device((9, 0), multiprocessors))
    assert (split.segments - 1) * split.blocks < blocks <= split.segments * split.blocks
    if halo and split.segments > 1:
        assert split.blocks >= SHORT_BLOCKS * halo
        if places >= warps * split.segments >= 2 * 4 * multiprocessors:  # in waves, what is done first counts
            assert split.blocks >= SEGMENT_BLOCKS * halo

    def ends(segments: int) -> int:
        """Return when the last wave ends, in blocks."""
        return -(-segments * warps // places) * (-(-blocks // segments) + halo)

    # All run at once, or no other few segments are done before.
    if split.segments * warps > places:
        shortest = (SHORT_BLOCKS if split.short else SEGMENT_BLOCKS) * halo
        most = max(1, blocks // shortest) if halo else blocks
        assert ends(split.segments) <= min(map(ends, range(1, min(most, WAVES) + 1)))


def places_of(launch: Launch, device: Device) -> int:
    """Return how many thread blocks a GPU holds at once."""
    macros, warps, limits = dict(launch.macros), launch.block[0] // 32, device.limits
    shared = shared_of(launch) if launch.kernel == "b2p" else launch.shared_bytes
    rooms = [limits.warps // warps, limits.thread_blocks, int(macros["RESIDENT"]) // warps]
    rooms += [limits.shared_bytes // (shared + limits.reserved_bytes)] if shared else []
    return min(rooms) * device.multiprocessors


def shared_of(launch: Launch) -> int:
    """Return the shared memory that the source of `b2p` declares."""
    macros = dict(launch.macros)
    tiles = int(macros["STAGES"]) if macros["ASYNCHRONOUS"] == "1" else 1
    return b2p.shared_bytes(tiles, macros["SPLIT"] == "1", macros["GATED"] == "1")


def runs_in_full_waves(launch: Launch, device: Device) -> None:
    """A wave that is nearly empty takes as long as a full one: several are full to three quarters together."""
    places = places_of(launch, device)
    waves = -(-launch.grid[0] // places)
    assert waves == 1 or launch.grid[0] >= 0.75 * waves * places, (launch.grid, places, launch.reasons)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [Jagged(16), Jagged(64), Jagged(128, 2), Uniform(64)], ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_no_plan_has_a_few_warps_more_than_there_is_room_for(window, dtype):
    for capability, multiprocessors in product(MULTIPROCESSORS, (30, 40, 58, 84, 132, 170)):
        device = Device(capability, multiprocessors)
        for layout, heads, n in product((HEADS, ROWS), (4, 32, 128, 512), (8192, 65536)):
            runs_in_full_waves(described(layout, heads, n, 16, dtype, window, device=device), device)


@pytest.mark.parametrize("window", [Jagged(16), Jagged(52)], ids=str)
def test_nor_has_one_with_gates(window):
    for capability, multiprocessors in product(MULTIPROCESSORS, (30, 58, 132)):
        device = Device(capability, multiprocessors)
        for heads, n, dtype in product((32, 128, 512), (8192, 65536), ("float16", "float32")):
            runs_in_full_waves(described_mixer(heads, 8, n, 16, dtype, window, device=device), device)


@pytest.mark.parametrize("window", [Jagged(16), Jagged(16, 2), Uniform(16)], ids=str)
def test_nor_have_gradients(window):
    for capability, multiprocessors in product(MULTIPROCESSORS, (30, 58, 132)):
        device = Device(capability, multiprocessors)
        for heads, n, dtype in product((32, 128, 512, 4096), (8192, 65536), ("float16", "float32")):
            runs_in_full_waves(described_gradients(heads, n, 16, dtype, window, device=device), device)
