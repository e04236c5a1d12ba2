"""What is counted of the kernels, beside what is asked of it: of the plan, of machine code, and in the emulator.

They are of one solve, as the layer of a language model has it: 128 heads of 16 channels over 8192 steps in bfloat16, in
blocks of 16 steps, on an H100. What `sweep` and `sliding` move is a part of that on as much less of a GPU: they are
ratios. No time is among them, because no GPU is needed to count them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from recfact.errors import MissingExtraError
from recfact.gpu import b2p, sweep
from recfact.gpu.b2p import REGISTERS, TILE_BYTES
from recfact.gpu.benchmark import LONG
from recfact.gpu.compiler import options_of, source_of
from recfact.gpu.machine import SOLVE
from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.gpu.segments import Cost
from recfact.gpu.sweep import WIDE_REGISTERS
from recfact.windows import Full, Jagged, Uniform, Window
from tools.gpu.critical_path import cycles, gap, lead
from tools.gpu.examples import H100, HEADS, LAYOUTS, ROWS, TARGETS, described, described_mixer, kinds
from tools.gpu.machine_code import machine_code
from tools.gpu.occupancy import resident_warps
from tools.gpu.traffic import gradient_traffic, mixer_traffic, traffic

WIDE = (8192, 8192, 16)  # enough heads for `sweep`
# Solves by other kernels, with as many heads to a multiprocessor as WIDE and SOLVE have on an H100: layout, heads,
# multiprocessors, window.
PARTS: tuple[tuple[str, int, int, Window], ...] = (
    (HEADS, 64, 1, Jagged(16)),
    (HEADS, 8, 8, Uniform(64)),
    (ROWS, 8, 8, Uniform(64)),
)
BESIDE = "time, head, channel"  # where a sector of coefficients is that of 16 heads, and so of as many warps
FLOAT, HALF = ("float32", "float32"), ("bfloat16", "bfloat16")
# Gradients by each kernel; whether they read states, inputs, or inputs and the states that a solve kept; whether
# channels of a head share coefficients, or heads those of channels; heads, steps and channels; number types, of
# coefficients as well; and what is asked of what moves.
GRADIENTS: tuple[tuple[str, Window, str, bool, tuple[int, int, int], tuple[str, str], float | None], ...] = (
    ("backward", Full(), "x", True, (32, 512, 16), FLOAT, 1.10),
    ("backward with a of channels", Full(), "x", False, (32, 512, 16), FLOAT, 1.10),
    ("backward_window", Jagged(16), "u", True, (8, 2048, 16), FLOAT, 1.10),
    ("backward_window with a of channels", Jagged(16), "u", False, (32, 1024, 16), FLOAT, 1.10),
    ("backward_window of two terms", Jagged(16, 2), "u", True, (8, 4096, 16), FLOAT, 1.10),
    ("backward_window of lags", Uniform(16), "u", True, (8, 2048, 16), FLOAT, 1.10),
    ("backward of halves", Full(), "x", True, (64, 512, 16), HALF, 1.10),
    ("backward_window of halves", Jagged(16), "u", True, (8, 2048, 16), HALF, 1.10),
    ("backward_window of halves, a in float32", Jagged(16), "u", True, (8, 2048, 16), ("bfloat16", "float32"), 1.10),
    ("backward_window of the full recurrence", Full(), "u", True, (64, 512, 16), HALF, None),
    ("backward_window from states that are kept", Full(), "kept", True, (64, 512, 16), HALF, 1.10),
)
# Heads, groups that share gates, steps and channels; what is asked of what moves, over the bytes of the arrays. A warp
# of `b2p` has one head, so those that share gates ask for them one by one, at the same time.
MIXERS: tuple[tuple[str, tuple[int, int, int, int], float | None], ...] = (
    ("sweep with gates", (256, 32, 128, 16), 1.10),
    ("b2p with gates", (1, 1, 8192, 16), 1.10),
    ("b2p with gates that 8 heads share", (8, 1, 1024, 16), None),
)
TILES = (128, 128, 8192, 16)
Launches = list[tuple[tuple[int, int], Launch]]  # with the targets that they are for
# Where blocks in shared memory leave room for fewer warps, they have more registers.
MOST_REGISTERS: dict[str, float | None] = {"b2p": REGISTERS, "backward": REGISTERS, "backward_window": None}
KERNELS = ("b2p", "backward", "backward_window", "chain", "sliding", "sweep")
H100_BYTES = 3.35e12 / 132 / 1.755e9  # that memory moves for a multiprocessor in a cycle
SHARE = 0.9  # of this, as the goals ask
LEAST_LEAD = 800  # cycles, in which memory may have answered
WORK = ("HMMA", "LDG", "LDGSTS", "STG")  # what the main loop of a kernel never leaves out


@dataclass(frozen=True, slots=True)
class Quantity:
    """What is counted, how, and what is asked of it.

    Parameters
    ----------
    name, of : str
        What it is, and of which kernel.
    relation, asked : str, float or None
        "<=", ">=" or "=", and the number; None if nothing is asked.
    by : str
        What it is read from: "machine code" or "emulator".
    count : callable
        Gives the number, or raises `MissingExtraError`.
    """

    name: str
    of: str
    relation: str
    asked: float | None
    by: str
    count: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Counted:
    """A quantity, the number found, and if there is none, why."""

    quantity: Quantity
    number: float | None
    missing: str | None

    @property
    def holds(self) -> bool | None:
        """Whether what is asked for is reached; None if nothing is asked, or it wasn't counted."""
        asked = self.quantity.asked
        if self.number is None or asked is None:
            return None
        return {"<=": self.number <= asked, ">=": self.number >= asked, "=": self.number == asked}[
            self.quantity.relation
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        quantity = self.quantity
        return {
            "quantity": quantity.name,
            "of": quantity.of,
            "relation": quantity.relation,
            "asked": quantity.asked,
            "counted": self.number,
            "holds": self.holds,
            "by": quantity.by,
            "missing": self.missing,
        }


def count(quantity: Quantity) -> Counted:
    """Count a quantity."""
    try:
        return Counted(quantity, quantity.count(), None)
    except MissingExtraError as error:
        return Counted(quantity, None, str(error))


def quantities() -> list[Quantity]:
    """Return all quantities, those first that take least time to count."""
    return [*_of_machine_code(), *_of_traffic()]


def solve_launch(layout: str, n: int = SOLVE[1], precision: str = "full") -> Launch:
    """Plan the solve that quantities are of."""
    heads, _, d = SOLVE
    return described(layout, heads, n, d, "bfloat16", Jagged(16), precision=precision)


def shifted_launch() -> Launch:
    """Plan the solve that quantities are of, in blocks that begin inside tiles."""
    return described(HEADS, *SOLVE, "bfloat16", Jagged(52))


def short_launch() -> Launch:
    """Plan a solve by `sweep` in blocks that begin anywhere in chunks."""
    return described(HEADS, *WIDE, "bfloat16", Jagged(5))


def chain_launch() -> Launch:
    """Plan the exact recurrence over as many steps as are to be as fast as memory."""
    heads, _, d = SOLVE
    return described(HEADS, heads, LONG, d, "bfloat16", Full())


def _of_machine_code() -> Iterator[Quantity]:
    for layout in LAYOUTS:
        for n, least in ((1024, 4), (8192, 8)):
            warps = partial(_resident, solve_launch(layout, n))
            yield Quantity(
                f"warps on a multiprocessor, {n} steps", f"b2p ({layout})", ">=", least, "machine code", warps
            )
    for layout in LAYOUTS:
        flight = partial(_in_flight, solve_launch(layout))
        yield Quantity("KiB on their way to a multiprocessor", f"b2p ({layout})", ">=", 32, "machine code", flight)
    flight = partial(_in_flight, kinds()["b2p with gates"])
    yield Quantity("KiB on their way to a multiprocessor", "b2p with gates", ">=", 32, "machine code", flight)
    instructions = "main loop's instructions / KiB moved"
    for precision, terms, most in (("paper", "one term", 190), ("full", "two terms", 220)):
        for layout in LAYOUTS:
            launch = solve_launch(layout, precision=precision)
            loop = partial(_instructions, launch)
            yield Quantity(instructions, f"b2p, {terms} ({layout})", "<=", most, "machine code", loop)
    shifted, of = shifted_launch(), f"b2p, Jagged(52) ({HEADS})"
    yield Quantity(
        f"warps on a multiprocessor, {SOLVE[1]} steps", of, ">=", 4, "machine code", partial(_resident, shifted)
    )
    loop = partial(_instructions, shifted)
    yield Quantity(instructions, of, "<=", 300, "machine code", loop)
    for n in (1024, 8192):
        tile = partial(_waiting, solve_launch(HEADS, n))
        yield Quantity(
            f"cycles of a tile, alone / cycles for it, {n} steps", f"b2p ({HEADS})", "<=", 1, "machine code", tile
        )
    wide = kinds()["sweep"]
    step = partial(_waiting, wide)
    yield Quantity("cycles of a step, alone / cycles for it", f"sweep ({HEADS})", "<=", 1, "machine code", step)
    for of, (cost, launches) in costs().items():
        loop, alone = partial(_most, _instructions, launches), partial(_most, _cycles, launches)
        yield Quantity(instructions, of, "<=", cost.instructions, "machine code", loop)
        yield Quantity("cycles / KiB moved, alone", of, "<=", cost.cycles, "machine code", alone)
    for kind in ("b2p", "b2p with gates"):
        ahead, of = partial(_lead, kind), f"{kind}, any target"
        yield Quantity("cycles from a load to its use, alone", of, ">=", LEAST_LEAD, "machine code", ahead)
    loop = partial(_instructions, wide)
    yield Quantity(instructions, f"sweep ({HEADS})", "<=", 48, "machine code", loop)
    short = short_launch()
    loop = partial(_instructions, short)
    yield Quantity(instructions, f"sweep, Jagged(5) ({HEADS})", "<=", 300, "machine code", loop)
    of = f"chain ({HEADS})"
    yield Quantity(
        f"warps on a multiprocessor, {LONG} steps", of, ">=", 8, "machine code", partial(_resident, chain_launch())
    )
    # Twice what memory wants: a tile that waits for others has nothing on its way.
    yield Quantity("KiB on their way to a multiprocessor", of, ">=", 64, "machine code", _chain_in_flight)
    yield Quantity("a warp's instructions / KiB moved", of, "-", None, "machine code", _chain_instructions)
    for kind in kinds():
        yield Quantity("bytes spilled, any target", kind, "=", 0, "machine code", partial(_worst, kind, "stack"))
    for kind in kinds():
        limit = MOST_REGISTERS.get(kind.split()[0], WIDE_REGISTERS)
        yield Quantity(
            "registers of a thread, any target", kind, "<=", limit, "machine code", partial(_worst, kind, "registers")
        )
    for kind in kinds():
        if kind != "chain":
            yield Quantity("barriers of thread blocks", kind, "=", 0, "machine code", partial(_barriers, kind))


def _of_traffic() -> Iterator[Quantity]:
    numbers = (
        ("bytes read / bytes of u and a", "<=", 1.05, "read"),
        ("bytes written / bytes of x", "=", 1, "written"),
        ("bytes asked for / bytes of sectors", ">=", 0.98, "sector_efficiency"),
        ("share of bytes by 16-byte accesses", ">=", 0.95, "share_by_16_bytes"),
        ("wavefronts of shared memory / ideal", "<=", 1.05, "wavefront_excess"),
    )
    for layout in LAYOUTS:
        for name, relation, least, attribute in numbers:
            asked = None if attribute == "sector_efficiency" and layout == BESIDE else least
            of = f"b2p ({layout})"
            yield Quantity(name, of, relation, asked, "emulator", partial(_traffic, layout, Jagged(16), attribute))
        moved = partial(_traffic, layout, Full(), "moved")
        yield Quantity("bytes moved / bytes of u, a and x", f"chain ({layout})", "<=", 1.10, "emulator", moved)
    read = partial(_traffic, HEADS, Jagged(52), "read")
    yield Quantity("bytes read / bytes of u and a", f"b2p, Jagged(52) ({HEADS})", "<=", 1.10, "emulator", read)
    for kernel, window, given, shared, lines, types, most in GRADIENTS:
        moved = partial(gradient_traffic, window, *lines, *types, given, shared)
        name = f"bytes moved / bytes of a, {'x' if given == 'x' else 'u'}, g, du and da"
        yield Quantity(name, kernel, "<=", most, "emulator", moved)
    for kind, shape, most in MIXERS:
        for k, (whole, asked) in enumerate((("a, q, k, v and y", most), ("three passes", most and 0.5))):
            part = partial(_mixer_traffic, shape, k)
            yield Quantity(f"bytes moved / bytes of {whole}", kind, "<=", asked, "emulator", part)
    for layout, heads, multiprocessors, window in PARTS:
        launch = _part(layout, heads, multiprocessors, window)
        for name, relation, least, attribute in numbers[:3]:
            asked = least if attribute == "written" or (launch.kernel, attribute) == ("sweep", "read") else None
            part = partial(_traffic_of_part, launch, layout, heads, attribute)
            yield Quantity(name, f"{launch.kernel} ({layout})", relation, asked, "emulator", part)


def costs() -> dict[str, tuple[Cost, Launches]]:
    """Return what plans take kernels to cost, and launches of each, for all targets that it is of."""
    found: dict[str, tuple[Cost, Launches]] = {}
    for (since, gated, shifted), cost in b2p.COSTS.items():
        window = Jagged(52 if shifted else 16)
        launches: Launches = []
        for target in TARGETS:
            device = Device(target, H100.multiprocessors)
            if b2p.generation(device) == since and gated:
                launches.append((target, described_mixer(*TILES, "float16", window, device=device)))
            elif b2p.generation(device) == since:
                launches.append((target, described(HEADS, *SOLVE, "float16", window, device=device)))
        where = "in blocks that begin inside tiles, from" if shifted else "from"
        found["{} {} {}.{} on".format("b2p with gates" if gated else "b2p", where, *since)] = cost, launches
    for kind in ("sweep", "sweep with gates"):
        found[f"{kind}, any target"] = sweep.COST, _on_all_targets(kind)
    return found


def _most(count: Callable[[Launch, tuple[int, int]], float], launches: Launches) -> float:
    return max(count(launch, target) for target, launch in launches)


def _resident(launch: Launch) -> float:
    return resident_warps(launch, machine_code(launch, H100.capability), H100)


def _in_flight(launch: Launch) -> float:
    """Return what is under way on the average while a warp of `b2p` is at work on one tile of those that it has.

    One tile less is from when the next one has arrived until another one sets out. With gates this is nearly always so,
    because the inputs of the next tile are made early. Tiles are of three arrays then.
    """
    stages, gated = (int(dict(launch.macros)[name]) for name in ("STAGES", "GATED"))
    if gated:
        return _resident(launch) * 3 * (stages - 2) * TILE_BYTES / 1024
    less = gap(machine_code(launch, H100.capability).main_loop(WORK), "DEPBAR.LE", "LDGDEPBAR") / _cycles_for(launch)
    return _resident(launch) * (stages - 1 - less) * TILE_BYTES / 1024


def _chain_in_flight() -> float:
    launch = chain_launch()
    share = int(dict(launch.macros)["WARPS"]) / (launch.block[0] // 32)  # of warps, those that load
    return _resident(launch) * share * _chain_steps() / 2


def _chain_steps() -> int:
    """Return the steps of a warp, each of which reads half a KiB and writes as much."""
    return int(dict(chain_launch().macros)["STEPS"])


def _chain_instructions() -> float:
    """Return the instructions of a warp that has all its steps, from its start to its end."""
    # It loads a step at once, and the coefficients of all of them.
    through = {"LDG.E.128": _chain_steps() + 1, "STG.E.128": _chain_steps(), "BAR.SYNC.DEFER_BLOCKING": 3}
    return machine_code(chain_launch(), H100.capability).shortest_run(through) / _chain_steps()


def _instructions(launch: Launch, target: tuple[int, int] = H100.capability) -> float:
    """Return the instructions of the main loop for each KiB that it moves."""
    return len(machine_code(launch, target).main_loop(WORK)) / _times(launch)


def _cycles(launch: Launch, target: tuple[int, int] = H100.capability) -> float:
    """Return the cycles that a warp alone takes to move a KiB."""
    return cycles(machine_code(launch, target).main_loop(WORK)) / _times(launch)


def _times(launch: Launch) -> int:
    """Return how often a round of the main loop moves a KiB: for a tile of `b2p`, or a step of `sweep`.

    With gates it moves two: half a KiB of each array.
    """
    macros = dict(launch.macros)
    return int(macros["STAGES" if launch.kernel == "b2p" else "STEPS"]) * (1 + int(macros["GATED"]))


def _waiting(launch: Launch) -> float:
    """Return the same over the cycles that memory takes for it."""
    return _cycles(launch) / _cycles_for(launch)


def _cycles_for(launch: Launch) -> float:
    """Return the cycles in which memory at `SHARE` of its speed moves a KiB for each warp."""
    return _resident(launch) * 1024 / (SHARE * H100_BYTES)


def _lead(kind: str) -> float:
    return float(min(lead(machine_code(launch, target).main_loop(WORK)) for target, launch in _on_all_targets(kind)))


def _worst(kind: str, attribute: str) -> float:
    return float(max(getattr(machine_code(launch, target), attribute) for target, launch in _on_all_targets(kind)))


def _barriers(kind: str) -> float:
    return float(sum(machine_code(launch, target).count("BAR") for target, launch in _on_all_targets(kind)))


def _on_all_targets(kind: str) -> Launches:
    """Return the launches of a kind for all targets that have it."""
    found = [(target, kinds(Device(target, H100.multiprocessors))) for target in TARGETS]
    return [(target, launches[kind]) for target, launches in found if kind in launches]


def _traffic(layout: str, window: Window, attribute: str) -> float:
    launch = described(layout, *SOLVE, "bfloat16", window)
    return float(getattr(traffic(launch, layout, *SOLVE), attribute))


def _mixer_traffic(shape: tuple[int, int, int, int], which: int) -> float:
    return mixer_traffic(Jagged(16), *shape)[which]


def _part(layout: str, heads: int, multiprocessors: int, window: Window) -> Launch:
    device = Device(H100.capability, multiprocessors)
    return described(layout, heads, *SOLVE[1:], "bfloat16", window, device=device)


def _traffic_of_part(launch: Launch, layout: str, heads: int, attribute: str) -> float:
    return float(getattr(traffic(launch, layout, heads, *SOLVE[1:]), attribute))


def digest() -> str:
    """Return a short text that changes with whatever the quantities depend on, save the compiler: sources and plans."""
    launches = [launch for target in TARGETS for launch in kinds(Device(target, H100.multiprocessors)).values()]
    launches += [described(layout, *SOLVE, "bfloat16", Full()) for layout in LAYOUTS]
    launches += [solve_launch(layout, precision=precision) for layout in LAYOUTS for precision in ("full", "paper")]
    launches += [solve_launch(layout, 1024) for layout in LAYOUTS]
    launches += [launch for _, costed in costs().values() for _, launch in costed]
    launches += [chain_launch(), shifted_launch(), short_launch(), *(_part(*part) for part in PARTS)]
    parts = [repr((launch, options_of(launch))) for launch in launches]
    for kernel in KERNELS:
        lines = (line.split("//")[0].strip() for line in source_of(kernel).splitlines())
        parts += [line for line in lines if line and not line.startswith("#line")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
