"""What recfact says to those who call functions, for those who type commands."""

from __future__ import annotations

import re

_WINDOW = re.compile(r"Jagged\((?:block=)?(\d+)(?:, (?:terms=)?(\d+))?\)|Uniform\((?:lags=)?(\d+)\)|Full\(\)")
_OPTIONS = "window|format|algorithm|accumulate|rounding|underflow|method|block|rho|tol|relative_to"
_SUBJECT = re.compile(rf"^({_OPTIONS})(?= must\b| bounds\b)")
_ARGUMENT = re.compile(rf"\b({_OPTIONS})=(?:'([^']*)'|\"([^\"]*)\"|(?=\S))")


def in_options(message: str) -> str:
    """Return a message with arguments of functions written as options of commands, and windows as they are typed.

    Examples
    --------
    >>> in_options("'b2p' makes Jagged windows, got Full(); pass window=Jagged(16), or another")
    "'b2p' makes Jagged windows, got full; pass --window jagged:16, or another"
    >>> in_options('pass one, as format="float32"')
    'pass one, as --format float32'
    >>> in_options("relative_to must be one of 'state', 'input', got 'x'")
    "--relative-to must be one of 'state', 'input', got 'x'"
    """
    message = message.replace(" (FloatFormat.from_bits makes others)", "")
    written = _ARGUMENT.sub(_option, _WINDOW.sub(_typed, message))
    return _SUBJECT.sub(lambda subject: _named(subject[1]), written)


def _typed(window: re.Match[str]) -> str:
    block, terms, lags = window.groups()
    if lags:
        return f"uniform:{lags}"
    if block:
        return f"jagged:{block}" if terms in (None, "1") else f"jagged:{block}:{terms}"
    return "full"


def _option(argument: re.Match[str]) -> str:
    name, *values = argument.groups()
    return f"{_named(name)} {''.join(filter(None, values))}"


def _named(argument: str) -> str:
    return f"--{argument.replace('_', '-')}"
