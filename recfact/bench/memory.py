"""The memory that calls need beyond their inputs and their output, measured in a process of its own."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from recfact.bench.cases import Case, all_cases
from recfact.bench.child import run_child
from recfact.bench.timing import Call

MIB = 1 << 20


def extra_memory(call: Call) -> int:
    """Return the bytes by which memory grows at most while `call` runs, after a first run.

    The greater of what the system sees, whole pages of whoever touched them, and what Python and NumPy allocate, which
    may lie in pages that the process had already. Reads Linux's /proc.
    """
    call()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins at what is resident now
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
    """Return the extra memory of each case of the table by its name, if it has a figure to meet."""
    return {case.name: extra_of(case, numbers) for case in all_cases() if case.at_most is not None}


def extra_of(case: Case, numbers: int) -> int:
    """Return the extra memory of the call of `solve` in a case."""
    ours, _ = case.make(numbers)
    return extra_memory(ours)


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
