"""What a multiprocessor has room for, against CUDA's own occupancy calculator, a header that needs no GPU."""

from __future__ import annotations

import itertools
import subprocess

import pytest
from gpu.bare_run import need_compiler

from recfact.gpu.compiler import header_folders
from recfact.gpu.multiprocessors import MULTIPROCESSORS, REGISTERS, multiprocessor_of, warps_of_registers
from tools.gpu.examples import TARGETS

CALCULATOR = r"""
#include <cstdio>
#include <cuda_occupancy.h>

// Lines of: compute capability, warps and bytes of shared memory of a multiprocessor, bytes reserved of each thread
// block; warps, registers of a thread, and bytes of shared memory of a kernel's thread block.
int main() {
    int major, minor, warps, block_warps, registers;
    size_t shared, reserved, block_shared;
    while (std::scanf("%d%d%d%zu%zu%d%d%zu", &major, &minor, &warps, &shared, &reserved, &block_warps, &registers,
                      &block_shared) == 8) {
        cudaOccDeviceProp device;
        device.computeMajor = major;
        device.computeMinor = minor;
        device.maxThreadsPerBlock = 1024;
        device.maxThreadsPerMultiprocessor = 32 * warps;
        device.regsPerBlock = device.regsPerMultiprocessor = 65536;
        device.warpSize = 32;
        device.sharedMemPerBlock = 48 * 1024;
        device.sharedMemPerMultiprocessor = shared;
        device.sharedMemPerBlockOptin = shared - reserved;
        device.reservedSharedMemPerBlock = reserved;
        device.numSms = 1;
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = 1024;
        kernel.numRegs = registers;
        kernel.sharedSizeBytes = block_shared;
        kernel.numBlockBarriers = 1;
        cudaOccDeviceState state;
        cudaOccResult result;
        size_t most = shared + 1;
        const bool known = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state,
                                                                   32 * block_warps, 0) == CUDA_OCC_SUCCESS;
        const bool largest = cudaOccAlignUpShmemSizeVoltaPlus(&most, &device) == CUDA_OCC_ERROR_INVALID_INPUT;
        std::printf("%d\n", known && largest ? result.activeBlocksPerMultiprocessor * block_warps : -1);
    }
}
"""
# Warps of a thread block, registers of a thread, bytes of shared memory: from small to what a kernel may have.
KERNELS = list(
    itertools.product((1, 4, 16), (24, 40, 64, 70, 80, 88, 96, 104, 128), (0, 3584, 16128, 19968, 26112, 48 * 1024))
)


@pytest.mark.machine_code
def test_room_is_what_cudas_calculator_finds(tmp_path):
    need_compiler()
    if not (header_folders()[0] / "cuda_occupancy.h").exists():
        pytest.skip("cuda_occupancy.h isn't among the headers")
    source, program = tmp_path / "calculator.cpp", tmp_path / "calculator"
    source.write_text(CALCULATOR, encoding="utf-8")
    subprocess.run(["g++", "-w", f"-I{header_folders()[0]}", source, "-o", program], check=True)
    asked = [(target, kernel) for target in TARGETS for kernel in KERNELS]
    lines = []
    for target, kernel in asked:
        limits = multiprocessor_of(target)
        lines.append(" ".join(map(str, (*target, limits.warps, limits.shared_bytes, limits.reserved_bytes, *kernel))))
    said = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    assert [multiprocessor_of(target).room(*kernel) for target, kernel in asked] == [int(text) for text in said.split()]


def test_each_target_is_in_the_table():
    assert tuple(MULTIPROCESSORS) == TARGETS


@pytest.mark.parametrize(
    ("capability", "known"),
    [
        ((7, 0), (7, 5)),  # older than all that are known; no kernel is launched there
        ((8, 0), (8, 0)),
        ((8, 7), (8, 6)),
        ((10, 3), (10, 0)),
        ((11, 0), (10, 0)),
        ((12, 1), (12, 0)),
        ((15, 0), (12, 0)),
    ],
)
def test_another_capability_is_taken_for_the_nearest_below(capability, known):
    assert multiprocessor_of(capability) is MULTIPROCESSORS[known]


@pytest.mark.parametrize(("registers", "warps"), [(64, 32), (65, 28), (80, 24), (96, 20), (97, 16), (128, 16)])
def test_registers_come_by_quarters_of_a_multiprocessor(registers, warps):
    assert warps_of_registers(registers) == warps
    assert 32 * registers * warps <= REGISTERS
