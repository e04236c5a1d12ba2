"""The numbers that describe a recurrence: its coefficients, norms, growth and horizon."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import Any

import ml_dtypes
import numpy as np

from recfact.arrays import Array
from recfact.errors import GrowthWarning
from recfact.factorizations import TransferOperator
from recfact.precision.horizons.effective_horizons import effective_horizon, row_growth


@dataclass(frozen=True)
class Summary:
    """The numbers that describe one recurrence.

    All coefficients but the first are counted: the first multiplies the initial state and isn't part of L.

    Parameters
    ----------
    n : int
        Length of the sequence.
    dtype : str
        Number type of the coefficients.
    eps : float
        Spacing of that type at 1.
    smallest, largest : float
        Range of the coefficients. If they are complex, the range of their magnitudes.
    median : float
        Median magnitude of the coefficients.
    zeros, negative, above_one : int
        How many coefficients are 0 (resets), below 0, and above 1 in magnitude.
    growth : float
        Largest magnitude of an entry of L. It is the largest factor by which one state amplifies one input.
    norm_1, norm_inf, norm_2 : float
        Norms of L.
    cond_1, cond_inf, cond_2 : float
        Condition numbers of I - AZ in these norms.
    nilpotency_index : int
        Smallest k with (AZ)^k = 0.
    horizon : int
        Largest lag at which an entry of L is at least `eps` in magnitude.
    median_horizon : int
        The same for the median row.
    largest_state : float
        Largest magnitude of a state.
    warning : str
        The warning of the operator. Empty if there is none.
    """

    n: int
    dtype: str
    eps: float
    smallest: float
    largest: float
    median: float
    zeros: int
    negative: int
    above_one: int
    growth: float
    norm_1: float
    norm_inf: float
    norm_2: float
    cond_1: float
    cond_inf: float
    cond_2: float
    nilpotency_index: int
    horizon: int
    median_horizon: int
    largest_state: float
    warning: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def transfer_operator(a: Array) -> tuple[TransferOperator, str]:
    """Return the transfer operator of `a` and the text of its growth warning, which is empty if it gives none."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", GrowthWarning)
        transfer = TransferOperator(a)
    return transfer, "".join(str(warning.message) for warning in caught)


def spacing(kind: np.dtype[Any]) -> float:
    """Return the spacing of a number type at 1."""
    return float(ml_dtypes.finfo(kind).eps)  # type: ignore[no-untyped-call]


def summarize(transfer: TransferOperator, x: Array, warning: str = "") -> Summary:
    """Return the numbers that describe the recurrence of `transfer`, whose states are `x`.

    Parameters
    ----------
    transfer : TransferOperator
        The operator, n by n with n >= 1, in real or complex floats.
    x : ndarray, shape (n,)
        The states.
    warning : str
        The warning that `transfer_operator` returned.

    Examples
    --------
    >>> from recfact.recurrence import forward
    >>> a = np.full(64, 0.5)
    >>> s = summarize(TransferOperator(a), forward(a, np.ones(64)))
    >>> s.n, s.smallest, s.norm_inf, s.horizon, s.median_horizon
    (64, 0.5, 2.0, 52, 31)
    """
    a = transfer.a
    inner = a[1:]
    magnitude = np.abs(inner).astype(np.float64)
    ordered = magnitude if a.dtype.kind == "c" else inner.astype(np.float64)
    if len(inner) == 0:
        magnitude = ordered = np.zeros(1)
    eps = spacing(a.dtype)
    reach = effective_horizon(a, eps).lags
    inverse = transfer.inv()
    norms = {order: float(transfer.norm(order)) for order in (1, 2, np.inf)}
    return Summary(
        n=len(a),
        dtype=str(a.dtype),
        eps=eps,
        smallest=float(ordered.min()),
        largest=float(ordered.max()),
        median=float(np.median(magnitude)),
        zeros=int((inner == 0).sum()),
        negative=0 if a.dtype.kind == "c" else int((inner < 0).sum()),
        above_one=int((magnitude > 1).sum()),
        growth=float(row_growth(a).max()),
        norm_1=norms[1],
        norm_inf=norms[np.inf],
        norm_2=norms[2],
        cond_1=norms[1] * float(inverse.norm(1)),
        cond_inf=norms[np.inf] * float(inverse.norm(np.inf)),
        cond_2=norms[2] * float(inverse.norm(2)),
        nilpotency_index=transfer.nilpotency_index,
        horizon=int(reach.max()),
        median_horizon=int(np.median(reach)),
        largest_state=float(np.abs(x).max()),
        warning=warning,
    )
