"""Windows: which part of the transfer operator is kept.

A window is a small frozen specification without arithmetic. ``Full`` keeps everything; ``Uniform`` keeps a band
(the paper's uniform window); ``Jagged`` keeps each block and its neighbours (the paper's jagged window, B2P).
"""

from dataclasses import dataclass
from typing import Any

from recfact.checks import LONGEST, positive_integer
from recfact.errors import OptionError, OptionTypeError

LARGEST = 1 << 4096  # an integer that Python still writes, and more than any sequence has steps


@dataclass(frozen=True, slots=True)
class Full:
    """Keep the whole transfer operator: the exact recurrence.

    Notes
    -----
    Equations 2.1 to 2.3 of the sliding window recurrences paper.
    """


@dataclass(frozen=True, slots=True)
class Uniform:
    """Keep the diagonals with lags 0 to ``lags - 1``: the band I + AZ + ... + (AZ)^(lags-1).

    Parameters
    ----------
    lags : int
        Number of diagonals kept, at least 1. The paper's text says "up to lag k" for k terms; here `lags` counts terms.

    Notes
    -----
    The uniform window of the sliding window recurrences paper (its section on uniform window recurrences).

    Examples
    --------
    >>> Uniform(lags=5)
    Uniform(lags=5)
    """

    lags: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "lags", positive_integer(self.lags, "lags", most=LARGEST))


@dataclass(frozen=True, slots=True)
class Jagged:
    """Keep each block and what the `terms` blocks before it pass on (block t sees the inputs of t-terms .. t).

    Parameters
    ----------
    block : int
        Block length (the paper's l), at least 1. The last block may be shorter.
    terms : int, default 1
        Terms kept of the carrier operator T = I + CZ + ...; 1 is the paper's B2P (T ~ I), 0 keeps the blocks alone.

    Notes
    -----
    The jagged window of the sliding window recurrences paper; with one term its Algorithm 4 (B2P).

    Examples
    --------
    >>> Jagged(16)
    Jagged(block=16, terms=1)
    """

    block: int
    terms: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "block", positive_integer(self.block, "block", most=LARGEST))
        object.__setattr__(self, "terms", positive_integer(self.terms, "terms", least=0, most=LARGEST))


Window = Full | Uniform | Jagged

WindowLike = Window | str
"""A window, or its text form (`window_of`)."""


def blocks_and_terms(window: Window) -> tuple[int, int]:
    """Return a window as blocks: their length, and how many before its own a step sees.

    ``Full`` is one block, longer than any sequence, and ``Uniform(lags)`` has blocks of one step.

    Examples
    --------
    >>> blocks_and_terms(Uniform(lags=5)), blocks_and_terms(Jagged(16))
    ((1, 4), (16, 1))
    """
    match window:
        case Uniform(lags):
            return 1, lags - 1
        case Jagged(block, terms):
            return min(block, LONGEST), terms
    return LONGEST, 0


def check_window(window: Any) -> Window:
    """Return a window, which may be given by its text form.

    Raises
    ------
    OptionTypeError
        If it is something else.
    OptionError
        If it is a text that names none.
    """
    if isinstance(window, Window):
        return window
    if isinstance(window, str):
        return window_of(window)
    raise OptionTypeError(
        "must be Full(), Uniform(lags) or Jagged(block, terms)",
        "window",
        given=window,
        advice='make one with recfact.Uniform(...) or recfact.Jagged(...), or pass a text such as "jagged:64"',
    )


def window_text(window: Window) -> str:
    """Return a window as people type it, which `window_of` reads.

    Examples
    --------
    >>> [window_text(window) for window in (Full(), Uniform(32), Jagged(64), Jagged(16, 2))]
    ['full', 'uniform:32', 'jagged:64', 'jagged:16:2']
    """
    match window:
        case Uniform(lags):
            return f"uniform:{lags}"
        case Jagged(block, terms):
            return f"jagged:{block}" if terms == 1 else f"jagged:{block}:{terms}"
    return "full"


def window_of(text: str) -> Window:
    """Return the window that a text names: full, uniform:LAGS, jagged:BLOCK or jagged:BLOCK:TERMS.

    Raises
    ------
    OptionError
        If it names none.

    Examples
    --------
    >>> window_of("jagged:16:2"), window_of("Uniform:32"), window_of("full")
    (Jagged(block=16, terms=2), Uniform(lags=32), Full())
    """
    kind, *sizes = text.lower().split(":")
    try:
        match kind, [int(size) for size in sizes]:
            case "full", []:
                return Full()
            case "uniform", [lags]:
                return Uniform(lags)
            case "jagged", [block] | [block, _] as given:
                return Jagged(block, *given[1:])
    except ValueError:  # no integers, or integers out of range
        pass
    raise OptionError(
        "must be full, uniform:LAGS, jagged:BLOCK or jagged:BLOCK:TERMS, with integers LAGS and BLOCK of at least 1 "
        "and TERMS of at least 0",
        "window",
        given=text,
    )
