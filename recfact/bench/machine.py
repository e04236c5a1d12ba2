"""The machine and the versions that a measurement belongs to."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from recfact.cpu.limits import processors

PACKAGES = ("numpy", "scipy", "llvmlite", "ml_dtypes", "torch", "torchlpc", "jax")


def describe() -> dict[str, Any]:
    """Return the processor, the usable cores, the memory in GiB, the system and versions, but no names."""
    return {
        "processor": processor(),
        "cores": processors(),
        "memory": memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": packages(),
    }


def processor() -> str:
    """Return the model of the processor, if the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def memory() -> float | None:
    """Return the memory of the machine in GiB, or None where the system doesn't tell."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


def packages() -> dict[str, str]:
    """Return the versions of the packages that take part and are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
