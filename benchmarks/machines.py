"""What a sequence on many machines reads, exchanges and stores, and how long that would take.

    python benchmarks/machines.py measure      # two processes here: benchmarks/results/machines/DATE.json
    python benchmarks/machines.py publish      # from the newest record: the table and the figure of docs/machines.md

The formulas are those of docs/machines.md. tests/test_machines.py holds them against bytes that real calls move.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from math import ceil, log2
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
RECORDS, PAGE = HERE / "results" / "machines", HERE.parent / "docs" / "machines.md"
FIGURE = HERE.parent / "docs" / "_static" / "machines.svg"
BEGIN, END = "<!-- machines:begin -->", "<!-- machines:end -->"
CHECK = 48
"""Bytes that each rank tells the others first: 6 integers."""


@dataclass(frozen=True)
class Work:
    """A sequence on several machines.

    Parameters
    ----------
    steps, channels : int
    machines, chunks : int
        How many machines there are, and how many chunks each has of its part.
    reach : int
        How many steps before a step its window keeps.
    width : int
        Bytes of a number.
    """

    steps: int
    channels: int
    machines: int = 1
    chunks: int = 1
    reach: int = 0
    width: int = 4

    @property
    def pieces(self) -> int:
        """How many chunks there are in all."""
        return self.machines * self.chunks

    @property
    def row(self) -> int:
        """Bytes of one number for each channel."""
        return self.channels * self.width

    @property
    def array(self) -> int:
        """Bytes of one array."""
        return self.steps * self.row


@dataclass(frozen=True)
class Moves:
    """What all machines together read and exchange in bytes, what one stores beside its chunks, and the depth.

    The depth is the number of chunks that are solved one after another.
    """

    read: int
    exchanged: int
    stored: int
    depth: int


def chain(work: Work) -> Moves:
    """Return what `recfact.dask.solve(method="chain")` moves."""
    return Moves(2 * work.array, (work.pieces - 1) * work.row, work.row, work.pieces)


def carriers(work: Work) -> Moves:
    """Return what `recfact.dask.solve(method="carriers")` moves.

    The last chunk needs no map, and the first no state and no product.
    """
    read = 4 * work.array - 2 * work.array // work.pieces
    return Moves(read, max(0, 3 * work.pieces - 4) * work.row, 3 * work.pieces * work.row, 2 * work.chunks)


def gathered(work: Work) -> Moves:
    """Return what `recfact.torch.context_parallel.solve` moves without a window, with a chunk for each machine.

    It reads the coefficients three times: in two solves, and for their product.
    """
    pair = 2 * work.row + work.width
    each = (work.machines - 1) * (pair + CHECK)
    return Moves(5 * work.array, work.machines * each, work.machines * pair, 2)


def halo(work: Work) -> Moves:
    """Return what `recfact.torch.context_parallel.solve` moves in a window, with a chunk for each machine."""
    border = 2 * work.reach * work.row
    check = work.machines * (work.machines - 1) * CHECK
    sent = (work.machines - 1) * border
    return Moves(2 * work.array + sent, sent + check, border, 1)


@dataclass(frozen=True)
class Constants:
    """What one machine and one connection do.

    Parameters
    ----------
    rate : float
        Bytes that a solve reads and writes in a second.
    latency : float
        Seconds of a step of an exchange.
    bandwidth : float
        Bytes that a connection carries in a second.
    scan, scan_number : float
        Seconds to take one piece into what enters the next, for each piece and for each channel of it.
    """

    rate: float
    latency: float
    bandwidth: float
    scan: float
    scan_number: float


def seconds(work: Work, constants: Constants) -> dict[str, float]:
    """Return the time that each way takes, by its name."""
    pass_ = work.array / work.machines / constants.rate  # over one array of one machine
    machines, channels = work.machines, work.channels
    ring = (machines - 1) * (constants.latency + CHECK / constants.bandwidth)
    pair = (2 * work.row + work.width) / constants.bandwidth
    stages = (machines + channels - 1) / channels  # channels follow each other through the machines
    scanned = constants.scan + constants.scan_number * channels
    messages = min(machines - 1, ceil(work.reach * machines / work.steps))
    border = work.reach * work.row
    return {
        "chain": stages * (3 * pass_ + channels * constants.latency),
        "carriers, gathered": 7 * pass_ + ring + (machines - 1) * (constants.latency + pair) + machines * scanned,
        "carriers, in a tree": 6 * pass_ + 2 * log2(machines) * (constants.latency + pair + scanned),
        "halo": 3 * (pass_ + border / constants.rate)
        + ring
        + messages * constants.latency
        + 2 * border / constants.bandwidth,
    }


def timed(call: Callable[[], Any], rounds: int) -> float:
    """Return the median time of a call."""
    call()
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return median(found)


def measured(rank: int, folder: str) -> None:
    """Measure the constants in one of two processes, and write them to a file."""
    import numpy as np
    import torch
    from torch import distributed as dist

    import recfact as rf
    from recfact.cuts import mapped

    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", 2), rank=rank, world_size=2)
    n = 1 << 24
    a, u, x = np.full(n, 0.9, np.float32), np.ones(n, np.float32), np.empty(n, np.float32)
    dist.barrier()
    rate = 12 * n / timed(lambda: rf.solve(a, u, out=x, threads=1), 15)
    few, rows = torch.zeros(6, dtype=torch.int64), [torch.zeros(6, dtype=torch.int64) for _ in range(2)]
    latency = timed(lambda: dist.all_gather(rows, few), 500)
    large = torch.zeros(1 << 22)
    bandwidth = large.nbytes / timed(lambda: dist.send(large, 1) if rank == 0 else dist.recv(large, 0), 30)
    pairs = [torch.full((2, channels), 0.5) for channels in (1, 1 << 16)]
    small, wide = (timed(lambda pair=pair: mapped((pair[0], pair[1]), pair[0]), 500) for pair in pairs)
    found = Constants(rate, latency, bandwidth, small, (wide - small) / (1 << 16))
    Path(folder, f"{rank}.json").write_text(json.dumps(asdict(found)))
    dist.barrier()
    dist.destroy_process_group()


def measure() -> None:
    """Record the constants of two processes on this machine: of each the worse one."""
    import torch.multiprocessing

    from recfact.bench.machine import describe

    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(measured, (folder,), nprocs=2)
        both = [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(2)]
    worse = {name: (min if name in ("rate", "bandwidth") else max)(one[name] for one in both) for name in both[0]}
    record = {"date": date.today().isoformat(), "machine": describe(), "constants": worse}
    RECORDS.mkdir(exist_ok=True)
    path = RECORDS / f"{record['date']}.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(path)


def newest() -> dict[str, Any]:
    """Return the newest record."""
    found: dict[str, Any] = json.loads(max(RECORDS.glob("*.json")).read_text(encoding="utf-8"))
    return found


PANELS = {
    "one channel, 10¹³ steps, a window of 10⁶": Work(10**13, 1, reach=10**6),
    "2048 channels, 10¹⁰ steps, a window of 32": Work(10**10, 2048, reach=32),
}


def at(work: Work, machines: int) -> Work:
    """Return the same work on another number of machines."""
    return Work(work.steps, work.channels, machines, work.chunks, work.reach, work.width)


def written(value: float) -> str:
    """Return a number with three digits at least."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(record: dict[str, Any]) -> str:
    """Return the constants, and the times of the panels, as Markdown."""
    constants, machine = Constants(**record["constants"]), record["machine"]
    rows = [
        "| constant | measured |",
        "|---|--:|",
        f"| bytes that a solve reads and writes, a process | {constants.rate / 1e9:.1f} GB/s |",
        f"| one step of a gather | {constants.latency * 1e6:.0f} µs |",
        f"| bytes that a connection carries | {constants.bandwidth / 1e9:.2f} GB/s |",
        f"| one step of the scan | {constants.scan * 1e6:.0f} µs, and {constants.scan_number * 1e9:.2f} ns a channel |",
        "",
        f"Two processes on {machine['processor']} with {machine['cores']} cores, {record['date']}, over gloo.",
        "",
    ]
    for title, work in PANELS.items():
        names = list(seconds(work, constants))
        rows += [f"Seconds for {title}:", "", f"| machines | {' | '.join(names)} |", f"|--:|{'--:|' * len(names)}"]
        for machines in (10, 100, 1000, 10_000):
            times = seconds(at(work, machines), constants).values()
            rows.append(f"| {machines:,} | {' | '.join(map(written, times))} |")
        rows.append("")
    return "\n".join(rows).rstrip()


def figure(record: dict[str, Any]) -> Any:
    """Return the figure of the times by number of machines."""
    from matplotlib.figure import Figure

    constants = Constants(**record["constants"])
    drawn = Figure(figsize=(8.6, 3.6), layout="constrained")
    machines = sorted({round(10 ** (i / 12)) for i in range(49)})
    for axes, (title, work) in zip(drawn.subplots(1, 2), PANELS.items(), strict=True):
        for name in seconds(work, constants):
            times = [seconds(at(work, count), constants)[name] for count in machines]
            axes.plot(machines, times, linewidth=1.2, label=name)
        axes.set(xscale="log", yscale="log", xlabel="machines", ylabel="seconds", title=title)
    axes.legend()
    return drawn


def publish() -> None:
    """Write the table and the figure of the newest record into the page."""
    from recfact.report.pictures import save

    record = newest()
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(record)}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    save(figure(record), FIGURE)


if __name__ == "__main__":
    commands = {"measure": measure, "publish": publish}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit("usage: python benchmarks/machines.py measure|publish")
    commands[sys.argv[1]]()
