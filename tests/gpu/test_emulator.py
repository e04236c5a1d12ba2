"""The emulator: it sees no fault where there is none, each kind where there is one, and counts."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from recfact.errors import MissingExtraError
from recfact.gpu.plans import Argument, Launch
from tools.gpu import emulator
from tools.gpu.emulator import RANDOM, TOGETHER, Buffer, Report, Schedule, UnsupportedError, build, execute
from tools.gpu.nvrtc import compile_ptx

pytestmark = pytest.mark.machine_code

H100 = (9, 0)
SCHEDULES = (TOGETHER, *RANDOM)
PRELUDE = """
#include <mma.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
using namespace nvcuda;
constexpr unsigned WARP = 0xffffffffu;
__device__ __forceinline__ void copy16(void* shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
                 "l"(global), "r"(16) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
}
#define WAIT(n) asm volatile("cp.async.wait_group " #n ";" ::: "memory")
"""
C_TYPES = {"float32": "float", "float64": "double", "int32": "int", "uint32": "unsigned", "float16": "half"}
C_TYPES |= {"bfloat16": "__nv_bfloat16"}


@cache
def compiled(source: str) -> str:
    return compile_ptx(PRELUDE + source, ("--std=c++17", "-lineinfo"), H100)


def run(
    body: str, outputs: tuple[str, ...] = ("x",), schedule: Schedule = TOGETHER, warps: int = 1, **arrays: Any
) -> Report:
    """Execute a kernel of the given body by one thread block; arrays are its parameters by name."""
    parameters, arguments = [], []
    for name, array in arrays.items():
        memory = next(iter(array.pieces.values())) if isinstance(array, Buffer) else array
        c_type = C_TYPES[memory.dtype.name] + "*"
        parameters.append(f"{c_type} {name}")
        arguments.append(Argument(name, c_type, name))
    text = compiled(
        f'extern "C" __global__ void k({", ".join(parameters)}) {{ const int i = threadIdx.x;\n{body}\n}}\n'
    )
    launch = Launch("k", (), (1, 1, 1), (32 * warps, 1, 1), 0, tuple(arguments), (), ())
    return execute(launch, arrays, H100, text=text, schedule=schedule, outputs=outputs)


def floats(n: int = 32) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


def blank(n: int = 32, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(n, dtype)


def run_one(kernels: dict[str, str], name: str, u: np.ndarray, x: np.ndarray, schedule: Schedule = TOGETHER) -> Report:
    """Execute one of several kernels that are compiled as one."""
    cases = "\n".join(f"case {k}: {{ {body} break; }}" for k, body in enumerate(kernels.values()))
    text = compiled(
        'extern "C" __global__ void k(int which, float* u, float* x) {'
        f" const int i = threadIdx.x; switch (which) {{\n{cases}\n}} }}"
    )
    arguments = (
        Argument("which", "int", list(kernels).index(name)),
        Argument("u", "float*", "u"),
        Argument("x", "float*", "x"),
    )
    launch = Launch("k", (), (1, 1, 1), (32, 1, 1), 0, arguments, (), ())
    return execute(launch, {"u": u, "x": x}, H100, text=text, schedule=schedule)


SOUND = {
    "copy": "x[i] = u[i];",
    "through shared memory": """
        __shared__ float s[32]; s[i] = u[i]; __syncwarp(); float v = s[31 - i]; __syncwarp(); s[i] = v; __syncwarp();
        x[i] = s[31 - i];
    """,
    "half warps": """
        __shared__ float s[32]; s[i ^ 15] = u[i]; __syncwarp(i < 16 ? 0xffff : 0xffff0000); x[i] = s[i ^ 15];
    """,
    "asynchronous": """
        __shared__ __align__(16) float s[32]; if (i < 8) copy16(s + 4 * i, u + 4 * i); WAIT(0); __syncwarp();
        x[i] = s[i];
    """,
    "shuffles": """
        float v = u[i]; v = __shfl_down_sync(WARP, v, 1); v = __shfl_sync(WARP, v, i ? i - 1 : 0); x[i] = i ? v : u[0];
    """,
    "lanes leave": "if (i >= 16) { x[i] = u[i]; return; } __syncwarp(0xffff); x[i] = u[i];",
}


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: str(schedule.seed))
@pytest.mark.parametrize("name", SOUND)
def test_sound_kernel_passes(name, schedule):
    u, x = floats(), blank()
    run_one(SOUND, name, u, x, schedule).check()
    np.testing.assert_array_equal(x, u)


FAULTS = {
    "out of bounds": "x[i] = u[i + 1];",
    "out of bounds, below": "x[i] = u[i - 1];",
    "out of bounds, 32 bits": "x[i] = u[i + (long long)(i == 0) * (1 << 30) * 4];",
    "out of bounds, shared": "__shared__ float s[32]; s[i] = u[i]; __syncwarp(); x[i] = s[i + (u[31] > 5) * 0x100000];",
    "misaligned": "float2 v = *(float2*)(u + 1); x[i] = i ? u[i] : v.x + v.y;",
    "input written": "x[i] = u[i]; u[i] = 0;",
    "output read": "x[i] = x[i] + u[i];",
    "written twice": "x[i] = u[i]; __syncwarp(); if (!i) x[u[0] > 5] = 1;",
    "never written": "if (i) x[i] = u[i];",
    "unwritten shared memory read": "__shared__ float s[33]; s[i] = u[i]; __syncwarp(); x[i] = s[i + 1];",
    "wrong mask": "x[i] = u[i]; if (i == 20) __any_sync(0xffff, u[i] > 1);",
    "shuffle source": "x[i] = i < 16 ? __shfl_sync(0xffff, u[i], 20) : u[i];",
    "deadlock": "x[i] = u[i]; if (i < 16) __any_sync(WARP, u[i] > 1); else __syncwarp();",
    "barrier without all threads": "x[i] = u[i]; if (i == 31) return; __syncthreads();",
    "matrix pointer": """
        __shared__ __align__(32) half s[272]; for (int j = i; j < 272; j += 32) s[j] = u[j % 32]; __syncwarp();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a; wmma::load_matrix_sync(a, s + 8, 16);
        x[i] = a.x[0];
    """,
    "fragment copies differ": """
        __shared__ __align__(32) float r[256];
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a; wmma::fill_fragment(a, half(1.f));
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b; wmma::fill_fragment(b, half(1.f));
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> c; wmma::fill_fragment(c, 0.f); a.x[0] = u[i];
        wmma::mma_sync(c, a, b, c); wmma::store_matrix_sync(r, c, 16, wmma::mem_row_major); x[i] = u[i];
    """,
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_seen_and_no_other(name):
    kind = name.split(",")[0]
    kinds = run_one(FAULTS, name, floats(), blank()).kinds
    assert kinds == {kind}


# What only comes out in some order of lanes, or of what they write: seen in one of these schedules, by what comes out.
RACES = {
    "no barrier": "__shared__ float s[32]; s[i] = u[i]; x[i] = s[31 - i];",
    "no barrier before writing again": """
        __shared__ float s[32]; s[i] = u[i]; __syncwarp(); float v = s[31 - i]; s[i] = v; x[i] = v;
    """,
    "a shuffle is no barrier": """
        __shared__ float s[32]; s[i] = u[i]; int z = __shfl_sync(WARP, 0, 0); x[i] = s[31 - i - z];
    """,
    "a barrier of half a warp": """
        __shared__ float s[32]; s[i] = u[i]; __syncwarp(i < 16 ? 0xffff : 0xffff0000); x[i] = s[31 - i];
    """,
    "a copy not awaited": """
        __shared__ __align__(16) float s[32]; if (i < 8) copy16(s + 4 * i, u + 4 * i); WAIT(1); __syncwarp();
        x[i] = s[31 - i];
    """,
    "a copy awaited without a barrier": """
        __shared__ __align__(16) float s[32]; if (i < 8) copy16(s + 4 * i, u + 4 * i); WAIT(0); x[i] = s[31 - i];
    """,
    "no barrier before a matrix": """
        __shared__ __align__(32) half s[256]; for (int j = i; j < 256; j += 32) s[j] = u[j % 32];
        __shared__ __align__(32) float r[256];
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a; wmma::load_matrix_sync(a, s, 16);
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b; wmma::fill_fragment(b, half(0.f));
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> c; wmma::fill_fragment(c, 0.f);
        wmma::mma_sync(c, a, b, c); wmma::store_matrix_sync(r, c, 16, wmma::mem_row_major); __syncwarp();
        x[i] = u[31 - i] + r[i];
    """,
}


@pytest.mark.parametrize("name", RACES)
def test_race_is_seen(name):
    seen = []
    for seed in range(16):
        x = blank()
        report = run_one(RACES, name, floats(), x, Schedule(seed))
        seen.append(bool(report.faults) or bool((x != floats()[::-1]).any()))
    assert any(seen)


def test_warps_need_a_barrier_of_the_block():
    body = "__shared__ float s[64]; s[i] = u[i]; BARRIER; x[i] = s[63 - i];"
    right, wrong = (body.replace("BARRIER", barrier) for barrier in ("__syncthreads()", "__syncwarp()"))
    seen = []
    for schedule in SCHEDULES:
        x = blank(64)
        report = run(right, u=floats(64), x=x, warps=2, schedule=schedule).check()
        np.testing.assert_array_equal(x, floats(64)[::-1])
        assert report.counts["block_barriers"] == 1
        seen.append(run(wrong, u=floats(64), x=blank(64), warps=2, schedule=schedule).kinds)
    assert {"unwritten shared memory read"} in seen


def test_scratch_is_read_after_it_was_written():
    memory = Buffer({0: blank()}, 128, "scratch")
    run("s[i] = u[i]; x[i] = s[i];", s=memory, u=floats(), x=blank()).check()
    assert run("x[i] = s[i] + u[i];", s=memory, u=floats(), x=blank()).kinds == {"unwritten global memory read"}


def test_only_the_elements_of_a_view_are_to_be_written():
    whole = blank(64)
    run("x[2 * i] = u[i];", u=floats(), x=whole[::2]).check()
    np.testing.assert_array_equal(whole[::2], floats())
    assert run("x[2 * i] = u[i]; if (!i) x[1] = 0;", u=floats(), x=blank(64)[::2]).kinds == {"written outside"}


def test_offsets_beyond_32_bits_need_no_memory():
    far, x = 5 << 32, blank()
    u = Buffer({far: floats()}, far + 128, "in")
    run(f"x[i] = u[i + {far // 4}ll];", u=u, x=x).check()
    np.testing.assert_array_equal(x, floats())
    assert run(f"x[i] = u[i + (int){far // 4 + 64}ll];", u=u, x=blank()).kinds == {"unforeseen address"}


@pytest.mark.parametrize(("stride", "sectors"), [(1, 4), (2, 8), (8, 32)])
def test_sectors(stride, sectors):
    report = run(f"x[i] = u[{stride} * i];", u=floats(32 * stride), x=blank()).check()
    assert report.arrays["u"].read_sectors == sectors
    assert report.arrays["u"].read == report.arrays["x"].written == 128
    assert report.sector_efficiency == 256 / (32 * (sectors + 4))


def test_width_of_accesses():
    wide = run("if (i < 8) ((float4*)x)[i] = ((float4*)u)[i];", u=floats(), x=blank()).check()
    assert (wide.share_by_16_bytes, run(SOUND["copy"], u=floats(), x=blank()).share_by_16_bytes) == (1, 0)


@pytest.mark.parametrize("stride", [0, 1, 2, 4, 8, 16, 32, 33, 36])
def test_bank_conflicts(stride):
    banks = """__shared__ __align__(16) float s[1200]; const int stride = n[0];
