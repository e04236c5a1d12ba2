"""What is measured in a process of its own."""

import mmap
from pathlib import Path

import numpy as np
import pytest

from recfact.bench.cases import all_cases
from recfact.bench.child import ChildError, import_seconds, run_child
from recfact.bench.memory import MIB, extra_memory, largest_extra

linux = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads Linux's /proc")


def test_a_child_imports_from_where_this_process_does(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("number = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert run_child("import only_here; print(only_here.number)") == 7


def test_a_child_that_fails_says_why():
    with pytest.raises(ChildError, match="ModuleNotFoundError: No module named 'no_such_module'"):
        import_seconds("no_such_module")
    with pytest.raises(ChildError, match="exit 3"):
        run_child("raise SystemExit(3)")


def test_a_module_that_waits_takes_as_long(tmp_path, monkeypatch):
    (tmp_path / "waiting.py").write_text("import time\ntime.sleep(0.1)\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert import_seconds("waiting") >= 0.1


@linux
def test_memory_that_python_does_not_know_of_is_seen():
    def touch_eight_mib():
        with mmap.mmap(-1, 8 * MIB) as pages:
            for place in range(0, len(pages), mmap.PAGESIZE):
                pages[place] = 1

    assert 7 * MIB < extra_memory(touch_eight_mib) < 12 * MIB


@linux
def test_memory_that_was_resident_already_is_seen():
    room = np.ones(MIB)  # eight bytes each
    del room
    assert extra_memory(lambda: np.ones(MIB)) >= 8 * MIB


@linux
@pytest.mark.slow
def test_no_case_needs_memory_that_grows_with_its_arrays():
    name, extra = largest_extra(1 << 22)
    assert name in [case.name for case in all_cases()]
    assert 0 < extra < 4  # a copy of the smallest array would be 8
