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
        Number of diagonals kept, at least 1. The largest lag is ``lags - 1``. (The paper's text says "up to lag k" for
        k terms.)

    Notes
    -----
    The uniform window of the sliding window recurrences paper (its section on uniform window recurrences).

    Examples
    --------
    >>> Uniform(lags=5)
    Uniform(5)
    """

    lags: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "lags", positive_integer(self.lags, "lags", most=LARGEST))

    def __repr__(self) -> str:
        return f"Uniform({self.lags})"


@dataclass(frozen=True, slots=True)
class Jagged:
    """Keep each block and what the `terms` blocks before it pass on: block t sees the inputs of blocks t-terms .. t.

    Parameters
    ----------
    block : int
        Block length (l in the paper), at least 1. The last block may be shorter.
    terms : int, default 1
        Number of terms kept of the carrier operator T = I + CZ + ... With 1 this is the paper's B2P (T ~ I). With 0
        only the blocks themselves are kept.

    Notes
    -----
    The jagged window of the sliding window recurrences paper; with one term its Algorithm 4 (B2P).

    Examples
    --------
    >>> Jagged(16)
    Jagged(16)
    """

    block: int
    terms: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "block", positive_integer(self.block, "block", most=LARGEST))
        object.__setattr__(self, "terms", positive_integer(self.terms, "terms", least=0, most=LARGEST))

    def __repr__(self) -> str:
        return f"Jagged({self.block})" if self.terms == 1 else f"Jagged({self.block}, {self.terms})"


Window = Full | Uniform | Jagged

WindowLike = Window | str
"""A window, or its text form (`window_of`)."""


def blocks_and_terms(window: Window) -> tuple[int, int]:
    """Return a window as blocks: the block length, and how many blocks a step sees before its own.

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


def blocks_within(window: Window, steps: int) -> tuple[int, int]:
    """Return a window as `blocks_and_terms` does, or one block of all steps if it keeps everything of so many steps.

    Examples
    --------
    >>> blocks_within(Uniform(lags=5), 6), blocks_within(Uniform(lags=5), 5), blocks_within(Jagged(16), 32)
    ((1, 4), (5, 0), (32, 0))
    """
    block, terms = blocks_and_terms(window)
    return (block, terms) if steps > block * (terms + 1) else (steps, 0)


def within(window: Window, steps: int) -> Window:
    """Return a window that keeps the same in sequences of at most so many steps: the full one if it can be.

    Examples
    --------
    >>> within(Uniform(lags=5), 6), within(Uniform(lags=5), 5), within(Jagged(16), 32)
    (Uniform(5), Full(), Full())
    """
    return Full() if blocks_within(window, steps) == (steps, 0) else window


def check_window(window: Any) -> Window:
    """Return a window, from the window itself or from its text form.

    Raises
    ------
    OptionTypeError
        If it is something else.
    OptionError
        If it is a text that names no window.
    """
    if type(window) in (Full, Uniform, Jagged):
        return window  # type: ignore[no-any-return]
    if isinstance(window, str):
        return window_of(window)
    advice = 'make one with recfact.Uniform(...) or recfact.Jagged(...), or pass a text such as "jagged:64"'
    if hasattr(window, "window"):
        advice = "pass its .window"
    raise OptionTypeError(
        "must be Full(), Uniform(lags) or Jagged(block, terms)", "window", given=window, advice=advice
    )


def window_text(window: Window) -> str:
    """Return the text form of a window, which `window_of` reads.

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
    (Jagged(16, 2), Uniform(32), Full())
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
