"""What a report says of number formats: against the functions it calls, and for every kind of sequence."""

import json
import math
import re
from dataclasses import replace
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from samples import one_in

from recfact import precision as pr
from recfact.errors import OptionError
from recfact.report.build import build_report, report_steps
from recfact.report.findings import format_finding
from recfact.report.gallery import draw
from recfact.report.pictures import inline_svg
from recfact.report.problem import Problem, bundled_problem
from recfact.report.rows import to_json
from recfact.report.safety import REAL_ONLY, STEPS, USUAL, chosen_formats, format_safety
from recfact.report.tables import verified_cells
from recfact.report.words import number_at_most, percent_at_most
from recfact.windows import Jagged

KEYS = (
    "format unit_roundoff out_of_range largest ones median_horizon horizon window window_error window_reason "
    "verification unsaid"
)


def problem(a, u):
    return Problem(a=np.asarray(a), u=np.asarray(u), title="test", source="made here")


def safe(a, u, name, block=16):
    return format_safety(np.asarray(a), np.asarray(u), pr.format(name), block)


@pytest.mark.parametrize("name", one_in(2, [*USUAL, "binary64", "binary128", "e5m2fnuz"]))
def test_numbers_are_those_of_the_rounded_coefficients(rng, name):
    a, u = 1 / (1 + np.exp(-rng.normal(3, 2, 300))), rng.standard_normal(300)
    fmt, found = pr.format(name), safe(a, u, name)
    kept = [Fraction(value) for value in np.asarray(fmt.round(a)).tolist()]
    assert found.out_of_range == 0
    assert found.largest == max(kept[1:])
    assert found.ones == kept[1:].count(1)
    unit = Fraction(fmt.unit_roundoff)
    lags = []
    for i in range(len(kept)):
        weight, lag = Fraction(1), 0
        while lag < i and weight * kept[i - lag] >= unit:
            weight, lag = weight * kept[i - lag], lag + 1
        lags.append(lag)
    assert found.horizon.lags.tolist() == lags
    assert (found.median_horizon, found.largest_horizon) == (sorted(lags)[149], max(lags))
    expected = pr.verify(a, u, window=Jagged(16), format=fmt, algorithm="hierarchical")
    assert found.verification.to_dict() == expected.to_dict()


def left_out(kept, window):
    """Return the largest entry of N in x - x~ = N x, exactly: what became of the one state that each row loses."""
    largest = Fraction(0)
    for i in range(len(kept)):
        if isinstance(window, Jagged):
            lost = (i // window.block - window.terms) * window.block - 1
        else:
            lost = i - window.lags
        if lost >= 0:
            largest = max(largest, math.prod(kept[lost + 1 : i + 1], start=Fraction(1)))
    return largest


@pytest.mark.parametrize("name", USUAL)
def test_the_window_loses_no_more_than_the_unit_roundoff(name):
    record = bundled_problem()
    a, unit = record.a[:400], pr.format(name).unit_roundoff
    found = safe(a, record.u[:400], name)
    kept = [Fraction(value) for value in pr.format(name).round(a).tolist()]
    assert left_out(kept, found.good.window) <= found.good.error <= unit
    assert found.window == repr(found.good.window)
    assert found.good == found.choice.recommended


def test_long_sequences_are_measured_on_their_first_steps_and_cut_for_all_their_coefficients(rng):
    a = rng.uniform(0, 0.9, 150_000)
    a[7] = 1.0  # a bound of all coefficients says nothing
    found = safe(a, np.ones(len(a)), "half")
    assert found.verification.shape == (STEPS,)
    assert found.window == repr(pr.choose_window(pr.format("half").round(a), format="half").fastest.window)


@pytest.mark.parametrize(("a", "u"), [(0.5j, 1), (0.5, 1j), (0.5j, 1j)])
def test_complex_numbers_have_a_proved_window_and_no_measured_error(a, u):
    found = safe(np.full(40, a), np.full(40, u), "bfloat16")
    assert (found.largest, found.largest_horizon, found.window, found.verification) == (0.5, 8, "Jagged(16)", None)
    assert found.unsaid == REAL_ONLY


def test_what_holds_for_complex_numbers_in_all_formats_is_said_once():
    report = build_report(Problem(np.full(40, 0.5j), np.ones(40), "", ""), 16, formats=("half", "bfloat16"))
    assert report.findings[-2].endswith(": Jagged(16) in binary16 and Jagged(16) in bfloat16.")
    assert report.findings[-1] == f"In number formats, {REAL_ONLY}."
    assert sum("bfloat16" in said for said in report.findings) == 1


def test_a_window_of_complex_coefficients_loses_no_more_than_it_says(rng):
    a = rng.uniform(0.5, 0.9, 60) * np.exp(1j * rng.uniform(0, 6, 60))
    found, fmt = safe(a, np.ones(60), "binary16"), pr.format("binary16")
    parts = [(Fraction(re), Fraction(im)) for re, im in zip(fmt.round(a.real), fmt.round(a.imag), strict=True)]
    squares = [re**2 + im**2 for re, im in parts]
    assert left_out(squares, found.good.window) <= Fraction(found.good.error) ** 2
    assert found.good.error <= fmt.unit_roundoff


def test_what_a_format_cannot_hold():
    for name in ("float8_e4m3fn", "float8_e5m2"):  # one rounds it to NaN and one to infinity
        found = safe([0.5, 1e6, 0.5], [1.0, -1e9, 1.0], name)
        assert (found.out_of_range, found.horizon, found.window, found.verification) == (2, None, None, None)
        assert f"In {name}, it can't hold 2 of the coefficients and inputs." == format_finding(found)
    assert safe([0.0, 0.5], [1.0, 1.0], "float8_e8m0fnu").out_of_range == 1  # which has no zero


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16, np.int64, np.bool_])
def test_types_of_coefficients(dtype):
    a, u = np.array([0, 1, 1, 0, 1], dtype=dtype), np.ones(5, dtype=dtype)
    found = safe(a, u, "half")
    assert (found.largest, found.ones, found.largest_horizon) == (1, 0, 2)
    assert found.verification.holds
    assert found.verification.total.largest == 0


