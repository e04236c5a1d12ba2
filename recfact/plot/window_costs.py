"""Cost in accuracy and saving in reach of windows for one recurrence, and the windows that are enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.factorizations import TransferOperator
from recfact.precision import WindowChoice, choose_window
from recfact.precision.exact.scaled import magnitudes
from recfact.precision.truncation.window_losses import WindowLosses
from recfact.windows import Jagged, Uniform, Window, blocks_and_terms

BLOCKS = (8, 16, 32, 64, 128, 256)
TERMS = (1, 2, 3)


@dataclass(frozen=True)
class WindowCost:
    """The changes by one window.

    Parameters
    ----------
    window : Uniform or Jagged
        The window.
    max_error : float
        Largest change of a state, max |x - x~|, for the inputs at hand.
    relative_error : float
        The same divided by the largest state, max |x - x~| / max |x|, for the inputs at hand. It is 0 if all states are
        0.
    error_norm : float
        Largest change for any inputs up to 1 in magnitude: the infinity norm of L - L~, rounded up.
    relative_error_norm : float
        Largest relative change for any inputs: the infinity norm of N in L~ = (I - N) L, rounded up.
    kept : float
        Share of the entries on and below the diagonal of L that the window keeps.
    reach : int
        Largest number of inputs that a state depends on, its own included. So many must be read, instead of all n.
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
        """The window as it is typed: Jagged(16), Jagged(16, 2), Uniform(16)."""
        return repr(self.window)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        window = self.window
        kind = {"block": window.block, "terms": window.terms} if isinstance(window, Jagged) else {"lags": window.lags}
        values = {key: value for key, value in asdict(self).items() if key != "window"}
        return {"window": self.name, "kind": type(window).__name__.lower(), **kind, **values}


def standard_windows(n: int, block: int) -> list[Uniform | Jagged]:
    """Return the windows that a report compares: blocks of 8 to 256 and `block`, with 1 to 3 terms and as a band.

    Windows that keep everything of n steps are left out, except the smallest of them and those of `block`.
    """
    lengths = sorted({*BLOCKS, block})
    lengths = [length for k, length in enumerate(lengths) if k == 0 or lengths[k - 1] < n or length == block]
    jagged: list[Uniform | Jagged] = [Jagged(length, terms) for terms in TERMS for length in lengths]
    return [*jagged, *(Uniform(length) for length in lengths)]


def window_costs(
    transfer: TransferOperator,
    u: Array,
    x: Array,
    windows: Iterable[Uniform | Jagged],
    step: Callable[[], None] = lambda: None,
) -> list[WindowCost]:
    """Return the changes by each of `windows` in the states `x` of the inputs `u`.

    Parameters
    ----------
    transfer : TransferOperator
        The exact operator, n by n.
    u, x : ndarray, shape (n,)
        Inputs and exact states.
    windows : iterable of windows
        The windows to compare.
    step : callable, optional
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
        The largest losses allowed, as parts of the largest state.

    Examples
    --------
    >>> enough_windows(np.full(300, 0.9j), {"a hundredth": 0.01})["a hundredth"].window
    Jagged(43)
    """
    moduli = magnitudes(a)
    return {name: choose_window(moduli, limit) for name, limit in limits.items()}


def window_error(transfer: TransferOperator, window: Window, u: Array) -> Array:
    """Return exact minus truncated states, shape (n,). They come from what `window` leaves out, not by subtraction."""
    truncated: Any = transfer.truncate(window)
    return np.asarray(truncated.error(u))


def window_reach(window: Uniform | Jagged) -> int:
    """Return the largest number of inputs that a state of `window` sees.

    Examples
    --------
    >>> window_reach(Uniform(5)), window_reach(Jagged(16)), window_reach(Jagged(16, terms=0))
    (5, 32, 16)
    """
    block, terms = blocks_and_terms(window)
    return block * (terms + 1)


def in_sight(costs: Iterable[WindowCost], eps: float, block: int) -> list[WindowCost]:
    """Return costs by length, up to the first window that loses less than `eps` of the states, and that of `block`.

    Longer windows change nothing that a number type with that spacing at 1 can see.
    """
    shown, seen = [], True
    for cost in costs:
        length = cost.window.lags if isinstance(cost.window, Uniform) else cost.window.block
        if seen or length == block:
            shown.append(cost)
        seen = seen and not cost.relative_error_norm < eps
    return shown
