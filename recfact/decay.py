"""How fast an exponential average forgets: half-lives, time constants, spans, and times between values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from math import inf, isfinite, log, log1p, log2
from numbers import Real
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy
from recfact.errors import DTypeError, OptionError, OptionTypeError, ShapeError

TICKS = {
    **{name: Fraction(count) for name, count in (("W", 604800), ("D", 86400), ("h", 3600), ("m", 60), ("s", 1))},
    **{name: Fraction(1, 1000**k) for k, name in enumerate(("ms", "us", "ns", "ps", "fs", "as"), 1)},
}
"""Seconds in NumPy's units of time. Months and years have no fixed length."""

UNITS = {
    "w": "W",
    **dict.fromkeys(("d", "day", "days"), "D"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("min", "minute", "minutes"), "m"),
    **dict.fromkeys(("s", "sec", "second", "seconds"), "s"),
    **{name: name for name in ("ms", "us", "ns")},
}
"""NumPy's names of the units that texts have."""


@dataclass(frozen=True)
class Decay:
    """The weight of a value after some time.

    Parameters
    ----------
    halvings : float
        How often a weight halves in a time of 1. Infinite if only the newest value counts.
    unit : Fraction or None
        If times are instants, the number of seconds in a time of 1. None if times are numbers, or if there are none and
        steps count.
    """

    halvings: float
    unit: Fraction | None = None

    def weights(self, times: Array) -> Array:
        """Return the weight that is left after each time, in float64. After a time of 0 it is 1."""
        return np.exp2(-self._halved(times))

    def losses(self, times: Array) -> Array:
        """Return 1 minus the weights, accurate to the last digits."""
        return -np.expm1(-log(2) * self._halved(times))

    def _halved(self, times: Array) -> Array:
        """Return how often weights halve. In a time of 0 they never do, at any rate."""
        if self.halvings < inf:
            return np.multiply(self.halvings, times)
        return np.where(np.equal(times, 0), 0.0, inf)


def check_decay(halflife: Any, tau: Any, span: Any, com: Any, alpha: Any, instants: bool | None) -> Decay:
    """Return the decay that one of five arguments gives.

    Parameters
    ----------
    halflife, tau, span, com, alpha : object
        The arguments of a caller. All except one are None.
    instants : bool or None
        True if times are instants, for which durations are given. False if times are numbers. None without times.

    Raises
    ------
    OptionError
        If there isn't exactly one, if it is out of its range, or if it counts steps although there are times.
    OptionTypeError
        If it isn't a number or a duration.
    """
    given = {"halflife": halflife, "tau": tau, "span": span, "com": com, "alpha": alpha}
    given = {name: value for name, value in given.items() if value is not None}
    if len(given) != 1:
        raise OptionError(
            "exactly one of halflife, tau, span, com and alpha must be given, got "
            f"{' and '.join(given) or 'none'}; pass one of them"
        )
    ((name, value),) = given.items()
    if instants is not None and name in ("span", "com", "alpha"):
        raise OptionError(f"{name} counts steps, so it doesn't go with times; pass halflife or tau instead")
    if instants:
        return Decay(1.0 if name == "halflife" else 1 / log(2), duration(value, name))
    if isinstance(value, bool) or not isinstance(value, Real):
        advice = "times are numbers, so it is a number in their unit" if instants is False else ""
        advice = advice or "pass times= as well, if it is a duration"
        raise OptionTypeError("must be a number", name, given=value, advice=advice)
    try:
        number = float(value)
    except (OverflowError, ValueError):
        raise OptionError("must be a number that float64 holds", name, given=value) from None
    return Decay(_halvings(name, number))


def _halvings(name: str, value: float) -> float:
    """Return how often weights halve in a step."""
    ranges = {
        "halflife": ("above 0", value > 0),
        "tau": ("above 0", value > 0),
        "span": ("of at least 1", value >= 1),
        "com": ("of at least 0", value >= 0),
        "alpha": ("above 0 and at most 1", 0 < value <= 1),
    }
    text, inside = ranges[name]
    if not inside or not isfinite(value):
        raise OptionError(f"must be a number {text}", name, given=value)
    if name == "halflife":
        return 1 / value
    if name == "tau":
        return 1 / (value * log(2))
    alpha = {"span": 2 / (value + 1), "com": 1 / (1 + value)}.get(name, value)
    if alpha == 1:
        return inf
    return (
        -log2(1 - alpha) if alpha > 1 / 4 else -log1p(-alpha) / log(2)
    )  # one is exact for powers of two, the other for small numbers


