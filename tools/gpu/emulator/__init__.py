"""An emulator of a GPU for recfact's kernels: the unchanged CUDA source built by g++, run, checked and counted.

    report = emulate(launch, {"u": u, "a": a, "x": x}, source=source_of(launch.kernel))
    report.check()                          # no fault of any kind
    report.arrays["u"].read                 # bytes

What it models and what not is said in include/emulator.h.
"""

from tools.gpu.emulator.build import COMPILER, Library, build
from tools.gpu.emulator.launch import SCHEDULES, Buffer, Schedule, emulate
from tools.gpu.emulator.report import ArrayTraffic, Fault, Report, SiteTraffic

__all__ = [
    "COMPILER",
    "SCHEDULES",
    "ArrayTraffic",
    "Buffer",
    "Fault",
    "Library",
    "Report",
    "Schedule",
    "SiteTraffic",
    "build",
    "emulate",
]
