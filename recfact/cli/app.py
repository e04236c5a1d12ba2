"""The `recfact` command itself, and what its commands share: errors as messages, text and progress on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from recfact import __version__
from recfact.errors import DeviceError, OptionError, RecfactError

WITHOUT_GPU = 3  # exit code


class ReportingGroup(TyperGroup):
    """Commands whose errors are one line, with an exit code: 1 for the data, 2 for what was typed, 3 for no GPU.

    So scripts can tell a machine without a GPU from a failure.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and turn recfact's exceptions into messages."""
        try:
            return super().invoke(ctx)
        except OptionError as error:
            raise typer.BadParameter(str(error)) from None
        except DeviceError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(WITHOUT_GPU) from None
        except RecfactError as error:
            typer.echo(f"error: {error}", err=True)
        except MemoryError as error:
            typer.echo(f"error: not enough memory: {error}", err=True)
        raise typer.Exit(1)


app = typer.Typer(
    name="recfact",
    cls=ReportingGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="The recurrence x_i = a_i x_(i-1) + u_i as a matrix: its factors, its windows, and what cutting it costs.",
    epilog="Exit codes: 0 done, 1 something is wrong with the data, 2 something is wrong with the command, "
    "3 no GPU can be used.",
)


def main() -> None:
    """Run the `recfact` command; a terminal that lacks a sign of mathematics shows a question mark instead."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    app()


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        typer.echo(f"recfact {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of `recfact` itself; the help text stands at `app`."""


def show(text: Any) -> None:
    """Print a rich text or table on standard output, in full where that isn't a terminal."""
    from rich.console import Console

    console = Console()
    console.print(text) if console.is_terminal else Console(width=120).print(text)


@contextmanager
def progress(total: int | None, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Give a function that says what comes next, shown as a bar on standard error where that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda what: bar.update(task, description=what, advance=1)
