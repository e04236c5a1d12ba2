"""Recurrences of dask arrays: `solve`, `vjp` and `ewm` for sequences that don't fit into memory, computed later.

Importing this package doesn't import dask. Its modules do, on first use.
"""

from typing import Any

from recfact.errors import MissingExtraError
from recfact.public_names import attach

_load, __dir__, __all__ = attach(__name__)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        if error.name not in ("dask", "dask.array"):
            raise
        raise MissingExtraError('recfact.dask needs dask; install it with: pip install "dask[array]"') from None
