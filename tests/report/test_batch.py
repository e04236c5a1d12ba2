"""Many sequences in a report: what each needs, which is worst, and the page about it."""

import json
from fractions import Fraction
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from recfact import precision as pr
from recfact.cli.app import app
from recfact.report.batch import LIMITS, batch_from_files, sequence_needs, worst_problem
from recfact.report.batch_plot import COLUMNS, ROWS, SEQUENCES, batch_figure, cells_of
from recfact.report.build import build_report
from recfact.report.html import PAGE, page
from recfact.report.safety import chosen_formats
from recfact.report.tables import report_text

FORMATS = ["bfloat16", "binary16"]


@pytest.fixture
def gates(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a = rng.uniform(0.3, 0.9, (2, 200, 3)).astype(np.float32)
    a[1, :, 2] = 0.96
    np.save("a.npy", a)
    np.save("u.npy", rng.standard_normal((2, 200, 3)).astype(np.float32))
    return a


def needs(names=FORMATS):
    batch = batch_from_files("a.npy", None, 1)
    return batch, sequence_needs(batch, chosen_formats(names))


def test_needs_are_horizons_and_windows_of_rounded_coefficients(gates):
    batch, found = needs()
    for each, name in zip(found, FORMATS, strict=True):
        fmt = pr.format(name)
        kept = np.asarray(fmt.round(gates))
        horizons = pr.effective_horizon(kept, Fraction(fmt.unit_roundoff), axis=1)
        np.testing.assert_array_equal(each.horizons.by_sequence, horizons.by_sequence)
        assert each.good == pr.choose_window(kept, format=fmt, axis=1).recommended
        said = each.as_dict()
        assert said["needing_more"] == {str(limit): horizons.needing_more(limit) for limit in LIMITS}
        assert said["worst"][0] == {"sequence": "[1, :, 2]", "horizon": horizons.largest}
        assert [row["horizon"] for row in said["worst"]] == sorted(horizons.by_sequence.ravel().tolist(), reverse=True)
    problem = worst_problem(batch, found)
    np.testing.assert_array_equal(problem.a, gates[1, :, 2])
    assert problem.title == "a.npy at [1, :, 2], inputs of ones"
    assert problem.source.endswith(" Of 6 sequences, this one looks back furthest.")


def test_blocks_lie_along_time(gates):
    _, (found,) = needs(["mxfp4"])
    kept = pr.block_format("mxfp4").round(gates, axis=1)
    horizons = pr.effective_horizon(kept, 2.0**-24, axis=1)
    np.testing.assert_array_equal(found.horizons.by_sequence, horizons.by_sequence)
    assert found.good == pr.choose_window(kept, format="binary32", axis=1).recommended


@pytest.mark.parametrize("name", ["bfloat16", "mxfp4"])
def test_segments_are_sequences(gates, name):
    offsets = [0, 90, 90, 130, 200]
    batch = batch_from_files("a.npy", None, 1, offsets)
    (found,) = sequence_needs(batch, chosen_formats([name]))
    expected = {}
    for start, stop in ((0, 90), (90, 130), (130, 200)):
        np.save("piece.npy", gates[:, start:stop])
        (alone,) = sequence_needs(batch_from_files("piece.npy", None, 1), chosen_formats([name]))
        for i, k in np.ndindex(2, 3):
            expected[f"[{i}, {start}:{stop}, {k}]"] = int(alone.horizons.by_sequence[i, k])
    assert dict(found.worst(100)) == expected
    assert batch.count == len(expected) == len(found.horizons)
    assert found.worst(1)[0] == ("[1, 0:90, 2]", max(expected.values()))
    kept = pr.Arithmetic.of(name).format
    stored = [
        chosen_formats([name])[0].round(part, **{"axis": 1} if name == "mxfp4" else {})
        for part in np.split(gates, [90, 130], axis=1)
    ]
    choice = pr.choose_window(np.concatenate(stored, axis=1), format=kept, axis=1, offsets=offsets)
    assert found.good == choice.recommended
    problem = worst_problem(batch, [found])
    np.testing.assert_array_equal(problem.a, gates[1, :90, 2])
    assert problem.title == "a.npy at [1, 0:90, 2], inputs of ones"
    assert problem.source.endswith(" Of 18 sequences, this one looks back furthest.")
    assert len(batch.longest.a) == 90


def test_the_command_reports_on_the_worst_segment(gates, rng, blank_pictures):
    np.save("one.npy", np.append(rng.uniform(0.3, 0.6, 100), np.full(60, 0.95)))
    options = ["report", "--a", "one.npy", "--u", "impulse", "--offsets", "0,100,100,160", "--format", "bfloat16"]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 0, done.output
    assert "[100:160], looks back 59 steps" in " ".join(done.stdout.split())
    html = Path("report.html").read_text()
    assert "Segments stand in the place of time." in html
    picked = CliRunner().invoke(app, [*options, "--pick", ":"])
    assert picked.exit_code == 2
    assert "--offsets asks for all" in picked.stderr
    several = CliRunner().invoke(app, ["report", "--a", "a.npy", "--offsets", "0,200"])
    assert several.exit_code == 2
    assert "--axis must be given for a.npy" in several.stderr


def test_formats_that_hold_no_such_coefficients_are_said(gates, blank_pictures):
    gates[0, 5, 0] = 1e30
    np.save("a.npy", gates)
    _, found = needs(["binary16"])
    assert found[0].as_dict() | {"format": 0} == {
        "format": 0, "out_of_range": 1, "sequences": None, "largest": None, "quartiles": None, "needing_more": None,
        "worst": [], "window": None, "window_error": None, "unseen": 0,
    }  # fmt: skip
    batch = batch_from_files("a.npy", "impulse", 1)
    assert batch.u.sum() == 6
    assert (batch.u[:, 0] == 1).all()
    problem = worst_problem(batch, found)
    np.testing.assert_array_equal(problem.a, gates[0, :, 0])
    assert problem.u.sum() == problem.u[0] == 1
    made = build_report(problem, formats=["binary16"], sequences=found)
    assert made.findings[0] == "Of all sequences, binary16 can't hold 1 coefficients."
    assert "out of range" in page(made)


def test_the_page_has_a_section_for_them(gates, blank_pictures):
    batch, found = needs()
    made = build_report(worst_problem(batch, found), formats=FORMATS, sequences=found)
    html = page(made)
    assert SEQUENCES in html
    assert html.count("<figure>") == len(PAGE) + 1
    for each in found:
        for place, horizon in each.worst():
            assert f"<td>{place} {horizon}</td>" in html
    assert made.findings[0].startswith("In bfloat16, the worst of all 6 sequences, [1, :, 2], looks back")
    assert "<h2>All sequences</h2>" not in page(build_report(worst_problem(batch, found), formats=FORMATS))


def test_the_command_reports_on_the_worst_sequence(gates, blank_pictures):
    typed = ["report", "--a", "a.npy", "--u", "u.npy", "--axis", "1", "--format", "bf16"]
    result = CliRunner().invoke(app, [*typed, "--out", "r.html"])
    assert result.exit_code == 0, result.output
    assert "[1, :, 2]" in result.output
    assert "all sequences" in result.output
    assert "All sequences" in Path("r.html").read_text(encoding="utf-8")
    made = json.loads(CliRunner().invoke(app, [*typed, "--json"]).stdout)
    assert made["sequences"] == [each.as_dict() for each in needs(["bf16"])[1]]
    assert made["recurrence"]["n"] == 200


@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 4), (2, 3, 300), (70, 2), (1000, 257)], ids=str)
def test_a_map_shows_the_worst_of_all_sequences(shape, rng):
    horizons = rng.integers(0, 1000, shape)
    cells = cells_of(horizons)
    assert cells.shape[0] <= ROWS
    assert cells.shape[1] <= COLUMNS
    assert cells.max() == horizons.max()
    if horizons.size == cells.size:
        np.testing.assert_array_equal(cells.ravel(), horizons.ravel())


def test_sequences_that_remember_nothing_are_drawn(gates):
    np.save("a.npy", np.zeros((2, 20, 3)))
    figure = batch_figure(needs()[1])
    assert len(figure.axes) == 2


def test_a_single_sequence_is_not_chosen_among_others(gates):
    np.save("a.npy", np.full(40, 0.5))
    batch = batch_from_files("a.npy", None, 0)
    assert "furthest" not in worst_problem(batch, sequence_needs(batch, chosen_formats(["bfloat16"]))).source


def test_long_titles_stand_on_one_line_above_narrow_tables(gates):
    np.save("a.npy", np.full((3, 40), 0.5))
    batch = batch_from_files("a.npy", None, 1)
    needs = sequence_needs(batch, chosen_formats(["bfloat16"]))
    made = build_report(worst_problem(batch, needs), formats=["bfloat16"], sequences=needs)
    console = Console(width=100, file=StringIO())
    console.print(report_text(made))
    assert "\nthe sequences that look back furthest, and how far\n" in console.file.getvalue()
