"""Tables of horizons: the paper's integers, and every way they print."""

import csv
import io
import json
import math
from fractions import Fraction

import pytest
from table_cells import Cells

from recfact import precision as pr
from recfact.errors import OptionError
from recfact.precision.horizons.horizon_tables import PAPER_FORMATS
from recfact.written_numbers import short

# The table of the section on the computational horizon: p, exponent bits, bias, emin, k normal, k with subnormals.
PAPER = {
    "binary32": (23, 8, 127, -126, 1465264032, 1732732863),
    "binary16": (10, 5, 15, -14, 19869, 34061),
    "bfloat16": (7, 8, 127, -126, 22314, 23554),
    "float8_e5m2": (2, 5, 15, -14, 72, 83),
    "float8_e4m3fn": (3, 4, 7, -6, 64, 96),
}


def test_the_papers_table():
    table = pr.horizon_table(PAPER)
    names = ("fraction_bits", "exponent_bits", "bias", "emin", "normal", "subnormal")
    assert {row["format"]: tuple(row[name] for name in names) for row in table} == PAPER
    assert [row["rho"] for row in table] == [1 - 2.0**-24, 1 - 2.0**-11, 1 - 2.0**-8, 1 - 2.0**-3, 1 - 2.0**-4]


def test_all_formats_come_the_papers_first():
    for table in (pr.horizon_table(), pr.actual_horizon_table()):
        names = [row["format"] for row in table]
        assert tuple(names[:5]) == PAPER_FORMATS == tuple(PAPER)
        assert sorted(names) == sorted(pr.FORMATS)


def test_rows_are_horizons():
    for row in pr.horizon_table(["half", "e8m0", "binary128"], rho=["0.9", 0.99, Fraction(1, 3), 0, 1, 2]):
        fmt, rho = pr.format(row["format"]), row["rho"]
        assert row["normal"] == pr.horizon(rho, fmt)
        assert row["tail_normal"] == pr.horizon(rho, fmt, "tail")
        if fmt.subnormals:
            assert row["subnormal"] == pr.horizon(rho, fmt, underflow="subnormal")
            assert row["tail_subnormal"] == pr.horizon(rho, fmt, "tail", "subnormal")
        else:
            assert row["subnormal"] is row["tail_subnormal"] is None


def test_rows_are_actual_horizons():
    variants = {
        "nearest": {},
        "toward_zero": {"rounding": "toward-zero"},
        "flushed": {"underflow": "flush-after"},
        "kogge_stone": {"algorithm": "kogge-stone"},
        "fp32": {"algorithm": "fp32-accumulate"},
    }
    for row in pr.actual_horizon_table(["half", "e4m3fn", "e8m0", "float32", "float64"], rho=[None, "0.9", 0.5, 1]):
        for name, options in variants.items():
            try:
                found = pr.actual_horizon(row["format"], row["rho"], **options)
            except OptionError:
                assert row[name] is row[f"{name}_stays_at"] is row[f"{name}_stays_from"] is None
                continue
            assert row[name] == found.last_nonzero
            assert (row[f"{name}_stays_at"], row[f"{name}_stays_from"]) == (found.stagnates_at, found.stagnates_from)
            assert name != "fp32" or row["fp32_normal"] == found.last_normal


def test_what_is_too_long_is_left_out():
    (row,) = pr.actual_horizon_table("binary64", rho=1 - 2.0**-26)
    assert row["nearest"] is None
    assert row["kogge_stone"] > row["normal"] > 0


@pytest.mark.parametrize("one", ["half", "binary16", pr.format("half"), ["half"], ("half",), {"half": 1}])
def test_one_or_several_formats(one):
    assert [row["format"] for row in pr.horizon_table(one)] == ["binary16"]


def test_wrong_arguments():
    with pytest.raises(OptionError, match="format"):
        pr.horizon_table(["half", "quarter"])
    for table in (pr.horizon_table, pr.actual_horizon_table):
        with pytest.raises(OptionError, match="rho"):
            table("half", rho=-1)
        with pytest.raises(OptionError, match="rho"):
            table("half", rho=["0.5", math.nan])


BOTH = pytest.mark.parametrize("make", [pr.horizon_table, pr.actual_horizon_table])


@BOTH
def test_all_prints_say_the_same(make):
    table = make()
    text = [line.split("  ") for line in table.to_text().splitlines()]
    text = [[cell.strip() for cell in line if cell.strip()] for line in text]
    markdown = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.to_markdown().splitlines()]
    latex = table.to_latex().splitlines()
    assert latex[1::1][0] == r"\toprule"
    body = [line.removesuffix(r" \\").split(" & ") for line in latex[4:-2]]
    cells = Cells(table.to_html()).rows

    def plain(lines):
        signs = {"∞": "inf", "–": "-", r"$\infty$": "inf", "--": "-"}
        stripped = ([signs.get(cell, cell) for cell in line] for line in lines)
        return [
            [cell.replace("$", "").replace("{", "").replace("}", "").replace("\\", "") for cell in line]
            for line in stripped
        ]

    assert plain(markdown[:1] + markdown[2:]) == plain(text) == plain(cells)
    assert plain(body) == plain(text[1:])
    assert {len(line) for line in text} == {len(table.columns)}


@BOTH
def test_csv_and_rows_hold_the_values(make):
    table = make()
    read = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert len(read) == len(table) == len(pr.FORMATS)
    for line, row in zip(read, table, strict=True):
        assert tuple(line) == tuple(row) == table.names
        for name, value in row.items():
            if isinstance(value, int | float):
                assert type(value)(line[name]) == value
            else:
                assert line[name] == (
                    "" if value is None else str(short(value)) if isinstance(value, Fraction) else value
                )


@BOTH
def test_empty_tables(make):
    table = make([])
    assert len(table) == 0
    assert list(table) == []
    assert len(table.to_text().splitlines()) == 1
    assert len(table.to_markdown().splitlines()) == 2
    assert table.to_csv().strip() == ",".join(table.names)
    assert r"\midrule" + "\n" + r"\bottomrule" in table.to_latex()
    assert len(Cells(table.to_html()).rows) == 1
    assert len(make("half", rho=[])) == 0


@BOTH
def test_json_holds_the_rows(make):
    (row,) = json.loads(make("binary128").to_json())
    assert tuple(row) == make([]).names
    assert row["rho"] == "1 - 2^-113"


def test_what_formats_are_called_is_escaped():
    odd = pr.FloatFormat.from_bits(5, 2, name="a|b<i>_&")
    table = pr.horizon_table(odd)
    assert "a&lt;" not in table.to_text()
    assert "a|b&lt;i&gt;_&amp;" in table.to_html()
    assert r"a|b<i>\_\&" in table.to_latex()
    assert r"a\|b<i>_&" in table.to_markdown()


def test_long_lags_are_short_in_print_and_exact_in_rows():
    table = pr.horizon_table(["binary32", "binary64"])
    text, rows = str(table), table.to_rows()
    assert "1465264032" in text  # ten digits, as in the paper
    assert "6.3807e+18" in text
    assert rows[1]["normal"] == 6380667693064996757
    assert max(map(len, repr(pr.horizon_table()).splitlines())) <= 100
