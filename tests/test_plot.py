"""The pictures as a library: figures from arrays, without pyplot and with the caller's settings left alone."""

from fractions import Fraction

import numpy as np
import pytest
import sympy
from matplotlib import rcParams
from matplotlib.figure import Figure
from processes import run_in_child

import recfact as rf
from recfact import plot, precision
from recfact.errors import RecfactError
from recfact.factorizations.matrix_looks import PHASES, UNIT
from recfact.plot.colours import FORMATS, JAGGED, ROUNDING, TRUNCATION, UNIFORM, window_colour
from recfact.report.build import build_report
from recfact.report.gallery import PICTURES, draw
from recfact.report.problem import bundled_problem

A, U = np.full(24, 0.75), np.linspace(-1, 1, 24)
DAYS = np.arange(24).astype("datetime64[D]")
CALLS = {
    "operator": lambda: plot.operator(A[:8]),
    "kogge_stone": lambda: plot.kogge_stone(rf.TransferOperator(A[:8])),
    "brent_kung": lambda: plot.brent_kung(A[:8].tolist()),
    "blocks": lambda: plot.blocks(A, 6),
    "windows": lambda: plot.windows(A),
    "overview": lambda: plot.overview(A),
    "errors": lambda: plot.errors(A, U, 8),
    "solution": lambda: plot.solution(A, U, 8, time=DAYS, value=U, unit="m", title="T"),
    "formats": lambda: plot.formats(["float16", precision.format("bfloat16")]),
    "horizons": lambda: plot.horizons({"float16": precision.effective_horizon(A, "float16")}),
    "bounds": lambda: plot.bounds(A, U, ["bfloat16"], [rf.Jagged]),
    "materialization": lambda: plot.materialization(
        precision.materialization_table({"constant": A}, block=8, format=["bfloat16"])
    ),
}


def test_every_picture_of_the_command_is_a_function():
    assert set(plot.__all__) == {name.replace("-", "_") for name in PICTURES} == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_returns_a_figure_and_changes_no_setting(name):
    before = dict(rcParams)
    figure = CALLS[name]()
    assert isinstance(figure, Figure)
    assert figure.axes
    figure.canvas.draw()
    assert dict(rcParams) == before


def until(days):
    """Return a call for a figure over dates from a new year on, whose last step may have a label."""
    a, time = np.full(days, 0.75), np.datetime64("2001-01-01") + np.arange(days)
    return lambda: plot.solution(a, a, time=time)


@pytest.mark.parametrize("call", [*CALLS.values(), until(3), until(366), until(1462)])
def test_no_text_is_cut(call):
    figure = call()
    drawn = figure.get_tightbbox()
    rounded = 1e-9  # inches, that pixels divided by pixels an inch may be off
    assert min(drawn.x0, drawn.y0) >= -rounded
    assert drawn.x1 <= figure.get_figwidth() + rounded
    assert drawn.y1 <= figure.get_figheight() + rounded


def test_the_command_draws_what_the_functions_return():
    problem = bundled_problem()
    report = build_report(problem, block=16)
    solution = plot.solution(
        problem.a, problem.u, 16, time=problem.time, value=problem.value, unit=problem.unit, title=problem.title
    )
    for name, figure in (("solution", solution), ("errors", plot.errors(problem.a, problem.u, 16))):
        expected = draw(name, report)
        for axes, others in zip(figure.axes, expected.axes, strict=True):
            for line, other in zip(axes.lines, others.lines, strict=True):
                np.testing.assert_array_equal(line.get_xydata(), other.get_xydata())


WRONG = {
    "one sequence": lambda: plot.operator(np.ones((2, 3))),
    "at least one step": lambda: plot.operator([]),
    "u must be one sequence, as long as": lambda: plot.errors(A, U[1:]),
    "a must be floats or integers": lambda: plot.errors([Fraction(1, 2)] * 24, U),
    "time must hold one number for each of 24 steps": lambda: plot.solution(A, U, time=DAYS[1:]),
    "time must be finite": lambda: plot.solution(A, U, time=np.append(DAYS[1:], np.datetime64("NaT", "D"))),
    "value must hold real numbers": lambda: plot.solution(A, U, value=U * 1j),
    "title must be a text": lambda: plot.solution(A, U, title=3),
    "block must be at least 1": lambda: plot.blocks(A, 0),
    "kinds must be Jagged or Uniform": lambda: plot.bounds(A, U, kinds=[rf.Full]),
    "formats must name one at least": lambda: plot.formats([]),
    "horizons must have an EffectiveHorizon": lambda: plot.horizons({"float16": 3}),
    "table must be what materialization_table returned": lambda: plot.materialization([]),
}


