"""The machine code that CUDA's compiler makes of a kernel: read, not run."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from recfact.errors import MissingExtraError
from recfact.gpu.availability import install_compiler
from recfact.gpu.compiler import header_folders
from recfact.gpu.multiprocessors import multiprocessor_of
from recfact.gpu.plans import Launch
from tools.gpu.nvrtc import compile_launch, library_path

DISASSEMBLERS = ("nvdisasm", "cuobjdump")
USED = re.compile(r"(REG|STACK|SHARED|LOCAL):(\d+)")
RESERVED_COUNTED = (9, 0)  # from this compute capability on, shared memory is counted with what CUDA reserves of it


@dataclass(frozen=True)
class Instruction:
    """One machine instruction: under which predicate it runs, its name with modifiers, and its operands."""

    guard: str
    name: str
    operands: str

    @property
    def opcode(self) -> str:
        """Name without modifiers."""
        return self.name.split(".")[0]

    @property
    def always_leaves(self) -> bool:
        """Whether the next instruction is never reached from here."""
        return not self.guard and (self.name == "EXIT" or (self.name == "BRA" and self.operands.startswith("`(")))


@dataclass(frozen=True)
class Usage:
    """What the compiler said of a kernel, and what it takes: registers of a thread, bytes of stack and shared memory.

    `stack` counts local memory, too; `shared` is what the source declares.
    """

    log: str
    registers: int
    stack: int
    shared: int


@dataclass(frozen=True)
class MachineCode(Usage):
    """A compiled kernel with its code. `labels` say which instruction each follows upon."""

    instructions: tuple[Instruction, ...]
    labels: dict[str, int]

    def count(self, opcode: str) -> int:
        """Return how many instructions have an opcode."""
        return sum(instruction.opcode == opcode for instruction in self.instructions)

    def target(self, instruction: Instruction) -> int | None:
        """Return where an instruction branches to, if that is in the code."""
        match = re.search(r"`\((\.L_x_\d+)\)", instruction.operands)
        return self.labels[match[1]] if instruction.opcode == "BRA" and match else None

    def main_loop(self, through: tuple[str, ...]) -> list[Instruction]:
        """Return the shortest way round the loop that has most of the instructions `through`, missing none of them."""
        loops = [
            (target, end)
            for end, instruction in enumerate(self.instructions)
            if (target := self.target(instruction)) is not None and target <= end
        ]

        def load(loop: tuple[int, int]) -> tuple[int, int]:
            body = self.instructions[loop[0] : loop[1] + 1]
            return sum(instruction.opcode in through for instruction in body), -len(body)

        for start, end in sorted(loops, key=load, reverse=True):
            if (way := self._way(start, end, through)) is not None:
                return way
        raise LookupError("no loop has a way round it")

    def shortest_run(self, through: dict[str, int]) -> int:
        """Return how many instructions the shortest run to an exit has that never goes back.

        Parameters
        ----------
        through : dict of str to int
            How often it goes through instructions of these names.
        """
        wanted = tuple(through.values())
        lengths: dict[int, dict[tuple[int, ...], int]] = {0: {(0,) * len(through): 0}}
        exits = []
        for place, instruction in enumerate(self.instructions):
            target = self.target(instruction)
            onward = [] if instruction.always_leaves else [place + 1]
            onward += [target] if target is not None and target > place else []
            for passed, length in lengths.pop(place, {}).items():
                counts = tuple(n + (instruction.name == name) for n, name in zip(passed, through, strict=True))
                if any(n > most for n, most in zip(counts, wanted, strict=True)):
                    continue
                if instruction.name == "EXIT" and counts == wanted:
                    exits.append(length + 1)
                for following in onward:
                    there = lengths.setdefault(following, {})
                    there[counts] = min(there.get(counts, length + 1), length + 1)
        if not exits:
            raise LookupError("no run to an exit goes through these")
        return min(exits)

    def _way(self, start: int, end: int, through: tuple[str, ...]) -> list[Instruction] | None:
        """Return the shortest way from one place to a later one that skips no instruction `through`."""
        best: dict[int, list[int]] = {start: []}
        for place in range(start, end + 1):
            if place not in best:
                continue
            way, instruction = [*best[place], place], self.instructions[place]
            if place == end:
                return [self.instructions[k] for k in way]
            onward = [] if instruction.always_leaves else [place + 1]
            target = self.target(instruction)
            if target is not None and place < target <= end:
                skipped = self.instructions[place + 1 : target]
                if instruction.always_leaves or not any(i.opcode in through for i in skipped):
                    onward.append(target)
            for following in onward:
                if following not in best or len(way) < len(best[following]):
                    best[following] = way
        return None


def missing_tools() -> str | None:
    """Say which of compiler and disassemblers isn't among the installed packages; None if all are."""
    if library_path() is not None and all(_tool(name).exists() for name in DISASSEMBLERS):
        return None
    return f"CUDA's compiler and disassemblers aren't installed: pip install {install_compiler(13, *DISASSEMBLERS)}"


def _tool(name: str) -> Path:
    return next((folder.parent / "bin" / name for folder in header_folders()), Path(name))


_compiled = lru_cache(512)(compile_launch)


@cache
def usage(launch: Launch, capability: tuple[int, int]) -> Usage:
    """Compile the kernel of a launch as CuPy would, and read what it takes, in half the time of `machine_code`.

    Raises
    ------
    MissingExtraError
        If the compiler or the disassemblers aren't installed.
    CompileError
        If the compiler doesn't take the source.
    """
    _need_tools()
    cubin, log = _compiled(launch, capability)
    said = _read("cuobjdump", "-res-usage", cubin)
    numbers = {name: int(number) for name, number in USED.findall(said.split("Function")[1])}
    reserved = multiprocessor_of(capability).reserved_bytes if capability >= RESERVED_COUNTED else 0
    shared = numbers["SHARED"] and numbers["SHARED"] - reserved
    return Usage(log, numbers["REG"], numbers["STACK"] + numbers["LOCAL"], shared)


@cache
def machine_code(launch: Launch, capability: tuple[int, int]) -> MachineCode:
    """Compile the kernel of a launch as CuPy would, and read the result.

    Raises
    ------
    MissingExtraError, CompileError
        As `usage` does.
    """
    _need_tools()
    cubin, _ = _compiled(launch, capability)
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in _read("nvdisasm", "-c", cubin).splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            labels[label[1]] = len(instructions)
        elif code := re.match(r"\s*/\*[0-9a-f]+\*/\s+(@!?U?P\w+ )?\s*([A-Z][\w.]*)\s*(.*?)\s*;", line):
            instructions.append(Instruction((code[1] or "").strip(), code[2], code[3]))
    return MachineCode(**vars(usage(launch, capability)), instructions=tuple(instructions), labels=labels)


def _need_tools() -> None:
    missing = missing_tools()
    if missing is not None:
        raise MissingExtraError(missing)


def _read(tool: str, option: str, cubin: bytes) -> str:
    """Return what a tool writes about machine code."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(_tool(tool)), option, file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
