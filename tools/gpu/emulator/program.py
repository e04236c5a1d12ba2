"""From the text of PTX to what the emulator executes: instructions whose operands are places of rows of registers."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

from tools.gpu.emulator.build import operand_sizes

LANES = 32
REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(%\w+?)(?:<(\d+)>)?;")
SHARED = re.compile(r"(\.extern )?\.shared\s+\.align\s+(\d+)\s+\.[bfu](\d+)\s+(\w+)(?:\[(\d*)\])?;")
PARAMETER = re.compile(r"\.param\s+\.(\w+)\s+(?:\.ptr\s+(?:\.global\s+)?\.align\s+\d+\s+)?(\w+),?$")
LOCATION = re.compile(r"\.loc\s+(\d+) (\d+) \d+")
STATEMENT = re.compile(r"(?:@(!?)(%\w+)\s+)?([a-z][\w.:]*)\s*([^;]*);")
SPECIAL = tuple(f"%{name}.{axis}" for name in ("tid", "ctaid", "ntid", "nctaid") for axis in "xyz")
ADDRESS = re.compile(r"\[\s*([%\w]+)\s*(?:\+\s*(-?\d+))?\s*\]")


class UnsupportedError(Exception):
    """The emulator doesn't have what a program uses."""


@dataclass(frozen=True)
class Step:
    """An instruction as the emulator takes it: places of operands, what is added to an address, where it stands."""

    operation: int
    guard: int
    negated: bool
    target: int
    offset: int
    line: int
    operands: tuple[int, ...]


@dataclass
class Program:
    """A kernel in PTX.

    Parameters
    ----------
    steps : list of Step
        Its instructions.
    operations : list of str
        Their names, by number.
    parameters : list of str
        Types, in their order.
    places : dict of str to int
        Of parameters' values, in bytes from the start of the constants.
    constants : bytearray
        Rows of one value for all lanes.
    register_bytes : int
        Of a warp.
    special : int
        Where the rows of a thread's place in the grid begin.
    shared_bytes : int
        That the kernel declares; what the launch adds comes behind.
    files : dict of int to str
        Names of the source's files, by number.
    """

    steps: list[Step] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    constants: bytearray = field(default_factory=bytearray)
    register_bytes: int = 0
    special: int = 0
    shared_bytes: int = 0
    files: dict[int, str] = field(default_factory=dict)

    def place(self, line: int) -> str:
        """Return in words which line of the source a number of a line stands for."""
        return f"{self.files.get(line >> 20, '?')}:{line & 0xFFFFF}"


def width_of(kind: str) -> int:
    """Return the bytes of a type of PTX: "pred", "b32", ..."""
    return 1 if kind == "pred" else int(kind[1:]) // 8


def parse(text: str) -> Program:
    """Read a kernel.

    Raises
    ------
    UnsupportedError
        If it has an instruction or an operand that the emulator doesn't know.
    """
    return _Reader(text).program


