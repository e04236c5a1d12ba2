"""How long a warp takes for its main loop if it is alone: the chain of instructions that wait for each other.

A warp issues its instructions in order, one a cycle at most. Each waits until the registers and predicates that it
reads have come. So the loop is gone through again and again, and the cycles between two rounds are counted. Numbers
from global memory are taken to be there. How long before their use they set out is counted as well, by `lead`, and how
many must be on their way is a quantity of its own. What other warps do in the meantime doesn't count, and neither do
queues of the units.

The latencies are assumptions, in the sizes that microbenchmarks of these generations found (Jia et al. 2018, Sun et
al. 2022, Luo et al. 2024). No GPU has confirmed them for these kernels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tools.gpu.machine_code import Instruction

PLAIN = 5  # cycles from issue until what an instruction of plain arithmetic gives can be read
LATENCY = {
    "HMMA": 33,
    "LDS": 30,
    "LDSM": 33,
    "SHFL": 24,
    "VOTE": 12,
    "MUFU": 20,
    "S2R": 25,
    "LDC": 30,
    "DFMA": 8,
    "DMUL": 8,
    "DADD": 8,
}
ARRIVED = ("LDG", "LDGSTS")
STORES = ("ST", "STS", "STG", "BRA", "BAR", "DEPBAR", "LDGSTS", "NOP", "EXIT", "WARPSYNC")
PREDICATE = re.compile(r"!?U?P[0-9T]")
ROUNDS = 4  # after which each round takes as long as the one before


def cycles(loop: Sequence[Instruction]) -> int:
    """Return the cycles between two rounds of a loop, for a warp that is alone."""
    issued = [now for now, _, _, _ in _rounds(loop)]
    return issued[-1] - issued[-1 - len(loop)]


def lead(loop: Sequence[Instruction]) -> int:
    """Return the fewest cycles between a load from global memory and its first reader, for a warp that is alone."""
    loaded: dict[str, int] = {}
    leads = []
    for now, instruction, written, read in _rounds(loop):
        leads += [now - loaded.pop(name) for name in read if name in loaded]
        for name in written:
            loaded.pop(name, None)
        if instruction.opcode == "LDG":
            loaded |= dict.fromkeys(written, now)
    return min(leads)


def gap(loop: Sequence[Instruction], first: str, then: str) -> int:
    """Return the most cycles from an instruction of one name to the next of another, for a warp that is alone."""
    began, most = None, 0
    for now, instruction, _, _ in _rounds(loop):
        if instruction.name == then and began is not None:
            most, began = max(most, now - began), None
        if instruction.name == first:
            began = now
    return most


def _rounds(loop: Sequence[Instruction]) -> Iterator[tuple[int, Instruction, set[str], set[str]]]:
    """Go through a loop again and again: when each instruction is issued, what it writes, and what it reads."""
    ready: dict[str, int] = {}
    now = 0
    for instruction in [*loop] * ROUNDS:
        written, read = registers(instruction)
        now = max([now + 1, *(ready.get(name, 0) for name in read)])
        latency = 1 if instruction.opcode in ARRIVED else LATENCY.get(instruction.opcode, PLAIN)
        # Under a guard the old value may stay, and that must have come as well.
        ready |= {name: max(now + latency, ready.get(name, 0) if instruction.guard else 0) for name in written}
        yield now, instruction, written, read


def registers(instruction: Instruction) -> tuple[set[str], set[str]]:
    """Return the registers and predicates that an instruction writes, and those that it reads."""
    operands = [part.strip() for part in re.sub(r"`\(.*?\)", "", instruction.operands).split(",")]
    targets = int(instruction.opcode not in STORES)
    if targets and instruction.opcode != "VOTE" and any(PREDICATE.fullmatch(part) for part in operands[:2]):
        targets = 2  # two predicates of a comparison, or one beside the number of a sum, a shuffle or a test
    written = {name for part in operands[:targets] for name in _names(part, _width(instruction, 0))}
    read = {
        name for place, part in enumerate(operands[targets:], 1) for name in _names(part, _width(instruction, place))
    }
    return written, read | set(_names(instruction.guard, 1))


def _width(instruction: Instruction, place: int) -> int:
    """Return the registers of an operand; place 0 is what is written."""
    if instruction.opcode == "HMMA":
        return (4, 4, 2, 4)[min(place, 3)]
    if ".128" in instruction.name or instruction.name.endswith("88.4"):
        return 4 if place == 0 or instruction.opcode in ("STS", "STG") else 2
    if instruction.opcode[0] == "D" and instruction.opcode != "DEPBAR":
        return 2
    wide = ".64" in instruction.name or ".WIDE" in instruction.name
    return 2 if wide and (place in (0, 3) or instruction.opcode in ("STS", "STG")) else 1


def _names(operand: str, width: int) -> list[str]:
    """Return the registers and predicates that an operand names."""
    found: list[str] = re.findall(r"\b(U?P[0-9])\b", operand)
    for kind, number, wide in re.findall(r"\b(U?R)(\d+)(\.64)?", operand):
        count = 2 if wide else 1 if "[" in operand or kind == "UR" else width
        found += [f"{kind}{int(number) + k}" for k in range(count)]
    return found
