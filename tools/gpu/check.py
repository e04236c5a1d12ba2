"""Count what the GPU kernels take and move, beside what is asked of them: ``python -m tools.gpu.check``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from recfact.cli.app import show
from recfact.cli.progress import progress
from recfact.report.rows import rows_markdown, rows_table, to_json
from tools.gpu.nvrtc import CompileError, compiler
from tools.gpu.quantities import Counted, count, digest, quantities

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def check(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown, as docs/gpu/counted.txt has it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Count what the GPU kernels take and move, beside what is asked of them.

    No GPU is needed: machine code is read for all targets, and kernels run in an emulator that counts what they move.
    That takes about two minutes. Exit code 1 if something isn't as asked.
    """
    if markdown and as_json:
        raise typer.BadParameter("--markdown and --json exclude each other")
    asked = quantities()
    counted: list[Counted] = []
    with progress(len(asked)) as step:
        for quantity in asked:
            step(f"{quantity.name}, {quantity.of}")
            counted.append(count(quantity))
    if as_json:
        typer.echo(to_json({"source": _source(), "quantities": [one.as_dict() for one in counted]}))
    elif markdown:
        typer.echo(as_markdown(counted))
    else:
        show(rows_table(_rows(counted)))
        for missing in dict.fromkeys(one.missing for one in counted if one.missing):
            show(Text(f"Not counted: {missing}."))
    if any(one.holds is False for one in counted):
        raise typer.Exit(1)


def as_markdown(counted: Sequence[Counted]) -> str:
    """Return what was counted as the documentation shows it, with what it was counted from."""
    source = _source()
    compiled = f"the compiler of CUDA {source['compiler']}" if source["compiler"] else "no compiler"
    return f"{rows_markdown(_rows(counted))}\n\nCounted with {compiled} from sources `{source['sources']}`."


def _source() -> dict[str, str | None]:
    try:
        major, minor = compiler().version
    except CompileError:
        return {"sources": digest(), "compiler": None}
    return {"sources": digest(), "compiler": f"{major}.{minor}"}


def _rows(counted: Sequence[Counted]) -> list[dict[str, str]]:
    return [
        {
            "quantity": one.quantity.name,
            "of": one.quantity.of,
            "asked": "-" if one.quantity.asked is None else f"{one.quantity.relation} {one.quantity.asked:g}",
            "counted": "" if one.number is None else f"{one.number:.4g}",
            "reached": _reached(one),
            "by": one.quantity.by,
        }
        for one in counted
    ]


def _reached(counted: Counted) -> str:
    if counted.number is None:
        return "not counted"
    return {True: "yes", False: "NO", None: "-"}[counted.holds]


if __name__ == "__main__":
    app()
