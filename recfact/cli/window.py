"""The command that chooses a window: which one is proved to be good enough, and how far back states look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from recfact.cli.app import app, progress, show_table
from recfact.cli.options import Json, Pick, format_name, whole

if TYPE_CHECKING:
    from recfact.arrays import Array


@app.command(epilog="Example: recfact window --a gates.npy --format bfloat16, or recfact window --rho 0.99 --tol 1e-3")
def window(
    a: Annotated[
        str | None,
        typer.Option(
            "--a", metavar="FILE|NUMBER", help="Coefficients, or their one value; those of the CO2 record if left out."
        ),
    ] = None,
    rho: Annotated[
        str | None,
        typer.Option("--rho", metavar="NUMBER", help="Instead: the largest coefficient that there can be, exactly."),
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            parser=format_name,
            help="Lose no more than its unit roundoff, with --a rounded to it; may be given several times.",
        ),
    ] = None,
    tol: Annotated[
        str | None, typer.Option("--tol", metavar="NUMBER", help="Instead: lose no more than this part.")
    ] = None,
    relative_to: Annotated[
        str, typer.Option("--relative-to", metavar="WHAT", help="A part of the largest: state, or input.")
    ] = "state",
    block: Annotated[
        int | None,
        typer.Option(
            "--block",
            metavar="INTEGER",
            parser=whole(1),
            help="Block length of jagged windows, where a kernel sets it.",
        ),
    ] = None,
    pick: Pick = None,
    as_json: Json = False,
) -> None:
    """Choose the cheapest window that is proved to lose little enough, whatever the inputs are.

    Also says how far back states look, until weights are below what may be lost. Without --format and --tol, the format
    is that of the coefficients.
    """
    from recfact.precision import format as format_of
    from recfact.report.advice import window_advice
    from recfact.report.files import read_array
    from recfact.report.problem import bundled_problem, sequence_from_file
    from recfact.report.sources import constant
    from recfact.report.tables import to_json

    if a is not None and rho is not None:
        raise typer.BadParameter("--a and --rho exclude each other")
    if formats and tol is not None:
        raise typer.BadParameter("--format and --tol exclude each other")
    if pick is not None and (a is None or constant(a) is not None):
        raise typer.BadParameter("--pick goes with a file in --a")
    coefficients: Array | str
    if rho is not None:
        if not formats and tol is None:
            raise typer.BadParameter("--rho needs --format or --tol, which say how much may be lost")
        coefficients, source = rho, f"All coefficients up to {rho}."
    elif a is not None and constant(a) is not None:
        coefficients, source = read_array(a, "a"), f"All coefficients {a}."
    elif a is not None:
        coefficients, source = sequence_from_file(a, "a", pick), f"Coefficients from {a}."
    else:
        record = bundled_problem()
        coefficients, source = record.a, record.source
    own = [] if isinstance(coefficients, str) else [str(coefficients.real.dtype)]
    goals = [None] if tol is not None else [format_of(name) for name in formats or own]
    found = []
    with progress(len(goals)) as step:
        for fmt in goals:
            step("choosing a window" + (f" in {fmt.name}" if fmt else ""))
            found.append(window_advice(coefficients, fmt, tol, relative_to, block))
    if as_json:
        typer.echo(to_json({"source": source, "choices": [each.as_dict() for each in found]}))
        return
    typer.echo(source)
    for each in found:
        typer.echo()
        show_table(each)
