"""Which plan was the fastest for solves of a kind when it was timed on a card. This is kept on disk.

Solves are of one kind if they have the same number types, window and options, if their channels and steps lie alike,
and if their lengths have the same powers of two. The number of their sequences and the longest one are such lengths.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile

from recfact.gpu.availability import driver_release, driver_version, version_text
from recfact.gpu.solves import LAST, Solve
from recfact.strides import Strided
from recfact.windows import window_text

ON_FIRST = "RECFACT_GPU_TUNE"
"""The environment variable that, set to 1, lets the first solve of a kind time its kernels."""
LARGEST_UNIT = 16  # of where sequences start: no access has more steps
Winners = dict[str, dict[str, str]]  # by card and kind


def asked() -> bool:
    """Say whether the first solve of a kind is to time its kernels."""
    return os.environ.get(ON_FIRST, "0") not in ("", "0")


def folder() -> Path:
    """Return the folder of the file."""
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path("~/.cache").expanduser()
    return Path(home) / "recfact"


def kind_of(solve: Solve[Strided]) -> str:
    """Return a text for all solves of one kind. Raises ShapeError if this one takes several launches."""
    geometry, sequences = solve.geometry, solve.sequences
    lengths = (geometry.steps, geometry.batch * geometry.heads, geometry.channels)
    nearest = "x".join(map(_nearest, lengths))
    types = "/".join(view.type.dtype.name for view in (geometry.a, geometry.u, geometry.x))
    along = "steps" if geometry.time_contiguous else "channels" if geometry.channels_contiguous else "neither"
    words = [types, nearest, f"{along} contiguous", window_text(solve.window), solve.precision]
    words += [f"gates of {geometry.gate_heads}"] * bool(solve.gates)
    words += ["shared"] * geometry.shared + ["reverse"] * geometry.reverse + ["x0"] * (geometry.x0 is not None)
    if solve.kept is not None:
        which = "last states" if solve.every == LAST else f"every {solve.every}th state"
        words.append(f"{which} kept" if solve.written else f"{which} alone")
    if sequences is not None:
        unit = min(sequences.unit, LARGEST_UNIT)
        words.append(f"{_nearest(sequences.count)} sequences of {_nearest(sequences.longest)}, in units of {unit}")
    return ", ".join(words)


def _nearest(length: int) -> str:
    """Return the least power of two that isn't smaller."""
    return str(1 << (length - 1).bit_length())


@cache
def card(device: int) -> str:
    """Return a text for a GPU and its driver: by its release, or where that isn't told, by the CUDA that it takes."""
    import cupy

    name, release = cupy.cuda.runtime.getDeviceProperties(device)["name"].decode(), driver_release()
    return f"{name}, driver {release}" if release else f"{name}, CUDA {version_text(driver_version())}"


@cache
def winners() -> Winners:
    """Read what is on disk. What can't be read counts as nothing."""
    try:
        kept = json.loads((folder() / "gpu.json").read_text(encoding="utf-8"))
        return {str(one): dict(kinds) for one, kinds in kept.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def winner(device: int, kind: str) -> str | None:
    """Return the name of the plan that was the fastest for a kind of solves on a GPU, if any was timed."""
    kept = winners()
    return kept.get(card(device), {}).get(kind) if kept else None


def keep(device: int, kind: str, plan: str) -> None:
    """Remember the fastest plan for a kind of solves on a GPU, for this process and later ones."""
    winners.cache_clear()
    kept = winners()
    kept.setdefault(card(device), {})[kind] = plan
    folder().mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", encoding="utf-8", dir=folder(), suffix=".json", delete=False) as file:
        json.dump(kept, file, indent=1, sort_keys=True)
    Path(file.name).replace(folder() / "gpu.json")  # at once, whoever reads it meanwhile