def test_sentences():
    kept = safe(np.full(3, 0.9), np.ones(3), "half")
    assert (
        "no window shorter than the sequence is proved to cost no more than rounding: the last of 3 steps"
        in format_finding(kept)
    )
    ones = safe([0.5, 1 - 2.0**-20, 0.5, 0.1], np.ones(4), "half")
    assert "1 coefficient after the first becomes exactly 1, which forgets nothing" in format_finding(ones)
    zeros = safe(np.zeros(9), np.zeros(9), "half")
    assert "Uniform(1) costs no more than rounding: it is proved to lose nothing" in format_finding(zeros)
    growing = safe(np.full(40, 2.0), np.ones(40), "half")
    assert ", but 25 of 40 overflow" in format_finding(growing)


def test_formats_of_which_a_table_says_the_rest_share_a_sentence():
    report = build_report(problem(np.full(200, 0.9), np.ones(200)))
    (said,) = (finding for finding in report.findings if finding.startswith("These windows cost"))
    assert said.startswith("These windows cost no more than rounding, whatever the inputs are: ")
    assert all(f"{found.window} in {found.format.name}" in said for found in report.formats)
    wide = build_report(problem(np.append(np.full(40, 0.5), 1 - 2.0**-10), np.ones(41)))
    rounded = [found for found in wide.formats if found.ones]
    assert 0 < len(rounded) < 4
    for found in rounded:  # they have a sentence of their own
        assert format_finding(found) in wide.findings


def test_report_looks_at_the_usual_formats_or_at_one():
    record = problem(np.full(40, 0.5), np.ones(40))
    assert [found.format.name for found in build_report(record).formats] == list(USUAL)
    said = []
    report = build_report(record, 16, said.append, ["bf16"])
    assert [found.format.name for found in report.formats] == ["bfloat16"]
    assert len(said) == report_steps(record, 16, ["bf16"]) == report_steps(record, 16) - len(USUAL) + 1
    assert report.findings[-1] == format_finding(report.formats[0])
    with pytest.raises(OptionError, match="float8_e4m3fn"):
        chosen_formats(["fp8 e4m3"])
    assert [fmt.name for fmt in chosen_formats(["half", "bf16", "fp16"])] == ["binary16", "bfloat16"]


