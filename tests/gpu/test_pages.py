"""The pages of the GPU kernels name what the sources have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gpu.cases import described

from recfact.gpu.examples import HEADS, kinds
from recfact.windows import Uniform

PAGES = Path(__file__).parents[2] / "docs" / "gpu"


@pytest.mark.parametrize("kernel", ["b2p", "sweep", "chain", "sliding"])
def test_each_macro_is_on_the_page_of_its_kernel(kernel):
    page = (PAGES / f"{kernel}.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z_]+)`", page.split("## Macros")[1].split("##")[0]))
    launches = [*kinds().values(), described(HEADS, 128, 8192, 16, "complex64", Uniform(500))]
    assert named == {name for launch in launches if launch.kernel == kernel for name, _ in launch.macros}


def test_the_sectors_that_the_page_explains_are_those_of_its_table():
    (row,) = re.findall(r"\| bytes asked for .*time, head, channel.*", (PAGES / "figures.txt").read_text("utf-8"))
    counted = float(row.split("|")[4])
    assert f"the {counted:.2f} in the table" in (PAGES / "index.md").read_text("utf-8")


def test_the_shares_of_sectors_that_the_page_of_sliding_names_are_those_of_the_table():
    rows = re.findall(r"\| bytes asked for .*sliding.*", (PAGES / "figures.txt").read_text("utf-8"))
    shares = [f"{float(row.split('|')[4]):.0%}".replace("%", " %") for row in rows]
    page = (PAGES / "sliding.md").read_text("utf-8")
    assert [f"{shares[0]} of their bytes are asked for" in page, f"{shares[1]} in bfloat16" in page] == [True, True]