for (int j = i; j < 1200; j += 32) s[j] = 0;
__syncwarp(); x[i] = READ;"""
    for read, phase, words in (("s[stride * i]", 32, 1), ("((float4*)(s + stride * i))->x", 8, 4)):
        if words > 1 and stride % 4:
            continue
        if words > 1:  # all four are asked for, or the compiler reads one
            read = "[&] { float4 v = *(float4*)(s + stride * i); return v.x + v.y + v.z + v.w; }()"
        report = run(banks.replace("READ", read), n=np.array([stride], np.int32), x=blank()).check()
        site = max((site for site in report.sites if site.what == "shared read"), key=lambda site: site.bytes)
        lanes = [
            {stride * lane + word for lane in range(first, first + phase) for word in range(words)}
            for first in range(0, 32, phase)
        ]
        most = sum(max(np.bincount([word % 32 for word in words_]).max(), 1) for words_ in lanes)
        assert site.wavefronts == most
        assert site.ideal == sum(-(-len(words_) // 32) for words_ in lanes)


@pytest.mark.parametrize(("c_type", "dtype"), [("half", np.float16), ("__nv_bfloat16", ml_dtypes.bfloat16)])
def test_rounding_to_nearest_even(c_type, dtype):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 4096, dtype=np.uint32)
    every = np.arange(2**16, dtype=np.uint16).view(dtype).astype(np.float32)
    finite = np.sort(every[np.isfinite(every)])
    ties = finite[:-1] / 2 + finite[1:] / 2  # exact: one bit more than the format has
    u = np.concatenate([bits.view(np.float32), ties, np.nextafter(ties, np.float32(np.inf)), every]).astype(np.float32)
    u = u[: u.size // 32 * 32]
    x = np.zeros(u.size, dtype)
    run(f"for (int j = i; j < {u.size}; j += 32) x[j] = {c_type}(u[j]);", u=u, x=x).check()
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(x.astype(np.float32), u.astype(dtype).astype(np.float32))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("order", ["row", "col"])
def test_matrix_product(order, dtype):
    kind = np.float16 if dtype == "float16" else ml_dtypes.bfloat16
    A, B = np.random.default_rng(1).integers(-8, 8, (2, 16, 16)).astype(kind)
    c_type = C_TYPES[dtype]
    word = "half" if dtype == "float16" else "__nv_bfloat16"
    body = f"""__shared__ __align__(32) {word} s[512]; __shared__ __align__(32) float r[256];
