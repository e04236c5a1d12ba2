"""Other libraries that solve the recurrence, if they are installed.

Each takes the arrays in the form that suits it best, made before the clock runs. It uses as many threads as it wants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from recfact.arrays import Array

Solver = Callable[[], Any]


@dataclass(frozen=True)
class Peer:
    """A library's way to solve the recurrence.

    Parameters
    ----------
    name : str
        The function and its limits.
    make : callable
        ``make(a, u)`` returns a call that returns the states, as an object that NumPy can convert to an array. It
        raises ImportError if the library isn't installed.
    package : str
        The package for pip.
    constant : bool
        Whether all coefficients must be the same.
    """

    name: str
    make: Callable[[Array, Array], Solver]
    package: str = "scipy"
    constant: bool = False


def lfilter(a: Array, u: Array) -> Solver:
    """Filter with the transfer function 1 / (1 - a z^-1)."""
    from scipy.signal import lfilter

    numerator, denominator = np.ones(1, a.dtype), np.array([1, -a[0]], a.dtype)
    return lambda: lfilter(numerator, denominator, u)


def bands(a: Array) -> Array:
    """Return I - AZ as LAPACK stores it: its diagonal, and the diagonal below."""
    stored = np.ones((2, len(a)), a.dtype, order="F")
    np.negative(a[1:], out=stored[1, :-1])
    return stored


def tbtrs(a: Array, u: Array) -> Solver:
    """Solve with a triangular band matrix, in float32."""
    from scipy.linalg.lapack import stbtrs

    stored, right = bands(a), u[:, np.newaxis]
    return lambda: stbtrs(stored, right, uplo="L")[0]


def solve_banded(a: Array, u: Array) -> Solver:
    """Solve with a general band matrix, pivoting."""
    from scipy.linalg import solve_banded

    stored = bands(a)
    return lambda: solve_banded((1, 0), stored, u)


def torchlpc(a: Array, u: Array) -> Solver:
    """Run torchlpc's linear prediction of order one, without its gradient."""
    torch, lpc = import_module("torch"), import_module("torchlpc")
    excitation, coefficients = torch.from_numpy(u)[None], torch.from_numpy(-a)[None, :, None]

    def solve() -> Any:
        with torch.no_grad():
            return lpc.sample_wise_lpc(excitation, coefficients)

    return solve


def associative_scan(a: Array, u: Array) -> Solver:
    """Run JAX's scan over pairs (a, u), compiled for the CPU."""
    jax = import_module("jax")
    cpu = jax.devices("cpu")[0]
    pairs = jax.device_put((a, u), cpu)

    @jax.jit  # type: ignore[untyped-decorator]
    def scan(pairs: tuple[Any, Any]) -> Any:
        return jax.lax.associative_scan(lambda old, new: (old[0] * new[0], new[0] * old[1] + new[1]), pairs)[1]

    return lambda: scan(pairs).block_until_ready()


PEERS = (
    Peer("scipy lfilter, constant a", lfilter, constant=True),
    Peer("LAPACK tbtrs", tbtrs),
    Peer("scipy solve_banded", solve_banded),
    Peer("torchlpc", torchlpc, package="torchlpc"),
    Peer("JAX associative_scan", associative_scan, package="jax"),
)
