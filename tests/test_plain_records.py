"""Every result as a dict, as rows, and as a DataFrame."""

import json
from dataclasses import is_dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from processes import run_in_child

import recfact as rf
from recfact import precision as pr
from recfact.plain_records import PlainRecord, plain

A, U = np.array([0.5, 0.25, 0.75, 0.5]), np.array([1.0, 2.0, -1.0, 0.5])
X = rf.solve(A, U)
RESULTS = {
    "choose_window": lambda: pr.choose_window(0.9, format="bfloat16"),
    "no window": lambda: pr.choose_window(1.0, 0.01),
    "effective_horizon": lambda: pr.effective_horizon(A, 0.25),
    "no positions": lambda: pr.effective_horizon(np.ones((3, 0)), 0.25),
    "actual_horizon": lambda: pr.actual_horizon("bfloat16"),
    "horizon_table": pr.horizon_table,
    "verify": lambda: pr.verify(A, U, window=rf.Jagged(2), format="bfloat16"),
    "backward_error": lambda: pr.backward_error(A, U, X),
    "condition": lambda: pr.condition(A, U),
    "conditions": lambda: pr.condition(A, np.stack([U, 2 * U])),
    "materialization_errors": lambda: pr.materialization_errors(A, format="bfloat16"),
    "spread": lambda: pr.spread(np.arange(24.0).reshape(2, 3, 4), axis=1),
    "cost_table": lambda: rf.cost_table(100),
}


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_is_a_dict_rows_and_a_frame(name):
    result = RESULTS[name]()
    assert isinstance(result, PlainRecord)
    found = result.to_dict()
    assert json.loads(json.dumps(found, default=str)).keys() == found.keys()
    rows, frame = result.to_rows(), result.to_pandas()
    assert type(frame) is pd.DataFrame
    assert len(frame) == len(rows)
    assert len(frame.columns) > 0
    for row, (_, line) in zip(rows, frame.iterrows(), strict=True):
        assert list(row) == list(frame.columns)
        for key, value in row.items():
            assert value == line[key] or (value is None and (line[key] is None or np.isnan(line[key])))


def test_all_classes_of_results_are_records():
    """What holds results and is public is either a PlainRecord, or how numbers are rounded, which is no result."""
    public = [getattr(pr, name) for name in pr.__all__]
    others = {kind.__name__ for kind in public if isinstance(kind, type) and is_dataclass(kind)} - {
        kind.__name__ for kind in public if isinstance(kind, type) and issubclass(kind, PlainRecord)
    }
    assert others == {"Arithmetic", "BlockFormat", "FloatFormat"}


def test_what_the_rows_hold():
    error = pr.backward_error(A, U, X + np.array([0, 2.0**-40, 0, 0]))
    frame = error.to_pandas()
    assert list(frame.columns) == ["axis 0", "relative", "da", "du"]
    np.testing.assert_array_equal(frame["relative"], error.relative)
    assert frame["du"][1] == error.du[1] != 0
    assert isinstance(frame["du"][1], Fraction)
    assert error.to_dict()["relative"] == error.relative.tolist()

    spread = pr.spread(np.arange(24.0).reshape(2, 3, 4), axis=1)
    last = {"axis 0": 1, "axis 1": 3, "by_sequence": 23.0, "steps": 2}
    assert spread.to_rows()[-1] == last
    assert len(spread.to_rows()) == 8

    single, several = pr.condition(A, U), pr.condition(A, np.stack([U, 2 * U]))
    assert single.to_rows() == [{"normwise": single.normwise, "skeel": single.skeel, "mixed": single.mixed}]
    assert [row["mixed"] for row in several.to_rows()] == several.mixed.tolist()

    errors = pr.materialization_errors(A, format="bfloat16").to_dict()
    assert errors["format"] == "bfloat16"
    assert np.shape(errors["computed"])[-2:] == (4, 4)

    assert pr.choose_window(0.9, format="bfloat16").to_dict()["window"] == "Jagged(52)"
    assert list(pr.choose_window(1.0, 0.01).to_pandas().columns) == ["window", "error", "operations", "entries"]


def test_plain_values():
    nested = {"a": (np.int8(1), [np.array([1.5, 2.5])]), "b": Fraction(1, 3), "c": rf.Jagged(4), "d": None, "e": 1j}
    assert plain(nested) == {"a": [1, [[1.5, 2.5]]], "b": Fraction(1, 3), "c": "Jagged(4)", "d": None, "e": 1j}
    assert type(plain(np.float64(0.5))) is float
    assert plain(np.array([Fraction(1, 2), np.float32(2)], dtype=object)) == [Fraction(1, 2), 2.0]


def test_without_pandas():
    code = """
import sys
sys.modules["pandas"] = None
from recfact import precision as pr
try:
    pr.horizon_table().to_pandas()
except ImportError as error:
    print(error)
"""
    assert run_in_child(code).strip() == "to_pandas needs pandas; install it with: pip install pandas"
