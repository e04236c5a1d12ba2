"""The table of constructions: what it compares, what it recommends, and the numbers that theory gives."""

import csv
import io
import json
import math

import numpy as np
import pytest

from recfact.errors import OptionError, ShapeError
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.materialization.compare_constructions import COEFFICIENT_FAMILIES, materialization_table
from recfact.precision.materialization.construction_errors import materialization_errors
from recfact.precision.materialization.construction_table import MaterializationTable
from recfact.precision.materialization.constructions import METHODS

LOGS = ("segsum", "log-outer")
QUOTIENTS = ("ratio", "reciprocal")


@pytest.fixture(scope="module")
def table():
    return materialization_table(blocks=100)


def test_every_pair_is_a_case_once(table):
    cases = table.cases()
    assert len(cases) == len(COEFFICIENT_FAMILIES) * 5  # float32 inside float32 is float32
    assert len({(row.coefficients, row.block, row.format, row.accumulate) for row in table}) == len(cases)
    assert all([row.method for row in case] == list(METHODS) for case in cases)
    assert len(table) == 5 * len(cases) == len(list(table))


def test_no_bound_is_passed(table):
    assert max(row.ratio for row in table) <= 1


def test_rows_are_the_measured_errors():
    (row,) = materialization_table(["U(0, 1)"], format="float16", method="ratio", blocks=30, seed=3)
    rng = np.random.default_rng([3, 16, *b"U(0, 1)"])
    errors = materialization_errors(COEFFICIENT_FAMILIES["U(0, 1)"](rng, (30, 16)), "ratio", format="float16")
    assert (row.blocks, row.block, row.entries) == (30, 16, 30 * 120)
    assert row.measured == errors.measured.size
    assert row.mean == errors.measured.mean()
    assert [row.p5, row.median, row.largest] == errors.quantile(0.05, 0.5, 1).tolist()
    assert round(row.failures * row.entries) == errors.failures
    assert row.zero + row.underflow + row.overflow <= 1


def test_products_are_best_but_near_one(table):
    # A segment sum of logarithms adds small numbers where coefficients are near 1; a wide accumulator hides all that.
    for best in table.recommendations():
        near_one = best.coefficients in ("U(0.9, 1)", "1 - U(0, 1/32)", "U(1, 1.05)")
        assert best.method == ("segsum" if near_one and best.accumulate == best.format else "cumprod"), best


def test_where_products_lose_they_lose_by_a_factor(table):
    for case in table.cases():
        rows = {row.method: row for row in case}
        if case[0].coefficients == "1 - U(0, 1/32)" and case[0].accumulate == case[0].format:
            assert 1.3 < rows["cumprod"].median / rows["segsum"].median < 2.2
            assert 1.9 < rows["cumprod"].largest / rows["segsum"].largest < 5


def test_failures_of_zeros_and_signs(table):
    for case in table.cases():
        share = {row.method: row.nan for row in case}
        assert share["cumprod"] == 0
        match case[0].coefficients:
            case "10% zeros":
                assert share["segsum"] == 0
                assert all(0.35 < share[method] < 0.5 for method in (*QUOTIENTS, "log-outer"))
            case "first one zero":
                assert share["segsum"] == 0
                assert all(share[method] == 1 for method in (*QUOTIENTS, "log-outer"))
            case "U(-1, 1)":
                assert 0.85 < share["segsum"] < share["log-outer"] < 1
            case _:
                assert share["segsum"] == share["log-outer"] == 0


def test_one_cast_makes_them_alike(table):
    for case in table.cases():
        unit = {"binary16": 2.0**-11, "bfloat16": 2.0**-8}.get(case[0].format, 0)
        if case[0].accumulate != case[0].format:
            assert all(not row.largest > unit * 1.01 for row in case)


def test_your_own_coefficients(rng):
    a = rng.uniform(0.5, 1, (3, 37))
    table = materialization_table({"mine": a, "yours": list(a[0])}, block=(4, 16), format="bfloat16")
    assert [(case[0].coefficients, case[0].block, case[0].blocks) for case in table.cases()] == [
        ("mine", 4, 27),
        ("mine", 16, 6),
        ("yours", 4, 9),
        ("yours", 16, 2),
    ]
    first = materialization_errors(a[:, :36].reshape(27, 4), "segsum", format="bfloat16")
    assert table.rows[1].mean == first.measured.mean()


def test_formats_of_your_own():
    mine = FloatFormat.from_bits(exponent=4, fraction=3, name="mine")
    table = materialization_table("U(0, 1)", format=[mine, Arithmetic(mine, "bfloat16")], method=["cumprod"], blocks=5)
    assert [(row.format, row.accumulate) for row in table] == [("mine", "mine"), ("mine", "bfloat16")]


def test_a_seed_repeats():
    arguments = {"coefficients": ["U(0, 1)"], "format": "float16", "blocks": 10}
    assert materialization_table(**arguments, seed=5) == materialization_table(**arguments, seed=5)
    assert materialization_table(**arguments, seed=5) != materialization_table(**arguments, seed=6)


def test_it_prints_and_exports():
    kinds = ["float16", Arithmetic("float16", accumulate="float32")]
    table = materialization_table(["first one zero", "U(0, 1)"], format=kinds, blocks=20)
    head, titles, *lines = table.to_text().splitlines()
    assert head.startswith("relative error in %")
    assert titles.split() == ["coefficients", "block", "format", *METHODS, "use"]
    assert len(lines) == 4
    assert "binary16, binary32 inside" in lines[1]
    assert "nan 100" in lines[0]
    assert table.to_markdown().count("\n") == 5

    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert len(rows) == len(table) == 20
    assert float(rows[0]["median"]) == table.rows[0].median
    exported = json.loads(table.to_json())
    assert len(exported["rows"]) == 20
    assert exported["rows"][3]["median"] is None  # ratio, with nothing measured
    assert math.isnan(table.rows[3].median)
    assert [each["method"] for each in exported["recommendations"]] == ["cumprod"] * 4
    assert table.to_rows()[0]["method"] == "cumprod"


def test_reasons_are_sentences(table):
    reasons = {best.reason for best in table.recommendations()}
    assert all(reason.startswith(("no failure", "the fewest failures")) for reason in reasons)
    (only,) = materialization_table("U(0, 1)", format="float16", method="ratio", blocks=5).recommendations()
    assert (only.method, only.reason.split(",")[0]) == ("ratio", "the fewest failures")


def test_no_rows():
    empty = MaterializationTable(())
    assert repr(empty) == "no cases"
    assert empty.recommendations() == empty.to_rows() == []
    assert json.loads(empty.to_json()) == {"rows": [], "recommendations": []}


def test_blocks_of_one_step():
    table = materialization_table("U(0, 1)", block=1, format="float16")
    assert all(row.entries == row.measured == 0 and math.isnan(row.mean) for row in table)
    assert [best.method for best in table.recommendations()] == ["cumprod"]
    assert "-" in repr(table)


def test_bad_arguments_are_named():
    with pytest.raises(OptionError, match="coefficients must be one of 'sigmoid"):
        materialization_table(["U(0, 2)"])
    with pytest.raises(OptionError, match="must name one at least"):
        materialization_table(format=[])
    with pytest.raises(OptionError, match="block must be at least 1"):
        materialization_table(block=0)
    with pytest.raises(OptionError, match="method must be one of"):
        materialization_table(method="sum")
    with pytest.raises(ShapeError, match=r"'mine' must have at least the 16 steps .* got shape \(9,\)"):
        materialization_table({"mine": np.ones(9)})
