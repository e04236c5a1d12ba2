"""Fixtures of the GPU tests."""

import sys

import pytest
from gpu import stand_in, torch_stand_in
from gpu.bare_run import need_compiler

from recfact.gpu import tuned


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """GPUs that aren't there, and a record of what they are asked: stand-ins for CuPy and for torch."""
    need_compiler()
    monkeypatch.setattr(tuned, "folder", lambda: tmp_path / "cache")
    with stand_in.fresh_machine() as machine:
        for name, module in {**stand_in.modules(tmp_path), "torch": torch_stand_in.module()}.items():
            monkeypatch.setitem(sys.modules, name, module)
        yield machine
