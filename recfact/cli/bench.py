"""The command that measures speed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recfact.cli.app import app, show
from recfact.cli.options import Json
from recfact.cli.progress import progress

if TYPE_CHECKING:
    from recfact.gpu.benchmark import Goal
    from recfact.gpu.benchmark import Row as GpuRow
    from recfact.gpu.roofline import Roof


@app.command(epilog="Example: recfact bench --plot growth.svg")
def bench(
    smoke: Annotated[bool, typer.Option("--smoke", help="Use small sizes, to see whether everything runs.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    picture: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw how time grows with length: .png or .svg.")
    ] = None,
    on_gpu: Annotated[bool, typer.Option("--gpu", help="Measure solves on this machine's GPU instead.")] = False,
    as_json: Json = False,
) -> None:
    """Measure the speed of recfact on this machine, against the speed of memory and against other libraries.

    This takes about seven minutes and 1 GiB of memory. The machine should have nothing else to do.

    With --gpu, solves of 128 heads of 16 channels in bfloat16 are timed on the GPU, against copies of as many bytes.
    The table has goals beside the measured values, and a second one has the speed of each kernel. This takes 13 GiB of
    the GPU's memory. The exit code is 3 if no GPU can be used.
    """
    from recfact.bench import display, run
    from recfact.report.pictures import check_picture, save
    from recfact.report.rows import to_json

    if markdown and as_json:
        raise typer.BadParameter("--markdown and --json exclude each other")
    if on_gpu:
        if picture:
            raise typer.BadParameter("--plot draws the times of the CPU: leave out --gpu or --plot")
        _bench_gpu(smoke, markdown, as_json)
        return
    if picture:
        check_picture(picture)
    plan = run.SMOKE if smoke else run.FULL
    with progress(run.steps(plan)) as step:
        record = run.run(plan, step)
    if as_json:
        typer.echo(to_json(record.as_dict()))
    elif markdown:
        typer.echo(display.markdown(record))
    else:
        show(display.text(record))
    if picture:
        save(display.growth_figure(record), picture)


def _bench_gpu(smoke: bool, markdown: bool, as_json: bool) -> None:
    from dataclasses import asdict

    from rich.text import Text

    from recfact.gpu import benchmark
    from recfact.gpu.availability import require
    from recfact.gpu.machine import this_machine
    from recfact.gpu.roofline import measure_roofline
    from recfact.report.rows import rows_markdown, rows_table, to_json

    require()
    effort = benchmark.SMOKE if smoke else benchmark.FULL
    with progress(len(effort.lengths)) as step:
        rows = list(benchmark.measure(effort, step))
    roofs = list(measure_roofline(effort))
    found, goals = this_machine(), benchmark.goals(rows)
    if as_json:
        measured = {"rows": [asdict(row) for row in rows], "goals": [goal.as_dict() for goal in goals]}
        measured["roofline"] = [asdict(roof) for roof in roofs]
        typer.echo(to_json({"machine": found.as_dict(), "smoke": smoke, **measured}))
        return
    tables = [[_gpu_cells(row) for row in rows], [_roof_cells(roof) for roof in roofs]]
    tables.append([_goal_cells(goal) for goal in goals])
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items() if version)
    sentences = [
        f"On {found.gpus[0].name}; {versions}. Times in µs; in brackets, the speed relative to a copy's.",
        "The paper's times are of its own kernel and GPU (an H100), its speeds relative to this GPU's copy.",
        *(f"Not measured: {name}: {reason}." for name, reason in rows[0].missing.items()),
    ]
    if smoke:
        sentences.append("A smoke run: these numbers say nothing.")
    if markdown:
        typer.echo("\n".join([*(f"{rows_markdown(table)}\n" for table in tables), *sentences]))
    else:
        for table in tables:
            show(rows_table(table))
        for sentence in sentences:
            show(Text(sentence))


def _gpu_cells(row: GpuRow) -> dict[str, str]:
    from recfact.gpu.benchmark import COPY, PAPER

    cells = {"steps": str(row.steps)}
    for name, seconds in row.seconds.items():
        cells[name] = f"{1e6 * seconds:.1f}" + ("" if name == COPY else f" ({row.of_copy(name):.0%})")
    return {**cells, "paper": f"{1e6 * PAPER[row.steps]:.1f}"}


def _roof_cells(roof: Roof) -> dict[str, str]:
    return {
        "kernel": roof.kernel,
        "of": roof.solve,
        "µs": f"{1e6 * roof.seconds:.1f}",
        "GB/s": f"{1e-9 * roof.speed:.0f}",
        "of a copy": f"{roof.of_copy:.0%}",
        "paper": "" if roof.paper is None else f"{roof.copy / roof.paper:.0%}",
    }


def _goal_cells(goal: Goal) -> dict[str, str]:
    def shown(value: float | None) -> str:
        if value is None:
            return ""
        return f"{value:.1%}" if goal.relation == ">=" else f"{1e6 * value:.1f} µs"

    return {
        "goal": goal.name,
        "of": goal.solve,
        "asked": f"{goal.relation} {shown(goal.asked)}",
        "measured": "not measured" if goal.measured is None else f"{shown(goal.measured)} ({goal.steps} steps)",
        "met": {True: "yes", False: "NO", None: "-"}[goal.met],
        "paper": shown(goal.paper),
    }
