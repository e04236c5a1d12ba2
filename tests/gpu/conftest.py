"""Fixtures of the GPU tests."""

import sys

import pytest
from gpu import stand_in
from gpu.bare_run import need_compiler


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """GPUs that aren't there: CuPy's stand-in, with a record of what it is asked."""
    need_compiler()
    with stand_in.fresh_machine() as machine:
        for name, module in stand_in.modules(tmp_path).items():
            monkeypatch.setitem(sys.modules, name, module)
        yield machine
