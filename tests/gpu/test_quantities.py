"""What is counted of the GPU kernels: how, that the documents show it, and the command that counts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from gpu.cases import H100, LAYOUTS, described
from typer.testing import CliRunner

from recfact.errors import MissingExtraError
from recfact.gpu import sweep
from recfact.gpu.multiprocessors import Device
from recfact.gpu.segments import Cost
from recfact.windows import Full, Jagged
from tools.gpu import check, machine_code, nvrtc, quantities
from tools.gpu.check import as_markdown
from tools.gpu.examples import HEADS, described_mixer
from tools.gpu.machine_code import Usage
from tools.gpu.occupancy import resident_warps
from tools.gpu.quantities import Counted, Quantity, count
from tools.gpu.traffic import traffic

PAGE = Path(__file__).parents[2] / "docs" / "gpu" / "counted.txt"


def quantity(relation: str, asked: float | None, number: float) -> Quantity:
    return Quantity("", "", relation, asked, "", lambda: number)


def test_a_quantity_is_reached_up_to_what_is_asked():
    assert [count(quantity("<=", 2, number)).holds for number in (1, 2, 3)] == [True, True, False]
    assert [count(quantity(">=", 2, number)).holds for number in (1, 2, 3)] == [False, True, True]
    assert [count(quantity("=", 2, number)).holds for number in (1, 2, 3)] == [False, True, False]
    assert count(quantity(">=", None, 1)).holds is None


@pytest.mark.slow
def test_what_cannot_be_counted_says_why(monkeypatch):
    monkeypatch.setattr(machine_code, "library_path", lambda: None)
    monkeypatch.setattr(quantities, "machine_code", machine_code.machine_code.__wrapped__)  # what was counted stays
    monkeypatch.setattr(quantities, "traffic", traffic.__wrapped__)
    counted = [count(one) for one in quantities.quantities()]
    assert {one.holds for one in counted} == {None}
    assert [one for one in counted if "nvdisasm" not in (one.missing or "")] == []


def test_gates_are_counted_in_the_kernels_that_their_rows_name():
    for kind, shape, _ in quantities.MIXERS:
        launch = described_mixer(*shape, "bfloat16", Jagged(16), device=Device(H100.capability, 1))
        assert launch.kernel == kind.split()[0]


@pytest.mark.machine_code
@pytest.mark.parametrize("layout", LAYOUTS)
def test_traffic_is_the_arrays_once_and_halos(layout):
    heads, n, d, device = 16, 512, 16, Device((9, 0), 8)
    launch = described(layout, heads, n, d, "bfloat16", Jagged(16), device=device)
    (segments,) = (argument.value for argument in launch.arguments if argument.name == "segments")
    moved = traffic(launch, layout, heads, n, d)
    assert (launch.kernel, segments) == ("b2p", 2)
    read = (d + 1) * (n + 16 * (segments - 1)) - 1  # numbers of a head: without the coefficient before the first step
    assert moved.read == read / ((d + 1) * n)
    assert moved.written == 1
    assert moved.moved == (read + d * n) / ((2 * d + 1) * n)


@pytest.mark.machine_code
def test_traffic_of_the_exact_recurrence_has_what_tiles_pass_on():
    moved = traffic(described(HEADS, 16, 512, 16, "bfloat16", Full()), HEADS, 16, 512, 16)
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
    launch = replace(quantities.solve_launch(HEADS), block=(threads, 1, 1), grid=(blocks, 1, 1))
    assert resident_warps(launch, Usage("", registers, 0, shared), H100) == warps


def test_the_digest_is_of_code_and_plans_and_not_of_comments(monkeypatch):
    before, source_of = quantities.digest(), quantities.source_of
    monkeypatch.setattr(
        quantities, "source_of", lambda kernel: f'// new\n#line 2 "b2p.cu"\n{source_of(kernel)}  // end'
    )
    assert quantities.digest() == before
    monkeypatch.setattr(quantities, "source_of", lambda kernel: f"{source_of(kernel)} ;")
    assert quantities.digest() != before
    monkeypatch.undo()
    monkeypatch.setattr(quantities, "SOLVE", (64, 8192, 16))
    assert quantities.digest() != before


def shown() -> list[list[str]]:
    """Return the rows of the page's table."""
    return [row.strip("| ").split(" | ") for row in PAGE.read_text(encoding="utf-8").splitlines() if row[:1] == "|"]


