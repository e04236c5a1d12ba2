"""The compiled kernels of CuPy's stand-in: they take their arguments to pieces, and run without a GPU."""

from __future__ import annotations

import re
import time

import numpy as np
from gpu.bare_run import call_bare
from gpu.late_machine import Recorded, machine

from recfact.gpu.compiler import source_of
from recfact.gpu.plans import Argument, Launch


class CompileException(Exception):  # noqa: N818  # CuPy's name
    def __init__(self, msg, source, name, options, backend="nvrtc"):
        self._msg, self.source, self.name, self.options, self.backend = msg, source, name, options, backend

    def get_message(self):
        return self._msg


class RawModule:
    def __init__(self, *, code, options=(), backend="nvrtc"):
        assert isinstance(options, tuple)
        assert backend == "nvrtc"
        self.code, self.options = code, options

    def get_function(self, name):
        machine.compiled.append(name)
        time.sleep(0.01)  # others may come meanwhile
        if machine.compiler_log is not None:
            raise CompileException(machine.compiler_log, self.code, name, self.options)
        return Kernel(self.code, name, self.options)


def parameters(kernel, macros):
    """Return type and name of each of a kernel's parameters, from its source as a launch with these macros has it."""
    (text,) = re.findall(rf'extern "C" __global__ .*? {kernel}\((.*?)\) {{', source_of(kernel), flags=re.DOTALL)

    def kept(part):
        return part[2] if dict(macros)[part[1]] != "0" else ""

    text = re.sub(r"//.*", "", re.sub(r"#if (\w+)\n(.*?)#endif\n", kept, text, flags=re.DOTALL))
    words = (word.strip().rpartition(" ") for word in text.split(","))
    return [(c_type.strip(), name) for c_type, _, name in words]


class Kernel:
    """A kernel that knows its signature from its source."""

    def __init__(self, code, name, options):
        assert code == source_of(name)
        self.name, self.options = name, tuple(option for option in options if option.startswith("-D"))
        self.macros = tuple(tuple(option[2:].split("=", 1)) for option in self.options)
        self.device = machine.device
        self.signature = [(self._type(c_type), argument) for c_type, argument in parameters(name, self.macros)]

    def _type(self, c_type):
        return dict(self.macros)["STRIDE"] if c_type == "STRIDE" else c_type

    def __call__(self, grid, block, args, *, shared_mem=0):
        assert machine.device == self.device
        assert len(args) == len(self.signature)
        assert len(grid) == len(block) == 3
        for value, (c_type, name) in zip(args, self.signature, strict=True):
            size = 8 if type(value) is int else value.itemsize
            assert isinstance(value, int | np.integer), name
            assert size == (4 if c_type == "int" else 8), name
            assert -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1, name
        signature = tuple(c_type for c_type, _ in self.signature)
        values = [int(value) for value in args]
        described = tuple(
            Argument(name, c_type, value) for value, (c_type, name) in zip(values, self.signature, strict=True)
        )
        launch = Launch(self.name, self.macros, tuple(grid), tuple(block), shared_mem, described, (), ())
        machine.launches.append(Recorded(launch, machine.device, machine.stream, machine.launches_done))

        def run():
            call_bare(self.name, self.options, signature, values, block[0], grid[0])
            machine.launches_done += 1

        machine.put(run)
