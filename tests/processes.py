"""Python code in a process of its own, for what happens once in a process or changes it.

Importing NumPy and ml_dtypes takes longer than all else that most such codes do. So one process imports them, once, and
each code runs in a fork of it.
"""

import atexit
import json
import os
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path

FORKING = """
import json, os, signal, sys, tempfile
import ml_dtypes

for line in sys.stdin:
    code, arguments, folder, environment = json.loads(line)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            signal.alarm(120)
            nothing = os.open(os.devnull, os.O_RDONLY)
            for place, stream in enumerate((nothing, out.fileno(), errors.fileno())):
                os.dup2(stream, place)
            sys.argv[1:] = arguments
            os.chdir(folder)
            os.environ.clear()  # of what a test had set when this process started
            os.environ.update(environment)
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
            sys.exit()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = []
        for stream in (out, errors):
            stream.seek(0)
            texts.append(stream.read().decode(errors="backslashreplace"))
        print(json.dumps([status, *texts]), flush=True)
"""


@cache
def forking():
    """Return the process that forks. It ends with this one, whose standard output it has."""
    here = {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
        "OPENBLAS_NUM_THREADS": "1",  # Python warns of a fork beside other threads
    }
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", FORKING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **here},
    )

    def end():
        process.stdin.close()
        process.stdout.close()
        process.wait()

    atexit.register(end)
    return process


def run_python(code, *arguments, **environment):
    """Run Python code in a process that has imported NumPy and ml_dtypes alone, and turns warnings into errors.

    Its standard output and error are texts, and its standard input is empty.
    """
    process = forking()
    task = textwrap.dedent(code), arguments, str(Path.cwd()), {**os.environ, **environment}
    process.stdin.write(json.dumps(task) + "\n")
    process.stdin.flush()
    return subprocess.CompletedProcess(code, *json.loads(process.stdout.readline()))


def run_in_child(code, **environment):
    """Run Python code in a new process; return what it printed."""
    done = run_python(code, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout
