"""The command that chooses a window which is proved to be good enough, and says how far back states look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from recfact.cli.app import app, show_table
from recfact.cli.options import Json, Offsets, Pick, any_format, one_of, whole
from recfact.cli.progress import progress
from recfact.cli.reading import read_offsets

if TYPE_CHECKING:
    from recfact.arrays import Array


@app.command(epilog="Example: recfact window --a gates.npy --format bfloat16, or recfact window --rho 0.99 --tol 1e-3")
def window(
    a: Annotated[
        str | None,
        typer.Option(
            "--a", metavar="FILE|NUMBER", help="Coefficients, or their one value. By default those of the CO2 record."
        ),
    ] = None,
    rho: Annotated[
        str | None,
        typer.Option("--rho", metavar="NUMBER", help="The largest possible coefficient, exactly, instead of --a."),
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            parser=any_format,
            help="Lose at most the unit roundoff of this format, to which --a is rounded. A format of blocks only "
            "stores --a, and the unit roundoff is that of binary32. May be given several times.",
        ),
    ] = None,
    tol: Annotated[
        str | None, typer.Option("--tol", metavar="NUMBER", help="Instead of --format: lose at most this fraction.")
    ] = None,
    relative_to: Annotated[
        str,
        typer.Option(
            "--relative-to", metavar="WHAT", help="The loss is a fraction of the largest one: state or input."
        ),
    ] = "state",
    block: Annotated[
        int | None,
        typer.Option(
            "--block",
            metavar="INTEGER",
            parser=whole(1),
            help="Block length of jagged windows, if a kernel needs a certain one.",
        ),
    ] = None,
    pick: Pick = None,
    axis: Annotated[
        int | None,
        typer.Option(
            "--axis",
            metavar="INTEGER",
            parser=whole(),
            help="Axis of time in --a. The window is then good for all sequences.",
        ),
    ] = None,
    offsets: Offsets = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="NAME",
            parser=one_of(("cpu", "gpu")),
            help="Where the window is to run, cpu or gpu. By default it takes a CPU no longer than the cheapest.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Choose the cheapest window that is proved to lose little enough, whatever the inputs are.

    It also says how far back states look before weights fall below the allowed loss. Without --format and --tol, the
    format is that of the coefficients.
    """
    from recfact.precision.formats.block_catalogue import number_format
    from recfact.report.advice import window_advice
    from recfact.report.files import read_array
    from recfact.report.problem import bundled_problem, sequence_from_file, sequences_from_file
    from recfact.report.rows import to_json
    from recfact.report.sources import constant

    if a is not None and rho is not None:
        raise typer.BadParameter("--a and --rho exclude each other")
    if formats and tol is not None:
        raise typer.BadParameter("--format and --tol exclude each other")
    if pick is not None and (a is None or constant(a) is not None):
        raise typer.BadParameter("--pick goes with a file in --a")
    if axis is not None and (a is None or constant(a) is not None):
        raise typer.BadParameter("--axis goes with a file in --a")
    if offsets is not None and (rho is not None or (a is not None and constant(a) is not None)):
        raise typer.BadParameter("--offsets goes with a file in --a")
    if axis is not None and pick is not None:
        raise typer.BadParameter("--axis asks for all sequences and --pick for one; leave one out")
    coefficients: Array | str
    if rho is not None:
        if not formats and tol is None:
            raise typer.BadParameter("--rho needs --format or --tol, which say how much may be lost")
        coefficients, source = rho, f"All coefficients up to {rho}."
    elif a is not None and constant(a) is not None:
        coefficients, source = read_array(a, "a"), f"All coefficients {a}."
    elif a is not None and axis is not None:
        coefficients, count = sequences_from_file(a, "a", axis)
        source = f"Coefficients from {a}, {count} sequences of {coefficients.shape[axis]} steps."
    elif a is not None:
        coefficients, source = sequence_from_file(a, "a", pick), f"Coefficients from {a}."
    else:
        record = bundled_problem()
        coefficients, source = record.a, record.source
    segments = read_offsets(offsets)
    own = [] if isinstance(coefficients, str) else [str(coefficients.real.dtype)]
    goals = [None] if tol is not None else [number_format(name) for name in formats or own]
    found = []
    with progress(len(goals)) as step:
        for fmt in goals:
            step("choosing a window" + (f" in {fmt.name}" if fmt else ""))
            along = -1 if axis is None else axis
            found.append(window_advice(coefficients, fmt, tol, relative_to, block, along, segments, device))
    if as_json:
        typer.echo(to_json({"source": source, "choices": [each.as_dict() for each in found]}))
        return
    typer.echo(source)
    for each in found:
        typer.echo()
        show_table(each)
