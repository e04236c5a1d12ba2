"""recfact: the recurrence x_i = a_i x_{i-1} + u_i as a matrix, with its factors, its windows and a fast solver."""

from recfact.public_names import attach

__version__ = "0.2.0"

# Names are loaded on first use: factorizations import scipy.sparse.linalg, which takes longer than all the rest.
__getattr__, __dir__, __all__ = attach(__name__)