class _Reader:
    """One pass over the lines, with labels resolved before."""

    def __init__(self, text: str) -> None:
        self.program = Program()
        self.widths: dict[str, int] = dict.fromkeys(SPECIAL, 4)
        self.registers: dict[str, int] = {}
        self.known: dict[tuple[int, int], int] = {}
        self.symbols: dict[str, int] = {}
        for name in SPECIAL:
            self._register(name, 4)
        lines = [line.strip("{ \t") for line in re.sub(r"//[^\n]*", "", text).splitlines()]
        self._declare(lines)
        self._read(lines)

    def _register(self, name: str, width: int) -> None:
        self.widths[name] = width
        self.registers[name] = self.program.register_bytes
        self.program.register_bytes += LANES * max(width, 4)

    def _declare(self, lines: list[str]) -> None:
        program, dynamic = self.program, []
        for line in lines:
            if match := REGISTERS.search(line):
                names = [match[2]] if match[3] is None else [f"{match[2]}{k}" for k in range(int(match[3]))]
                for name in names:
                    self._register(name, width_of(match[1]))
            elif match := SHARED.search(line):
                if match[1]:
                    dynamic.append(match[4])
                    continue
                start = -(-program.shared_bytes // int(match[2])) * int(match[2])
                self.symbols[match[4]] = start
                program.shared_bytes = start + int(match[3]) // 8 * int(match[5] or 1)
            elif match := PARAMETER.match(line):
                program.parameters.append(match[1])
                program.places[match[2]] = self._constant(0, max(width_of(match[1]), 4), fresh=True)
            elif match := re.match(r'\.file\s+(\d+) "(?:.*/)?([^"/]+)"', line):
                program.files[int(match[1])] = match[2]
        program.shared_bytes = -(-program.shared_bytes // 16) * 16
        self.symbols |= dict.fromkeys(dynamic, program.shared_bytes)

    def _constant(self, value: int, width: int, *, fresh: bool = False) -> int:
        """Return the place of a row of a constant in the constants."""
        key = (value & ((1 << 8 * width) - 1), width)
        if fresh or key not in self.known:
            place = len(self.program.constants)
            self.program.constants += key[0].to_bytes(width, "little") * LANES
            if fresh:
                return place
            self.known[key] = place
        return self.known[key]

    def _read(self, lines: list[str]) -> None:
        labels: dict[str, int] = {}
        statements: list[tuple[str | None, str | None, str, list[str], int]] = []
        line_number = 0
        for line in lines:
            if match := re.match(r"(\$\w+):", line):
                labels[match[1]] = len(statements)
            elif match := LOCATION.match(line):
                line_number = int(match[1]) << 20 | int(match[2])
            elif match := STATEMENT.match(line):
                for name, operands in _split(match[3], match[4]):
                    statements.append((match[1], match[2], name, operands, line_number))
        numbers: dict[str, int] = {}
        for negated, guard, name, operands, at in statements:
            target, offset = -1, 0
            places: tuple[int, ...] = ()
            if name.startswith("bra"):
                target = labels[operands[0]]
            else:
                name, offset, places = self._operands(name, operands)
            number = numbers.setdefault(name, len(numbers))
            self.program.steps.append(
                Step(number, self.registers[guard] if guard else -1, bool(negated), target, offset, at, places)
            )
        self.program.operations = list(numbers)

    def _operands(self, name: str, operands: list[str]) -> tuple[str, int, tuple[int, ...]]:
        sizes = operand_sizes(name)
        if sizes is None or len(sizes) != len(operands):
            raise UnsupportedError(f"the emulator has no instruction {name} of {len(operands)} operands: {operands}")
        offset = 0
        places: list[int] = []
        for size, operand in zip(sizes, operands, strict=True):
            word = operand
            if match := ADDRESS.fullmatch(operand):
                word = match[1]
                offset += int(match[2] or 0)
            if word in self.registers:
                if self.widths[word] != size:
                    if name.startswith("cvt.") and self.widths[word] > size and places:
                        return self._operands(f"{name} of {self.widths[word]}", operands)
                    raise UnsupportedError(f"{name} takes {size} bytes, and {word} has {self.widths[word]}")
                places.append(self.registers[word])
            elif word in self.program.places:
                places.append(-1 - self.program.places[word])
            elif word == "_":
                raise UnsupportedError(f"{name} without a destination")
            else:
                places.append(-1 - self._constant(self._value(word), size))
        return name, offset, tuple(places)

    def _value(self, word: str) -> int:
        if word in self.symbols:
            return self.symbols[word]
        if match := re.fullmatch(r"0[fd]([0-9A-Fa-f]{8,16})", word):
            return int(match[1], 16)
        try:
            return int(word.rstrip("U"), 0)
        except ValueError:
            raise UnsupportedError(f"the emulator doesn't know {word}") from None


def _split(name: str, text: str) -> list[tuple[str, list[str]]]:
    """Return an instruction's operands in one list; what takes a register apart is an instruction for each part."""
    if name.startswith("mov.") and "{" in text:
        kind = name[-4:]
        first, second = (part.strip() for part in re.split(r",(?![^{]*\})", text))
        if first.startswith("{"):
            low, high = _words(first)
            return [(f"{part}{kind}", [to, second]) for part, to in (("low", low), ("high", high)) if to != "_"]
        return [(f"pack{kind}", [first, *_words(second)])]
    if name.startswith("ld.param."):
        to, parameter = _words(text)
        return [(f"mov.{name[9:]}", [to, parameter.strip("[]")])]
    return [(name, _words(text))]


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[\s,{}|]+", text) if word]


def value_bytes(kind: str, value: float) -> bytes:
    """Return the bytes of a parameter's value, at least four."""
    if kind in ("f32", "f64"):
        return struct.pack("<f" if kind == "f32" else "<d", value)
    width = max(width_of(kind), 4)
    return (int(value) & ((1 << 8 * width) - 1)).to_bytes(width, "little")
