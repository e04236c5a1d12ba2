"""Tables: one set of ways to write them down, whatever they hold."""

import csv
import io
import json
import math
from fractions import Fraction

import pytest
from table_cells import Cells

import recfact as rf
from recfact import precision as pr
from recfact.precision.materialization.construction_table import MaterializationTable
from recfact.printed_table import LINE, Column, PrintedTable, Tabular
from recfact.written_numbers import Power, short


def sweep():
    return pr.verify_many("float16", "sequential", rf.Full(), cases=20, lengths=4, processes=1)


TABLES = {
    "costs": lambda: rf.cost_table(64),
    "horizons": lambda: pr.horizon_table(["half", "binary128"]),
    "actual horizons": lambda: pr.actual_horizon_table("half"),
    "window": lambda: pr.choose_window(0.9, format="bfloat16"),
    "verification": lambda: pr.verify([0.5] * 9, [1.0] * 9, window=rf.Jagged(2), format="float16"),
    "sweep": sweep,
    "sweep by": lambda: sweep().by("family"),
    "materialization": lambda: pr.materialization_table(["U(0, 1)"], format="float16", blocks=5),
}


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_every_table_writes_itself_in_the_same_ways(make):
    table = make()
    printed = table.table()
    count, width = len(printed), len(printed.columns)
    title, notes = [printed.title] * bool(printed.title), list(printed.notes)
    assert isinstance(table, Tabular)
    assert str(table) == repr(table) == table.to_text(LINE)
    lines = table.to_text().splitlines()
    assert len(lines) == len(title) + 1 + count + len(notes)
    assert lines[: len(title)] == title
    assert lines[len(lines) - len(notes) :] == notes
    assert [line.count(" | ") for line in table.to_markdown().splitlines()] == [width - 1, 0, *[width - 1] * count]
    assert [line.count(" & ") for line in table.to_latex().splitlines()[4:-2]] == [width - 1] * count
    cells = Cells(table.to_html()).rows
    assert [len(row) for row in cells] == [width] * (1 + count)
    assert table.to_html() == table._repr_html_()
    assert table.to_html().count("<p>") == len(title) + len(notes)
    rows = table.to_rows()
    assert len({tuple(row) for row in rows}) == 1
    read = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [tuple(row) for row in read] == [tuple(row) for row in rows]
    json.loads(table.to_json())


def test_text_is_wrapped_by_columns():
    table = pr.horizon_table(["half", "binary128"])
    wide = table.to_text()
    assert max(map(len, str(pr.horizon_table()).splitlines())) <= 100 < max(map(len, wide.splitlines()))
    for width in (50, 80, 120, 500):
        text = table.to_text(width)
        assert max(map(len, text.splitlines())) <= max(width, 60)  # the first column and one of 39 digits
        panels = [panel.splitlines() for panel in text.split("\n\n")]
        assert all(panel[1].startswith("binary16") for panel in panels)
        joined = [[word for panel in panels for word in panel[k].split()[k > 0 :]] for k in (1, 2)]
        assert joined == [line.split()[1:] for line in wide.splitlines()[1:]]
    assert table.to_text(500) == wide


def test_below_a_table_as_many_columns_are_repeated_as_tell_its_rows_apart():
    names = ("kind", "size", "left", "right")
    rows = tuple(dict(zip(names, row, strict=True)) for row in (("a", 1, 5, 6), ("a", 2, 7, 8), ("b", 1, 9, 10)))
    columns = tuple(Column(name, name, lambda row, name=name: row[name], words=name == "kind") for name in names)
    assert PrintedTable(rows, columns, names).to_text(18).split("\n\n") == [
        "kind  size  left\na        1     5\na        2     7\nb        1     9",
        "kind  size  right\na        1      6\na        2      8\nb        1     10",
    ]


def test_what_json_says_beside_the_rows():
    costs = json.loads(rf.cost_table(64, block=8).to_json())
    assert (costs["n"], costs["block"], costs["channels"]) == (64, 8, 1)
    assert costs["rows"] == rf.cost_table(64, block=8).to_rows()
    choice = json.loads(pr.choose_window(0.9, Fraction(1, 100), relative_to="input").to_json())
    assert (choice["window"], choice["tol"], choice["relative_to"]) == ("Jagged(65)", 0.01, "input")
    assert choice["window"] == choice["rows"][0]["window"]
    verification = pr.verify([0.5] * 9, [1.0] * 9, format="float16")
    assert json.loads(verification.to_json()) == json.loads(json.dumps(verification.to_dict()))


def test_a_choice_of_none_is_its_sentence():
    none = pr.choose_window(1.0, 0.01)
    assert str(none) == none.table().title
    assert Cells(none.to_html()).rows == []
    assert none.to_rows() == []
    assert json.loads(none.to_json())["window"] is None
    assert none.to_csv() == "window,error,operations,entries\n"


