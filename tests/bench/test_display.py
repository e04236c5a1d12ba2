"""A record on paper: kept as JSON, and shown as a table, sentences and a picture."""

import io
import json

import numpy as np
import pytest
from records import sample_record
from rich.console import Console

from recfact.bench.cases import all_cases
from recfact.bench.display import DECISIVE, growth_figure, headlines, markdown, peers, sentences, table_rows, text
from recfact.bench.peers import PEERS
from recfact.bench.record import Record
from recfact.report.rows import to_json


def test_a_record_survives_json():
    record = sample_record(skipped={"peer: abacus": "not installed"})
    plain = json.loads(to_json(record.as_dict()))
    assert Record.from_dict(plain) == record
    older = {**plain, "rows": [{**row, "headline": True} for row in plain["rows"]]}
    assert Record.from_dict(older) == record


def test_rows_show_amounts_with_units():
    rows = {row["case"]: row for row in table_rows(sample_record())}
    assert rows["one | sequence"] == {
        "case": "one | sequence",
        "measured": "1.25x",
        "middle half": "1.12x to 1.38x",
        "at most": "1.25x",
        "against": "np.multiply",
    }
    assert rows["a call"]["measured"] == "8.0 µs"
    assert (rows["memory"]["measured"], rows["memory"]["middle half"]) == ("0.50 MiB", "")
    assert (rows["growth"]["measured"], rows["growth"]["at most"]) == ("n^1.00", "")


@pytest.mark.parametrize(("ratio", "above"), [(1.25, False), (1.26, True)])
def test_a_median_above_its_figure_is_named(ratio, above):
    record = sample_record(ratio)
    assert [row.case for row in record.rows if row.above] == (["one | sequence"] if above else [])
    said = (
        "Above its figure: one | sequence (1.26x, at most 1.25x)." if above else "No case is above what it is held to."
    )
    assert said in sentences(record)


@pytest.mark.parametrize(("spread", "noisy"), [(0.05, False), (0.25, True)])
def test_a_noisy_machine_is_called_so(spread, noisy):
    record = sample_record(spread=spread)
    assert record.noise == pytest.approx(spread)
    said = " ".join(sentences(record))
    assert f"spread by {round(100 * spread)}%" in said
    assert ("noisy" in said) == noisy


def test_the_machine_the_differences_and_what_was_left_out_are_told():
    said = sentences(sample_record(skipped={"JAX": "no module"}))
    assert said[0] == (
        "Abacus 9, 2 cores, 8.0 GiB, Linux x86_64; Python 3.11.0, numpy 2.0.0; recfact 0.1.0, 2026-01-31."
    )
    assert "Peers' states differ from recfact's by 3.0e-07 of the largest state at most." in said
    assert said[-1] == "Not measured: JAX: no module."


def test_a_smoke_run_judges_nothing():
    said = " ".join(sentences(sample_record(9.0, smoke=True, skipped={"JAX": "no module"})))
    assert "say nothing" in said
    assert "JAX" in said
    assert "figure" not in said


def test_markdown_and_the_terminal_show_the_same():
    record = sample_record(skipped={"JAX": "no module"})
    console = Console(width=200, file=io.StringIO())
    console.print(text(record))
    shown, table = console.file.getvalue(), markdown(record)
    for row in table_rows(record):
        assert row["case"] in shown
        assert row["case"].replace("|", r"\|") in table
    for sentence in sentences(record):
        assert sentence in shown
        assert sentence in table


def test_headlines_are_some_rows_and_the_machine():
    record = sample_record()
    for show, cases in {headlines: ["one sequence, float32"], peers: ["one sequence, float32", "peer: loop"]}.items():
        shown = show(record)
        assert [row.case for row in record.rows if row.case.replace("|", r"\|") in shown] == cases
        assert shown.endswith(sentences(record)[0])


def test_every_decisive_case_is_measured():
    names = {case.name for case in all_cases()} | {f"peer: {peer.name}, float32" for peer in PEERS}
    assert set(DECISIVE) - names == {"one call with n = 1000, float32"}


def test_the_picture_shows_the_time_for_each_number():
    (axes,) = growth_figure(sample_record()).axes
    solve, multiply = axes.lines
    np.testing.assert_allclose(solve.get_xydata(), [(4, 1), (8, 1), (16, 1), (32, 1)], rtol=1e-12)
    np.testing.assert_allclose(multiply.get_ydata(), [0.5] * 4, rtol=1e-12)
