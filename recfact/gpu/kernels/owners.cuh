// What a thread owns: a line, in a segment of time or in a sequence of its own, and where the line lies in an array.
//
// Lines are counted over channels first, then heads, then batches; `lines` of a head are its channels / CHANNELS. In
// gradients they may be counted in another order, and strides lead from line to line.
//
// Macros: CHANNELS, and for Owner THREADS of a thread block, and SEQUENCES, 1 if time holds sequences of their own.
#pragma once

#include "memory.cuh"

struct Line {
    long long batch, head, channel;  // its first channel

    __device__ __forceinline__ Line(long long index, long long heads, long long lines, int width = CHANNELS) {
        const long long row = index / lines;
        channel = (index - row * lines) * width;
        batch = row / heads;
        head = row - batch * heads;
    }
    // Bytes from the start of an array with these strides.
    __device__ __forceinline__ long long in(long long batch_step, long long head_step, long long channel_step) const {
        return batch * batch_step + head * head_step + channel * channel_step;
    }
};

#ifdef THREADS

// A segment is a part of time, the same for all threads of a thread block, or it is one of sequences. All lines of a head come
// together, and groups of so many `lanes` are in one warp, so threads that share coefficients are.
struct Owner {
    long long segment, line;
    bool exists;

    __device__ __forceinline__ Owner(long long segments, long long all, int lanes = 1) {
        const int owners = 32 / lanes * lanes, many = THREADS / 32 * owners;  // of a warp, and of a thread block
        const int thread = owners == 32 ? threadIdx.x : threadIdx.x / 32 * owners + threadIdx.x % 32;
        exists = owners == 32 || threadIdx.x % 32 < owners;
        if (SEQUENCES) {
            const long long own = static_cast<long long>(blockIdx.x) * many + thread;
            segment = own / all;
            line = own - segment * all;
            exists = exists && segment < segments;
        } else {
            const long long blocks = (all + many - 1) / many;  // thread blocks of a segment
            segment = blockIdx.x / blocks;
            line = (blockIdx.x - segment * blocks) * many + thread;
            exists = exists && line < all;
        }
    }
    // Where time starts for it, and in `steps` how many there are.
    __device__ __forceinline__ long long origin(const long long* starts, long long& steps) const {
        if (!SEQUENCES) return 0;
        const long long start = load(starts + segment);
        steps = load(starts + segment + 1) - start;
        return start;
    }
};

#endif
