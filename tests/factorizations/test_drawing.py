"""The pictures of notebooks: every entry, its colour and opacity, frames, keys, products."""

import cmath
import re

import numpy as np
import pytest
import sympy
from market import coefficients, symbols

import recfact as rf
from recfact.factorizations.matrix_looks import (
    BLUE,
    DECADES,
    GREEN,
    PURPLE,
    UNIT,
    VERMILLION,
    has_phases,
    hues,
    opacities,
    phase_hue,
)
from recfact.factorizations.notebook_drawing import APPLIED, DRAWN, draw, draw_corner

OPERATORS = (
    rf.TransferOperator,
    rf.KoggeStone,
    rf.BrentKung,
    lambda a: rf.KoggeStone(a).T,
    lambda a: rf.TransferOperator(a).inv(),
)


@pytest.mark.parametrize("make", OPERATORS)
@pytest.mark.parametrize("n", [0, 1, 2, DRAWN, DRAWN + 1, APPLIED + 1])
def test_drawing_says_what_it_shows(make, n):
    html = make(np.full(n, 0.5))._repr_html_()
    assert html.startswith("<figure>")
    assert f"&lt;{n}x{n} " in html
    assert ("<svg" in html) == (0 < n <= APPLIED)
    leading = f"its leading {DRAWN}x{DRAWN} entries" in html or f"at most {DRAWN} leading rows" in html
    assert leading == (DRAWN < n <= APPLIED)


def test_drawing_shows_every_non_zero_entry_once_with_its_value():
    html = rf.TransferOperator(np.array([9.0, 0.5, 0.0, -0.25]))._repr_html_()
    assert html.count("<rect") == 6
    assert "[1, 0] = 0.5" in html
    assert "[3, 2] = -0.25" in html
    opacity = 0.2 + 0.8 * (1 + np.log10(0.25) / 4)
    assert f'fill="{VERMILLION}" fill-opacity="{opacity:.3f}"' in html
    assert html.count('stroke="currentColor"') == 1  # its frame
    assert re.findall(r"</svg> ([^<]*)", html) == ["positive", "negative", "1", "0.1", "0.01", "0.001", "≤ 0.0001"]


def test_a_chain_is_drawn_as_the_product_of_its_factors():
    chain = rf.BrentKung(np.full(6, 0.5))
    html = chain._repr_html_()
    parts = re.findall(r"(?:<span>(.)</span>)?<div[^>]*><small>([^<]*)</small><br>(.*?)</svg>", html)
    assert [(sign, name) for sign, name, _ in parts] == [
        ("", "product"),
        ("=", "stage 3, down-sweep, lag 1"),
        ("·", "stage 2, down-sweep, lag 2"),
        ("·", "stage 1, up-sweep, lag 2"),
        ("·", "stage 0, up-sweep, lag 1"),
    ]
    drawn = np.zeros((5, 6, 6))
    for matrix, (_, _, svg) in zip(drawn, parts, strict=True):
        for i, j, entry in re.findall(r"\[(\d), (\d)\] = ([^<]*)<", svg):
            matrix[int(i), int(j)] = float(entry)
    np.testing.assert_array_equal(drawn[0], chain.to_dense())
    np.testing.assert_array_equal(np.linalg.multi_dot(drawn[1:]), chain.to_dense())
    assert chain.T._repr_html_().count("transposed, lag -1</small>") == 2


def test_the_parts_of_the_blocks_are_drawn_as_their_formula():
    html = rf.Hierarchical(np.full(10, 0.5), 4).parts._repr_html_()
    assert "L = D + G Z T R" in html
    assert re.findall(r"(?:<span>(.)</span>)?<div[^>]*><small>([^<]*)<", html) == [
        ("", "D, 10x10"), ("+", "G, 10x3"), ("·", "Z, 3x3"), ("·", "T, 3x3"), ("·", "R, 3x10"),
    ]  # fmt: skip
    assert html.count('stroke="currentColor"') == 5
    assert "at most 32 leading" in rf.Hierarchical(np.full(33, 0.5), 4).parts._repr_html_()


def test_factors_are_named_by_stage_and_lag():
    ks, bk = rf.KoggeStone(np.full(8, 0.5)), rf.BrentKung(np.full(8, 0.5))
    assert repr(ks.factors[2]) == "<8x8 Factor (stage 2, lag 4) with dtype=float64>"
    assert repr(bk.factors[3]) == "<8x8 Factor (stage 3, down-sweep, lag 2) with dtype=float64>"
    assert repr(ks.factors[1].conj()) == repr(ks.factors[1])
    assert repr(ks.factors[1].T) == "<8x8 Factor (stage 1, transposed, lag -2) with dtype=float64>"
    assert repr(ks.factors[1].T.T) == repr(ks.factors[1])