def duration(value: Any, name: str) -> Fraction:
    """Return the seconds in a duration above 0. It may be a text such as "30D", "12h" or "1.5 min".

    Raises
    ------
    OptionError
        If it can't be read, or if it isn't above 0.
    OptionTypeError
        If it isn't a duration.

    Examples
    --------
    >>> duration("1.5 min", "tau")
    Fraction(90, 1)
    """
    if isinstance(value, str):
        seconds = seconds_of(value)
        if seconds is None:
            raise OptionError(
                "must be a number with a unit of time",
                name,
                given=value,
                advice='write it as in "30D", "12h" or "5min"',
            )
        length = Fraction(seconds) if isfinite(seconds) else Fraction(0)
    elif isinstance(value, np.timedelta64) or hasattr(value, "to_timedelta64"):  # pandas'
        length = _seconds_in(np.timedelta64(getattr(value, "to_timedelta64", lambda: value)()), name)
    elif isinstance(value, timedelta):
        length = Fraction(value // timedelta(microseconds=1), 10**6)
    else:
        raise OptionTypeError(
            "must be a duration, because times are instants", name, given=value, advice='pass a text such as "30D"'
        )
    if length <= 0:
        raise OptionError("must be a duration above 0", name, given=value)
    return length


def _seconds_in(value: np.timedelta64, name: str) -> Fraction:
    """Return the seconds in a duration of NumPy."""
    unit, count = np.datetime_data(value.dtype)
    if np.isnat(value) or unit not in TICKS:
        raise OptionError("must be a duration of so many days or parts of them", name, given=value)
    return int(value.astype(np.int64)) * count * TICKS[unit]


def seconds_of(text: str) -> float | None:
    """Return the seconds in a duration such as "30D", "12h" or "1.5 min", or None if the text isn't a duration.

    Examples
    --------
    >>> seconds_of("30D"), seconds_of("1.5 min"), seconds_of("250ms"), seconds_of("3")
    (2592000.0, 90.0, 0.25, None)
    """
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]+)\s*", text)
    unit = UNITS.get(found[2].lower()) if found else None
    return None if found is None or unit is None else float(found[1]) * float(TICKS[unit])


def read_times(times: Any, steps: int) -> Array:
    """Return the times of all steps: float64, integers of 64 bits, or instants. Elapsed times become instants.

    Raises
    ------
    ShapeError
        If they aren't a list with one time for each step.
    DTypeError
        If they are neither numbers nor instants.
    OptionError
        If one is missing, infinite or NaN.
    """
    if isinstance(times, list | tuple) and times and all(isinstance(time, datetime) for time in times):
        times = np.array([_instant(time) for time in times])
    zoned = getattr(getattr(times, "dtype", None), "tz", None) is not None  # pandas' instants with a time zone
    read = as_numpy(getattr(times, "dt", times).tz_convert(None) if zoned else times, "times")
    if isinstance(times, str):
        raise ShapeError(f"times must be one list of {steps}, got {times!r}; pass the column, as in table[{times!r}]")
    if read.shape != (steps,):
        raise ShapeError(
            f"times must be one list of {steps}, one for each step, got shape {read.shape}; pass those of the axis"
        )
    if read.dtype.kind == "m":  # from a start that doesn't matter
        read = read.view(read.dtype.str.replace("m8", "M8"))
    if read.dtype.kind not in "iufM" or read.dtype == np.dtype("M8"):
        raise DTypeError(
            f"times must be numbers or instants, got {read.dtype}; convert them, to datetime64 for instants"
        )
    if read.dtype.kind == "M":
        counts_days = np.datetime_data(read.dtype)[0] not in TICKS  # of calendars
        read = read.astype("M8[D]" if counts_days else read.dtype.newbyteorder("="))
        missing = np.isnat(read)
    else:
        read = read.astype({"i": np.int64, "u": np.uint64, "f": np.float64}[read.dtype.kind])
        missing = ~np.isfinite(read)
    if missing.any():
        raise OptionError(f"times must all be known, got {read[missing.argmax()]} at index {missing.argmax()}")
    return read


def _instant(time: datetime) -> np.datetime64:
    """Return an instant of Python or pandas in UTC. An instant of pandas may be missing, and counts nanoseconds."""
    if hasattr(time, "to_datetime64"):
        return np.datetime64(time.to_datetime64())
    return np.datetime64(time.replace(tzinfo=None) - (time.utcoffset() or timedelta(0)), "us")


def passed(later: Array, earlier: Array, first: int, unit: Fraction | None) -> Array:
    """Return the time from each instant to the next, in a unit, as float64.

    Parameters
    ----------
    later, earlier : ndarray
        Times of one kind and shape, as `read_times` returns them.
    first : int
        The step of the first time in `later`, for the message.
    unit : Fraction or None
        The number of seconds in a time of 1. None for times that are numbers.

    Raises
    ------
    OptionError
        If a time is before the previous one.
    """
    fallen = later < earlier
    if fallen.any():
        place = int(fallen.argmax())
        raise OptionError(
            f"times must not fall, got {later[place]} after {earlier[place]} at index {first + place}; sort the values "
            "by their times, and pass offsets where groups lie one behind the other"
        )
    if later.dtype.kind == "f":
        return later - earlier
    # Differences of integers are taken before they are rounded. None is too large without a sign.
    found = (later.view(np.int64) - earlier.view(np.int64)).view(np.uint64).astype(float)
    if unit is None:
        return found
    name, count = np.datetime_data(later.dtype)
    return found / float(unit / (count * TICKS[name]))
