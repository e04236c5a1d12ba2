// An emulator of one GPU for recfact's kernels: CUDA C++ compiled by g++, unchanged, and run on the CPU. This header comes
// before the kernel's source; mma.h, cuda_fp16.h and cuda_bf16.h beside it stand in for CUDA's.
//
// What it models
//   threads      Each is a fiber. Lanes of a warp run one after another between the points where CUDA makes them meet
//                (shuffles, votes, __syncwarp, wmma), so nothing is in lock-step that CUDA doesn't promise to be.
//   blocks       Any number at once, started in any order, next in turn by several rules, preempted at polls, between a warp's
//                steps, or after a release until all others are stuck. Who waits for a block not yet started is found out.
//   memory       Global pointers are virtual addresses, checked for extent, alignment and role (only read, only written and
//                each byte once, both). Shared memory is each block's own; asynchronous copies land when waited for, not before.
//   order        A vector-clock check: two accesses to the same bytes, at least one of them a write, with no barrier, fence or
//                release and acquire between them are reported in whatever order they ran. Synchronizing accesses
//                (load_acquire, store_release, relaxed ones, atomics) don't race with each other.
//   traffic      The accesses of a warp's lanes at one line of the source are put together as one instruction: distinct bytes,
//                32-byte sectors, width; in shared memory wavefronts, by phases of 128 bytes, against those without bank conflicts.
//   numbers      half and bfloat16 rounded to nearest even; wmma products exact and summed in single precision, either rounded
//                to nearest, or aligned and cut as tensor cores do; subnormal numbers flushed if asked for.
//   fragments    Element places are a permutation that no GPU has.
//
// What it doesn't model
//   time         No clocks, latencies, occupancy, warp scheduling; what a figure costs in time only a GPU tells.
//   caches       Every instruction's sectors count, even where hardware would find them in L1 or L2.
//   the compiler Registers, spills and instructions are read from the machine code that NVRTC makes. An access that it merges or
//                drops is counted as the source has it. Lanes that pass a line a different number of times may be put together
//                differently than hardware would.
//   weak memory  Values never arrive out of order; that they could, the check of the order finds, except for a plain access to
//                the bytes of a synchronizing one.
//   -ftz=true    Flushing is the CPU's mode, for doubles too, and where a result is tiny before or after rounding may differ.
#pragma once
#include "builtins.h"
#include "accessors.h"
#include "warp.h"
#include "entry.h"
#include "shared_range.h"
