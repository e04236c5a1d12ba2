// What a thread of `backward_window` keeps of blocks, in shared memory of its own: numbers of each step.
//
// Macros: those of lines.cuh, TERMS and SLIDES of backward_window.cu, and THREADS of a thread block.
#pragma once

#include "lines.cuh"

extern __shared__ __align__(16) unsigned char dynamic_shared[];

// N numbers of each step of a block.
template <int N>
struct Row {
    int start;  // bytes

    __device__ __forceinline__ Row(int before, int block) : start(before * block * THREADS) {}
    __device__ __forceinline__ unsigned char* place(int step, int access) const {
        using V = Vector<Number, N>;
        return dynamic_shared + start + ((step * V::ACCESSES + access) * THREADS + threadIdx.x) * V::ACCESS_BYTES;
    }
    __device__ __forceinline__ Vector<Number, N> get(int step) const {
        using V = Vector<Number, N>;
        V value;
#pragma unroll
        for (int k = 0; k < V::ACCESSES; ++k)
            value.packets[k] = load_shared(reinterpret_cast<const Packet<V::ACCESS_BYTES>*>(place(step, k)));
        return value;
    }
    __device__ __forceinline__ void set(int step, const Vector<Number, N>& value) const {
        using V = Vector<Number, N>;
#pragma unroll
        for (int k = 0; k < V::ACCESSES; ++k)
            store_shared(reinterpret_cast<Packet<V::ACCESS_BYTES>*>(place(step, k)), value.packets[k]);
    }
};

using Values = Vector<Number, CHANNELS>;
using Factors = Vector<Number, COEFFICIENTS>;

// What a channel has of the numbers of all coefficients.
template <class V>
__device__ __forceinline__ Number of(const V& values, int c) {
    return values[COEFFICIENTS == 1 ? 0 : c];
}

// The rows of the own block and of the TERMS before it, which take turns.
struct Kept {
    static constexpr int HELD = TERMS + 1, ROWS = HELD + TERMS + 2 * SLIDES;
    static constexpr int ROW = CHANNELS * sizeof(Number), SIZE = COEFFICIENTS * sizeof(Number);

    int block;
    Row<CHANNELS> local, seen;   // if SLIDES: w, and later s g; A
    Row<COEFFICIENTS> products;  // if SLIDES: s

    __device__ __forceinline__ explicit Kept(int block)
        : block(block), local((HELD + TERMS) * ROW, block), seen((HELD + TERMS + 1) * ROW, block),
          products(ROWS * ROW + HELD * SIZE, block) {}
    // w of a block, or u and later Q if SLIDES.
    __device__ __forceinline__ Row<CHANNELS> held(long long index) const {
        return Row<CHANNELS>(static_cast<int>(index % HELD) * ROW, block);
    }
    // Its coefficients.
    __device__ __forceinline__ Row<COEFFICIENTS> factors(long long index) const {
        return Row<COEFFICIENTS>(ROWS * ROW + static_cast<int>(index % HELD) * SIZE, block);
    }
    // c^{j+1} of the step before, or S.
    __device__ __forceinline__ Row<CHANNELS> carried(int j) const { return Row<CHANNELS>((HELD + j) * ROW, block); }
};
