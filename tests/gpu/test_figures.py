"""The figures of the GPU kernels: how they are counted, and that the documents show what is counted."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from gpu.bare_run import need_compiler
from gpu.cases import H100, LAYOUTS, described, need_tools

from recfact.cli.gpu import figures_markdown
from recfact.errors import MissingExtraError
from recfact.gpu import emulation, figures, machine_code, nvrtc
from recfact.gpu.examples import HEADS
from recfact.gpu.figures import Counted, Figure, count
from recfact.gpu.machine_code import MachineCode
from recfact.gpu.occupancy import resident_warps
from recfact.gpu.plans import Device
from recfact.windows import Full, Jagged

PAGE = Path(__file__).parents[2] / "docs" / "gpu" / "figures.txt"


def figure(relation: str, asked: float | None, number: float) -> Figure:
    return Figure("", "", relation, asked, "", lambda: number)


def test_a_figure_is_reached_up_to_what_is_asked():
    assert [count(figure("<=", 2, number)).holds for number in (1, 2, 3)] == [True, True, False]
    assert [count(figure(">=", 2, number)).holds for number in (1, 2, 3)] == [False, True, True]
    assert [count(figure("=", 2, number)).holds for number in (1, 2, 3)] == [False, True, False]
    assert count(figure(">=", None, 1)).holds is None


def test_what_cannot_be_counted_says_why(monkeypatch):
    monkeypatch.setattr(machine_code, "library_path", lambda: None)
    monkeypatch.setattr(emulation, "EMULATOR", Path("nowhere"))
    monkeypatch.setattr(figures, "machine_code", machine_code.machine_code.__wrapped__)  # what was counted before stays
    monkeypatch.setattr(figures, "traffic", emulation.traffic.__wrapped__)
    counted = [count(one) for one in figures.figures()]
    assert {one.holds for one in counted} == {None}
    says = {"machine code": "nvdisasm", "emulator": "in a checkout of the source"}
    assert [one for one in counted if says[one.figure.by] not in (one.missing or "")] == []


def test_the_emulator_needs_a_compiler(monkeypatch):
    monkeypatch.setattr(emulation._loaded(emulation.EMULATOR), "COMPILER", None)
    with pytest.raises(MissingExtraError, match=r"g\+\+ isn't installed"):
        emulation.traffic(figures.solve_launch(HEADS), HEADS, *figures.SOLVE)


def test_the_emulator_needs_no_name_that_others_may_have(monkeypatch):
    path = list(sys.path)
    monkeypatch.setitem(sys.modules, "gpu", None)
    monkeypatch.delitem(sys.modules, "recfact_emulator", raising=False)
    assert emulation._loaded.__wrapped__(emulation.EMULATOR).emulate
    assert sys.path == path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_traffic_is_the_arrays_once_and_halos(layout):
    need_compiler()
    heads, n, d, device = 16, 512, 16, Device((9, 0), 8)
    launch = described(layout, heads, n, d, "bfloat16", Jagged(16), device=device)
    (segments,) = (argument.value for argument in launch.arguments if argument.name == "segments")
    moved = emulation.traffic(launch, layout, heads, n, d)
    assert (launch.kernel, segments) == ("b2p", 2)
    read = (d + 1) * (n + 16 * (segments - 1)) - 1  # numbers of a head: without the coefficient before the first step
    assert moved.read == read / ((d + 1) * n)
    assert moved.written == 1
    assert moved.moved == (read + d * n) / ((2 * d + 1) * n)


def test_traffic_of_the_exact_recurrence_has_what_tiles_pass_on():
    need_compiler()
    moved = emulation.traffic(described(HEADS, 16, 512, 16, "bfloat16", Full()), HEADS, 16, 512, 16)
    assert moved.read == (17 * 512 - 1) / (17 * 512)
    assert moved.moved > (moved.read * 17 + 16) / 33


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks", "warps"),
    [
        (128, 32, 0, 10**6, 64),  # all that there is room for
        (32, 32, 0, 10**6, 32),  # thread blocks
        (128, 96, 0, 10**6, 20),  # registers: 5 thread blocks of 4 warps of 3072
        (128, 97, 0, 10**6, 16),  # 3104 round up to 3328
        (128, 32, 47 * 1024, 10**6, 16),  # shared memory: 4 of 48 KiB
        (512, 96, 0, 10**6, 16),
        (128, 96, 0, 132, 4),  # no more than there are
        (128, 96, 0, 66, 2),
    ],
)
def test_warps_that_a_multiprocessor_holds(threads, registers, shared, blocks, warps):
    launch = replace(figures.solve_launch(HEADS), block=(threads, 1, 1), grid=(blocks, 1, 1))
    assert resident_warps(launch, MachineCode("", registers, 0, shared, (), {}), H100) == warps


def test_the_digest_is_of_code_and_plans_and_not_of_comments(monkeypatch):
    before, source_of = figures.digest(), figures.source_of
    monkeypatch.setattr(figures, "source_of", lambda kernel: f'// new\n#line 2 "b2p.cu"\n{source_of(kernel)}  // end')
    assert figures.digest() == before
    monkeypatch.setattr(figures, "source_of", lambda kernel: f"{source_of(kernel)} ;")
    assert figures.digest() != before
    monkeypatch.undo()
    monkeypatch.setattr(figures, "SOLVE", (64, 8192, 16))
    assert figures.digest() != before


def shown() -> list[list[str]]:
    """Return the rows of the page's table."""
    return [row.strip("| ").split(" | ") for row in PAGE.read_text(encoding="utf-8").splitlines() if row[:1] == "|"]


def test_the_page_was_counted_from_these_sources():
    counted_from = re.search(r"from sources `(\w+)`", PAGE.read_text(encoding="utf-8"))
    assert counted_from[1] == figures.digest(), (
        f"the kernels or their plans have changed: recfact gpu --check --markdown >{PAGE}"
    )
    asked = [
        [one.name, one.of, "-" if one.asked is None else f"{one.relation} {one.asked:g}", one.by]
        for one in figures.figures()
    ]
    assert [[*row[:3], row[5]] for row in shown()[2:]] == asked
    assert [row[4] for row in shown()[2:]] == ["-" if row[2] == "-" else "yes" for row in shown()[2:]]


def test_the_page_shows_the_machine_code():
    need_tools()
    compiled_by = re.search(r"compiler of CUDA ([\d.]+)", PAGE.read_text(encoding="utf-8"))[1]
    if compiled_by != "{}.{}".format(*nvrtc.compiler().version):
        pytest.skip(f"the page shows the machine code of CUDA {compiled_by}")
    counted = [count(one) for one in figures.figures() if one.by == "machine code"]
    rows = [row for row in figures_markdown(counted).splitlines() if row[:1] == "|"]
    assert [row.strip("| ").split(" | ") for row in rows[2:]] == [
        row for row in shown()[2:] if row[5] == "machine code"
    ]


def test_a_number_that_is_not_there_is_no_zero():
    missing = Counted(figure("=", 0, 0), None, "no compiler")
    assert "not counted" in figures_markdown([missing])
    assert missing.as_dict()["counted"] is None
