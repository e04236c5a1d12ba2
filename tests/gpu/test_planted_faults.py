"""The emulator sees planted faults of every kind that it knows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu.test_emulator import LANE, blank, chain, floats, run, run_one

from tools.gpu import emulator
from tools.gpu.emulator import COMPILER, Buffer, Report

pytestmark = pytest.mark.skipif(COMPILER is None, reason="the emulator needs Linux and g++")

FAULTS = {
    "out of bounds": "store(x + i, load(u + i + 1));",
    "out of bounds, below": "store(x + i, load(u + i - 1));",
    "out of bounds, 32 bits": "store(x + i, load(u + i)); if (!i) load(u + (long long)(1 << 30) * 4);",
    "misaligned": "store(x + i, load(u + i)); if (!i) load16(u + 1);",
    "input written": "store(x + i, load(u + i)); store(u + i, 0.f);",
    "output read": "store(x + i, load(u + i)); load(x + i);",
    "written twice": "store(x + i, load(u + i)); if (!i) store(x, 1.f);",
    "never written": "if (i) store(x + i, load(u + i));",
    "uninitialised shared read": """
        __shared__ float s[33]; store_shared(s + i, load(u + i)); __syncwarp(); store(x + i, load_shared(s + i +
        1));
    """,
    "race in shared memory": """
        __shared__ float s[32]; store_shared(s + i, load(u + i)); store(x + i, load_shared(s + 31 - i));
    """,
    "race in shared memory, write after read": """
        __shared__ float s[32]; store_shared(s + i, load(u + i)); __syncwarp(); float v = load_shared(s + 31 - i);
        store_shared(s + i, v); store(x + i, v);
    """,
    "race in shared memory, shuffle is no barrier": """
        __shared__ float s[32]; store_shared(s + i, load(u + i)); __shfl_sync(all, i, 0); store(x + i, load_shared(s
        + 31 - i));
    """,
    "race in shared memory, half a warp": """
        __shared__ float s[32]; store_shared(s + i, load(u + i)); __syncwarp(i < 16 ? 0xffff : 0xffff0000); store(x
        + i, load_shared(s + 31 - i));
    """,
    "copy not awaited": """
        __shared__ __align__(16) float s[32]; if (i < 8) copy16_async(s + 4 * i, u + 4 * i); commit_async();
        wait_async<1>(); __syncwarp(); store(x + i, load_shared(s + i));
    """,
    "race in shared memory, copy without barrier": """
        __shared__ __align__(16) float s[32]; if (i < 8) copy16_async(s + 4 * i, u + 4 * i); commit_async();
        wait_async<0>(); store(x + i, load_shared(s + i));
    """,
    "wrong copy, to global memory": "store(x + i, load(u + i)); if (!i) copy16_async(x, u);",
    "wrong copy, more than a piece": """
        __shared__ __align__(16) float s[4]; store(x + i, load(u + i)); if (!i) copy16_async(s, u, 20);
    """,
    "wrong mask": "store(x + i, load(u + i)); if (i == 20) __any_sync(0xffff, 1);",
    "shuffle source": "store(x + i, load(u + i)); if (i < 16) __shfl_sync(0xffff, 1, 20);",
    "mixed collectives": "store(x + i, load(u + i)); if (i < 16) __syncwarp(); else __any_sync(all, 1);",
    "deadlock": """
        store(x + i, load(u + i)); __shared__ unsigned s; if (!i) { store_shared(&s, 0u); while (!load_acquire(&s));
        }
    """,
    "unchecked access": "store(x + i, load(u + i)); x[i] = u[i];",
    "unchecked access, shared": "__shared__ float s[32]; ((volatile float*)s)[i] = 1.f; store(x + i, load(u + i));",
    "matrix pointer": """
        __shared__ __align__(32) half s[272]; for (int j = i; j < 272; j += 32) store_shared(s + j, half(1.f));
        __syncwarp(); wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a; wmma::load_matrix_sync(a,
        s + 8, 16); store(x + i, load(u + i));
    """,
    "fragment copies differ": """
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a; wmma::fragment<wmma::matrix_b, 16, 16,
        16, half, wmma::row_major> b; wmma::fragment<wmma::accumulator, 16, 16, 16, float> c; wmma::fill_fragment(a,
        half(1.f)); wmma::fill_fragment(b, half(1.f)); wmma::fill_fragment(c, 0.f); a.x[0] = half(2.f);
        wmma::mma_sync(c, a, b, c); store(x + i, load(u + i));
    """,
    "race in shared memory, matrix load": """
        __shared__ __align__(32) half s[256]; for (int j = i; j < 256; j += 32) store_shared(s + j, half(1.f));
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a; wmma::load_matrix_sync(a, s, 16);
        store(x + i, load(u + i));
    """,
}


# Of other arrays than one to read and one to write.
OTHER_FAULTS: dict[str, Callable[[], Report]] = {
    "race in global memory": lambda: chain("in order", release="store_relaxed(flag + t + 1, 1u)")[0],
    "uninitialised global read": lambda: run(
        LANE + "store(x + i, load(s + i));", s=Buffer({0: blank()}, 128, "scratch"), x=blank()
    ),
    "written outside": lambda: run(
        LANE + "store(x + 2 * i, load(u + i)); if (!i) store(x + 1, 0.f);", u=floats(), x=blank(64)[::2]
    ),
    # Beyond 32 bits.
    "unforeseen address": lambda: run(
        LANE + "store(x + i, load(u + (int)((5ll << 30) + i)));",
        u=Buffer({5 << 32: floats()}, (5 << 32) + 128, "in"),
        x=blank(),
    ),
}
OF_THE_EMULATOR = {"machine", "stack overflow"}  # what it lacks itself; no kernel does wrong


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_seen_and_no_other(name):
    kind = name.split(",")[0]
    kinds = run_one(FAULTS, name, floats(), blank()).kinds
    if kind == "race in shared memory":  # who reads too early may find nothing
        kinds -= {"uninitialised shared read"}
    assert kinds == {kind}


@pytest.mark.parametrize("kind", OTHER_FAULTS)
def test_planted_fault_of_other_arrays_is_seen_and_no_other(kind):
    assert OTHER_FAULTS[kind]().kinds == {kind}


def kinds_in_the_source() -> set[str]:
    """Return what the engine calls the faults that it reports: the first argument wherever it does."""
    kinds: set[str] = set()
    for file in Path(emulator.__file__).parent.glob("*/*.*"):
        source = file.read_text(encoding="utf-8")
        names = dict(re.findall(r'const char\* const (\w+) = "([^"]+)"', source))
        for argument in re.findall(r"\bfault\(([^,]+),", source):
            if not argument.startswith("const char*"):  # where the function itself is declared
                kinds.update(re.findall(r'"([^"]+)"', argument) or [names[argument]])
    return kinds


def test_every_kind_is_planted():
    planted = {name.split(",")[0] for name in FAULTS} | set(OTHER_FAULTS)
    assert planted | OF_THE_EMULATOR == kinds_in_the_source()
    assert not planted & OF_THE_EMULATOR
