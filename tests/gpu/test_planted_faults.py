"""Faults planted in the PTX of the kernels, one at a time: the emulator sees each, by a fault or by other bits."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from gpu.cases import H100, LAYOUTS, Case
from gpu.test_kernels import make_case

from recfact.gpu.plans import Launch
from recfact.windows import Full, Jagged, Uniform, Window
from tools.gpu.emulator import TOGETHER, Report, Schedule, execute, text_of

pytestmark = pytest.mark.machine_code

HEADS, _, ROWS = LAYOUTS
TRIES = 24  # orders in which a fault may show


def chain() -> Case:
    """Return a case some of whose tiles aren't bounded, and step in turn."""
    case = make_case(HEADS, 3, 900, 16, "float32", initial=True)
    case.u[0, 100, 3], case.a[0, 300], case.a[1, 200:260], case.a[1, 400] = np.inf, 0, 1e30, 0
    return case


def b2p(layout: str) -> Case:
    """Return a case most of whose tiles are repeated, for one channel of them, in one of its heads."""
    case = make_case(layout, 3, 520, 16, "bfloat16", out="float32", initial=True)
    u = case.u[1] if layout == HEADS else case.u[1].T
    u[5::16, 3] = np.inf
    return case


KERNELS: dict[str, tuple[Callable[[], Case], Window]] = {
    "sweep": (lambda: make_case(HEADS, 3, 264, 16, "float32"), Jagged(16)),
    "sliding": (lambda: make_case(HEADS, 3, 264, 16, "float32"), Uniform(200)),
    "chain": (chain, Full()),
    "b2p": (lambda: b2p(HEADS), Jagged(32)),
    "b2p along time": (lambda: b2p(ROWS), Jagged(32)),
}


class Run(NamedTuple):
    """What came out of an order: faults, and the result's bits."""

    report: Report
    bits: bytes


@cache
def planned(name: str) -> tuple[Launch, str]:
    make, window = KERNELS[name]
    launch = make().plan(window)
    assert launch.kernel == name.split()[0]
    return launch, text_of(launch, H100.capability)


def run(name: str, text: str, schedule: Schedule) -> Run:
    case = KERNELS[name][0]()
    arrays = {"a": case.a, "u": case.u, "x": case.x} | ({} if case.x0 is None else {"x0": case.x0})
    report = execute(planned(name)[0], arrays, H100.capability, text=text, schedule=schedule)
    return Run(report, case.x.tobytes())


def orders() -> list[Schedule]:
    return [Schedule(seed, (3, 5, 8, 16)[seed % 4], "random") for seed in range(TRIES)]


@cache
def right(name: str) -> bytes:
    """Return the bits of the kernel as it is, which are the same in some orders."""
    runs = [run(name, planned(name)[1], schedule) for schedule in (TOGETHER, *orders()[:4])]
    for one in runs:
        one.report.check()
    assert len({one.bits for one in runs}) == 1
    return runs[0].bits


def edited(text: str, pattern: str, by: str) -> list[str]:
    """Return the texts in which one of what matches is replaced."""
    return [text[: found.start()] + found.expand(by) + text[found.end() :] for found in re.finditer(pattern, text)]


# What is looked for in the PTX, and what is put in its place.
PLANTED = {
    "no barrier of the warp": (r"bar\.warp\.sync[^;]*;", ""),
    "no barrier of the block": (r"barrier\.sync\.aligned[^;]*;", ""),
    "a release made plain": (r"st\.release\.gpu", r"st.relaxed.gpu"),
    "an acquire made plain": (r"ld\.acquire\.gpu", r"ld.relaxed.gpu"),
    "tiles by blockIdx": (r"atom\.global\.add\.u32\s+(%r\d+),[^;]*;", r"mov.u32 \1, %ctaid.x;"),
    "a copy not awaited": (r"cp\.async\.wait_group (\d+);", r"cp.async.wait_group 6;"),
}
EXPECTED = {
    "chain": {"no barrier of the warp", "no barrier of the block", "a release made plain"}
    | {"an acquire made plain", "tiles by blockIdx"},
    "b2p": {"no barrier of the warp", "a copy not awaited"},
}


@pytest.mark.parametrize("fault", PLANTED)
@pytest.mark.parametrize("name", ["chain", "b2p", pytest.param("b2p along time", marks=pytest.mark.slow)])
def test_every_one_is_seen(name, fault):
    texts = edited(planned(name)[1], *PLANTED[fault])
    assert bool(texts) == (fault in EXPECTED[name.split()[0]])
    for number, text in enumerate(texts):
        runs = (run(name, text, schedule) for schedule in orders())
        assert any(one.report.faults or one.bits != right(name) for one in runs), f"{fault}, number {number}"


@pytest.mark.parametrize("name", ["sweep", "sliding"])
def test_kernels_whose_threads_tell_each_other_nothing_have_none_of_them(name):
    assert not any(re.search(pattern, planned(name)[1]) for pattern, _ in PLANTED.values())


# Of accesses of several numbers: off their alignment, and beyond the end.
@pytest.mark.parametrize("name", ["sweep", "sliding"])
def test_accesses_that_are_off_are_seen(name):
    text = planned(name)[1]
    address = r"({}\.global\.v[24][.\w]*\s+[^\[;]*\[%rd\d+)(?:\+(-?\d+))?\]"
    for access in ("ld", "st"):
        pattern = address.format(access)
        for by, kind in ((r"\1+4]", "misaligned"), (rf"\1+{1 << 30}]", "out of bounds")):
            texts = edited(text, pattern, by)
            assert texts
            assert kind in {kind for one in texts for kind in run(name, one, TOGETHER).report.kinds}
