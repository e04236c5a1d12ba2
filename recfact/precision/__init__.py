"""The cost of number formats and windows: formats, rounding, horizons, error bounds, and their exact verification."""

from recfact.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__)
