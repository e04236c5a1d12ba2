"""What a window costs in accuracy and saves in reach, for the recurrence at hand, and the windows that are enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.factorizations import TransferOperator
from recfact.precision import WindowChoice, choose_window
from recfact.precision.exact.moduli import upper_moduli
from recfact.precision.truncation.window_losses import WindowLosses
from recfact.windows import Full, Jagged, Uniform, Window

BLOCKS = (8, 16, 32, 64, 128, 256)
TERMS = (1, 2, 3)


@dataclass(frozen=True)
class WindowCost:
    """What one window changes.

    Parameters
    ----------
    window : Uniform or Jagged
        The window.
    max_error : float
        Largest change of a state, max |x - x~|, for the inputs at hand.
    relative_error : float
        The same over the largest state, max |x - x~| / max |x|, for the inputs at hand; 0 where all states are 0.
    error_norm : float
        Largest change that any inputs up to 1 in magnitude can see: the infinity norm of L - L~, rounded up.
    relative_error_norm : float
        Largest relative change for any inputs: the infinity norm of N in L~ = (I - N) L, rounded up.
    kept : float
        Share of the entries on and below the diagonal of L that the window keeps.
    reach : int
        Most inputs that a state depends on, its own included: what must be read or waited for instead of all n.
    """

    window: Uniform | Jagged
    max_error: float
    relative_error: float
    error_norm: float
    relative_error_norm: float
    kept: float
    reach: int

    @property
    def name(self) -> str:
        """The window as it is typed: Jagged(16), Jagged(16, terms=2), Uniform(16)."""
        return window_name(self.window)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        window = self.window
        kind = {"block": window.block, "terms": window.terms} if isinstance(window, Jagged) else {"lags": window.lags}
        values = {key: value for key, value in asdict(self).items() if key != "window"}
        return {"window": self.name, "kind": type(window).__name__.lower(), **kind, **values}


def standard_windows(n: int, block: int) -> list[Uniform | Jagged]:
    """Return the windows that a report compares: blocks of 8 to 256 and `block`, with 1 to 3 terms and as a band.

    Windows that already keep everything of n steps are left out, but for the smallest of them and those of `block`.
    """
    lengths = sorted({*BLOCKS, block})
    lengths = [length for k, length in enumerate(lengths) if k == 0 or lengths[k - 1] < n or length == block]
    jagged: list[Uniform | Jagged] = [Jagged(length, terms) for terms in TERMS for length in lengths]
    return [*jagged, *(Uniform(length) for length in lengths)]


def window_costs(
    transfer: TransferOperator, u: Array, x: Array, windows: Iterable[Uniform | Jagged], step: Callable[[], None]
) -> list[WindowCost]:
    """Return what each of `windows` changes in the states `x` of the inputs `u`.

    Parameters
    ----------
    transfer : TransferOperator
        The exact operator, n by n.
    u, x : ndarray, shape (n,)
        Inputs and exact states.
    windows : iterable of windows
        What to compare.
    step : callable
        Called after each window, for a progress bar.
    """
    n = len(u)
    largest = float(np.abs(x).max(initial=0.0))
    moduli = magnitudes(np.asarray(transfer.a))
    absolute, relative = WindowLosses(moduli, "input"), WindowLosses(moduli, "state")
    costs = []
    for window in windows:
        truncated: Any = transfer.truncate(window)
        error = float(np.abs(window_error(transfer, window, u)).max(initial=0.0))
        costs.append(
            WindowCost(
                window=window,
                max_error=error,
                relative_error=error / largest if largest > 0 else 0.0,
                error_norm=absolute.bound(window),
                relative_error_norm=relative.bound(window),
                kept=truncated.nnz / (n * (n + 1) // 2),
                reach=min(n, window_reach(window)),
            )
        )
        step()
    return costs


def enough_windows(a: Array, limits: Mapping[str, float]) -> dict[str, WindowChoice]:
    """Return by name the cheapest window that is proved to lose no more than a limit, whatever the inputs are.

    Parameters
    ----------
    a : ndarray, shape (n,)
        Coefficients, real or complex.
    limits : mapping of str to float
        What may be lost, as a part of the largest state.

    Examples
    --------
    >>> enough_windows(np.full(300, 0.9j), {"a hundredth": 0.01})["a hundredth"].window
    Jagged(block=43, terms=1)
    """
    moduli = magnitudes(a)
    return {name: choose_window(moduli, limit) for name, limit in limits.items()}


def magnitudes(a: Array) -> Array:
    """Return the magnitudes of coefficients, those of complex ones rounded up: a window loses the same for them."""
    return upper_moduli(a) if a.dtype.kind == "c" else np.abs(a)


def window_error(transfer: TransferOperator, window: Window, u: Array) -> Array:
    """Return exact minus truncated states, shape (n,), from what `window` leaves out rather than by subtraction."""
    truncated: Any = transfer.truncate(window)
    return np.asarray(truncated.error(u))


def window_reach(window: Uniform | Jagged) -> int:
    """Return how many inputs the best served state of `window` sees.

    Examples
    --------
    >>> window_reach(Uniform(5)), window_reach(Jagged(16)), window_reach(Jagged(16, terms=0))
    (5, 32, 16)
    """
    return window.lags if isinstance(window, Uniform) else window.block * (window.terms + 1)


def window_name(window: Window) -> str:
    """Return `window` as it is typed.

    Examples
    --------
    >>> window_name(Jagged(16)), window_name(Jagged(16, 2)), window_name(Uniform(5)), window_name(Full())
    ('Jagged(16)', 'Jagged(16, terms=2)', 'Uniform(5)', 'Full()')
    """
    match window:
        case Full():
            return "Full()"
        case Uniform(lags):
            return f"Uniform({lags})"
        case Jagged(block, 1):
            return f"Jagged({block})"
        case Jagged(block, terms):
            return f"Jagged({block}, terms={terms})"
