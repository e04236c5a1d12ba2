"""float16 and bfloat16 as the kernels read and round them, through x[0] = a[0] x0 + u[0] with x0 in float32."""

import platform

import numpy as np
import pytest
from fused import DTYPES, assert_same, to_storage
from processes import run_in_child

from recfact.cpu import channels
from recfact.windows import Full


def round_trip(values, dtype):
    """Round float32 to a half by the kernels: x0 enters as float32."""
    one, none = np.ones((1, 1), dtype=dtype), np.full((1, 1), -0.0).astype(dtype)
    x = np.empty((1, len(values)), dtype=dtype)
    channels.solve_into(one, none, x, values, reverse=False, window=Full(), threads=1)
    return x[0]


@pytest.mark.parametrize("dtype", DTYPES[4:], ids=str)
def test_halves_are_rounded_once_to_nearest_even(rng, dtype):
    """All ties between neighbours, their neighbours in float32, and random bits, against NumPy and ml_dtypes."""
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
    every = np.sort(every[np.isfinite(every)])
    wide = every.astype(np.float64)
    ties = np.concatenate([(wide[1:] + wide[:-1]) / 2, [1.5 * wide[-1] - 0.5 * wide[-2]]])  # the last one is infinity's
    middle = ties.astype(np.float32)
    random = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32)
    values = [every, middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf))]
    values = np.concatenate([*values, random, np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], dtype=np.float32)])
    assert_same(round_trip(values, dtype), to_storage(values, dtype))


@pytest.mark.parametrize("dtype", DTYPES[4:], ids=str)
def test_halves_are_read_exactly(dtype):
    """Every number, times a power of two that lifts the smallest ones: an exact product, rounded as NumPy does."""
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    factor = np.float32(2.0**12)
    x = np.empty((1, len(every)), dtype=dtype)
    zero = np.full((1, 1), -0.0).astype(dtype)
    channels.solve_into(every[None], zero, x, np.full(1, factor), reverse=False, window=Full(), threads=1)
    with np.errstate(all="ignore"):
        assert_same(x[0], to_storage(every.astype(np.float32) * factor, dtype))


def test_a_processor_without_fused_multiply_add_and_float16_gives_the_same_bits(rng, tmp_path):
    """The same numbers on a plain x86-64: the code for other machines must not differ in a bit."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("names a processor of x86-64")
    for dtype in (np.float16, np.float32):
        np.save(tmp_path / f"a-{np.dtype(dtype)}.npy", rng.uniform(-1, 1, (40, 17)).astype(dtype))
        np.save(tmp_path / f"u-{np.dtype(dtype)}.npy", (rng.standard_normal((40, 17)) * 0.001).astype(dtype))
    code = f"""
        import pathlib, sys
        import numpy as np
        from recfact.cpu import channels
        from recfact.windows import Full

        folder = pathlib.Path({str(tmp_path)!r})
        for dtype in ("float16", "float32"):
            a, u = (np.load(folder / f"{{name}}-{{dtype}}.npy") for name in "au")
            x = np.empty_like(u)
            channels.solve_into(a, u, x, None, reverse=False, window=Full(), threads=1)
            print(x.tobytes().hex())
    """
    plain = """
        import llvmlite.binding
        llvmlite.binding.get_host_cpu_name = lambda: "x86-64"
        llvmlite.binding.get_host_cpu_features = llvmlite.binding.targets.FeatureMap
    """
    assert run_in_child(plain + code, RECFACT_CACHE_DIR=str(tmp_path)) == run_in_child(code)
