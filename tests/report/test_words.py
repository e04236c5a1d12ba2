"""Numbers in words: short, and what is a bound stays one in print."""

from fractions import Fraction

import numpy as np
import pytest

from recfact.precision import format as format_of
from recfact.report.findings import format_finding
from recfact.report.safety import format_safety
from recfact.report.words import lowered, number_at_most, percent, percent_at_most


def read(text):
    """Return the number that a text of a page writes."""
    digits, _, power = text.removesuffix(" %").partition("×10")
    value = Fraction(digits) * Fraction(10) ** int(lowered(power).replace("−", "-") or 0)
    return value / 100 if text.endswith(" %") else value


@pytest.mark.parametrize("written", [number_at_most, percent_at_most])
def test_bounds_in_print_are_bounds(written, rng):
    for value in [*10.0 ** rng.uniform(-300, 300, 3000), *10.0 ** rng.uniform(-8, 8, 3000), 999.9999, 99999.5]:
        text = written(float(value))
        assert float(read(text)) >= value
        # Two digits of three or more are the largest step, 1 % to 10 % of the smallest number that has them.
        assert read(text) <= Fraction(value) * Fraction(111, 100)
        assert len(text) <= len("1.23×10⁻³⁰⁰ %")


@pytest.mark.parametrize(
    ("share", "expected"),
    [(4070718908556896.0, "4.08×10¹⁷ %"), (1e3, "1.00×10⁵ %"), (999.994, "1.00×10⁵ %"), (998.5, "99850 %")],
)
def test_large_shares_are_powers_of_ten(share, expected):
    assert percent_at_most(share) == expected


def test_shares_that_are_not_finite():
    shares = (np.inf, -np.inf, np.nan)
    assert [*map(percent, shares), percent_at_most(np.inf)] == ["∞ %", "−∞ %", "NaN %", "∞ %"]


def test_one_step_is_not_counted():
    found = format_safety(np.array([0.5]), np.ones(1), format_of("half"), 16)
    assert "In the first step of these inputs the states of" in format_finding(found)
