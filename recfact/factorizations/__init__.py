"""The transfer operator, its factorizations and its truncations, over any scalar."""

from recfact.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__)
