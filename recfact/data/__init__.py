"""One small real data set and the recurrence that smooths it.

The bundled record is the weekly CO2 concentration at Mauna Loa with its gaps (see README.md beside this file for the
source). An exponential average over its uneven steps is a recurrence whose coefficients change with time.
"""

from recfact.data.co2 import DEFAULT_TAU, TimeSeries, load_co2
from recfact.data.smoothing import exponential_average

__all__ = ["DEFAULT_TAU", "TimeSeries", "exponential_average", "load_co2"]


def __dir__() -> list[str]:
    return __all__
