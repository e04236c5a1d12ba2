"""The GPU engine: `solve` for arrays on a GPU, and a check of what it needs.

Importing this package imports neither CuPy nor torch, and doesn't look for a GPU.
"""

from recfact.gpu.availability import why_unavailable
from recfact.gpu.solver import solve
from recfact.gpu.tuning import tune
from recfact.gpu.warm import warm_up

__all__ = ["solve", "tune", "warm_up", "why_unavailable"]
