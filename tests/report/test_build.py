"""The numbers of a report, against dense matrices in exact arithmetic."""

import json
import re
from fractions import Fraction

import numpy as np
import pytest
from market import literal_matrix
from rich.console import Console

from recfact.factorizations import TransferOperator
from recfact.plot.window_costs import BLOCKS, TERMS, enough_windows, standard_windows, window_costs
from recfact.precision import truncation_norm
from recfact.recurrence import first_kept
from recfact.report.build import build_report, report_steps
from recfact.report.problem import Problem, bundled_problem
from recfact.report.rows import to_json
from recfact.report.summary import summarize, transfer_operator
from recfact.report.tables import report_text
from recfact.windows import Jagged, Uniform


def printed(text):
    """Return what a terminal of 120 columns shows, its blanks made single."""
    console = Console(width=120)
    with console.capture() as captured:
        console.print(text)
    return " ".join(captured.get().split())


def make_problem(a, u):
    return Problem(a=np.asarray(a), u=np.asarray(u), title="test", source="made here")


@pytest.fixture
def dyadic(rng):
    """Coefficients and inputs whose states, errors and norms are all exact in float64."""
    a = rng.choice([0.5, -0.5, 1.0, -1.0, 0.25], 20)
    u = rng.integers(-8, 9, 20).astype(float)
    return make_problem(a, u)


