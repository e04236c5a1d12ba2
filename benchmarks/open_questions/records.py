"""The answers as files: each with the command that gave it and the machine that it ran on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recfact.bench.machine import describe

FOLDER = Path(__file__).parents[1] / "results" / "open_questions"


def record(name: str, answer: Callable[[], dict[str, Any]]) -> None:
    """Write an answer to its file."""
    about = {"command": f"python -m benchmarks.open_questions.{name}", "machine": describe()}
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps({**about, "answer": shortened(answer())}, indent=1)
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def shortened(value: Any) -> Any:
    """Return an answer whose floats have nine digits, as many as a float32 needs."""
    if isinstance(value, dict):
        return {name: shortened(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(each) for each in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def read(name: str) -> dict[str, Any]:
    """Return a record."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