def test_the_page_was_counted_from_these_sources():
    counted_from = re.search(r"from sources `(\w+)`", PAGE.read_text(encoding="utf-8"))
    assert counted_from[1] == quantities.digest(), (
        f"the kernels or their plans have changed: python -m tools.gpu.check --markdown >{PAGE}"
    )
    asked = [
        [one.name, one.of, "-" if one.asked is None else f"{one.relation} {one.asked:g}", one.by]
        for one in quantities.quantities()
    ]
    assert [[*row[:3], row[5]] for row in shown()[2:]] == asked
    assert [row[4] for row in shown()[2:]] == ["-" if row[2] == "-" else "yes" for row in shown()[2:]]


def test_plans_take_for_costs_what_was_counted():
    """The largest number counted, rounded up to tens."""
    counted = {(row[0], row[1]): float(row[3]) for row in shown()[2:]}
    found: dict[str, list[Cost]] = {}
    for of, (cost, _) in quantities.costs().items():
        most = (counted[name, of] for name in ("main loop's instructions / KiB moved", "cycles / KiB moved, alone"))
        found.setdefault(of.split()[0], []).append(Cost(*(-(-int(-(-number // 1)) // 10) * 10 for number in most)))
        if of.startswith("b2p"):
            assert cost == found["b2p"][-1]
    assert Cost(*map(max, zip(*found["sweep"], strict=True))) == sweep.COST


def test_a_number_that_is_not_there_is_no_zero():
    missing = Counted(quantity("=", 0, 0), None, "no compiler")
    assert "not counted" in as_markdown([missing])
    assert missing.as_dict()["counted"] is None


def run(*arguments, code=0):
    result = CliRunner().invoke(check.app, arguments)
    assert result.exit_code == code, result.output
    return result


def raising():
    raise MissingExtraError("no emulator here")


REACHED = Quantity("bytes read", "b2p", "<=", 1.05, "emulator", lambda: 1.03125)
MISSED = Quantity("registers", "chain", "<=", 96, "machine code", lambda: 128.0)
UNCOUNTED = Quantity("bytes written", "b2p", "=", 1, "emulator", raising)


@pytest.mark.parametrize(("asked", "code"), [([REACHED], 0), ([REACHED, UNCOUNTED], 0), ([REACHED, MISSED], 1)])
def test_the_command_and_its_exit_codes(monkeypatch, asked, code):
    monkeypatch.setattr(check, "quantities", lambda: asked)
    printed = " ".join(run(code=code).stdout.split())
    assert "bytes read b2p <= 1.05 1.031 yes emulator" in printed
    assert ("registers chain <= 96 128 NO machine code" in printed) == (MISSED in asked)
    assert ("not counted emulator" in printed) == (UNCOUNTED in asked)
    assert ("Not counted: no emulator here." in printed) == (UNCOUNTED in asked)
    told = json.loads(run("--json", code=code).stdout)
    assert told["source"]["sources"] == quantities.digest()
    assert told["quantities"][0] == {
        "quantity": "bytes read",
        "of": "b2p",
        "relation": "<=",
        "asked": 1.05,
        "counted": 1.03125,
        "holds": True,
        "by": "emulator",
        "missing": None,
    }
    assert [one["counted"] for one in told["quantities"]] == [1.03125, None if UNCOUNTED in asked else 128][
        : len(asked)
    ]
    markdown = run("--markdown", code=code).stdout
    assert "| bytes read | b2p | <= 1.05 | 1.031 | yes | emulator |" in markdown
    assert f"from sources `{quantities.digest()}`" in markdown


def test_markdown_is_not_json():
    assert "exclude each other" in " ".join(run("--markdown", "--json", code=2).output.replace("│", " ").split())


@pytest.mark.machine_code
def test_the_compiler_says_what_is_wrong():
    with pytest.raises(nvrtc.CompileError, match=r'kernel.cu\(1\): error: identifier "oops" is undefined'):
        nvrtc.compile_source("__global__ void kernel() { oops; }", ("-arch=sm_90",))
