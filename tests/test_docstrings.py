"""The docstrings of public functions and classes have the sections of the house, with errors, examples and a source."""

import inspect
import re

import pytest

import recfact
from recfact import affine, gradients, precision
from recfact.precision import exact

ROOMS = {"recfact": recfact, "affine": affine, "gradients": gradients, "precision": precision, "exact": exact}

RESULTS = {
    "ActualHorizon", "BackwardError", "Condition", "Balls", "EffectiveHorizon", "MaterializationErrors",
    "MaterializationTable", "Spread", "SweepTable", "Verification", "WindowChoice",
}  # fmt: skip
"""Classes whose objects functions return: those functions show them."""


def public():
    """Yield the place of every public function and class that isn't an exception."""
    for room, module in ROOMS.items():
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing) or (inspect.isclass(thing) and not issubclass(thing, BaseException)):
                yield pytest.param(thing, id=f"{room}.{name}")


@pytest.mark.parametrize("thing", list(public()))
def test_sections(thing):
    sections = {
        above.strip()
        for above, rule in zip(*(inspect.getdoc(thing).splitlines()[start:] for start in (0, 1)), strict=False)
        if rule and set(rule) == {"-"}
    }
    takes = list(inspect.signature(thing).parameters)
    wanted = {"Parameters"} if takes else set()
    if inspect.isfunction(thing):
        wanted |= {"Examples", "Raises"}
        assert sections & {"Returns", "Yields"}
    elif takes and thing.__name__ not in RESULTS:
        wanted |= {"Examples"}
    assert wanted <= sections


SOURCE = re.compile(
    r"[A-Z][a-z]+( \(|, )(19|20)\d\d\b"  # an author and a year
    r"|the sliding window recurrences paper|paper's equation"
    r"|\bIEEE\b"
    r"|the page on "  # of the docs, where it is derived
    r"|head of the module"
)


@pytest.mark.parametrize("thing", list(public()))
def test_source(thing):
    assert SOURCE.search(" ".join(inspect.getdoc(thing).split()))
