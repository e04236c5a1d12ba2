"""The commands on number formats: how far back states look, and how large errors are, measured and proved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recfact.cli.app import app, say_written, show_table
from recfact.cli.options import (
    A,
    Axis,
    Json,
    Kept,
    Offsets,
    Pick,
    U,
    any_format,
    format_name,
    one_of,
    whole,
)
from recfact.cli.progress import progress
from recfact.cli.reading import NOT_TYPED, TableOptions, read_batch, read_offsets, read_problem, with_table

if TYPE_CHECKING:
    from recfact.precision.materialization.construction_table import ConstructionRow
    from recfact.precision.verification.result import Verification


STYLES = ("text", "markdown", "latex", "csv", "html")
"""How a table is printed."""


def _format_or_style(name: str) -> Any:
    if name in STYLES:
        raise typer.BadParameter(f"{name} is no number format but a style; pass --style {name}")
    return format_name(name)


@app.command(epilog="Example: recfact horizon bfloat16 fp16 'fp8 e4m3fn' --rho 0.99 --style markdown")
def horizon(
    formats: Annotated[
        list[str] | None,
        typer.Argument(metavar="FORMAT", parser=_format_or_style, help="Number formats, by default all."),
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            parser=_format_or_style,
            help="Number format, as for other commands. May be given several times.",
        ),
    ] = None,
    rho: Annotated[
        list[str] | None,
        typer.Option("--rho", metavar="NUMBER", help="Largest coefficient, taken exactly. May be given several times."),
    ] = None,
    actual: Annotated[
        bool, typer.Option("--actual", help="Show the horizons of products that are rounded at every step instead.")
    ] = False,
    style: Annotated[
        str,
        typer.Option(
            "--style", metavar="NAME", parser=one_of(STYLES), help=f"How to print the table: {', '.join(STYLES)}."
        ),
    ] = "text",
    picture: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw horizons against rho: .png or .svg.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say how far back a recurrence looks in number formats, with coefficients up to rho.

    Without --rho, rho is the largest number below 1 of each format. The horizon is the number of steps until weights
    are below eps, the smallest normal number of the format, or below eps 2^-p, the smallest subnormal number. k is the
    horizon of single weights. tail is the horizon of the sum of all weights further back.
    """
    from recfact.precision import actual_horizon_table, horizon_table
    from recfact.precision.horizons.horizon_tables import several_formats
    from recfact.report.pictures import check_picture, save

    if as_json and style != "text":
        raise typer.BadParameter("--json and --style exclude each other")
    if picture:
        check_picture(picture)
    names = [*(formats or ()), *(more or ())]
    chosen = several_formats(names or None)
    table = (actual_horizon_table if actual else horizon_table)(chosen, rho or None)
    if as_json:
        typer.echo(table.to_json())
    elif style == "text":
        show_table(table)
    else:
        typer.echo(getattr(table, f"to_{style}")().rstrip("\n"))
    if picture:
        from recfact import plot
        from recfact.plot.colours import FORMATS

        drawn = chosen[: len(FORMATS)]
        save(plot.formats(drawn), picture)
        say_written(picture, f", of the first {len(drawn)} formats" if len(drawn) < len(chosen) else "")


