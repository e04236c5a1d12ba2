"""The cycles that a warp alone takes for a loop, of loops that can be counted by hand."""

import pytest
from gpu.cases import H100

from tools.gpu.critical_path import LATENCY, PLAIN, cycles, gap, lead, registers
from tools.gpu.examples import kinds
from tools.gpu.machine_code import Instruction, machine_code
from tools.gpu.quantities import WORK


def loop(*lines):
    """Read instructions: a name and operands, perhaps behind a guard."""
    made = []
    for line in lines:
        guard, _, rest = line.rpartition("| ")
        name, _, operands = rest.partition(" ")
        made.append(Instruction(guard, name, operands))
    return made


LOOPS = {
    "nothing waits": (["FMUL R1, R2, R3", "FMUL R4, R2, R3", "FMUL R5, R2, R3"] * 3, 9),
    "a chain": (["FFMA.FTZ R1, R1, R2, R3", "FFMA.FTZ R1, R1, R2, R3"], 2 * PLAIN),
    "of two registers": (["IMAD.WIDE R2, R3, R4, R2"], PLAIN),
    "through shared memory": (["LDS.128 R4, [R7]", "IADD3 R7, R6, R9, RZ"], LATENCY["LDS"] + PLAIN),
    "the fourth register of a product": (
        ["HMMA.16816.F32 R4, R8, R12, R4", "FMUL R12, R7, R3"],
        LATENCY["HMMA"] + PLAIN,
    ),
    "a predicate": (["ISETP.GE.AND P1, PT, R1, R2, PT", "@P1| IADD3 R1, R1, 0x1, RZ"], 2 * PLAIN),
    "a vote": (["VOTE.ANY P1, P1"], LATENCY["VOTE"]),
    "a shuffle": (["SHFL.DOWN PT, R4, R4, 0x10, 0x1f"], LATENCY["SHFL"]),
    "a carry": (["IADD3 R1, P4, R2, R3, RZ", "IMAD.X R2, R5, 0x1, R4, P4"], 2 * PLAIN),
    "a number of memory is there": (["LDG.E.128 R4, desc[UR4][R2.64]", "FMUL R8, R7, R7"], 2),
    "an address waits": (["STG.E.128 desc[UR10][R46.64], R24", "IADD3 R47, R47, 0x1, RZ"], PLAIN + 1),
    "what is stored waits": (["FMUL R27, R27, R2", "STG.E.128 desc[UR10][R46.64], R24"], PLAIN + 1),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_counted_by_hand(name):
    lines, expected = LOOPS[name]
    assert cycles(loop(*lines)) == expected


@pytest.mark.parametrize("others", [0, 3])
def test_the_lead_of_a_load_is_what_passes_until_it_is_read(others):
    between = ["FMUL R9, R8, R8"] * others
    late = loop("LDG.E.U16 R4, desc[UR4][R2.64]", *between, "IMAD.U32 R5, R4, 0x10000, RZ")
    assert lead(late) == 1 + others
    # Asked for behind its use, a number has a round.
    early = loop("IMAD.U32 R5, R4, 0x10000, RZ", "LDG.E.U16 R4, desc[UR4][R2.64]", *between)
    assert lead(early) == 1 + others
    assert lead(loop("FMUL R9, R4, R4", *between, "LDG.E.U16 R4, desc[UR4][R2.64]", "FMUL R8, R7, R7")) == 2


def test_the_gap_between_instructions_may_go_over_the_end_of_a_round():
    waits, sets_out = "DEPBAR.LE SB0, 0x4", "LDGDEPBAR"
    others = ["FMUL R9, R8, R8"] * 3
    assert gap(loop(waits, *others, sets_out), waits.split()[0], sets_out) == 4
    assert gap(loop(*others, sets_out, waits), waits.split()[0], sets_out) == 4
    assert gap(loop(waits, sets_out, waits, "FMUL R9, R8, R8", sets_out), waits.split()[0], sets_out) == 2
    # What waits in between makes it longer.
    assert gap(loop(waits, *LOOPS["a chain"][0], sets_out), waits.split()[0], sets_out) == 2 * PLAIN - 1


def test_what_instructions_write_and_read():
    (one,) = loop("@!P6| LDG.E.U16 R22, desc[UR10][R44.64]")
    assert registers(one) == ({"R22"}, {"UR10", "R44", "R45", "P6"})
    (one,) = loop("LOP3.LUT P3, RZ, R84, 0xff, RZ, 0xc0, !PT")
    assert registers(one) == ({"P3"}, {"R84"})
    (one,) = loop("BRA `(.L_x_11)")
    assert registers(one) == (set(), set())


@pytest.mark.machine_code
def test_no_round_is_shorter_than_its_instructions():
    for kind in ("b2p", "sweep", "backward"):
        way = machine_code(kinds(H100)[kind], H100.capability).main_loop(WORK)
        assert cycles(way) >= len(way)
