"""The pages of the GPU kernels name what the sources have."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from gpu.cases import described
from gpu.test_waves import shared_of

from recfact.gpu import b2p, chain, sliding, sweep
from recfact.gpu.multiprocessors import MULTIPROCESSORS, Device, multiprocessor_of, warps_of_registers
from recfact.windows import Uniform
from tools.gpu.examples import HEADS, TARGETS, kinds

PAGES = Path(__file__).parents[2] / "docs" / "gpu"


@pytest.mark.parametrize("kernel", ["b2p", "sweep", "chain", "sliding", "backward", "backward_window"])
def test_each_macro_is_on_the_page_of_its_kernel(kernel):
    page = (PAGES / f"{kernel}.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z_]+)`", page.split("## Macros")[1].split("##")[0]))
    launches = [*kinds().values(), described(HEADS, 128, 8192, 16, "complex64", Uniform(500))]
    assert named == {name for launch in launches if launch.kernel == kernel for name, _ in launch.macros}


def test_the_sectors_that_the_page_explains_are_those_of_its_table():
    (row,) = re.findall(r"\| bytes asked for .*time, head, channel.*", (PAGES / "counted.txt").read_text("utf-8"))
    counted = float(row.split("|")[4])
    assert f"the {counted:.2f} in the table" in (PAGES / "index.md").read_text("utf-8")


def test_the_shares_of_sectors_that_the_page_of_sliding_names_are_those_of_the_table():
    rows = re.findall(r"\| bytes asked for .*sliding.*", (PAGES / "counted.txt").read_text("utf-8"))
    shares = [f"{float(row.split('|')[4]):.0%}".replace("%", " %") for row in rows]
    page = (PAGES / "sliding.md").read_text("utf-8")
    assert [f"{shares[0]} of their bytes are asked for" in page, f"{shares[1]} in bfloat16" in page] == [True, True]


def rows_of_tuning(heading: str) -> list[list[str]]:
    """Return the rows of a table of the page on tuning."""
    section = (PAGES / "tuning.md").read_text("utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    return [row.strip("| ").split(" | ") for row in section.splitlines() if row[:1] == "|"][2:]


def number(text: str) -> int:
    """Read a number, perhaps of KiB or GiB."""
    value, _, unit = text.partition(" ")
    return int(value) * {"": 1, "KiB": 2**10, "GiB": 2**30}[unit]


def test_the_limits_on_the_page_of_tuning_are_those_of_the_code():
    rows = rows_of_tuning("What a multiprocessor has")
    shown = {tuple(map(int, row[0].split("."))): tuple(map(number, row[1:6])) for row in rows}
    assert shown == MULTIPROCESSORS
    for _, *_, wanted, _, speed, count in rows:
        delivered = float(speed.removesuffix(" TB/s")) * 1e12 / int(count) * 1.25e-6
        assert number(wanted) - 4096 < delivered <= number(wanted)


def test_the_numbers_on_the_page_of_tuning_are_those_of_the_code():
    for name, value, _ in rows_of_tuning("All numbers"):
        module, constant = name.strip("`").split(".")
        assert getattr(importlib.import_module(f"recfact.gpu.{module}"), constant) == number(value), name


def test_the_costs_on_the_page_of_tuning_are_those_of_the_code():
    shown = [(*row[:2], *map(int, row[2:])) for row in rows_of_tuning("Which kernel") if len(row) == 4]
    inside = {False: "", True: ", blocks that begin inside tiles"}
    expected = [
        (f"`b2p`{' with gates' * gated}{inside[shifted]}", "{}.{}".format(*since), *cost)
        for (since, gated, shifted), cost in b2p.COSTS.items()
    ]
    assert shown == [*expected, ("`sweep`", "7.5", *sweep.COST)]


def test_what_kernels_take_on_the_page_of_tuning_is_what_plans_assume():
    tensor, lines, tiles, slots = rows_of_tuning("What a kernel takes of it")
    for row, registers in (
        (tensor, (b2p.REGISTERS, b2p.FEW_REGISTERS)),
        (lines, (sweep.WIDE_REGISTERS, sweep.NARROW_REGISTERS, sweep.WIDEST_REGISTERS)),
        (tiles, (chain.REGISTERS,)),
        (slots, (sliding.REGISTERS,)),
    ):
        assert tuple(int(part.split()[0]) for part in row[1].split("; ")) == registers
        assert tuple(int(part.split()[0]) for part in row[2].split("; ")) == tuple(map(warps_of_registers, registers))
    launches = [kinds(Device(target, 1))["b2p along time"] for target in TARGETS]
    shared = [shared_of(launch) for launch in launches]
    assert f"{shared[-1] / 1024:g} KiB for {b2p.WARPS} warps, {shared[0] / 1024:g} KiB on 7.5" == tensor[3]
    assert set(shared[1:]) == {shared[-1]}
    assert multiprocessor_of((7, 5)).room(b2p.WARPS, b2p.REGISTERS, shared[-1]) == 8  # with 6 stages there
