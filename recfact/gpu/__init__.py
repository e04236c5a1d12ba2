"""The GPU engine: `solve` for arrays on a GPU, and what that needs.

Importing it imports neither CuPy nor torch, and looks for no GPU.
"""

from recfact.gpu.availability import why_unavailable
from recfact.gpu.solver import solve

__all__ = ["solve", "why_unavailable"]
