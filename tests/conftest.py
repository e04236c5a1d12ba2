"""The header of a run, and the fixtures and markers of the tests."""

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from zlib import crc32

import numpy as np
import pytest
import typer.testing
from hypothesis import settings
from samples import leave_to_the_slow_run

from recfact.cpu import limits

# CI tries the same examples every time; elsewhere each run looks for new ones.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("local", deadline=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

NAMED = (
    "numpy",
    "scipy",
    "llvmlite",
    "mpmath",
    "sympy",
    "ml_dtypes",
    "hypothesis",
    "torch",
    "jax",
    "pandas",
    "xarray",
    "polars",
    "dask",
    "cupy-cuda12x",
    "cupy-cuda13x",
)


def pytest_configure() -> None:
    """Let tests have as many threads as they ask for, on any machine and for fewer numbers."""
    limits.MOST_THREADS, limits.WORTH_THREADS = 1 << 8, 1 << 14
    # Typer's runner reads the signatures of all commands anew for each call, which takes longer than most calls.
    typer.testing._get_command = cache(typer.testing._get_command)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A random generator of the test's own, seeded by its name: the same numbers in every run and every order."""
    return np.random.default_rng(crc32(request.node.nodeid.encode()))


@pytest.fixture(params=[8, 1 << 15], ids=["small pieces", "large pieces"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Average sequences that are longer than a piece, and shorter ones."""
    monkeypatch.setattr("recfact.weighted.PIECE", request.param)
    monkeypatch.setattr("recfact.weighted.LEAST_ROWS", 3)


@pytest.fixture
def blank_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the pictures of pages blank, for tests of what else is on a page: drawing them takes most of the time."""
    monkeypatch.setattr("recfact.report.html.draw", lambda name, report: None)
    monkeypatch.setattr("recfact.report.html.inline_svg", lambda figure, shows: f'<svg aria-label="{shows}"></svg>')


def find_gpu() -> tuple[str | None, str]:
    """Return the CUDA device's name, or None, and why there is none."""
    if find_spec("cupy") is None:
        return None, "CuPy is not installed"
    import cupy

    try:
        return cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(), ""
    except cupy.cuda.runtime.CUDARuntimeError as problem:
        return None, f"no CUDA device ({problem})"


def pytest_report_header() -> list[str]:
    """Name the versions and the device that the results belong to."""
    versions = []
    for name in NAMED:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    gpu, missing = find_gpu()
    return [
        f"numbers: {', '.join(versions)}",
        f"device: {platform.machine()}, {os.cpu_count()} cores; GPU: {gpu or missing}",
    ]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sample what is to be sampled. Skip, with the reason, what this machine can't run."""
    leave_to_the_slow_run(items)
    gpu, no_gpu = find_gpu()
    missing = {
        "torch": "" if find_spec("torch") else "PyTorch is not installed",
        "gpu": "" if gpu else no_gpu,
    }
    for item in items:
        for name, reason in missing.items():
            if reason and item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))
