"""The `recfact` command itself, and the common parts of its commands: error messages and text."""

from __future__ import annotations

import gc
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated, Any, Protocol, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from recfact import __version__
from recfact.cli.output import checked_output
from recfact.errors import DeviceError, OptionError, RecfactError, shown
from recfact.printed_table import LINE
from recfact.windows import Window, window_text

F = TypeVar("F", bound=Callable[..., Any])

ORDER = ("report", "solve", "plot", "window", "horizon", "verify", "materialize")

WITHOUT_GPU = 3  # exit code


class BareFlags:
    """A command whose help shows flags without a type, because they take no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments of the command."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class ReportingGroup(BareFlags, TyperGroup):
    """Commands whose errors are one line, with an exit code: 1 for wrong data, 2 for a wrong command, 3 for no GPU.

    So scripts can tell a machine without a GPU from a failure.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, the main job first."""
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and turn recfact's exceptions into messages."""
        try:
            return super().invoke(ctx)
        except OptionError as error:
            raise typer.BadParameter(self._typed(ctx, error)) from None
        except DeviceError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(WITHOUT_GPU) from None
        except RecfactError as error:
            typer.echo(f"error: {self._typed(ctx, error)}", err=True)
        except MemoryError as error:
            typer.echo(f"error: not enough memory: {error}", err=True)
        raise typer.Exit(1)

    def _typed(self, ctx: Any, error: RecfactError) -> str:
        """Return the message with the options of the command, as they are typed, instead of arguments of functions."""
        options = {opt for param in self.commands[ctx.invoked_subcommand].params for opt in param.opts}

        def name(argument: str) -> str:
            option = f"--{argument.replace('_', '-')}"
            return option if option in options else argument

        return error.sentence(name, typed, sign=" ")


def typed(value: Any) -> str:
    """Return a value in a message as a user types it in a command."""
    return window_text(value) if isinstance(value, Window) else shown(value)


class StrictCommand(BareFlags, TyperCommand):
    """A command whose options may be given only once, unless they take several values. So none is silently ignored."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line, and refuse options of one value that are given several times."""
        given = self.make_parser(ctx).parse_args(args=list(args))[2]
        for option in given:
            times = given.count(option)
            if times > 1 and isinstance(option, TyperOption) and not (option.multiple or option.is_flag):
                raise typer.BadParameter(f"takes one value, and is given {times} times", ctx=ctx, param=option)
        return super().parse_args(ctx, args)


class StrictTyper(typer.Typer):
    """An application of strict commands."""

    def command(self, *args: Any, **kwargs: Any) -> Callable[[F], F]:
        """Add a command as `typer.Typer` does, with paragraphs of help as wide as the terminal."""

        def add(function: F) -> F:
            text = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(function.__doc__ or ""))
            add_command = super(StrictTyper, self).command(*args, **{"cls": StrictCommand, "help": text, **kwargs})
            return add_command(function)

        return add


app = StrictTyper(
    name="recfact",
    cls=ReportingGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Solve the recurrence x_i = a_i x_(i-1) + u_i, see its matrix and the factors of that, and prove what windows "
    "and number formats cost.",
    epilog="Exit codes: 0 done; 1 something is wrong with the data, a bound doesn't hold, or the output can't be "
    "written; 2 something is wrong with the command; 3 no GPU can be used.",
)


def main() -> None:
    """Run the `recfact` command."""
    gc.set_threshold(30_000)  # usually it is 700, and the searches for cycles take a tenth of the time of a page
    with checked_output():
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
    """Options of `recfact` itself. Its help text is at `app`."""


def show(text: Any) -> None:
    """Print a rich text or table on standard output: if that isn't a terminal, in 120 columns without final blanks."""
    from rich.console import Console

    console = Console()
    if console.is_terminal:
        console.print(text)
        return
    plain = Console(width=120)
    with plain.capture() as captured:
        plain.print(text)
    # Not by echo, which writes UTF-8 where the encoding of the stream is ASCII.
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


class Wrapped(Protocol):
    """A result that prints itself in a given width."""

    def to_text(self, width: int | None = None) -> str:
        """Return the text."""


def show_table(table: Wrapped) -> None:
    """Print a table as text: no wider than the terminal, and elsewhere in lines as short as Python prints them."""
    typer.echo(table.to_text(get_terminal_size().columns if sys.stdout.isatty() else LINE))


def say_written(path: Path, what: str = "") -> None:
    """Say on standard error that a picture was written, because standard output holds the table."""
    typer.echo(f"wrote {path}{what}", err=True)
