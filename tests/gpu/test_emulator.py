"""The emulator sees no fault where there is none, and counts what hardware would do."""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from recfact.gpu.plans import Argument, Launch
from tools.gpu.emulator import COMPILER, SCHEDULES, Buffer, Report, Schedule, emulate

pytestmark = pytest.mark.skipif(COMPILER is None, reason="the emulator needs Linux and g++")

PRELUDE = """
#include "accessors.h"
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
constexpr unsigned all = 0xffffffffu;
"""


def plan(*arguments: Argument, **others: Any) -> Launch:
    """Return a launch of a kernel k by one warp."""
    return replace(Launch("k", (), (1, 1, 1), (32, 1, 1), 0, arguments, (), ()), **others)


C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int32": "int",
    "uint32": "unsigned",
    "uint64": "unsigned long long",
}
C_TYPES |= {"float16": "half", "bfloat16": "__nv_bfloat16", "uint8": "unsigned char"}


def run(
    body: str,
    outputs: tuple[str, ...] = ("x",),
    schedule: str | Schedule = "in order",
    launch: dict[str, Any] | None = None,
    **arrays: Any,
) -> Report:
    """Run a kernel of the given body on arrays, which are its parameters by name."""
    parameters, arguments = [], []
    for name, array in arrays.items():
        memory = next(iter(array.pieces.values())) if isinstance(array, Buffer) else array
        c_type = C_TYPES[memory.dtype.name] + "*"
        parameters.append(f"{c_type} {name}")
        arguments.append(Argument(name, c_type, name))
    source = f'{PRELUDE}extern "C" __global__ void k({", ".join(parameters)}) {{\n{body}\n}}\n'
    order = SCHEDULES[schedule] if isinstance(schedule, str) else schedule
    return emulate(plan(*arguments, **(launch or {})), arrays, source=source, schedule=order, outputs=outputs)


def floats(n: int = 32) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


