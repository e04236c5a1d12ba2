"""Recurrences in PyTorch: `solve` with gradients of any order, and the `State` that continues it.

Importing this package doesn't import torch. Its modules do, on first use.
"""

from typing import Any

from recfact.errors import MissingExtraError
from recfact.public_names import attach

_load, __dir__, __all__ = attach(__name__)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtraError("recfact.torch needs PyTorch; install it with: pip install torch") from None
