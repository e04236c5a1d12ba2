// A tile of b2p: its shared memory, and where a lane works on it.
//
// Shared memory of a warp, in bytes from its start (a row of 16 halves takes 48, a row of 16 floats 96, which keeps all
// accesses free of bank conflicts):
//   own      with GATED: of STAGES tiles, the inputs v and the gates k and q, 16 bytes of each lane next to each other
//   inputs   SHARED_TILES x 16 rows: [step][channel], or [channel][step] if TIME_CONTIGUOUS, as in global memory; with
//            GATED the two terms of k v
//   L_t      16 rows, and 16 more for the rest if SPLIT
//   product  16 rows of floats, laid out like the inputs
//   vectors  two versions of each, which take turns from tile to tile: a (16 floats, in the order of the sweep), g (16,
//            in the order of memory), and the carriers: of the state and of what the block reached from zero (16 each)
//
// Macros: those of b2p.cu
#pragma once

#include "numbers.cuh"

constexpr int ALONE = 1, NEIGHBOUR = 2;  // values of WINDOW
constexpr int TILE = 16, HALF = 8;
constexpr int AHEAD = REVERSE ? -TILE : TILE;        // steps in memory from tile to tile
constexpr int ROW = 24;                              // numbers from row to row of a matrix in shared memory
constexpr int MATRIX_BYTES = TILE * ROW * 2, PRODUCT_BYTES = TILE * ROW * 4;
constexpr int SHARED_TILES = GATED ? 2 : ASYNCHRONOUS ? STAGES : 1;
constexpr int INPUTS = GATED ? STAGES * 3 * 32 * 16 : 0;      // where inputs begin
constexpr int FACTOR = INPUTS + SHARED_TILES * MATRIX_BYTES;  // where L_t begins
constexpr int PRODUCT = FACTOR + (1 + SPLIT) * MATRIX_BYTES;
constexpr int VECTORS = PRODUCT + PRODUCT_BYTES;
constexpr int WARP_BYTES = VECTORS + 8 * TILE * 4;
constexpr bool LONG = WINDOW == NEIGHBOUR && !SINGLE;  // a state and what its block reached from zero differ

using Inputs = Vector<INPUT, HALF>;
using Floats = Vector<float, HALF>;

struct Work {
    unsigned char* memory;  // of the warp, shared

    // What a lane moves of v, k or q.
    __device__ __forceinline__ INPUT* own(int stage, int array) const {
        return reinterpret_cast<INPUT*>(memory + ((stage * 3 + array) * 32 + threadIdx.x % 32) * 16);
    }
    // Of a stage, or a term.
    __device__ __forceinline__ INPUT* inputs(int stage) const {
        return reinterpret_cast<INPUT*>(memory + INPUTS + stage % SHARED_TILES * MATRIX_BYTES);
    }
    __device__ __forceinline__ INPUT* factor(int term) const {
        return reinterpret_cast<INPUT*>(memory + FACTOR + term * MATRIX_BYTES);
    }
    __device__ __forceinline__ float* product() const { return reinterpret_cast<float*>(memory + PRODUCT); }
    __device__ __forceinline__ float* vector(int index) const {
        return reinterpret_cast<float*>(memory + VECTORS) + index * TILE;
    }
    __device__ __forceinline__ float* coefficients(int version) const { return vector(version); }
    __device__ __forceinline__ float* products(int version) const { return vector(2 + version); }
    __device__ __forceinline__ float* carrier(int version) const { return vector(4 + version); }
    __device__ __forceinline__ float* local_carrier(int version) const { return vector(6 + version); }
};

__device__ __forceinline__ Packet<16> read16(const void* shared) {
    return load_shared(static_cast<const Packet<16>*>(shared));
}
__device__ __forceinline__ void write16(void* shared, Packet<16> value) {
    store_shared(static_cast<Packet<16>*>(shared), value);
}

// Where a lane works: in copies, sums and results on 8 numbers of a row (the quarters of a warp take rows such that
// neither the copies nor the sums meet in a bank), in L_t on half a row.
struct Place {
    int row, half;           // of the tile, in the order of memory
    bool second;             // whether it takes the second four of its floats first
    int factor_row, factor_half;  // in the order of the sweep
    unsigned int keep[HALF - 1];  // of each entry of L_t: all bits where it goes on a product
    float one[HALF];              // 1 where a product begins

    __device__ __forceinline__ explicit Place(int lane) {
        row = (lane >> 4) * 8 + ((lane >> 1) & 3) * 2 + ((lane >> 3) & 1);
        half = lane & 1;
        second = (row >> 2) & 1;
        factor_row = lane & 15;
        factor_half = lane >> 4;
        const int diagonal = min(factor_row - factor_half * HALF, HALF - 1);
#pragma unroll
        for (int k = 0; k < HALF; ++k) {
            if (k < HALF - 1) keep[k] = (k - diagonal) >> 31;  // a sign
            one[k] = k == diagonal ? 1.0f : 0.0f;
        }
    }

    // The number of its row at which the lane's four begins that it takes first or second.
    __device__ __forceinline__ int four(int turn) const { return half * HALF + (turn == 0 ? second : !second) * 4; }
};

// Four of eight inputs, the first or the last.
__device__ __forceinline__ Vector<INPUT, 4> four_of(const Inputs& all, bool last) {
    Vector<INPUT, 4> part;
#pragma unroll
    for (int w = 0; w < 2; ++w) part.packets[0].words[w] = last ? all.packets[0].words[2 + w] : all.packets[0].words[w];
    return part;
}

// Eight outputs of two times four, in their order.
__device__ __forceinline__ Vector<OUTPUT, HALF> join(const Vector<OUTPUT, 4>& p, const Vector<OUTPUT, 4>& q,
                                                     bool swap) {
    constexpr int WORDS = sizeof(OUTPUT);  // of 4 bytes in four outputs
    Vector<OUTPUT, HALF> all;
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
        const unsigned int first = p.packets[0].words[w], second = q.packets[0].words[w];
        all.packets[w / 4].words[w % 4] = swap ? second : first;
        all.packets[(w + WORDS) / 4].words[(w + WORDS) % 4] = swap ? first : second;
    }
    return all;
}