CASES = {
    "one step": (np.array([0.5]), np.ones(1)),
    "two steps": (np.array([0.5, 0.5]), np.ones(2)),
    "zeros": (np.zeros(40), np.zeros(40)),
    "complex": (np.full(40, 0.9j), np.ones(40)),
    "complex inputs": (np.full(40, 0.9), np.full(40, 1j)),
    "half": (np.full(40, 0.9, dtype=np.float16), np.ones(40, dtype=np.float16)),
    "bfloat16": (np.full(40, 0.9, dtype=ml_dtypes.bfloat16), np.ones(40, dtype=ml_dtypes.bfloat16)),
    "integers": (np.array([1, 0, 2, 1]), np.array([1, 2, 3, 4])),
    "growing": (np.full(400, 1.5), np.ones(400)),
    "overflowing": (np.full(1200, 3.0), np.ones(1200)),
    "out of range": (np.full(40, 1e200), np.ones(40)),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("names", [[], ["bf16"], ["bf16", "half"]])
def test_every_sequence_has_its_sentences_keys_and_figures(case, names):
    report = build_report(problem(*CASES[case]), 5, formats=names)
    made = json.loads(to_json(report.as_dict()))
    for found in made["formats"]:
        assert list(found) == KEYS.split()
    for sentence in report.findings:
        assert "nan" not in sentence.lower().replace("nan and", "")
        assert "None" not in sentence
    for picture in ("horizons", "bounds", "materialization") if len(names) == 2 else ():
        svg = inline_svg(draw(picture, report), picture)
        assert svg.startswith("<svg")


def test_the_figure_of_one_format_has_both_kinds_of_windows():
    report = build_report(problem(np.full(60, 0.5), np.ones(60)), 5, formats=["half"])
    svg = inline_svg(draw("bounds", report), "bounds")
    assert "Jagged(k) in binary16, 60 steps" in svg
    assert "Uniform(k) in binary16, 60 steps" in svg


@pytest.mark.parametrize(
    ("holds", "says"), [(True, "proved at most"), (False, "which is NOT proved"), (None, "which is NOT proved")]
)
def test_a_bound_that_does_not_hold_is_not_called_proved(holds, says):
    found = safe(np.full(40, 0.9), np.ones(40), "half")
    total = replace(found.verification.total, holds=holds)
    said = format_finding(replace(found, verification=replace(found.verification, total=total)))
    assert f"err by up to {number_at_most(total.largest)}, {says}" in said


def test_largest_errors_are_printed_rounded_up(rng):
    for _ in range(20):
        found = safe(rng.uniform(0.2, 0.9, 40), rng.standard_normal(40), "bfloat16")
        v = found.verification
        said, (off, *_) = format_finding(found), verified_cells(found)
        largest, share = re.search(r"err by up to (.*?), .* errors up to (.*?) %", said).groups()
        assert float(largest) >= v.total.largest
        assert Fraction(share) / 100 >= v.inputs_change
        assert off == f"{share} %"
        assert Fraction(re.search(r"errors up to (.*?) %", str(v))[1]) / 100 >= v.inputs_change


def test_the_finding_says_which_steps_and_which_numbers_are_proved():
    found = format_safety(np.full(3000, 0.3), np.full(3000, 0.1), pr.format("half"), 16)
    said = format_finding(found)
    assert f"In the first {STEPS} steps of these inputs the states of Jagged(16) err by up to" in said
    change = max(abs(float(np.float16(value)) / value - 1) for value in (0.3, 0.1))
    assert f"changed {2 * STEPS} of the coefficients and inputs, with relative errors up to" in said
    assert said.endswith(f" {percent_at_most(change)}.")


def test_formats_of_blocks_only_store(rng):
    a, u = rng.uniform(0.3, 0.999, 300), rng.standard_normal(300)
    fmt = pr.block_format("mxfp4")
    found = format_safety(a, u, fmt, 16)
    kept = fmt.round(a)
    assert found.as_dict()["unit_roundoff"] == 2.0**-24
    assert found.largest_horizon == pr.effective_horizon(kept, 2.0**-24).largest
    assert repr(pr.choose_window(kept, format="binary32").recommended.window) == found.window
    expected = pr.verify(a, u, window=Jagged(16), format=fmt, algorithm="hierarchical")
    assert found.verification.to_dict() == expected.to_dict()
    report = build_report(Problem(a, u, "", ""), 16, formats=("mxfp4", "nvfp4"))
    for picture in ("formats", "horizons", "bounds", "materialization"):
        draw(picture, report)
