"""Progress on standard error: a bar on a terminal, and single lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

import typer

FIRST, LATER = 1.0, 10.0
"""Seconds until work is reported, and from then on between two lines."""


@contextmanager
def progress(total: int | None) -> Iterator[Callable[[str], None]]:
    """Give a function that shows the next of `total` steps, by its name."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        with _lines(total) as step:
            yield step
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda what: bar.update(task, description=what, advance=1)


@contextmanager
def _lines(total: int | None) -> Iterator[Callable[[str], None]]:
    """Give a function as `progress` does. Long work is reported after one second, and then every ten seconds."""
    finished, steps = Event(), ["starting"]

    def tell() -> None:
        pause = FIRST
        while not finished.wait(pause):
            share = f", {100 * (len(steps) - 2) // total} %" if total and len(steps) > 1 else ""
            typer.echo(f"{steps[-1]}{share} ...", err=True)
            pause = LATER

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield steps.append
    finally:
        finished.set()
        thread.join()


@contextmanager
def transfer(work: str, total: int, done: int) -> Iterator[Callable[[int], None]]:
    """Give a function that shows how many of `total` bytes are done, at which rate, and the time left.

    Nothing is shown in the first second. `done` bytes are there from the start, which is said, and don't count for the
    rate. The text `work` says what is done.
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    if done:
        typer.echo(f"{work} goes on after {100 * done // total} %", err=True)
    console = Console(stderr=True)
    columns = (TextColumn(work), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(work, total=total, completed=done)
    start, due = monotonic(), FIRST

    def show(now: int) -> None:
        nonlocal due
        seconds = monotonic() - start
        bar.update(task, completed=now)
        if seconds < due:
            return
        if console.is_terminal:
            bar.start()
            return
        due = seconds + LATER
        rate = (now - done) / seconds
        typer.echo(
            f"{work}, {100 * now // total} %, {rate / 1e6:.0f} MB/s, {(total - now) / rate:.0f} s left ...", err=True
        )

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()
