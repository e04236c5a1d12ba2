"""Train the language models of docs/hybrids.md, and show what was found."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Annotated

import torch
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.hybrids import display, page, rows, speed
from benchmarks.hybrids.training import train

Report = Callable[[int, float], None]

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)


@app.command()
def run(name: str, seed: int = 0) -> None:
    """Train a row such as bible/P, or go on where that stopped, and keep its record.

    A row that is recorded already is repeated, and both results are shown. Checkpoints and coefficients lie in
    build/hybrids. The checkpoint of a finished row is used again: remove it to train anew.
    """
    torch.set_num_threads(1)
    chosen = rows.row(name, seed)
    before = display.records(rows.RESULTS).get(name, {}).get(seed)
    with bars() as start:
        record = train(chosen, rows.WORK, rows.RESULTS, start(chosen.place, chosen.settings["steps"]))
    if before:
        print("recorded before:", display.summary(before))
    print(display.summary(record))


@app.command("all")
def run_all(jobs: Annotated[int, typer.Option(min=1)] = 2, hours: float = 4.0) -> None:
    """Run the rows that aren't recorded yet, JOBS at a time on a core each. None starts after HOURS."""
    usable = sorted(os.sched_getaffinity(0))
    cores: SimpleQueue[int] = SimpleQueue()
    for place in range(jobs):
        cores.put(usable[place % len(usable)])
    failed: list[tuple[str, int]] = []
    end = time.monotonic() + 3600 * hours
    with bars() as start, ThreadPoolExecutor(jobs) as pool:

        def one(name: str, seed: int) -> None:
            if time.monotonic() < end:
                core = cores.get()
                try:
                    if not follow(name, seed, core, start):
                        failed.append((name, seed))
                finally:
                    cores.put(core)

        for stage in rows.stages():
            recorded = display.records(rows.RESULTS)
            left = [(name, seed) for name, seed in stage if seed not in recorded.get(name, {})]
            list(pool.map(lambda row: one(*row), left))
    if failed:
        raise typer.Exit(1)


def follow(name: str, seed: int, core: int, start: Callable[[str, int], Report]) -> bool:
    """Run a row in a process of its own, and show what it reports. Return whether it went well."""
    command = [sys.executable, "-m", "benchmarks.hybrids", "run", name, "--seed", str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        os.sched_setaffinity(process.pid, {core})
        report: Report | None = None
        for line in process.stdout or ():
            words = line.split()
            if words[:1] == [f"{name}-{seed}"]:
                report = report or start(words[0], int(words[2]))
                report(int(words[1]), float(words[3]))
    if process.returncode:
        print(f"{name}, seed {seed}: failed", file=sys.stderr)
    return process.returncode == 0


@contextmanager
def bars() -> Iterator[Callable[[str, int], Report]]:
    """Give a function that starts the bar of a run. Where nobody looks, a run prints a line every ten steps instead."""
    columns = TextColumn("{task.description:22}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    seen = sys.stdout.isatty()
    with Progress(*columns, TextColumn("{task.fields[loss]}"), disable=not seen) as shown:

        def start(name: str, steps: int) -> Report:
            task = shown.add_task(name, total=steps, loss="")

            def report(step: int, loss: float) -> None:
                shown.update(task, completed=step, loss=f"{loss:.3f} bits", visible=step < steps)
                if not seen and step % 10 == 0:
                    print(name, step, steps, f"{loss:.3f}", flush=True)

            return report

        yield start


@app.command("rows")
def show_rows() -> None:
    """List the rows in the order of their turn, and what is recorded of them."""
    recorded = display.records(rows.RESULTS)
    for name, seed in (each for stage in rows.stages() for each in stage):
        record = recorded.get(name, {}).get(seed)
        print(display.summary(record) if record else f"{name}, seed {seed}: not run yet")


@app.command("publish")
def publish() -> None:
    """Write the tables and pictures of all records into docs/hybrids.md."""
    page.publish(rows.RESULTS, rows.HERE.parents[1] / "docs")


@app.command("speed")
def show_speed(rounds: int = 5) -> None:
    """Time training steps and the mixer, on one thread."""
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(speed.tables(rounds))


if __name__ == "__main__":
    app()
