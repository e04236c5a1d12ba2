"""What number formats and windows cost: formats, rounding, horizons, error bounds, and their exact verification."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recfact.precision import exact
    from recfact.precision.catalogue import FORMATS, format
    from recfact.precision.formats import FloatFormat

__all__ = [
    "FORMATS",
    "FloatFormat",
    "exact",
    "format",
]

# Each public name and the module that it is loaded from on first use.
_MODULES = {
    "FORMATS": "catalogue",
    "FloatFormat": "formats",
    "format": "catalogue",
}


def __getattr__(name: str) -> Any:
    if name == "exact":  # a module: exact.solve, exact.measure ...
        return import_module("recfact.precision.exact")
    if name in _MODULES:
        return getattr(import_module(f"recfact.precision.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'recfact.precision' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