@pytest.mark.parametrize("window", [rf.Uniform(3), rf.Jagged(2), rf.Jagged(2, 0)])
def test_truncations_are_named_by_their_window(window):
    kept = rf.TransferOperator(np.full(8, 0.5)).truncate(window)
    assert repr(kept) == f"<8x8 {type(kept).__name__} ({window!r}) with dtype=float64>"


def test_colours_tell_signs_phases_and_the_unit_diagonal():
    assert hues(np.array([[1.0, 1.0], [-0.5, 2.0]])).tolist() == [[UNIT, BLUE], [VERMILLION, BLUE]]
    assert hues(np.array([[2.0, 2j, -2.0, -2j]])).tolist() == [[BLUE, GREEN, VERMILLION, PURPLE]]
    assert hues(np.array([[sympy.Symbol("x"), -sympy.Integer(2), 10**400, -(10**400)]], dtype=object)).tolist() == [
        [BLUE, VERMILLION, BLUE, VERMILLION]
    ]
    for phase in np.linspace(-cmath.pi, cmath.pi, 41).tolist():
        assert phase_hue(phase) == phase_hue(phase + 2 * cmath.pi)


@pytest.mark.parametrize("dtype", ["float16", "float64", "complex64", "complex128", "int64", "bool"])
def test_colours_of_numbers_are_those_of_the_same_scalars(rng, dtype):
    matrix = rng.normal(scale=5, size=(9, 7)).astype(dtype)
    matrix[:2] = [0, 1, -1, 0.5, 0, 1, 2]
    if matrix.dtype.kind in "fc":
        matrix[2] = [-0.0, np.nan, np.inf, -np.inf, 1, -1, np.nan]
    if matrix.dtype.kind == "c":
        matrix[3:] *= np.exp(1j * rng.uniform(-4, 4, (6, 7)))
    scalars = matrix.astype(object)
    np.testing.assert_array_equal(hues(matrix), hues(scalars))
    assert has_phases(matrix) == has_phases(scalars) == (matrix.dtype.kind == "c")
    assert not has_phases(matrix.real)


def test_opacity_falls_with_the_logarithm_of_the_magnitude():
    matrix = np.array([[1.0, -1e-2, 10.0**-DECADES, 1e-30, 0.0, 7.0, np.inf, np.nan, 1e-2j]])
    np.testing.assert_allclose(opacities(matrix, 1.0), [[1, 0.6, 0.2, 0.2, 0, 1, 1, 1, 0.6]], rtol=1e-12)
    assert opacities(matrix, 7.0)[0, 0] < 1


def test_complex_numbers_have_a_key_of_their_phases():
    html = rf.TransferOperator(np.array([1.0, 0.5j, -0.5]))._repr_html_()
    assert re.findall(r"</svg> (phase[^<]*)", html) == ["phase of 1", "phase of i", "phase of −1", "phase of −i"]
    real = rf.TransferOperator(np.array([1.0, 0.5, -0.5], dtype=complex))._repr_html_()
    assert "phase" not in real
    assert "negative" in real


@pytest.mark.parametrize(
    "a",
    [
        symbols(4),
        coefficients("complex", 4, "complex128"),
        coefficients("random", 4, "mpi"),
        coefficients("random", 4, "Fraction"),
        coefficients("random", 4, "bfloat16"),
        np.array([0, 10**400, 1, 1], dtype=object),
    ],
    ids=["symbols", "complex", "intervals", "fractions", "bfloat16", "huge integers"],
)
def test_drawing_takes_any_scalar(a):
    html = draw_corner(rf.KoggeStone(a).factors[0])
    assert html.count("<rect") == 7


def test_drawing_takes_numbers_that_are_not_finite():
    html = draw(np.array([[2.0, np.inf], [np.nan, 1.0]]), "matrix")
    assert re.findall(r'opacity="(\S+)"><title>\[., .\] = (\w+)', html) == [
        ("1.000", "2"),
        ("1.000", "inf"),
        ("1.000", "nan"),
        (f"{0.2 + 0.8 * (1 - np.log10(2) / 4):.3f}", "1"),
    ]


def test_a_notebook_shows_what_to_html_returns():
    L = rf.TransferOperator(np.full(3, 0.5))
    assert L._repr_html_() == L.to_html() == draw_corner(L)


def test_drawing_escapes_the_names_of_symbols():
    html = rf.TransferOperator(np.array([sympy.Symbol("a"), sympy.Symbol("<script>")]))._repr_html_()
    assert "<script>" not in html
