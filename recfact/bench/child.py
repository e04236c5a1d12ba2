"""Measurements in a new process, for what a process with a history can't tell."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


class ChildError(RuntimeError):
    """A measuring process failed; the message is the last line it wrote."""


def run_child(code: str) -> Any:
    """Run Python `code` in a new process that imports from the same places, and return what it prints as JSON.

    Examples
    --------
    >>> run_child("print([1, 2])")
    [1, 2]
    """
    places = f"import sys; sys.path[:] = {sys.path!r}\n"
    done = subprocess.run([sys.executable, "-c", places + code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChildError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}")
    return json.loads(done.stdout)


def import_seconds(module: str) -> float:
    """Return the seconds that importing `module` takes in a new process, without the start of the interpreter."""
    clock = "from time import perf_counter as now"
    return float(run_child(f"{clock}\nstart = now()\nimport {module}\nprint(now() - start)"))
