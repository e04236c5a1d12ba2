"""What `ewm` refuses, and what it says."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import recfact as rf
from recfact.errors import ArrayTypeError, DTypeError, OptionError, OptionTypeError, ShapeError

LISTS = np.array([None, [1, 2], [3]], dtype=object)

REFUSED = {
    "no decay": ({}, OptionError, "exactly one of halflife, tau, span, com and alpha must be given, got none"),
    "two decays": ({"alpha": 0.5, "tau": 3}, OptionError, "got tau and alpha"),
    "alpha": ({"alpha": 1.5}, OptionError, "alpha must be a number above 0 and at most 1, got 1.5"),
    "span": ({"span": 0.5}, OptionError, "span must be a number of at least 1"),
    "NaN": ({"com": np.nan}, OptionError, "com must be a number of at least 0"),
    "infinite": ({"tau": np.inf}, OptionError, "tau must be a number above 0"),
    "text": ({"halflife": "3D"}, OptionTypeError, "pass times="),
    "duration for numbers": ({"halflife": "1D", "times": [0, 1, 2]}, OptionTypeError, "times are numbers"),
    "boolean": ({"alpha": True}, OptionTypeError, "alpha must be a number"),
    "steps beside times": ({"span": 3, "times": [0, 1, 2]}, OptionError, "span counts steps"),
    "number for instants": ({"tau": 3, "times": pd.date_range("2001", periods=3)}, OptionTypeError, "duration"),
    "unit": ({"tau": "3 moons", "times": pd.date_range("2001", periods=3)}, OptionError, "unit of time"),
    "duration": ({"tau": "0D", "times": pd.date_range("2001", periods=3)}, OptionError, "above 0"),
    "falling": ({"tau": 3, "times": [0, 2, 1]}, OptionError, r"must not fall, got 1 after 2 at index 2"),
    "times' shape": ({"tau": 3, "times": [0, 1]}, ShapeError, "one list of 3"),
    "name of a column": ({"tau": 3, "times": "day"}, ShapeError, r"got 'day'; pass the column, as in table\['day'\]"),
    "no time": ({"tau": "1D", "times": np.array(["2001", "NaT", "2003"], "M8[D]")}, OptionError, "index 1"),
    "infinite time": ({"tau": 3, "times": [0, np.inf, 1]}, OptionError, "inf at index 1"),
    "times' type": ({"tau": 3, "times": ["a", "b", "c"]}, DTypeError, "numbers or instants"),
    "sum": ({"tau": 3, "stat": "sum", "adjust": False}, OptionError, "adjust=False has no sums"),
    "statistic": ({"tau": 3, "stat": "median"}, OptionError, "'mean', 'sum', 'var', 'std'"),
    "window": ({"tau": 3, "stat": "var", "window": "jagged:4"}, OptionError, "means and sums"),
    "window of the recursion": ({"tau": 3, "adjust": False, "window": "jagged:4"}, OptionError, "adjust=True"),
    "offsets": ({"tau": 3, "offsets": [0, 5]}, ShapeError, "end with 3"),
    "periods": ({"tau": 3, "min_periods": -1}, OptionError, "at least 0"),
    "axis": ({"tau": 3, "axis": 1}, ShapeError, "axis"),
    "months": ({"tau": np.timedelta64(1, "M"), "times": pd.date_range("2001", periods=3)}, OptionError, "so many days"),
    "no unit": ({"tau": "1D", "times": np.arange(3).view("M8")}, DTypeError, "numbers or instants"),
    "masked complex": ({"tau": 3, "u": np.ma.array([1j])}, DTypeError, "real numbers"),
    "complex series": ({"tau": 3, "u": pd.Series([1j, 2j, 3j])}, DTypeError, "real numbers"),
    "instants": ({"tau": 3, "u": pd.Series(pd.date_range("2001", periods=3))}, DTypeError, "real numbers"),
    "complex": ({"tau": 3, "u": [1j]}, DTypeError, "real numbers"),
    "objects": ({"tau": 3, "u": [Fraction(1, 3)]}, DTypeError, "real numbers"),
    "fractions beside None": ({"tau": 3, "u": [Fraction(1, 3), None]}, DTypeError, "real numbers, got object"),
    "text beside None": ({"tau": 3, "u": ["1", None]}, DTypeError, "real numbers, got object"),
    "text and numbers": ({"tau": 3, "u": np.array([1.0, "nan", None], dtype=object)}, DTypeError, "real numbers"),
    "complex beside None": ({"tau": 3, "u": [1j, None]}, DTypeError, "real numbers, got object"),
    "huge integers": ({"tau": 3, "u": [10**400, None]}, DTypeError, "real numbers, got object"),
    "None in a list": ({"tau": 3, "u": [1, [None]]}, ArrayTypeError, "nested lists of equal lengths"),
    "lists as objects": ({"tau": 3, "u": LISTS}, DTypeError, "real numbers, got object"),
    "scalar": ({"tau": 3, "u": 3.0}, ShapeError, "at least one axis, got a scalar; pass a sequence"),
    "None": ({"tau": 3, "u": None}, DTypeError, "real numbers, got object"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name):
    options, kind, message = REFUSED[name]
    options = {"u": [1.0, 2.0, 3.0], **options}
    with pytest.raises(kind, match=message):
        rf.ewm(options.pop("u"), **options)


def test_arrays_on_a_gpu_are_refused():
    class OnGPU:
        __cuda_array_interface__ = {}  # noqa: RUF012

    with pytest.raises(ArrayTypeError, match="on the host"):
        rf.ewm(OnGPU(), alpha=0.5)
