"""recfact: the recurrence x_i = a_i x_{i-1} + u_i as a matrix, its factors, its windows, and a fast solver."""

from recfact.solve import solve
from recfact.windows import Full, Jagged, Uniform

__version__ = "0.1.0"

__all__ = ["Full", "Jagged", "Uniform", "solve"]