def test_integers_beyond_floats_are_written_short():
    table = pr.horizon_table("half", [1 - Fraction(1, 2**4000)])
    assert table.rows[0]["normal"] == pr.horizon(1 - Fraction(1, 2**4000), "half")
    for written in ("to_text", "to_markdown", "to_latex", "to_html", "to_csv", "to_json"):
        assert "1.2792e+1205" in getattr(table, written)()
    column = Column("a", "a", lambda row: row["a"])
    table = PrintedTable(({"a": -(10**5000)}, {"a": 10**300}), (column,), ("a",))
    assert table.to_text().split() == ["a", "-1.0000e+5000", str(10**300)]
    assert json.loads(table.to_json()) == [{"a": "-1.0000e+5000"}, {"a": 10**300}]


def test_json_has_numbers_for_what_float64_holds():
    assert json.loads(pr.choose_window(0.5, format="half").to_json())["tol"] == 2.0**-11
    assert json.loads(pr.choose_window(0.5, "0.01").to_json())["tol"] == 0.01
    rows = pr.horizon_table("half", ["1e-400", Fraction(3, 2**20), "0.9"])
    assert [row["rho"] for row in json.loads(rows.to_json())] == ["1.0000e-400", 3 / 2**20, 0.9]


def test_csv_of_no_rows_still_names_them():
    assert MaterializationTable(()).to_csv().startswith("coefficients,block,format,accumulate,method")


def test_titles_and_notes_are_escaped():
    column = Column("<a>", "a", lambda row: row["a"])
    table = PrintedTable(({"a": 1},), (column,), ("a",), "p < q", ("a & b",))
    assert table.to_html().splitlines()[0] == "<p>p &lt; q</p>"
    assert table.to_html().splitlines()[-1] == "<p>a &amp; b</p>"
    assert Cells(table.to_html()).rows == [["<a>"], ["1"]]


def test_json_has_null_for_what_is_not_finite():
    column = Column("a", "a", lambda row: row["a"])
    rows = tuple({"a": value} for value in (math.inf, math.nan, None, (1, 2), 1 - Fraction(1, 2**60), True))
    assert json.loads(PrintedTable(rows, (column,), ("a",)).to_json()) == [
        {"a": value} for value in (None, None, None, [1, 2], "1 - 2^-60", True)
    ]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0.5, "0.5"),
        (0.0, "0.0"),
        (1.0, "1.0"),
        (0.9375, "0.9375"),
        (2.0**-7, "2^-7"),
        (1 - 2.0**-24, "1 - 2^-24"),
        (51 * 2.0**-24, "51 * 2^-24"),
        (5e-324, "2^-1074"),
        (49 * 5e-324, "49 * 2^-1074"),
        (Fraction(1, 2**16382), "2^-16382"),
        (1 - Fraction(1, 2**113), "1 - 2^-113"),
        (Fraction(99, 100), "0.99"),
        (Fraction(1, 3), "0.3333333333"),
        (1 - Fraction(1, 3 * 10**9), "1 - 3.33333e-10"),
        (math.inf, "inf"),
        (Fraction(1, 10**400), "1.0000e-400"),
        (Fraction(99999, 10**400), "9.9999e-396"),
        (Fraction(999999, 10**320), "1.0000e-314"),
        (1 - Fraction(1, 10**5000), "1 - 1.0000e-5000"),
        (Fraction(10**400), "1.0000e+400"),
        (Fraction(12345678 * 10**400), "1.2346e+407"),
    ],
)
def test_short(number, expected):
    assert str(short(number)) == expected


def test_cells_of_every_kind():
    values = {"a": "x_y", "b": 12, "c": None, "d": math.inf, "e": 0.25, "f": [Power(-3, True, 5), " from ", 7]}
    columns = tuple(Column(key, key, lambda row, key=key: row[key], words=key == "a") for key in values)
    table = PrintedTable((values,), columns, tuple(values))
    assert table.to_text().splitlines()[1] == "x_y  12  -  inf  0.25  1 - 5 * 2^-3 from 7"
    assert table.to_markdown().splitlines()[1:] == [
        "|---|--:|--:|--:|--:|--:|",
        "| x_y | 12 | – | ∞ | 0.25 | 1 - 5 * 2^-3 from 7 |",
    ]
    assert table.to_latex().splitlines()[4] == r"x\_y & 12 & -- & $\infty$ & 0.25 & $1 - 5 \cdot 2^{-3}$ from 7 \\"
    assert Cells(table.to_html()).rows[1] == ["x_y", "12", "–", "∞", "0.25", "1 - 5 * 2^-3 from 7"]