@pytest.mark.parametrize("says", WRONG)
def test_wrong_arguments_are_named(says):
    with pytest.raises((ValueError, TypeError), match=says) as error:
        WRONG[says]()
    assert isinstance(error.value, RecfactError)


def test_what_axes_cannot_scale_leaves_a_gap():
    symbols = plot.operator(sympy.symbols("a1:5"))
    assert [bar.get_height() for bar in symbols.axes[-1].patches][-1] == 1
    assert np.isnan([bar.get_height() for bar in symbols.axes[-1].patches][:-1]).all()
    assert [bar.get_height() for bar in plot.operator([Fraction(1, 2)] * 3).axes[-1].patches] == [0.25, 0.5, 1]


def test_matplotlib_is_imported_by_the_call_alone():
    code = "import sys, recfact; recfact.plot.__all__; recfact.plot.operator; print('matplotlib' in sys.modules)"
    assert run_in_child(code) == "False\n"


def oklab(colour):
    """The colour in the space of Ottosson (2020), where equal distances look about equally large."""
    levels = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)
    cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    opponents = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return np.array(opponents) @ np.cbrt(np.array(cones) @ linear)


def test_no_two_meanings_look_alike():
    colours = [*PHASES.values(), UNIT, *JAGGED, UNIFORM, *FORMATS, TRUNCATION, ROUNDING]
    places = np.array([oklab(colour) for colour in [*colours, "#fdfdfb", "#13171d"]])  # with the papers of the page
    distances = np.linalg.norm(places[:, None] - places, axis=-1)
    assert distances[~np.eye(len(places), dtype=bool)].min() > 0.1


def test_a_window_has_a_colour_by_its_kind_and_terms():
    windows = [rf.Jagged(8), rf.Jagged(16, 2), rf.Jagged(8, 3), rf.Uniform(8)]
    assert [window_colour(window) for window in windows] == [*JAGGED, UNIFORM]
    assert window_colour(rf.Jagged(8, 0)) == window_colour(rf.Jagged(8, 9)) == JAGGED[0]


def test_entries_have_the_colour_of_their_sign_in_every_matrix_and_bar():
    from matplotlib.colors import to_hex

    figure = plot.operator([0.5, -0.5, 0.25])
    bars = {round(bar.get_x() + bar.get_width() / 2): to_hex(bar.get_facecolor()) for bar in figure.axes[-1].patches}
    assert bars == {0: UNIT, 1: PHASES["1"], 2: PHASES["−1"]}
    images = [image.get_array() for image in plot.blocks(-A, 6).axes[0].images]
    shown = {to_hex(pixel[:3]) for image in images for pixel in image.reshape(-1, 4) if pixel[3]}
    assert shown == {PHASES["1"], PHASES["−1"], UNIT}
    kept = plot.windows(-A, 6).axes[0].images[0].get_array()
    assert to_hex(kept[1, 0, :3]) == PHASES["−1"]
    assert to_hex(kept[2, 0, :3]) == PHASES["1"]
    assert to_hex(kept[20, 0, :3]) == UNIT


def texts(figure):
    return [text.get_text() for text in figure.texts]


@pytest.mark.parametrize("draw", [plot.operator, plot.kogge_stone, plot.brent_kung, plot.blocks, plot.windows])
def test_a_key_says_what_colours_mean(draw):
    a = np.linspace(0.3, 0.9, 8)
    assert "negative" not in texts(draw(a))
    assert {"positive", "negative", "0.1"} <= set(texts(draw(-a)))
    turned = draw(a * np.exp(1j * np.arange(8)))
    assert {f"phase of {name}" for name in PHASES} <= set(texts(turned))
    turned.canvas.draw()
    drawn = turned.get_tightbbox()
    assert drawn.x1 <= turned.get_figwidth()


def test_key_and_axis_of_an_operator_stay_apart_and_lags_are_integers():
    figure = plot.operator(np.linspace(0.3, 0.9, 16) * np.exp(1j * np.arange(16)))
    figure.canvas.draw()
    (bars,) = [axes for axes in figure.axes if axes.get_xlabel()]
    key = [text for text in figure.texts if "inverse" not in text.get_text()]
    assert max(text.get_window_extent().x1 for text in key) <= bars.xaxis.label.get_window_extent().x0
    assert all("." not in label.get_text() for label in bars.get_xticklabels())
    assert bars.get_ylabel() == "real part of the weight"


def test_figures_stand_on_white_paper_so_that_they_can_be_read_on_dark_pages():
    assert all(CALLS[name]().get_facecolor() == (1, 1, 1, 1) for name in ("operator", "errors", "bounds"))


def test_errors_have_the_unit_of_the_states():
    labels = {axes.get_ylabel() for axes in plot.bounds(A, U, unit="ppm").axes}
    assert labels == {"largest error of a state in ppm", ""}
