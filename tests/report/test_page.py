"""The page and its figures: complete, self-contained, and without traces in the caller's matplotlib."""

import re
import sys
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from processes import run_in_child
from samples import one_in

from recfact.errors import DataFileError, MissingExtraError, OptionError
from recfact.factorizations.matrix_looks import BLUE, DECADES
from recfact.plot.board import cell_colours
from recfact.report.build import Report, build_report
from recfact.report.gallery import PICTURES, draw
from recfact.report.html import PAGE, page
from recfact.report.pictures import inline_svg, save
from recfact.report.problem import Problem, bundled_problem
from recfact.report.safety import chosen_formats
from recfact.windows import Jagged

VOID = {"meta", "link", "br", "img", "input", "hr", "path", "use", "image", "rect"}


class Reader(HTMLParser):
    """Collect the tags, the texts and the attributes of a page, and check that its tags close."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attributes]

    def handle_data(self, data):
        self.text.append(data)


def read(html):
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def report():
    return build_report(bundled_problem())


@pytest.fixture(scope="module")
def html(report):
    return page(report)


def test_page_loads_nothing(html):
    reader = read(html)
    assert not {"script", "link", "iframe", "img", "object", "embed", "base", "form"} & set(reader.tags)
    for tag, name, value in reader.attributes:
        if name in ("href", "xlink:href", "src"):
            assert value.startswith(("#", "data:image/png;base64,")), (tag, name, value[:60])
        assert not name.startswith("on")
    assert "http" not in html
    assert "@import" not in html
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", html))


def test_page_is_complete(html, report):
    reader = read(html)
    text = " ".join("".join(reader.text).split())
    assert reader.tags.count("figure") == reader.tags.count("figcaption") == reader.tags.count("svg") == len(PAGE)
    assert html.startswith("<!doctype html>")
    assert "prefers-color-scheme: dark" in html
    for terms in (1, 2, 3):  # up to the first window whose error is out of sight
        costs = [c for c in report.costs if isinstance(c.window, Jagged) and c.window.terms == terms]
        seen = [c.relative_error_norm >= report.summary.eps for c in costs]
        last = seen.index(False) if False in seen else len(costs)
        assert [c.name in text for c in costs] == [k <= last for k in range(len(costs))]
    for link in re.findall(r'<a href="#([^"]+)"', html):
        assert f'<h2 id="{link}">' in html
    assert html.count("<h2 ") == html.count('<a href="#')
    for algorithm in report.algorithms:
        assert algorithm.algorithm in text
        assert f"{algorithm.words}" in text
    for found in report.formats:
        assert f"{found.format.name} " in text
        assert found.window in text
    for sentence in report.findings:
        assert sentence.split("10⁻")[0] in text
    labels = {value for tag, name, value in reader.attributes if (tag, name) == ("svg", "aria-label")}
    assert labels == {PICTURES[name] for name in PAGE}


def test_references_inside_the_figures_resolve(html):
    for svg in re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL):
        defined = set(re.findall(r'id="([^"]+)"', svg))
        assert set(re.findall(r"#([\w-]+)\)", svg)) | set(re.findall(r'href="#([\w-]+)"', svg)) <= defined


def test_figures_take_the_colours_of_the_page(html):
    assert "#1b2330" not in html.split("</style>", 1)[1]
    assert "currentColor" in html
    assert "var(--paper)" in html


def test_text_from_files_is_escaped():
    name = '<script>alert("x")</script>&.npy'
    made = build_report(Problem(np.full(20, 0.5), np.ones(20), title=name, source=name))
    vars(made)["summary"] = replace(made.summary, warning=name, dtype=name)
    html = page(made)
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "script" not in read(html).tags


def test_matplotlib_stays_as_it_was_and_the_same_report_gives_the_same_page(report, html):
    with mpl.rc_context():
        mpl.rcParams.update({"axes.grid": True, "font.size": 30, "text.usetex": True, "axes.spines.left": False})
        before = dict(mpl.rcParams)
        assert page(report) == html  # the caller's settings don't show in it
        assert dict(mpl.rcParams) == before


@pytest.mark.slow
def test_matplotlib_is_imported_late_and_pyplot_never():
    code = """
        import sys
        import numpy as np
        from recfact.report.build import build_report
        from recfact.report.html import page
        from recfact.report.problem import Problem
        assert "matplotlib" not in sys.modules
        page(build_report(Problem(np.full(40, 0.5), np.ones(40), title="", source="made here"), formats=["bf16"]))
        assert "matplotlib.pyplot" not in sys.modules
    """
    run_in_child(code)


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_missing_extra_is_named(monkeypatch, report, missing):
    for module in [name for name in sys.modules if name.split(".")[0] == missing]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setitem(sys.modules, f"{missing}.style", None)
    with pytest.raises(MissingExtraError, match=rf"needs {missing}; install it with: pip install .*"):
        page(report)


EXTREME = {
    "one step": (np.array([0.5]), np.ones(1)),
    "odd": (np.linspace(-1, 1, 37), np.ones(37)),
    "zeros": (np.zeros(40), np.zeros(40)),
    "complex": (np.full(40, 0.9j), np.ones(40)),
    "half": (np.full(40, 0.9, dtype=np.float16), np.ones(40, dtype=np.float16)),
    "subnormal": (np.full(40, 1e-310), np.full(40, 1e-310)),
    "growing": (np.full(400, 1.5), np.ones(400)),
    "overflowing": (np.full(1200, 3.0), np.ones(1200)),
    "long": (np.full(20_000, 0.999), np.sin(np.arange(20_000.0))),
}


@cache
def report_of(case):
    return build_report(Problem(*EXTREME[case], title=case, source=case), block=5, formats=["bf16"])


@pytest.mark.parametrize("case", EXTREME)
def test_every_recurrence_has_a_page(case, blank_pictures):
    html = page(report_of(case))
    text = " ".join(read(html).text)
    assert "first 1 " not in text
    assert ("The hue is the phase" in text) == (case == "complex")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("picture", PAGE)
@pytest.mark.parametrize("case", EXTREME)
def test_every_recurrence_can_be_drawn(case, picture):
    svg = inline_svg(draw(picture, report_of(case)), PICTURES[picture])
    read(svg)
    assert len(svg) < 150_000  # also of 20,000 steps


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_pictures_are_saved(tmp_path, report, suffix):
    path = tmp_path / f"overview{suffix}"
    save(draw("overview", report), path)
    assert path.read_bytes().startswith(b"\x89PNG" if suffix == ".png" else b"<?xml")
    first = path.read_bytes()
    save(draw("overview", report), path)
    assert path.read_bytes() == first


@pytest.mark.parametrize("picture", one_in(4, PICTURES))
def test_a_picture_alone_computes_only_what_it_shows(monkeypatch, picture):
    """Neither norms nor verifications are in any picture, and the same picture comes of a whole report."""
    problem, formats = Problem(np.full(20, 0.5), np.ones(20), title="", source=""), ("bf16",)
    whole = inline_svg(draw(picture, build_report(problem, 4, formats=formats)), "")
    for part in ("summarize", "verified", "enough_windows"):
        monkeypatch.setattr(f"recfact.report.build.{part}", lambda *_, **__: pytest.fail("isn't drawn"))
    alone = Report(problem, 4, chosen_formats(formats))
    assert inline_svg(draw(picture, alone), "") == whole
    if picture in ("operator", "kogge-stone", "brent-kung", "blocks", "windows", "overview", "formats"):
        assert vars(alone).keys() == {"problem", "block", "chosen", "sequences", "step"}


def test_pictures_that_cannot_be_saved(tmp_path, report):
    with pytest.raises(OptionError, match=r"must end in .png or .svg"):
        save(draw("operator", report), Path("x.gif"))
    with pytest.raises(DataFileError, match="there is no directory"):
        save(draw("operator", report), tmp_path / "no" / "x.png")
    with pytest.raises(OptionError, match="picture must be one of operator"):
        draw("portrait", report)


def test_opacity_falls_with_the_logarithm_of_the_magnitude():
    matrix = np.array([[1.0, 1e-2, 10.0**-DECADES, 1e-30, 0.0, 7.0, np.inf, np.nan]])
    colours = cell_colours(matrix, np.full(matrix.shape, BLUE))
    assert np.allclose(colours[0, :, 3], [1, 0.6, 0.2, 0.2, 0, 1, 1, 1], rtol=1e-12)
    assert np.array_equal(colours[0, 0, :3], to_rgb(BLUE))
    assert cell_colours(matrix, np.full(matrix.shape, BLUE), scale=7.0)[0, 0, 3] < 1


def test_figures_draw_the_factors_whose_product_is_L(report):
    """The pixels of the Kogge-Stone picture are the entries of factors that multiply to L."""
    figure = draw("kogge-stone", report)
    images = [image.get_array() for image in figure.axes[0].images]
    supports = [np.asarray(image)[..., 3] > 0 for image in images]
    product = np.linalg.multi_dot([support.astype(float) for support in supports[1:]]) > 0
    assert np.array_equal(product, supports[0])
    assert [int(support.sum()) for support in supports[1:]] == [16 + 8, 16 + 12, 16 + 14, 16 + 15]