def test_windows_cost_what_the_matrices_say(dyadic):
    report = build_report(dyadic, block=3)
    n, L, x = len(dyadic.a), literal_matrix(dyadic.a), report.x
    assert np.array_equal(x, L @ dyadic.u)
    for cost in report.costs:
        kept = np.array([[first_kept(i, cost.window) <= j <= i for j in range(n)] for i in range(n)])
        error = np.where(kept, 0.0, L)
        relative = error @ TransferOperator(dyadic.a).inv().to_dense()  # N = (L - L~) L^-1
        assert cost.max_error == np.abs(error @ dyadic.u).max()
        assert cost.relative_error == cost.max_error / np.abs(x).max()
        norm, slack = np.abs(error).sum(axis=1).max(), 1 + (2 * n + 1) * 2.0**-52  # two roundings a step, upwards
        assert norm <= cost.error_norm <= norm * slack
        assert cost.relative_error_norm == np.abs(relative).sum(axis=1).max()
        assert cost.kept == kept.sum() / (n * (n + 1) // 2)
        assert cost.reach == kept.sum(axis=1).max()


def test_truncated_states_are_those_of_the_windows(dyadic):
    report = build_report(dyadic, block=3)
    L = literal_matrix(dyadic.a)
    for window, error in report.errors.items():
        kept = [[first_kept(i, window) <= j for j in range(20)] for i in range(20)]
        assert np.array_equal(report.x - error, np.where(kept, L, 0.0) @ dyadic.u)


def test_summary_says_what_the_matrix_says(dyadic):
    s = build_report(dyadic, block=3).summary
    a, L = dyadic.a, np.abs(literal_matrix(dyadic.a))
    assert (s.n, s.dtype, s.eps) == (20, "float64", 2.0**-52)
    assert (s.smallest, s.largest, s.median) == (a[1:].min(), a[1:].max(), np.median(np.abs(a[1:])))
    assert (s.zeros, s.negative, s.above_one) == (0, (a[1:] < 0).sum(), 0)
    assert s.growth == L.max()
    assert s.norm_1 == L.sum(axis=0).max()
    assert s.norm_inf == L.sum(axis=1).max()
    bidiagonal = np.abs(np.linalg.inv(literal_matrix(a)))
    assert s.cond_inf == s.norm_inf * bidiagonal.sum(axis=1).max()
    assert s.cond_1 == s.norm_1 * bidiagonal.sum(axis=0).max()
    assert (s.norm_2, s.cond_2) == (TransferOperator(a).norm(2), TransferOperator(a).cond(2))
    assert s.nilpotency_index == 20
    assert s.horizon == 19
    assert s.largest_state == np.abs(literal_matrix(a) @ dyadic.u).max()
    assert s.warning == ""


def test_first_coefficient_is_not_counted():
    s = summarize(TransferOperator(np.array([-9.0, 0.5])), np.ones(2))
    assert (s.smallest, s.largest, s.negative, s.above_one) == (0.5, 0.5, 0, 0)


def test_one_step():
    s = summarize(TransferOperator(np.array([0.5])), np.ones(1))
    assert (s.smallest, s.largest, s.growth, s.horizon, s.nilpotency_index) == (0.0, 0.0, 1.0, 0, 1)


def test_growth_is_reported_and_not_warned_about():
    a = np.full(200, 2.0, dtype=np.float32)
    assert "amplifies its inputs" in transfer_operator(a)[1]
    report = build_report(make_problem(a, np.ones(200, dtype=np.float32)))
    assert report.summary.growth == 2.0**199
    assert report.summary.above_one == 199
    assert any(sentence.startswith("Warning: the recurrence amplifies") for sentence in report.findings)
    assert any("overflow float32" in sentence for sentence in report.findings)


def test_standard_windows():
    assert len(standard_windows(10_000, 16)) == len(BLOCKS) * (len(TERMS) + 1)
    assert Jagged(100) in standard_windows(10_000, 100)
    assert Uniform(100) in standard_windows(10_000, 100)
    # One window that keeps everything is enough to say so, and the block asked for is always there.
    assert [w.lags for w in standard_windows(20, 16) if isinstance(w, Uniform)] == [8, 16, 32]
    assert [w.lags for w in standard_windows(5, 16) if isinstance(w, Uniform)] == [8, 16]
    assert [w.lags for w in standard_windows(5, 1000) if isinstance(w, Uniform)] == [8, 1000]


def test_progress_is_told_as_often_as_it_was_promised(dyadic):
    said = []
    build_report(dyadic, 3, said.append)
    assert len(said) == report_steps(dyadic, 3)


@pytest.fixture(scope="module")
def bundled():
    return build_report(bundled_problem())


def test_findings_of_the_bundled_record(bundled):
    report = bundled
    assert report.findings[0].startswith("An input is forgotten after 154 steps at most (6.9 % of the sequence)")
    cost = next(c for c in report.costs if c.window == Jagged(16))
    assert report.findings[2].startswith(
        f"Jagged(16) changes the states by up to about {cost.max_error:.2f} ppm for these inputs, 1.9 %"
    )


ONCE = np.eye(1, 300, 150)[0]


@pytest.mark.parametrize("u", [np.zeros(300), ONCE, np.cos(np.arange(300.0))], ids=["zeros", "once", "cosine"])
@pytest.mark.parametrize("a", [np.full(300, 0.7), np.full(300, 0.7j)], ids=["real", "complex"])
def test_windows_that_are_enough_are_so_for_all_inputs(a, u):
    report = build_report(make_problem(a, u))
    (sentence,) = (said for said in report.findings if said.startswith("Whatever the inputs are, "))
    for name, limit in (("0.1 %", 1e-3), ("the eps of ", 2.0**-52)):
        block = int(re.search(rf"Jagged\((\d+)\) loses at most {name}", sentence)[1])
        assert truncation_norm(np.abs(a), Jagged(block), relative_to="state") <= limit
        assert truncation_norm(np.abs(a), Jagged(block - 1), relative_to="state") > limit


def test_what_a_window_changes_is_said_for_these_inputs_and_for_the_worst():
    report = build_report(make_problem(np.full(300, 0.9), np.zeros(300)))
    worst = truncation_norm(np.full(300, 0.9), Jagged(16), relative_to="state")
    assert (
        "Jagged(16) changes no state for these inputs. Other inputs can lose up to "
        f"{100 * worst:.0f} % of the largest state, but no more."
    ) in report.findings
    text = printed(report_text(report))
    for_these, for_the_worst = (
        text.index("for these inputs, largest error"),
        text.index("for the worst inputs there can"),
    )
    assert "16 0 0 0 0 16 %" in text[for_these:for_the_worst]
    assert f"16 {worst:.3f} " in text[for_the_worst:]


@pytest.mark.parametrize("a", [1.01, 0.999 * np.exp(0.3j)], ids=["growing", "complex"])
def test_a_window_that_keeps_the_whole_sequence_is_not_advised(a):
    found = build_report(make_problem(np.full(300, a), np.cos(np.arange(300.0)))).findings
    assert sum("No window shorter than the sequence is proved to lose at most 0.1 %" in said for said in found) == 1
    assert not any("is enough" in said for said in found)


@pytest.mark.parametrize(
    ("a", "sentence"),
    [
        ([0.5, 0.0, 0.5, 0.5, 0.0], "2 of the 4 coefficients after the first are exactly 0"),
        (
            [0.5, 2.0, 2.0],
            "All 2 coefficients after the first are above 1 in magnitude. A single input is amplified up to about 4",
        ),
        ([1.0, 1.0, 1.0], "No input is ever forgotten"),
        ([0.5, 0.5, 0.5], "Jagged(16) keeps everything, because the sequence is so short"),
        ([0.5, *[0.0] * 40], "Jagged(16) changes no state, whatever the inputs are"),
        ([0.5, 0.0, 0.5], "1 of the 2 coefficients after the first is exactly 0"),
        (
            [0.5, 2.0, 0.5],
            "1 of the 2 coefficients after the first is above 1 in magnitude. A single input is amplified up to about",
        ),
        ([0.5], "There is one step, whose state is its input"),
        ([0.5], "These windows cost no more than rounding"),
    ],
)
def test_findings(a, sentence):
    report = build_report(make_problem(a, np.ones(len(a))))
    assert any(sentence in said for said in report.findings)


SCHEMA = {
    "": "recfact title source block recurrence windows algorithms formats sequences findings",
    "recurrence": (
        "n dtype eps smallest largest median zeros negative above_one growth norm_1 norm_inf norm_2 cond_1 cond_inf "
        "cond_2 nilpotency_index horizon median_horizon largest_state warning"
    ),
    "jagged": ("window kind block terms max_error relative_error error_norm relative_error_norm kept reach"),
    "uniform": "window kind lags max_error relative_error error_norm relative_error_norm kept reach",
    "algorithms": "algorithm depth multiplications additions words nonzeros",
}


def test_json_schema_is_stable(dyadic):
    made = json.loads(to_json(build_report(dyadic, block=3).as_dict()))
    assert list(made) == SCHEMA[""].split()
    assert list(made["recurrence"]) == SCHEMA["recurrence"].split()
    for window in made["windows"]:
        assert list(window) == SCHEMA[window["kind"]].split()
    for algorithm in made["algorithms"]:
        assert list(algorithm) == SCHEMA["algorithms"].split()


@pytest.mark.parametrize("n", [1, 2])
def test_no_sentence_counts_one_of_several(n):
    said = "\n".join(build_report(make_problem(np.full(n, 0.5), np.ones(n))).findings)
    assert not re.search(r"\b1 (steps|coefficients)\b", said)


def test_terminal_tables_say_what_was_rounded_and_down_to_what_horizons_go():
    problem = make_problem(np.full(40, 0.3), np.full(40, 1e-9))
    text = printed(report_text(build_report(problem, formats=["half"])))
    assert "inputs off" in text
    assert "binary16 100 %" in text  # the inputs become 0
    assert "horizon down to eps" in text
    assert "horizons down to the unit roundoff" in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_cell_is_cut_short_on_a_narrow_terminal(bundled, width):
    console = Console(width=width)
    with console.capture() as captured:
        console.print(report_text(bundled))
    assert "…" not in captured.get().replace(" … ", " ")  # which stands between the ends of a range


def test_json_has_no_nan_and_no_infinity():
    a = np.full(3000, 3.0)
    text = to_json(build_report(make_problem(a, np.ones(3000))).as_dict())
    made = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert made["recurrence"]["growth"] is None


def test_terminal_text_fits_its_width(dyadic):
    console = Console(width=80)
    with console.capture() as captured:
        console.print(report_text(build_report(dyadic, block=3)))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= 80
    assert any("2 terms" in line and "uniform keeps" in line for line in lines)


def test_moduli_that_are_exact_stay_so():
    (choice,) = enough_windows(np.full(300, 1j), {"half": 0.5}).values()
    assert "weight of 1," in choice.reason
    assert enough_windows(np.full(300, 0.6 + 0.8j), {"half": 0.5})["half"].window is None
    assert enough_windows(np.eye(1, 300, 150)[0] * 1j, {"nothing": 0.0})["nothing"].error == 0


def test_what_windows_lose_of_complex_states_is_proved(rng):
    for z in rng.standard_normal((300, 2)) @ [1, 1j]:
        a = np.array([0, z])
        (cost,) = window_costs(TransferOperator(a), a, a, [Uniform(1)], lambda: None)
        # One factor alone is lost: its modulus, which NumPy may give too small by more than a float.
        assert Fraction(cost.relative_error_norm) ** 2 >= Fraction(z.real) ** 2 + Fraction(z.imag) ** 2
