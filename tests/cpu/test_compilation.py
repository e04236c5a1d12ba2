"""When kernels are compiled, what is kept of it, and what a user is told."""

import ctypes
import os
import subprocess
import sys
import textwrap
import time
from threading import Barrier, Thread

import numpy as np
import pytest
from processes import run_in_child, run_python

from recfact.cpu import compilation
from recfact.cpu.compilation import FOLDER, Kernel, announced, from_disk, kernel, source_stamp, to_disk
from recfact.cpu.machine_code import DATA, ITEMS, TYPE
from recfact.cpu.numbers import Lanes
from recfact.cpu.operations import load, multiply, size, store


@kernel
def cube(lanes, source, to, count):
    for i in range(count):
        x = load(lanes, source, i * size(lanes))
        store(lanes, to, i * size(lanes), multiply(lanes, multiply(lanes, x, x), x))
    return count


TOLD = "recfact: compiling for this processor may take some seconds, once for each number type and kind of window\n"

# A process that solves once and prints what was compiled; PREPARE runs before.
SOLVE = """
import numpy as np, recfact
from recfact.cpu import compilation
compilation.source_stamp = lambda: "stamp"  # whoever edits a source meanwhile
compiled, compile = [], compilation.object_code
compilation.object_code = lambda function, kinds: compiled.append(function.__name__) or compile(function, kinds)
{prepare}
x = recfact.solve(np.ones(600), np.ones(600), threads=1)
assert np.array_equal(x, np.arange(1, 601)), x
print(compiled.count("scan_rows"))
"""


def test_machine_code_reads_objects_as_this_python_lays_them_out():
    def word(of, offset):
        return ctypes.c_ssize_t.from_address(id(of) + offset).value

    items, array = (object(), object(), object()), np.zeros(3)
    assert word(items, TYPE) == id(tuple)
    assert word(array, TYPE) == id(np.ndarray)
    assert word(array, DATA) == array.ctypes.data
    assert [word(items, ITEMS + 8 * place) for place in range(3)] == [id(item) for item in items]


def solve_in_child(cache, prepare=""):
    """Solve in a new process with a cache folder; return how many kernels it compiled, and what it wrote to stderr."""
    done = run_python(SOLVE.format(prepare=textwrap.dedent(prepare)), **{FOLDER: str(cache)})
    assert done.returncode == 0, done.stderr
    return int(done.stdout), done.stderr


def run_cube(values):
    source, to = np.array(values, dtype=np.float64), np.zeros(len(values))
    count = cube[Lanes("float64", 1)](source.ctypes.data, to.ctypes.data, len(source))
    return count, to.tolist()


def test_a_kernel_runs_on_addresses():
    assert run_cube([1.0, -2.0, 3.0]) == (3, [1.0, -8.0, 27.0])


def test_code_is_compiled_once_and_told_once(tmp_path):
    """The first process compiles and says so, a later one does neither; a change of any source compiles anew."""
    impatient = "compilation.PATIENCE = 0"
    assert solve_in_child(tmp_path, impatient) == (1, TOLD)
    assert solve_in_child(tmp_path, impatient) == (0, "")
    assert solve_in_child(tmp_path, "compilation.source_stamp = lambda: 'another'")[0] == 1


def test_damaged_files_are_replaced(tmp_path):
    """One process compiles again and says so; the next one finds good files."""
    solve_in_child(tmp_path)
    (path,) = tmp_path.rglob("*.code")
    good = path.read_bytes()
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    impatient = "compilation.PATIENCE = 0"
    assert solve_in_child(tmp_path, impatient) == (1, TOLD)
    assert solve_in_child(tmp_path, impatient) == (0, "")


def test_damage_of_any_kind_is_seen(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setattr(compilation, "loaded", lambda code, name: code)
    path, code = tmp_path / "cube.code", bytes(range(256))
    to_disk(path, code)
    good = path.read_bytes()
    assert from_disk(path.name, "cube") == code
    for damaged in (bytes(len(good)), good[: len(good) // 2], b"", bytes([good[0] ^ 1]) + good[1:], good + b"\0"):
        path.write_bytes(damaged)
        assert from_disk(path.name, "cube") is None


def test_what_cannot_be_written_is_no_obstacle(tmp_path):
    """A full disk, say: the kernel is compiled."""
    prepare = """
    compilation.PATIENCE = 1000
    def full(*_, **__): raise OSError
    compilation.tempfile.mkstemp = full
    """
    assert solve_in_child(tmp_path, prepare) == (1, "")


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path):
    """The kernel is compiled, and the message says so in every process."""
    (tmp_path / "file").touch()
    prepare = "compilation.PATIENCE = 0"
    compiled, told = solve_in_child(tmp_path / "file", prepare)
    assert compiled == 1
    assert told.count("\n") == 1
    assert "in every process" in told
    assert FOLDER in told


def test_threads_that_come_at_once_compile_once():
    """Several threads ask for the same new kernel; each runs the one that was compiled."""
    fresh = Kernel(cube.function)
    lanes = Lanes("float32", 4)
    barrier = Barrier(4)
    found = []

    def ask():
        barrier.wait()
        found.append(fresh[lanes])

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(entry is found[0] for entry in found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_fork_while_another_thread_compiles(tmp_path):
    """The child isn't left with a lock that nobody holds: it compiles and solves."""
    prepare = """
    import os, threading, time
    from recfact.cpu import channels
    from recfact.windows import Full
    thread = threading.Thread(
        target=lambda: channels.solve_into(
            *np.ones((3, 9, 17), dtype=np.float32), None, reverse=False, window=Full(), threads=1
        )
    )
    thread.start()
    time.sleep(0.2)
    child = os.fork()
    if child:
        thread.join()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """
    code = SOLVE.format(prepare=textwrap.dedent(prepare)) + "\nif not child: os._exit(0)\n"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, FOLDER: str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_an_error_of_the_source_reaches_the_caller():
    @kernel
    def wrong(lanes, count):
        return count.nothing

    with pytest.raises(TypeError, match="nothing"):
        wrong[Lanes("float32", 1)]


def test_only_long_work_is_announced_and_once(monkeypatch, capsys):
    monkeypatch.setattr(compilation, "SAID", [])
    monkeypatch.setattr(compilation, "PATIENCE", 60)
    with announced("too quick to say"):
        pass
    monkeypatch.setattr(compilation, "PATIENCE", 0.01)
    for _ in range(2):
        with announced("working"):
            time.sleep(0.1)
    time.sleep(0.05)
    assert capsys.readouterr().err == "recfact: working\n"


def test_the_stamp_follows_the_sources(monkeypatch, tmp_path):
    """Another text in any file of the package is another stamp; files that aren't sources don't count."""
    stamps = []
    for text in ("a = 1\n", "a = 2\n"):
        (tmp_path / "module.py").write_text(text)
        for other in ("", "notes"):
            (tmp_path / "notes.txt").write_text(other)
            monkeypatch.setattr(compilation, "files", lambda package: tmp_path)
            source_stamp.cache_clear()
            stamps.append(source_stamp())
    source_stamp.cache_clear()
    assert stamps[0] == stamps[1] != stamps[2] == stamps[3]


def test_nothing_imports_llvm_before_it_is_needed():
    assert run_in_child("import sys, recfact; print('llvmlite' in sys.modules)") == "False\n"