for (int j = i; j < 256; j += 32) {{ s[j] = a[j]; s[256 + j] = b[j]; }}
__syncwarp();
wmma::fragment<wmma::matrix_a, 16, 16, 16, {c_type}, wmma::row_major> fa;
wmma::fragment<wmma::matrix_b, 16, 16, 16, {c_type}, wmma::{order}_major> fb;
LOAD
wmma::fragment<wmma::accumulator, 16, 16, 16, float> c; wmma::fill_fragment(c, 1.f); wmma::mma_sync(c, fa, fb, c);
for (int e = 0; e < c.num_elements; ++e) c.x[e] *= 2.f;
wmma::store_matrix_sync(r, c, 16, wmma::mem_{order}_major);
__syncwarp();
for (int j = i; j < 256; j += 32) x[j] = r[j];"""
    load = "wmma::load_matrix_sync(fa, s, 16); wmma::load_matrix_sync(fb, s + 256, 16);"
    if dtype == "bfloat16":  # where the library's own takes generic addresses, the kernels say that they are shared
        load = "".join(
            f"""asm volatile("wmma.load.{letter}.sync.aligned.{way}.m16n16k16.shared.bf16 {{%0, %1, %2, %3}}, [%4], 16;"
                : "=r"(((unsigned*){name}.x)[0]), "=r"(((unsigned*){name}.x)[1]), "=r"(((unsigned*){name}.x)[2]),
                  "=r"(((unsigned*){name}.x)[3])
                : "r"((unsigned)__cvta_generic_to_shared(s + {at})) : "memory");"""
            for letter, name, way, at in (("a", "fa", "row", 0), ("b", "fb", order, 256))
        )
    x = blank(256)
    b = B if order == "row" else B.T.copy()
    report = run(body.replace("LOAD", load), a=A.ravel(), b=b.ravel(), x=x).check()
    result = x.reshape(16, 16) if order == "row" else x.reshape(16, 16).T
    np.testing.assert_array_equal(result, 2 * (A.astype(np.float32) @ B.astype(np.float32) + 1))
    assert report.counts["multiplies"] == 1


def test_subnormals_are_flushed_where_the_ptx_says_so():
    u, x = np.full(32, 1e-39, np.float32), blank()
    run("x[i] = u[i] * 2.f;", u=u, x=x).check()
    assert not x.any()
    doubles = blank(dtype=np.float64)
    run("x[i] = u[i] * 2.;", u=np.full(32, 1e-310), x=doubles).check()
    assert (doubles == 2e-310).all()


def test_integer_instructions():
    # Against Python's integers, on numbers whose products pass 32 and 64 bits.
    rng = np.random.default_rng(3)
    p = rng.integers(-(2**31), 2**31, 32).astype(np.int32)
    q = np.where(rng.integers(0, 2, 32), 3, -7).astype(np.int32)
    body = """const int P32 = __shfl_sync(WARP, p[i], i), Q32 = __shfl_sync(WARP, q[i], i);
