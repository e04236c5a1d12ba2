"""The memory that calls need beyond their inputs and output, measured in a process of its own."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from recfact.bench.cases import all_cases
from recfact.bench.child import run_child
from recfact.bench.timing import Call

MIB = 1 << 20


def extra_memory(call: Call) -> int:
    """Return the largest growth of memory while `call` runs, in bytes, after a first run.

    There are two measures, and the greater one counts. The system sees all pages that are touched. Python and NumPy
    count what they allocate, which may lie in pages that the process had already. Reads Linux's /proc.
    """
    call()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from the memory resident now
    before = peak_resident()
    call()
    resident = peak_resident() - before
    tracemalloc.start()
    try:
        call()
        return max(resident, tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def peak_resident() -> int:
    """Return the most bytes that were in memory at once."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def all_extras(numbers: int) -> dict[str, int]:
    """Return the extra memory of each call that writes into `out`, by the name of its case."""
    calls = ((case.name, case.make(numbers)[0]) for case in all_cases())
    return {name: extra_memory(call) for name, call in calls if "out" in call.keywords}


def largest_extra(numbers: int) -> tuple[str, float]:
    """Return the case that needs the most extra memory, and how many MiB it needs.

    Raises
    ------
    ChildError
        If the system has no /proc/self/clear_refs, or lets nobody write to it.
    """
    code = f"from recfact.bench import memory; import json; print(json.dumps(memory.all_extras({numbers})))"
    extras: dict[str, int] = run_child(code)
    name = max(extras, key=lambda name: extras[name])
    return name, extras[name] / MIB
