"""Compile all kernels for all targets with what an extra for GPUs brings, CuPy's own way. No GPU is needed.

In a fresh virtual environment, for CUDA 12 alike, as .ci/run does for both:
pip install '.[gpu-cuda13]' && env --ignore-environment PATH=/usr/bin:/bin .../bin/python -I .ci/gpu_extra.py 13
"""

import os
import sys
from pathlib import Path

from cupy._core import core
from cupy.cuda import compiler, nvrtc

import recfact
from recfact.gpu.availability import LEAST_CAPABILITY, compiler_fault
from recfact.gpu.compiler import header_folders, options_of, source_of
from recfact.gpu.multiprocessors import Device

sys.path.append(str(Path(__file__).resolve().parent.parent))
from tools.gpu.examples import H100, TARGETS, kinds


def main(series: int) -> None:
    """Compile, and see that nothing from outside the environment was used."""
    seen = {name for name in os.environ if "CUDA" in name or name in ("LD_LIBRARY_PATH", "NVCC")}
    require(not seen, f"the environment must hide a toolkit, and has {sorted(seen)}")
    inside([recfact.__file__])
    fault = compiler_fault(sys.modules["cupy"])
    require(fault is None, fault)
    major, minor = nvrtc.getVersion()
    require(major == series, f"the extra must bring the compiler of CUDA {series}, and brings {major}.{minor}")

    # CuPy asks the GPU for its target, even where it is told.
    compiler._get_arch_for_options_for_nvrtc = lambda arch=None: (f"-arch=sm_{arch}", "cubin")
    require(min(TARGETS) == LEAST_CAPABILITY, "the oldest target must be the oldest GPU that is taken")
    folders = tuple(f"-I{folder}" for folder in header_folders(series))
    count = 0
    for capability in TARGETS:
        arch = f"{capability[0]}{capability[1]}"
        launches = kinds(Device(capability, H100.multiprocessors)).values()
        for launch in {launch.kernel: launch for launch in launches}.values():
            options = (*core.assemble_cupy_compiler_options((*options_of(launch), *folders)), "-ftz=true")
            inside([option[2:] for option in options if option.startswith("-I")])
            code, _ = compiler.compile_using_nvrtc(source_of(launch.kernel), options, arch)
            require(code.startswith(b"\x7fELF"), f"{launch.kernel} for sm_{arch} isn't machine code")
            count += 1
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    inside([line.split()[-1] for line in maps if "libnvrtc" in line])
    print(f"CUDA {major}.{minor}: {count} kernels compiled for {len(TARGETS)} targets")


def inside(paths: list[str]) -> None:
    """See that all paths are in this environment."""
    require(bool(paths), "nothing was found")
    outside = [path for path in paths if not Path(path).resolve().is_relative_to(Path(sys.prefix).resolve())]
    require(not outside, f"these are outside of the environment: {outside}")


def require(condition: bool, otherwise: str | None) -> None:
    """Stop with a message unless a condition holds."""
    if not condition:
        sys.exit(f"gpu_extra: {otherwise}")


main(int(sys.argv[1]))
