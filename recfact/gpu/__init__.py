"""The GPU engine: `solve` for arrays on a GPU, and a check of what it needs.

Importing this package imports neither CuPy nor torch, and doesn't look for a GPU.
"""

from recfact.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__)
