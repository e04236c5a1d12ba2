"""What NVRTC makes of the kernels for real GPUs: read, not run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from gpu.cases import H100, described
from gpu.test_coverage import GRID, lengths, planned, sample
from gpu.test_quantities import PAGE, shown
from gpu.test_waves import shared_of

from recfact import Full, Jagged, Uniform
from recfact.gpu import sweep
from recfact.gpu.compiler import options_of
from recfact.gpu.multiprocessors import Device, warps_of_registers
from recfact.gpu.plans import Launch
from recfact.windows import Window
from tools.gpu import nvrtc, quantities
from tools.gpu.check import as_markdown
from tools.gpu.critical_path import lead
from tools.gpu.examples import HEADS, ROWS, TARGETS, kinds
from tools.gpu.machine_code import Instruction, MachineCode, Usage, machine_code, usage
from tools.gpu.occupancy import resident_warps
from tools.gpu.quantities import LEAST_LEAD, WORK, count

pytestmark = pytest.mark.machine_code

TABLE = (HEADS, 128, 8192, 16)  # batch 1, n = 8192, 128 heads, d = 16
NO_TENSOR_CORES = Device((7, 0), 132)
WIDE = (HEADS, 8192, 8192, 16)  # enough channels for `sweep`


def more_launches() -> dict[str, Launch]:
    """Plan launches that differ from those in what costs registers."""
    return {
        "per channel": described(*WIDE, "float32", Jagged(16), shared=False, initial=True),
        "per channel bfloat16": described(*WIDE, "bfloat16", Jagged(16), shared=False),
        "complex": described(*WIDE, "complex128", Jagged(16), shared=False),
        "sweep along time": described(ROWS, 8192, 8192, 16, "float32", Jagged(16)),
        "chain per channel": described(HEADS, 4, 8192, 16, "float32", Full(), shared=False, initial=True),
        "chain per channel float16": described(HEADS, 4, 8192, 16, "float16", Full(), shared=False),
        "chain float64": described(HEADS, 4, 8192, 16, "float64", Full(), shared=False),
        "chain complex128": described(HEADS, 4, 8192, 16, "complex128", Full(), initial=True, reverse=True),
        "chain complex": described(HEADS, 4, 8192, 16, "complex64", Full(), shared=False),
        "chain along time": described(ROWS, 4, 8192, 16, "float32", Full(), reverse=True),
        "chain along time bfloat16": described(ROWS, 4, 8192, 15, "bfloat16", Full(), device=NO_TENSOR_CORES),
        "long blocks": described(*TABLE, "bfloat16", Jagged(64), initial=True, a_dtype="float32", out="float32"),
        "long blocks along time": described(ROWS, 128, 8192, 16, "float16", Jagged(64), initial=True),
        "paper": described(*TABLE, "bfloat16", Jagged(16), precision="paper"),
        "own coefficients in float32": described(
            *WIDE, "float16", Jagged(16), shared=False, a_dtype="float32", out="float16", initial=True
        ),
        "coefficients in float32": described(
            *WIDE, "bfloat16", Jagged(16), a_dtype="float32", out="bfloat16", initial=True, device=NO_TENSOR_CORES
        ),
        "sweep backwards along time": described(ROWS, 8192, 8192, 16, "float64", Jagged(16), reverse=True),
        "sweep complex backwards along time": described(
            ROWS, 8192, 8192, 16, "complex64", Jagged(16), shared=False, reverse=True
        ),
        "sliding float32": described(*WIDE, "float32", Uniform(500)),
        "sliding complex": described(HEADS, 4, 8192, 16, "complex128", Uniform(64), shared=False),
    }


def sound(used: Usage, launch: Launch) -> None:
    """Hold what is true of every kernel."""
    assert used.log == ""
    assert used.stack == 0, "registers spilled, or an array indexed while running"
    assert warps_of_registers(used.registers) >= int(dict(launch.macros)["RESIDENT"])
    assert used.shared + launch.shared_bytes <= 48 * 1024


def wide_accesses(loop: list[Instruction], opcode: str) -> set[bool]:
    """Say of the accesses of one kind whether they are of 16 bytes."""
    return {".128" in instruction.name for instruction in loop if instruction.opcode == opcode}


def widths(instructions: Iterable[Instruction], opcode: str) -> Counter[int]:
    """Count the accesses of one kind by the bytes that a thread moves in each."""
    sizes = {"128": 16, "64": 8, "U16": 2, "S16": 2}
    found = (
        next((sizes[part] for part in instruction.name.split(".") if part in sizes), 4)
        for instruction in instructions
        if instruction.opcode == opcode
    )
    return Counter(found)


def moves_all_it_can_at_once(code: MachineCode, launch: Launch) -> None:
    """Hold how inputs and results move on the way that most of them take: by 16 bytes, but for what is said here."""
    macros = dict(launch.macros)
    sizes = {"half": 2, "__nv_bfloat16": 2, "float": 4}
    size, own = (sizes[macros[name]] for name in ("INPUT", "COEFFICIENT"))
    if launch.kernel == "chain":
        # It has no loop over steps: a thread's part of the tile stands there once. What tiles tell each other are
        # numbers of float32, next to each other over the lanes, and results in half precision never move alone.
        whole = int(macros["STEPS"]) * int(macros["CHANNELS"]) * size // 16
        loads, stores = (widths(code.instructions, opcode) for opcode in ("LDG", "STG"))
        assert min(loads[16], stores[16]) >= whole
        assert 2 not in stores
        return
    if launch.kernel == "backward_window":  # the channels of a thread, and coefficients with what they sum up to
        channels = int(macros["CHANNELS"])
        expected = {channels * size, int(macros["COEFFICIENTS"]) * own}
        states = {channels * 4} if macros["CARRIED"] == "1" else set()  # that are kept, in float32
        assert set(widths(code.instructions, "LDG")) == expected | states
        assert set(widths(code.instructions, "STG")) == expected | (set() if macros["KEPT"] == "1" else states)
        return
    loop = code.main_loop(WORK)
    loads, copies, stores = (widths(loop, opcode) for opcode in ("LDG", "LDGSTS", "STG"))
    if launch.kernel == "b2p":
        stages = int(macros["STAGES"])
        arrays = 3 if macros["GATED"] == "1" else 1  # with gates, k and q beside the inputs
        assert stores == Counter({16: stages})
        assert loads + copies - Counter({2: stages}) == Counter({16: stages * arrays})
        # 16 lanes take a coefficient of a tile each: 32 bytes in one request, of which no lane has use for more.
        assert loads[2] == stages
        assert lead(loop) >= LEAST_LEAD
    elif launch.kernel == "sweep":
        assert set(loads) == {16, int(macros["COEFFICIENT_STEPS"]) * size}
        assert set(stores) == {16}
    elif launch.kernel == "backward":  # and coefficients, with the sums that are their gradients
        expected = {int(macros["CHANNELS"]) * size, int(macros["COEFFICIENTS"]) * own}
        assert set(stores) == expected
        assert set(loads) == expected | {16}  # states are in float32
    else:
        # As many channels as a window's sums leave registers for. Coefficients come one by one, those of a head's
        # channels from one address.
        width = int(macros["CHANNELS"]) * size
        assert set(stores) == {width}
        assert set(loads) == {width, size}


@pytest.mark.parametrize("kind", kinds())
@pytest.mark.parametrize("capability", TARGETS, ids=lambda target: f"sm_{target[0]}{target[1]}")
def test_every_target(capability, kind):
    launch = kinds(Device(capability, 132)).get(kind)
    if launch is None:
        pytest.skip("no asynchronous copies")
    assert launch.kernel == kind.split()[0]
    code = machine_code(launch, capability)
    sound(code, launch)
    assert code.count("LDL") == code.count("STL") == 0  # as the stack says
    moves_all_it_can_at_once(code, launch)
    assert (code.count("HMMA") > 0) == (launch.kernel == "b2p")
    assert (code.count("LDGSTS") > 0) == (launch.kernel == "b2p" and capability >= (8, 0))


@pytest.mark.parametrize("kernel", ["sweep", "sliding", "chain"])
def test_bfloat16_where_tensor_cores_do_not_take_it(kernel):
    turing = Device((7, 5), 132)
    window, heads = {"sweep": (Jagged(16), 8192), "sliding": (Uniform(64), 8192), "chain": (Full(), 4)}[kernel]
    launch = described(HEADS, heads, 8192, 16, "bfloat16", window, device=turing)
    assert launch.kernel == kernel
    code = machine_code(launch, turing.capability)
    sound(code, launch)
    moves_all_it_can_at_once(code, launch)


def wants_warps(launch: Launch) -> bool:
    """Return whether time is cut so that there are as many warps as are wanted."""
    return launch.kernel not in ("chain", "backward") and dict(launch.macros).get("CARRIED") != "1"


def crowded(device: Device) -> dict[str, Launch]:
    """Plan launches of which as many warps as possible are wanted at once, or which take most registers."""
    half = "bfloat16" if device.capability >= (8, 0) else "float16"

    def planned(heads: int, d: int, dtype: str, window: Window, layout: str = HEADS, **options: Any) -> Launch:
        return described(layout, heads, 8192, d, dtype, window, device=device, **options)

    return {
        **{kind: launch for kind, launch in kinds(device).items() if wants_warps(launch)},
        "b2p one term": planned(128, 16, half, Jagged(16), ROWS, precision="paper"),
        "b2p long blocks": planned(128, 16, half, Jagged(64), ROWS, initial=True, a_dtype="float32", out="float32"),
        "b2p long blocks of heads": planned(128, 16, half, Jagged(64), a_dtype="float32", out="float32"),
        "sweep of one channel": planned(2048, 1, half, Jagged(16), initial=True),
        "sweep of short blocks": planned(128, 2, "float64", Jagged(2), shared=False),
        "sliding per channel": planned(8192, 16, "float32", Uniform(500), shared=False, initial=True),
        "sliding complex": planned(8192, 16, "complex128", Uniform(500), shared=False),
    }


@pytest.mark.parametrize("kind", crowded(H100))
@pytest.mark.parametrize("capability", TARGETS, ids=lambda target: f"sm_{target[0]}{target[1]}")
def test_there_is_room_for_the_warps_that_plans_want(capability, kind):
    device = Device(capability, 132)
    launch = crowded(device).get(kind)
    if launch is None:
        pytest.skip("no asynchronous copies")
    assert launch.kernel == kind.split()[0] or device.capability < (8, 0)
    used = usage(launch, capability)
    assert (used.log, used.stack) == ("", 0)
    assert warps_of_registers(used.registers) >= int(dict(launch.macros)["RESIDENT"])
    room = device.limits.room(launch.block[0] // 32, used.registers, used.shared + launch.shared_bytes)
    (wanted,) = re.findall(r"(\d+) warps (?:wanted|needed)", launch.reasons[2])
    assert int(wanted) <= room * device.multiprocessors
    if launch.kernel == "b2p":
        assert used.shared == shared_of(launch)


TIGHT: dict[str, dict[str, Any]] = {
    "coefficients one by one": {"a_dtype": "float32", "reverse": True, "initial": True},
    "float32 from halves": {"out": "float32"},
    "per channel": {"dtype": "float64", "shared": False, "reverse": True, "initial": True},
    "along time": {"layout": ROWS, "d": 15},
}


@pytest.mark.parametrize("kind", TIGHT)
@pytest.mark.parametrize("capability", TARGETS, ids=lambda target: f"sm_{target[0]}{target[1]}")
def test_two_tiles_of_chain_are_there_at_once(capability, kind):
    options = {"layout": HEADS, "d": 16, "dtype": "float16" if capability < (8, 0) else "bfloat16", **TIGHT[kind]}
    device = Device(capability, 132)
    launch = described(heads=4, n=8192, window=Full(), device=device, **options)
    assert launch.kernel == "chain"
    used = usage(launch, capability)
    assert (used.log, used.stack) == ("", 0)
    assert device.limits.room(launch.block[0] // 32, used.registers, used.shared) == 2 * launch.block[0] // 32


def fragments(code: MachineCode) -> Counter[str]:
    """Count the loads of fragments in the main loop, as they lie in memory (M88) and transposed (MT88)."""
    return Counter(instruction.name for instruction in code.main_loop(WORK) if instruction.opcode == "LDSM")


@pytest.mark.parametrize("kind", ["b2p", "b2p along time"])
@pytest.mark.parametrize("capability", TARGETS[1:], ids=lambda target: f"sm_{target[0]}{target[1]}")
def test_tiles_come_as_the_source_says(capability, kind):
    # What is written out in PTX, which no test runs.
    launch = kinds(Device(capability, 132))[kind]
    code = machine_code(launch, capability)
    stages = int(dict(launch.macros)["STAGES"])
    # L_t in two terms, row by row; inputs are taken transposed where a row of them is a step.
    plain, transposed = (2, 1) if kind == "b2p" else (3, 0)
    loads = Counter({"LDSM.16.M88.4": plain * stages, "LDSM.16.MT88.4": transposed * stages})
    assert fragments(code) == loads
    loop = code.main_loop(WORK)
    copies = [instruction for instruction in loop if instruction.opcode == "LDGSTS"]
    assert len(copies) == sum(instruction.opcode == "LDGDEPBAR" for instruction in loop) == stages
    # A copy of nothing fills with zeros: that is its last operand, a predicate.
    assert all(re.fullmatch(r".*, !?P\d", copy.operands) for copy in copies)
    # All but the tile at hand and the next one may be on their way, when the tile at hand is done.
    waits = [instruction for instruction in loop if instruction.name == "DEPBAR.LE"]
    assert [wait.operands for wait in waits] == [f"SB0, {stages - 2:#x}"] * stages


@pytest.mark.parametrize("layout", [HEADS, ROWS])
@pytest.mark.parametrize("reverse", [False, True])
def test_fragments_come_as_by_cudas_own_function(layout, reverse):
    # float16 takes load_matrix_sync, bfloat16 the PTX.
    own, written = (
        fragments(machine_code(described(layout, 128, 8192, 16, dtype, Jagged(16), reverse=reverse), (9, 0)))
        for dtype in ("float16", "bfloat16")
    )
    assert own == written


@pytest.mark.parametrize("capability", TARGETS, ids=lambda target: f"sm_{target[0]}{target[1]}")
def test_flags_are_released_and_acquired(capability):
    code = machine_code(kinds(Device(capability, 132))["chain"], capability)
    names = [instruction.name for instruction in code.instructions]
    # In two places a flag is stored, each behind one fence. In two it is polled, which the compiler may begin before a
    # loop, and the cache emptied before anything else is read.
    assert sum(name.startswith("STG") and name.endswith(".STRONG.GPU") for name in names) == 2
    assert [name for name in names if name.startswith("MEMBAR")] == ["MEMBAR.ALL.GPU"] * 2
    polls = [place for place, name in enumerate(names) if name.startswith("LDG") and name.endswith(".STRONG.GPU")]
    following = [next(name for name in names[place + 1 :] if name.startswith(("LDG", "CCTL"))) for place in polls]
    assert len(polls) in (2, 4)
    assert following == ["CCTL.IVALL"] * len(polls)
    assert code.count("NANOSLEEP") == 2, "a warp that polls leaves the issue slots to others"


@pytest.mark.parametrize("kind", more_launches())
def test_every_variant(kind):
    launch = more_launches()[kind]
    sound(usage(launch, (9, 0)), launch)


def plans_for(capability: tuple[int, int], kernel: str) -> Iterator[Launch]:
    """Plan all that solves can be, each at its longest, for a small GPU of a target and for a large one.

    Every two values of what they can be meet in this sample. What each comes to on the target is planned.
    """
    for row in sample(kernel):
        for multiprocessors in (1, H100.multiprocessors):
            yield planned(row, max(lengths(row)), Device(capability, multiprocessors))


@pytest.mark.parametrize(
    "every", [pytest.param(1, marks=pytest.mark.exhaustive), pytest.param(9, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kernel", GRID)
@pytest.mark.parametrize("capability", TARGETS, ids=lambda target: f"sm_{target[0]}{target[1]}")
def test_nothing_that_is_planned_uses_local_memory(capability, kernel, every):
    # Targets have different ones, so that together they have most.
    plans = list({options_of(launch): launch for launch in plans_for(capability, kernel)}.values())
    for launch in plans[TARGETS.index(capability) % every :: every]:
        sound(usage(launch, capability), launch)


@pytest.mark.parametrize(("precision", "most", "products"), [("full", 220, 4), ("paper", 190, 2)])
@pytest.mark.parametrize("layout", [HEADS, ROWS])
def test_b2p_issues_little(layout, precision, most, products):
    launch = described(layout, 128, 8192, 16, "bfloat16", Jagged(16), precision=precision)
    code = machine_code(launch, (9, 0))
    loop = code.main_loop(WORK)
    tiles = sum(instruction.opcode == "STG" for instruction in loop)
    assert tiles == int(dict(launch.macros)["STAGES"])
    assert len(loop) <= most * tiles
    assert sum(instruction.opcode == "HMMA" for instruction in loop) == products * tiles
    assert wide_accesses(loop, "STG") == wide_accesses(loop, "LDGSTS") == {True}
    assert code.count("BAR") == 0, "warps wait for each other"
    # Fragments come by LDSM: one instruction for each of L_t's terms and for the inputs.
    assert sum(instruction.opcode == "LDSM" for instruction in loop) == (products // 2 + 1) * tiles
    assert not any(instruction.opcode in ("LD", "ST") for instruction in loop), "generic accesses"


@pytest.mark.parametrize("heads", [128, 8192])
def test_blocks_of_whole_tiles_need_fewer_instructions(heads):
    inside, whole = (described(HEADS, heads, 8192, 16, "bfloat16", Jagged(block)) for block in (52, 64))
    assert inside.kernel == whole.kernel == ("b2p" if heads == 128 else "sweep")
    assert len(machine_code(whole, (9, 0)).main_loop(WORK)) < len(machine_code(inside, (9, 0)).main_loop(WORK))


def test_sweep_issues_little():
    launch = described(*WIDE, "bfloat16", Jagged(16))
    code = machine_code(launch, (9, 0))
    loop = code.main_loop(WORK)
    steps = sum(instruction.opcode == "STG" for instruction in loop)
    assert steps == int(dict(launch.macros)["STEPS"])
    # A step of a warp is 256 channels: 512 bytes in and 512 out.
    assert len(loop) <= 48 * steps
    assert wide_accesses(loop, "STG") == {True}
    # Of the inputs one access a step, and one of the coefficients for all of them.
    assert sum(".128" in i.name for i in loop if i.opcode == "LDG") == steps + 1
    assert code.count("BAR") == 0


@pytest.mark.parametrize("capability", TARGETS, ids=lambda target: f"sm_{target[0]}{target[1]}")
def test_sweep_has_all_its_registers_and_spills_none(capability):
    launch = kinds(Device(capability, 132))["sweep"]
    used = usage(launch, capability)
    assert (used.registers, used.stack) == (sweep.WIDE_REGISTERS, 0)


def test_the_shortest_run_never_goes_back():
    names = ("MOV", "LDG", "BRA", "LDG", "STG", "EXIT", "BRA", "EXIT")
    guards, operands = ("", "", "@P0", "", "", "@P1", "", ""), ("", "", "`(.L_x_1)", "", "", "", "`(.L_x_0)", "")
    code = MachineCode("", 0, 0, 0, tuple(map(Instruction, guards, names, operands)), {".L_x_0": 0, ".L_x_1": 4})
    assert [code.shortest_run({"LDG": loads}) for loads in (1, 2)] == [5, 6]
    with pytest.raises(LookupError):
        code.shortest_run({"LDG": 3})


def test_bytes_in_flight():
    # A warp of b2p works on one of its STAGES tiles while the others are on their way.
    launch = described(*TABLE, "bfloat16", Jagged(16))
    warps = launch.grid[0] * launch.block[0] // 32 / H100.multiprocessors
    assert resident_warps(launch, usage(launch, (9, 0)), H100) == warps, "not all thread blocks are resident"
    assert 512 * (int(dict(launch.macros)["STAGES"]) - 1) * warps >= 32 * 1024


def test_the_page_shows_the_machine_code():
    # Here, where most of what it reads has been compiled.
    compiled_by = re.search(r"compiler of CUDA ([\d.]+)", PAGE.read_text(encoding="utf-8"))[1]
    if compiled_by != "{}.{}".format(*nvrtc.compiler().version):
        pytest.skip(f"the page shows the machine code of CUDA {compiled_by}")
    counted = [count(one) for one in quantities.quantities() if one.by == "machine code"]
    rows = [row for row in as_markdown(counted).splitlines() if row[:1] == "|"]
    assert [row.strip("| ").split(" | ") for row in rows[2:]] == [
        row for row in shown()[2:] if row[5] == "machine code"
    ]