def blank(n: int = 32, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(n, dtype)


def shared_buffer(n: int, dtype: Any = np.uint32) -> Buffer:
    memory = np.zeros(n, dtype)
    return Buffer({0: memory}, memory.nbytes, "inout")


LANE = "const int i = threadIdx.x; "


def run_one(kernels: dict[str, str], name: str, u: np.ndarray, x: np.ndarray, schedule: str = "in order") -> Report:
    """Run one of several kernels that are built as one."""
    cases = "\n".join(f"case {k}: {{ {LANE}{body} break; }}" for k, body in enumerate(kernels.values()))
    source = (
        f'{PRELUDE}extern "C" __global__ void k(int which, float* u, float* x) {{ switch (which) {{\n{cases}\n}} }}'
    )
    arguments = [
        Argument("which", "int", list(kernels).index(name)),
        Argument("u", "float*", "u"),
        Argument("x", "float*", "x"),
    ]
    return emulate(plan(*arguments), {"u": u, "x": x}, source=source, schedule=SCHEDULES[schedule])


SOUND = {
    "copy": "store(x + i, load(u + i));",
    "through shared memory": """
        __shared__ float s[32]; store_shared(s + i, load(u + i)); __syncwarp(); float v = load_shared(s + 31 - i);
        __syncwarp(); store_shared(s + i, v); __syncwarp(); store(x + i, load_shared(s + 31 - i));
    """,
    "half warps": """
        __shared__ float s[32]; store_shared(s + i, load(u + i)); unsigned m = i < 16 ? 0xffff : 0xffff0000;
        __syncwarp(m); float v = load_shared(s + (i ^ 15)); v = __shfl_xor_sync(m, v, 15); store(x + i, v);
    """,
    "asynchronous": """
        __shared__ __align__(16) float s[32]; if (i < 8) copy16_async(s + 4 * i, u + 4 * i); commit_async();
        commit_async(); wait_async<1>(); __syncwarp(); store(x + i, load_shared(s + i));
    """,
    "shuffles": """
        float v = load(u + i); v = __shfl_up_sync(all, __shfl_down_sync(all, v, 1), 1); if (!i) v = load(u); store(x
        + i, v);
    """,
    "lanes leave": "if (i >= 16) { store(x + i, load(u + i)); break; } __syncwarp(); store(x + i, load(u + i));",
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", SOUND)
def test_sound_kernel_passes(name, schedule):
    u, x = floats(), blank()
    run_one(SOUND, name, u, x, schedule).check()
    np.testing.assert_array_equal(x, u)


def test_race_between_warps_needs_a_block_barrier():
    body = (
        LANE
        + "__shared__ float s[64]; store_shared(s + i, load(u + i)); BARRIER; store(x + i, load_shared(s + 63 - i));"
    )
    launch = {"block": (64, 1, 1)}
    report = run(body.replace("BARRIER", "__syncwarp()"), u=floats(64), x=blank(64), launch=launch)
    assert "race in shared memory" in report.kinds
    x = blank(64)
    report = run(body.replace("BARRIER", "__syncthreads()"), u=floats(64), x=x, launch=launch).check()
    np.testing.assert_array_equal(x, floats(64)[::-1])
    assert report.counts["block_barriers"] == 1


def test_dynamic_shared_memory_has_the_size_of_the_launch():
    body = (
        LANE
        + """extern __shared__ __align__(16) unsigned char pool[]; float* s = (float*)pool;
store_shared(s + i, load(u + i)); __syncwarp(); store(x + i, load_shared(s + 31 - i));"""
    )
    x = blank()
    run(body, u=floats(), x=x, launch={"shared_bytes": 128}).check()
    np.testing.assert_array_equal(x, floats()[::-1])
    assert "out of bounds" in run(body, u=floats(), x=blank(), launch={"shared_bytes": 124}).kinds


# Each block adds its number to the sum of those before it: the decoupled look-back at its smallest.
CHAIN = """
__shared__ unsigned mine;
if (threadIdx.x == 0) store_shared(&mine, TICKET);
__syncthreads();
const unsigned t = load_shared(&mine);
if (threadIdx.x == 0) {
  float before = 0;
  if (t) { while (!load_acquire(flag + t)); before = load(sum + t - 1); }
  store(sum + t, before + t);
  RELEASE;
  store(x + t, before + t);
}
"""


def chain(schedule, ticket="atomicAdd(flag, 1u)", release="store_release(flag + t + 1, 1u)", blocks=20):
    x = blank(blocks)
    body = CHAIN.replace("TICKET", ticket).replace("RELEASE", release)
    launch = {"grid": (blocks, 1, 1)}
    report = run(
        body,
        schedule=schedule,
        launch=launch,
        flag=shared_buffer(blocks + 2),
        sum=shared_buffer(blocks, np.float32),
        x=x,
    )
    return report, x


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_look_back_by_tickets_gets_through_in_every_order(schedule):
    report, x = chain(schedule)
    report.check()
    np.testing.assert_array_equal(x, np.cumsum(np.arange(20)))


def test_look_back_by_index_gets_stuck_if_blocks_start_in_another_order():
    assert chain("in order", "blockIdx.x")[0].kinds == set()
    report, _ = chain(Schedule(start="reversed", resident=4), "blockIdx.x")
    assert report.kinds == {"deadlock"}


@pytest.mark.parametrize("schedule", ["in order", "newest first"])
def test_look_back_without_a_fence_is_a_race(schedule):
    assert chain(schedule, release="store_relaxed(flag + t + 1, 1u)")[0].kinds == {"race in global memory"}
    assert chain(schedule, release="__threadfence(); store_relaxed(flag + t + 1, 1u)")[0].kinds == set()


def test_access_that_begins_inside_and_ends_outside():
    report = run(LANE + "store(x + i, load(u + i)); if (!i) load16(u + 32);", u=floats(33), x=blank())
    assert report.kinds == {"out of bounds"}


def test_scratch_is_read_after_it_was_written():
    scratch = Buffer({0: np.zeros(32, np.float32)}, 128, "scratch")
    run(LANE + "store(s + i, 1.f); store(x + i, load(s + i));", s=scratch, x=blank()).check()


def test_only_the_elements_of_a_view_are_to_be_written():
    whole = np.zeros(64, np.float32)
    run(LANE + "store(x + 2 * i, load(u + i));", u=floats(), x=whole[::2]).check()
    np.testing.assert_array_equal(whole[::2], floats())


def test_offsets_beyond_32_bits_need_no_memory():
    far = 5 << 32
    u = Buffer({far: floats()}, far + 128, "in")
    x = blank()
    run(LANE + f"store(x + i, load(u + {far // 4}ll + i));", u=u, x=x).check()
    np.testing.assert_array_equal(x, floats())


@pytest.mark.parametrize(("stride", "sectors", "efficiency"), [(1, 4, 1.0), (2, 8, 0.5), (8, 32, 0.125)])
def test_sectors(stride, sectors, efficiency):
    report = run(LANE + f"store(x + i, load(u + {stride} * i));", u=floats(32 * stride), x=blank()).check()
    assert report.arrays["u"].read_sectors == sectors
    assert report.arrays["u"].read == report.arrays["x"].written == 128
    assert 128 / (32 * report.arrays["u"].read_sectors) == efficiency


def test_width_of_accesses():
    body = LANE + "if (i < 8) store16(x + 4 * i, load16(u + 4 * i));"
    assert run(body, u=floats(), x=blank()).check().share_by_16_bytes == 1
    assert run(LANE + SOUND["copy"], u=floats(), x=blank()).check().share_by_16_bytes == 0


@pytest.mark.parametrize(("stride", "wavefronts"), [(1, 1), (2, 2), (16, 16), (32, 32), (33, 1), (0, 1)])
def test_bank_conflicts_of_4_bytes(stride, wavefronts):
    body = (
        LANE
        + """__shared__ float s[1100]; const int stride = load(n);
for (int j = i; j < 1100; j += 32) store_shared(s + j, 0.f);
__syncwarp(); store(x + i, load_shared(s + stride * i));"""
    )
    report = run(body, n=np.array([stride], np.int32), x=blank()).check()
    (read,) = [site for site in report.sites if site.what == "shared read"]
    assert (read.wavefronts, read.ideal) == (wavefronts, 1)


@pytest.mark.parametrize(("stride", "wavefronts"), [(0, 4), (4, 4), (8, 8), (36, 4), (32, 32)])
def test_bank_conflicts_of_16_bytes_go_by_quarters(stride, wavefronts):
    body = (
        LANE
        + """__shared__ __align__(16) float s[1200]; const int stride = load(n);
for (int j = i; j < 1200; j += 32) store_shared(s + j, 0.f);
__syncwarp(); store(x + i, load_shared((float4*)(s + stride * i)).x);"""
    )
    report = run(body, n=np.array([stride], np.int32), x=blank()).check()
    (read,) = [site for site in report.sites if site.what == "shared read"]
    assert (read.wavefronts, read.ideal) == (wavefronts, 4)


@pytest.mark.parametrize(("c_type", "dtype"), [("half", np.float16), ("__nv_bfloat16", ml_dtypes.bfloat16)])
def test_rounding_to_nearest_even(c_type, dtype):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 4096, dtype=np.uint32)
    every = np.arange(2**16, dtype=np.uint16).view(dtype).astype(np.float32)
    finite = np.sort(every[np.isfinite(every)])
    ties = finite[:-1] / 2 + finite[1:] / 2  # exact: one bit more than the format has
    u = np.concatenate([bits.view(np.float32), ties, np.nextafter(ties, np.float32(np.inf)), every]).astype(np.float32)
    x = np.zeros(u.size, dtype)
    body = LANE + f"for (int j = i; j < {u.size}; j += 32) store(x + j, {c_type}(load(u + j)));"
    run(body, u=u, x=x).check()
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(x.astype(np.float32), u.astype(dtype).astype(np.float32))


@pytest.mark.parametrize("truncate", [False, True])
@pytest.mark.parametrize("order", ["row", "col"])
def test_matrix_product(order, truncate):
    rng = np.random.default_rng(1)
    A, B = rng.integers(-8, 8, (2, 16, 16)).astype(np.float16)
    body = f"""const int i = threadIdx.x;
__shared__ __align__(32) half s[512]; __shared__ __align__(32) float r[256];
for (int j = i; j < 256; j += 32) {{ store_shared(s + j, load(a + j)); store_shared(s + 256 + j, load(b + j)); }}
__syncwarp();
wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::{order}_major> fa; wmma::load_matrix_sync(fa, s, 16);
wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::{order}_major> fb; wmma::load_matrix_sync(fb, s + 256, 16);
wmma::fragment<wmma::accumulator, 16, 16, 16, float> c; wmma::fill_fragment(c, 1.f); wmma::mma_sync(c, fa, fb, c);
for (int e = 0; e < c.num_elements; ++e) c.x[e] *= 2.f;
wmma::store_matrix_sync(r, c, 16, wmma::mem_{order}_major);
__syncwarp();
for (int j = i; j < 256; j += 32) store(x + j, load_shared(r + j));"""
    x = blank(256)
    a, b = (A, B) if order == "row" else (A.T.copy(), B.T.copy())
    arrays = {"a": a.ravel(), "b": b.ravel(), "x": x}
    arguments = [Argument("a", "half*", "a"), Argument("b", "half*", "b"), Argument("x", "float*", "x")]
    source = f'{PRELUDE}extern "C" __global__ void k(half* a, half* b, float* x) {{ {body} }}'
    report = emulate(plan(*arguments), arrays, source=source, truncate_products=truncate).check()
    result = x.reshape(16, 16) if order == "row" else x.reshape(16, 16).T
    np.testing.assert_array_equal(result, 2 * (A.astype(np.float32) @ B.astype(np.float32) + 1))
    assert report.counts["multiplies"] == 1


def test_subnormals_are_flushed_on_request():
    u, x = np.full(32, 1e-39, np.float32), blank()
    source = f'{PRELUDE}extern "C" __global__ void k(float* u, float* x) {{ {LANE} store(x + i, load(u + i) * 2.f); }}'
    launch = plan(Argument("u", "float*", "u"), Argument("x", "float*", "x"))
    emulate(launch, {"u": u, "x": x}, source=source).check()
    assert (x == 2 * u).all()
    emulate(launch, {"u": u, "x": x}, source=source, flush_subnormals=True).check()
    assert (x == 0).all()
