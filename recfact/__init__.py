"""recfact: the recurrence x_i = a_i x_{i-1} + u_i as a matrix, its factors, its windows, and a fast solver."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from recfact.solve import solve
from recfact.stream import solve_chunks
from recfact.windows import Full, Jagged, Uniform

if TYPE_CHECKING:
    from recfact import data as data
    from recfact import errors as errors
    from recfact import factorizations as factorizations
    from recfact import gpu as gpu
    from recfact import precision as precision
    from recfact.factorizations import BrentKung, Hierarchical, KoggeStone, TransferOperator, cost_table
    from recfact.factorizations.materialize import materialize

__version__ = "0.1.0"

__all__ = [
    "BrentKung",
    "Full",
    "Hierarchical",
    "Jagged",
    "KoggeStone",
    "TransferOperator",
    "Uniform",
    "cost_table",
    "materialize",
    "solve",
    "solve_chunks",
]

# They import scipy.sparse.linalg, which takes longer than all else here: who only solves doesn't wait for it.
_FACTORIZATIONS = {"BrentKung", "Hierarchical", "KoggeStone", "TransferOperator", "cost_table", "materialize"}
_ROOMS = {"data", "errors", "factorizations", "gpu", "precision"}


def __getattr__(name: str) -> Any:
    if name in _FACTORIZATIONS:
        return getattr(import_module("recfact.factorizations"), name)
    if name in _ROOMS:
        return import_module(f"recfact.{name}")
    raise AttributeError(f"module 'recfact' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS, "__version__"})
