"""Compile kernels for real GPUs without one, and read the machine code: NVRTC and nvdisasm, both from PyPI."""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from recfact.gpu.compiler import header_folders, options_of, source_of
from recfact.gpu.launch import Launch


def need_tools() -> None:
    """Skip where the compiler, its headers or the disassembler are missing."""
    if not header_folders() or not _library() or not _tool("nvdisasm") or not _tool("cuobjdump"):
        pytest.skip("CUDA's compiler isn't installed: pip install 'recfact[gpu-test]'")


def _folder() -> Path:
    return header_folders()[0].parent


def _library() -> Path | None:
    return next(iter(sorted(_folder().glob("lib/libnvrtc.so.*"))), None)


def _tool(name: str) -> Path | None:
    path = _folder() / "bin" / name
    return path if path.exists() else None


class CompileError(Exception):
    pass


@cache
def _nvrtc() -> ctypes.CDLL:
    return ctypes.CDLL(str(_library()))


def compile_source(source: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    """Compile to machine code; return it and what the compiler said."""
    library, program, size = _nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    try:
        encoded = [option.encode() for option in options]
        failed = library.nvrtcCompileProgram(program, len(encoded), (ctypes.c_char_p * len(encoded))(*encoded))
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        if failed:
            raise CompileError(log.value.decode())
        library.nvrtcGetCUBINSize(program, ctypes.byref(size))
        cubin = ctypes.create_string_buffer(size.value)
        library.nvrtcGetCUBIN(program, cubin)
        return cubin.raw, log.value.decode().strip("\0\n ")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


@dataclass(frozen=True)
class Instruction:
    guard: str
    name: str
    operands: str

    @property
    def opcode(self) -> str:
        return self.name.split(".")[0]

    @property
    def always_leaves(self) -> bool:
        """Whether the next instruction is never reached from here."""
        return not self.guard and (self.name == "EXIT" or (self.name == "BRA" and self.operands.startswith("`(")))


@dataclass(frozen=True)
class MachineCode:
    log: str
    registers: int
    stack: int
    shared: int
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]

    def count(self, opcode: str) -> int:
        return sum(instruction.opcode == opcode for instruction in self.instructions)

    def target(self, instruction: Instruction) -> int | None:
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
        raise AssertionError("no loop has a way round it")

    def _way(self, start: int, end: int, through: tuple[str, ...]) -> list[Instruction] | None:
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


@cache
def machine_code(launch: Launch, capability: tuple[int, int]) -> MachineCode:
    """Compile the kernel of a launch as CuPy would, and read the result."""
    includes = tuple(f"-I{folder}" for folder in header_folders())
    target = f"-arch=sm_{capability[0]}{capability[1]}"
    cubin, log = compile_source(source_of(launch.kernel), (*options_of(launch), target, "-ftz=true", *includes))
    return read(cubin, log)


def read(cubin: bytes, log: str) -> MachineCode:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)

        def run(tool: str, option: str) -> str:
            command = [str(_tool(tool)), option, str(path)]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout

        listing, usage = run("nvdisasm", "-c"), run("cuobjdump", "-res-usage")
    instructions, labels = [], {}
    for line in listing.splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            labels[label[1]] = len(instructions)
        elif code := re.match(r"\s*/\*[0-9a-f]+\*/\s+(@!?U?P\w+ )?\s*([A-Z][\w.]*)\s*(.*?)\s*;", line):
            instructions.append(Instruction((code[1] or "").strip(), code[2], code[3]))
    numbers = dict(re.findall(r"(REG|STACK|SHARED|LOCAL):(\d+)", usage.split("Function")[1]))
    return MachineCode(
        log,
        int(numbers["REG"]),
        int(numbers["STACK"]) + int(numbers["LOCAL"]),
        int(numbers["SHARED"]),
        tuple(instructions),
        labels,
    )
