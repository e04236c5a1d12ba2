"""Exact states, and errors measured against them with proof.

Balls are made of Python's integers. The objects of python-flint took longer at the few hundred bits that an enclosure
keeps: making and converting them costs more than their arithmetic saves.
"""

from recfact.precision.exact.balls import Balls
from recfact.precision.exact.dyadic import Dyadic
from recfact.precision.exact.enclosures import enclose
from recfact.precision.exact.measured import Measured, UndecidedError, measure, truncation_error
from recfact.precision.exact.solving import solve

__all__ = ["Balls", "Dyadic", "Measured", "UndecidedError", "enclose", "measure", "solve", "truncation_error"]


def __dir__() -> list[str]:
    return __all__
