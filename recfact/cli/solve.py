"""The command that solves files: `recfact solve`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recfact.cli.app import app
from recfact.cli.options import A, Json, Kept, Offsets, whole
from recfact.cli.progress import progress, transfer
from recfact.cli.reading import NOT_TYPED, TableOptions, read_offsets, read_problem, read_state, with_table
from recfact.errors import DataFileError
from recfact.windows import Window, window_text

if TYPE_CHECKING:
    from recfact.report.files import Zeros
    from recfact.report.streaming import Stream


@app.command("solve", epilog="Example: recfact solve --a a.npy --u u.npy --window jagged:16 --out x.npy")
@with_table
def solve_files(
    u: Annotated[
        str,
        typer.Option(
            "--u",
            metavar="FILE|NUMBER",
            help="Inputs, which broadcast against the coefficients. With --dt or --time, the measured values.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="FILE",
            help="File for the states: .npy, .npz, .csv or .zarr. A .csv file also gets the columns of --group and "
            "--time.",
        ),
    ],
    a: A = None,
    table: TableOptions = NOT_TYPED,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="COLUMN",
            help="Column whose equal cells say which rows belong together. Each group is averaged by itself. Groups "
            "are written one behind the other.",
        ),
    ] = None,
    window: Kept = "full",
    x0: Annotated[str | None, typer.Option("--x0", metavar="NUMBER|FILE", help="State before the first step.")] = None,
    axis: Annotated[int, typer.Option("--axis", metavar="INTEGER", parser=whole(), help="Axis of time.")] = -1,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="Run from the last step to the first: the transpose.")
    ] = False,
    offsets: Offsets = None,
    as_json: Json = False,
) -> None:
    """Solve x_i = a_i x_(i-1) + u_i for the arrays in two files, or average a column of values over --tau.

    Files of .npy and zarr with more than 1 GiB together are solved piece by piece in constant memory, and so are those
    whose states go to zarr. If that is interrupted, the same command goes on where it stood.
    """
    import numpy as np

    from recfact.report.files import WRITTEN, check_destination, read_array, write_array
    from recfact.report.problem import MADE_INPUTS
    from recfact.solve import solve

    table = replace(table, group=group)
    averages = a is None or any(option is not None for option in table.averages.values())
    if u in MADE_INPUTS and not Path(u).exists():
        advice = "type --u 1" if u == "ones" else "write a 1 and then zeros into a file"
        raise typer.BadParameter(f"--u must be a file or a number here, got {u!r}, which other commands take; {advice}")
    if a is not None and not averages and is_streamed(a, u, out, reverse, offsets):
        found = stream(a, u, read_state(x0), axis, window, out, table.zeros)
        table.say_zeros()
        say_solved(found.shape, found.dtype, found.largest, window, axis, reverse, out, as_json)
        return
    check_destination(out, WRITTEN if averages else (*WRITTEN, ".zarr"))
    with progress(4) as step:
        step("reading coefficients")
        if a is None or averages:
            if x0 is not None:
                raise typer.BadParameter("--x0 goes with --a: an average starts from its first value")
            if offsets is not None:
                raise typer.BadParameter("--offsets goes with --a: a column of values is one sequence")
            problem = read_problem(a, u, table)
            coefficients, inputs, times, segments = problem.a, problem.u, problem.cells, problem.offsets
        else:
            coefficients, inputs, times = read_array(a, "a"), read_array(u, "u", zeros=table.zeros), None
            table.say_zeros()
            segments = read_offsets(offsets)
        step("reading the initial state")
        state = read_state(x0)
        if coefficients.ndim == inputs.ndim == 0:
            raise DataFileError(f"a sequence is required, and {a} and {u} are numbers; name a file for one of them")
        step("solving")
        x = np.asarray(
            solve(coefficients, inputs, x0=state, axis=axis, reverse=reverse, window=window, offsets=segments)
        )
        step("writing")
        write_array(out, x, times)
    say_solved(x.shape, x.dtype, float(np.abs(x).max()), window, axis, reverse, out, as_json)


def is_streamed(a: str, u: str, out: Path, reverse: bool, offsets: str | None) -> bool:
    """Say whether files are solved piece by piece.

    Options that only go with arrays in memory are usage errors beside an output of zarr.
    """
    from recfact.report.partial import is_zarr
    from recfact.report.sources import constant
    from recfact.report.stored import PIECEWISE, are_large, is_piecewise

    files = [source for source in (a, u) if constant(source) is None]
    others = [source for source in files if not is_piecewise(source)]
    fits = files and not others and out.suffix.lower() in PIECEWISE
    in_memory = "--reverse" if reverse else "--offsets" if offsets is not None else ""
    if is_zarr(out) and (in_memory or not fits):
        given = " and ".join(others or (a, u))
        what = f"without {in_memory}" if in_memory else f"with .npy and .zarr files only, got {given}"
        raise typer.BadParameter(f"{out} is solved piece by piece, which goes {what}")
    return bool(fits) and not in_memory and (is_zarr(out) or are_large(*files))


def stream(a: str, u: str, x0: Any, axis: int, window: Window, out: Path, zeros: Zeros | None) -> Stream:
    """Solve files piece by piece, and show how far this is."""
    from recfact.report.files import check_destination
    from recfact.report.partial import is_zarr
    from recfact.report.stored import stored
    from recfact.report.streaming import Stream

    if not (is_zarr(out) and out.is_dir()):
        check_destination(out)
    solves = Stream(stored(a, "a"), stored(u, "u", zeros=zeros), x0, axis, window, out)
    with transfer("solving", solves.nbytes, solves.written) as step:
        solves.run(step)
    return solves


def say_solved(
    shape: tuple[int, ...],
    dtype: Any,
    largest: float,
    window: Window,
    axis: int,
    reverse: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Print what was solved."""
    from recfact.report.rows import to_json
    from recfact.report.words import number

    if as_json:
        about = {"shape": list(shape), "dtype": str(dtype), "window": window_text(window), "axis": axis}
        typer.echo(to_json({**about, "reverse": reverse, "largest_state": largest, "out": str(out)}))
        return
    sizes = " x ".join(map(str, shape))
    typer.echo(f"solved {sizes} states in {dtype}, the largest {number(largest)} in magnitude; wrote {out}")
