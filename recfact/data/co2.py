"""The bundled record: weekly CO2 at Mauna Loa, 1958 to 2001, with its gaps."""

import csv
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from recfact.data.smoothing import exponential_average

DAY = 86400.0
"""Seconds in a day."""

DEFAULT_TAU = 30 * DAY
"""Time constant of the bundled report, in seconds: a month smooths the scatter of the weeks and keeps the seasons."""


@dataclass(frozen=True, eq=False)
class TimeSeries:
    """Values measured at known times.

    Parameters
    ----------
    time : ndarray of datetime64, shape (n,)
        When each value was measured, strictly increasing.
    value : ndarray of float64, shape (n,)
        The values.
    name, unit, title : str
        Labels for plots.
    """

    time: np.ndarray[Any, np.dtype[np.datetime64]]
    value: np.ndarray[Any, np.dtype[np.float64]]
    name: str
    unit: str
    title: str

    @property
    def dt(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Seconds from the value before to each value. The first is infinite, because no value is before it."""
        steps = np.diff(self.time) / np.timedelta64(1, "s")
        return np.concatenate([[np.inf], steps])

    def recurrence(
        self, tau: float = DEFAULT_TAU
    ) -> tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.float64]]]:
        """Return the coefficients and inputs that average the record over `tau` seconds.

        Examples
        --------
        >>> a, u = load_co2().recurrence(tau=30 * DAY)
        >>> a[:3].round(4).tolist()
        [0.0, 0.7919, 0.7919]
        """
        return exponential_average(self.dt, self.value, tau)


def load_co2() -> TimeSeries:
    """Return the weekly CO2 concentration at Mauna Loa from March 1958 to December 2001, in parts per million.

    Weeks without a measurement are left out. So a step is 7 days, or a multiple of it across a gap: 14 to 133 days
    across the 22 gaps. The data are in the public domain. recfact/data/README.md names the source (Keeling and Whorf
    2004).

    Examples
    --------
    >>> record = load_co2()
    >>> len(record.value), str(record.time[0]), float(record.value[0])
    (2225, '1958-03-29', 316.1)
    >>> days = record.dt[1:] / DAY
    >>> float(days.min()), float(days.max()), int((days > 7).sum())
    (7.0, 133.0, 22)
    """
    with (files("recfact.data") / "co2.csv").open(encoding="ascii") as lines:
        rows = list(csv.DictReader(lines))
    return TimeSeries(
        time=np.array([row["date"] for row in rows], dtype="datetime64[D]"),
        value=np.array([float(row["co2"]) for row in rows]),
        name="CO₂",
        unit="ppm",
        title="Weekly CO₂ at Mauna Loa, 1958 to 2001",
    )
