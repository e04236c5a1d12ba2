"""An emulator of a GPU that executes PTX: the kernels as CUDA's compiler made them, run, checked and counted.

    report = execute(launch, {"u": u, "a": a, "x": x}, (9, 0), schedule=RANDOM[0])
    report.check()                          # no fault of any kind
    report.arrays["u"].read                 # bytes

What it models and what not is said in engine/machine.h.
"""

from tools.gpu.emulator.build import COMPILER
from tools.gpu.emulator.machine import RANDOM, TOGETHER, Buffer, Schedule, execute, text_of
from tools.gpu.emulator.program import UnsupportedError
from tools.gpu.emulator.report import ArrayTraffic, Fault, Report, SiteTraffic

__all__ = [
    "COMPILER",
    "RANDOM",
    "TOGETHER",
    "ArrayTraffic",
    "Buffer",
    "Fault",
    "Report",
    "Schedule",
    "SiteTraffic",
    "UnsupportedError",
    "execute",
    "text_of",
]