@app.command(epilog="Example: recfact verify --window jagged:16 --format bfloat16 --algorithm hierarchical")
@with_table
def verify(
    a: A = None,
    u: U = None,
    table: TableOptions = NOT_TYPED,
    pick: Pick = None,
    axis: Axis = None,
    offsets: Offsets = None,
    window: Kept = "full",
    number_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            parser=any_format,
            help="Number format, one of those that `recfact horizon` lists, or one of blocks such as mxfp4, in which "
            "coefficients and inputs are stored. By default that of the arrays.",
        ),
    ] = None,
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm",
            metavar="NAME",
            help="Algorithm for the states: sequential, kogge-stone, brent-kung, hierarchical, b2p, materialized, "
            "engine or mixed-precision.",
        ),
    ] = "sequential",
    accumulate: Annotated[
        str | None,
        typer.Option(
            "--accumulate", metavar="FORMAT", parser=format_name, help="Format of the operations, if it is another one."
        ),
    ] = None,
    fma: Annotated[bool, typer.Option("--fma", help="Fuse products and sums.")] = False,
    rounding: Annotated[
        str,
        typer.Option(
            "--rounding",
            metavar="NAME",
            help="How numbers round: nearest-even, nearest-away, toward-zero, up, down or stochastic.",
        ),
    ] = "nearest-even",
    underflow: Annotated[
        str,
        typer.Option(
            "--underflow",
            metavar="NAME",
            help="How small numbers are treated: gradual, flush-before, flush-after or flush-result.",
        ),
    ] = "gradual",
    picture: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw errors against window sizes: .png or .svg.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure the errors of a recurrence in a number format exactly, and compare them with their proved bounds.

    The recurrence is the bundled CO2 record, or the one in --a and --u. With --axis all their sequences are measured,
    and the worst one is named and drawn. With --offsets the segment with the largest error is drawn. The table has the
    error of the window, the error of rounding, and both together. The exit code is 1 if a bound is broken or a state
    overflows.
    """
    from recfact import precision
    from recfact.plot.window_bounds import SIZES, bound_figure, sweep_windows
    from recfact.precision.verification.verify import format_of_arrays
    from recfact.report.pictures import check_picture, save
    from recfact.report.rows import to_json
    from recfact.windows import Jagged, Uniform

    if picture:
        check_picture(picture)
    batch = read_batch(a, u, axis, table, pick)
    problem = batch or read_problem(a, u, table, pick)
    segments = read_offsets(offsets)
    name = number_format or format_of_arrays(problem.a, problem.u)
    arithmetic = precision.Arithmetic(name, accumulate, fma, rounding, underflow)
    with progress(100 + (len(SIZES) if picture else 0)) as step:
        found = precision.verify(
            problem.a,
            problem.u,
            window=window,
            format=arithmetic,
            algorithm=algorithm,
            axis=-1 if batch is None else batch.axis,
            offsets=segments,
            progress=_percents(step, "verifying"),
        )
        if picture:
            kind = Uniform if isinstance(window, Uniform) else Jagged
            drawn = problem if batch is None else batch.sequence(found.total.spread.ranked()[0].tolist())
            piece = _worst_segment(found, segments)
            sweep = sweep_windows(drawn.a[piece], drawn.u[piece], arithmetic, kind, algorithm, step)
            save(bound_figure([sweep], getattr(problem, "unit", "")), picture)
    typer.echo(to_json({"source": problem.source, **found.to_dict()}) if as_json else f"{problem.title}\n{found}")
    if picture:
        say_written(picture)
    if found.holds is False:
        raise typer.Exit(1)


def _worst_segment(found: Verification, offsets: Any) -> slice:
    """Return the segment in which the total error is largest."""
    from recfact.precision.sequences import segments_of

    spread = found.total.spread
    step = spread.worst[spread.axis]
    return next(each for each in segments_of(offsets, found.shape[spread.axis]) if each.start <= step < each.stop)


def _percents(step: Callable[[str], None], what: str) -> Callable[[float], None]:
    """Return a function that takes a share of work and calls `step` once for each percent of it."""
    done = 0

    def tell(share: float) -> None:
        nonlocal done
        while done < int(100 * share):
            step(what)
            done += 1

    return tell


@app.command(epilog="Example: recfact materialize --format bfloat16 --block 16 --block 64 --plot errors.svg")
def materialize(
    a: Annotated[
        str | None, typer.Option("--a", metavar="FILE|NUMBER", help="Your own coefficients, cut into blocks.")
    ] = None,
    axis: Annotated[
        int, typer.Option("--axis", metavar="INTEGER", parser=whole(), help="Axis of time in the coefficients of --a.")
    ] = -1,
    family: Annotated[
        list[str] | None,
        typer.Option(
            "--family", metavar="NAME", help="Coefficients to draw, such as U(0.9, 1). May be given several times."
        ),
    ] = None,
    block: Annotated[
        list[int] | None,
        typer.Option("--block", metavar="INTEGER", parser=whole(1), help="Block length. May be given several times."),
    ] = None,
    number_format: Annotated[
        list[str] | None,
        typer.Option(
            "--format", metavar="FORMAT", parser=format_name, help="Number format. May be given several times."
        ),
    ] = None,
    accumulate: Annotated[
        list[str] | None,
        typer.Option(
            "--accumulate",
            metavar="FORMAT",
            parser=format_name,
            help="Format of the operations, in addition to that of the blocks.",
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            metavar="NAME",
            help="Construction: cumprod, segsum, log-outer, ratio or reciprocal. May be given several times.",
        ),
    ] = None,
    blocks: Annotated[
        int, typer.Option("--blocks", metavar="INTEGER", parser=whole(1), help="How many blocks to draw.")
    ] = 200,
    seed: Annotated[int, typer.Option("--seed", metavar="INTEGER", parser=whole(0), help="Seed of the draws.")] = 0,
    picture: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the percentage errors: .png or .svg.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare the constructions of the blocks of L: percentage errors, failures, and which one to use.

    The coefficients are drawn at random, or read from --a. By default the formats are float16, bfloat16 and float32.
    """
    import numpy as np

    from recfact import plot
    from recfact.checks import choice
    from recfact.precision import COEFFICIENT_FAMILIES, Arithmetic, MaterializationTable, materialization_table
    from recfact.precision.materialization.constructions import METHODS
    from recfact.report.files import read_array
    from recfact.report.pictures import check_picture, save

    if a is not None and family:
        raise typer.BadParameter("--a and --family exclude each other")
    for name in family or ():
        choice(name, "family", tuple(COEFFICIENT_FAMILIES))
    if picture:
        check_picture(picture)
    named = None
    if a is not None:
        own = read_array(a, "a")
        named = {a: own if own.ndim else np.full(max(block or [16]), own)}  # a constant: all its blocks are one
    names = list(named or family or COEFFICIENT_FAMILIES)
    formats = number_format or ("float16", "bfloat16", "float32")
    arithmetics = [Arithmetic(name, inside) for name in formats for inside in (None, *(accumulate or ()))]
    rows: list[ConstructionRow] = []
    with progress(len(names)) as step:
        for name in names:
            step(name)
            rows += materialization_table(
                [name] if named is None else named,
                block=block or 16,
                format=arithmetics,
                method=method or METHODS,
                blocks=blocks,
                seed=seed,
                axis=axis,
            )
    table = MaterializationTable(tuple(rows))
    if as_json:
        typer.echo(table.to_json())
    else:
        show_table(table)
    if picture:
        save(plot.materialization(table), picture)
        say_written(picture)