const long long P = P32, Q = Q32 * 0x10000001ll; const unsigned r = P32;
x[i] = (int)(__mul64hi(P << 31, Q) ^ (P / Q) ^ (r / 7u) ^ __brev(r) ^ __ffs(P32) ^ (P >> 3) ^ (P32 << 5)
       ^ max(P32, Q32) ^ (r >> (Q32 & 15)));"""
    x = blank(dtype=np.int32)
    run(body, p=p, q=q, x=x).check()
    for lane in range(32):
        a, b = int(p[lane]), int(q[lane])
        P, Q, r = a, b * 0x10000001, a % 2**32
        quotient = abs(P) // abs(Q) * (1 if (P < 0) == (Q < 0) else -1)
        first = (r & -r).bit_length()
        value = ((P << 31) * Q >> 64) ^ quotient ^ (r // 7) ^ int(f"{r:032b}"[::-1], 2) ^ first ^ (P >> 3) ^ (a << 5)
        value ^= max(a, b) ^ (r >> (b & 15))
        assert int(x[lane]) % 2**32 == value % 2**32


def test_what_the_emulator_does_not_have():
    with pytest.raises(UnsupportedError, match="no instruction sqrt"):
        run("x[i] = sqrtf(u[i]);", u=floats(), x=blank())
    assert build.operand_sizes("sqrt.rn.f32") is None


def kinds_in_the_source() -> set[str]:
    """Return what the engine calls the faults that it reports: the first argument wherever it does."""
    files = (Path(emulator.__file__).parent / "engine").glob("*.cpp")
    return {kind for file in files for kind in re.findall(r'\bfault\("([^"]+)"', file.read_text(encoding="utf-8"))}


def test_every_kind_is_planted():
    elsewhere = {"unwritten global memory read", "written outside", "unforeseen address"}
    of_the_emulator = {"machine"}  # what it lacks itself; no kernel does wrong
    assert {name.split(",")[0] for name in FAULTS} | elsewhere | of_the_emulator == kinds_in_the_source()


def test_the_engine_needs_a_compiler(monkeypatch):
    monkeypatch.setattr(build, "COMPILER", None)
    with pytest.raises(MissingExtraError, match="built by g"):
        build.library.__wrapped__()
