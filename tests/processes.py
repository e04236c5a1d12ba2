"""Python code in a process of its own, for what happens once in a process or changes it."""

import os
import subprocess
import sys
import textwrap


def run_in_child(code, **environment):
    """Run Python code in a new process; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
