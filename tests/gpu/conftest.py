"""Fixtures of the GPU tests."""

import sys

import pytest
from gpu import stand_in, torch_stand_in
from gpu.bare_run import need_compiler

from recfact.gpu import tuned
from tools.gpu.machine_code import missing_tools


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what reads or emulates machine code where CUDA's compiler or that of C++ is missing."""
    if item.get_closest_marker("machine_code"):
        if missing := missing_tools():
            pytest.skip(missing)
        need_compiler()


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """GPUs that aren't there, and a record of what they are asked: stand-ins for CuPy and for torch."""
    need_compiler()
    monkeypatch.setattr(tuned, "folder", lambda: tmp_path / "cache")
    with stand_in.fresh_machine() as machine:
        for name, module in {**stand_in.modules(tmp_path), "torch": torch_stand_in.module()}.items():
            monkeypatch.setitem(sys.modules, name, module)
        yield machine
