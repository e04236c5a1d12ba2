"""The pictures of a recurrence. Each function returns a figure of matplotlib, which need not be imported before."""

from recfact.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__)
