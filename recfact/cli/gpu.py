"""The command on GPUs: the state of this machine, and the figures that the kernels are held to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from recfact import __version__
from recfact.cli.app import WITHOUT_GPU, app, progress, show
from recfact.cli.options import Json

if TYPE_CHECKING:
    from recfact.gpu.figures import Counted
    from recfact.gpu.machine import Gpu

Row = dict[str, str]


@app.command(epilog="Example: recfact gpu --check")
def gpu(
    check: Annotated[
        bool, typer.Option("--check", help="Count what the kernels take and move, beside what is asked of them.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print what --check counts as Markdown.")] = False,
    as_json: Json = False,
) -> None:
    """Say whether solves can run on a GPU of this machine, what they lack, and how fast they can be at most.

    All kernels are compiled for all targets, which needs no GPU. Exit code 1 if one doesn't compile, 3 if no GPU can be
    used.

    --check needs no GPU either: it reads machine code, and in a checkout of the source runs the kernels in an emulator
    that counts what they move. That takes about two minutes. Exit code 1 if a figure isn't reached.
    """
    if markdown and (as_json or not check):
        raise typer.BadParameter("--markdown goes with --check, and without --json")
    if check:
        _check(markdown, as_json)
    else:
        _tell(as_json)


def _tell(as_json: bool) -> None:
    from rich.text import Text

    from recfact.gpu.examples import TARGETS
    from recfact.gpu.machine import check_gpus, check_targets, this_machine
    from recfact.gpu.nvrtc import CompileError
    from recfact.report.tables import rows_table, to_json

    found = this_machine()
    compiled: dict[str, dict[str, str | None]] = {}
    unchecked: str | None = None
    with progress(len(TARGETS)) as step:
        try:
            compiled = check_targets(step)
        except CompileError as error:
            unchecked = str(error)
        faults = check_gpus(found.gpus) if found.gpus else []
    for target, kinds in compiled.items():
        faults += [f"{target}: {said}" for said in kinds.values() if said is not None]
    versions = {"recfact": __version__, **found.versions}
    if as_json:
        checked = {"compiled": compiled, "unchecked": unchecked, "faults": faults}
        typer.echo(to_json({**found.as_dict(), "versions": versions, **checked}))
    else:
        show(Text("Solves can run on this machine's GPU." if found.reason is None else f"No GPU: {found.reason}"))
        show(Text("; ".join(f"{name} {version or 'not there'}" for name, version in versions.items())))
        if found.gpus:
            show(rows_table([_gpu_row(device) for device in found.gpus]))
        if unchecked is None:
            show(Text("\nCompiled without a warning:"))
            show(rows_table(_compiled_rows(compiled)))
        else:
            show(Text(f"\nNot compiled for all targets: {unchecked}"))
        for fault in faults:
            show(Text(f"\n{fault}"))
    if faults:
        raise typer.Exit(1)
    if found.reason is not None:
        raise typer.Exit(WITHOUT_GPU)


def _gpu_row(device: Gpu) -> Row:
    from recfact.gpu.figures import SOLVE

    heads, steps, channels = SOLVE
    return {
        "GPU": f"{device.number}: {device.name}",
        "compute capability": f"{device.capability[0]}.{device.capability[1]}",
        "memory": f"{device.memory / 2**30:.0f} GiB",
        "at most": f"{device.bandwidth / 1e9:.0f} GB/s",
        f"{heads} x {steps} x {channels} bfloat16": f"{device.seconds * 1e6:.1f} µs",
        "instructions / KiB": f"{device.instructions:.0f}",
        "solves": "yes" if device.reason is None else "no",
    }


def _compiled_rows(compiled: Mapping[str, Mapping[str, str | None]]) -> list[Row]:
    return [
        {"target": target, **{kind: "yes" if said is None else "NO" for kind, said in kinds.items()}}
        for target, kinds in compiled.items()
    ]


def _check(markdown: bool, as_json: bool) -> None:
    from rich.text import Text

    from recfact.gpu.figures import count, figures
    from recfact.report.tables import rows_table, to_json

    asked = figures()
    counted: list[Counted] = []
    with progress(len(asked)) as step:
        for figure in asked:
            step(f"{figure.name}, {figure.of}")
            counted.append(count(figure))
    if as_json:
        typer.echo(to_json({"source": _source(), "figures": [one.as_dict() for one in counted]}))
    elif markdown:
        typer.echo(figures_markdown(counted))
    else:
        show(rows_table(_figure_rows(counted)))
        for missing in dict.fromkeys(one.missing for one in counted if one.missing):
            show(Text(f"Not counted: {missing}."))
    if any(one.holds is False for one in counted):
        raise typer.Exit(1)


def figures_markdown(counted: Sequence[Counted]) -> str:
    """Return the figures as the documentation shows them, with what they were counted from."""
    from recfact.report.tables import rows_markdown

    source = _source()
    compiled = f"the compiler of CUDA {source['compiler']}" if source["compiler"] else "no compiler"
    return f"{rows_markdown(_figure_rows(counted))}\n\nCounted with {compiled} from sources `{source['sources']}`."


def _source() -> dict[str, str | None]:
    from recfact.gpu.figures import digest
    from recfact.gpu.nvrtc import CompileError, compiler

    try:
        major, minor = compiler().version
    except CompileError:
        return {"sources": digest(), "compiler": None}
    return {"sources": digest(), "compiler": f"{major}.{minor}"}


def _figure_rows(counted: Sequence[Counted]) -> list[Row]:
    return [
        {
            "figure": one.figure.name,
            "of": one.figure.of,
            "asked": "-" if one.figure.asked is None else f"{one.figure.relation} {one.figure.asked:g}",
            "counted": "" if one.number is None else f"{one.number:.4g}",
            "reached": _reached(one),
            "by": one.figure.by,
        }
        for one in counted
    ]


def _reached(counted: Counted) -> str:
    if counted.number is None:
        return "not counted"
    return {True: "yes", False: "NO", None: "-"}[counted.holds]
