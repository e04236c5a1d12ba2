"""Gradients of every window, over any scalar and array library: `vjp` and `jvp`."""

from recfact.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__)
