// What a tile's inputs reach: L_t u_t on tensor cores, and the same by plain steps where that wouldn't be right.
//
// Macros: those of b2p.cu
#pragma once

#include "factor.cuh"
#include "fragments.cuh"
#include "tile_gates.cuh"

using namespace nvcuda;

template <class T>
using Right = wmma::fragment<wmma::matrix_b, TILE, TILE, TILE, INPUT, T>;

// L_t u_t, from shared memory to shared memory. With gates u_t has two terms, too. The product of both rests is left
// out.
__device__ __forceinline__ void multiply_tile(const Work& work, int stage) {
    wmma::fragment<wmma::matrix_a, TILE, TILE, TILE, INPUT, wmma::row_major> factor;
    wmma::fragment<wmma::accumulator, TILE, TILE, TILE, float> product;
#if TIME_CONTIGUOUS
    Right<wmma::col_major> inputs;
#else
    Right<wmma::row_major> inputs;
#if GATED
    Right<wmma::row_major> rests;
#endif
#endif
    load_fragment(inputs, work.inputs(GATED ? 0 : stage), ROW);
    wmma::fill_fragment(product, 0.0f);
    auto lower = [&](float by) {
        if (by == 1.0f) return;
#pragma unroll
        for (int k = 0; k < product.num_elements; ++k) product.x[k] *= 1.0f / by;
    };
#pragma unroll
    for (int term = SPLIT; term >= 0; --term) {
        load_fragment(factor, work.factor(term), ROW);
#if GATED
        if (term == 0) {
            load_fragment(rests, work.inputs(1), ROW);
            wmma::mma_sync(product, factor, rests, product);
            lower(LIFTED);
        }
#endif
        wmma::mma_sync(product, factor, inputs, product);
        if (term == 1) lower(GATED ? RAISED / LIFTED : RAISED);
    }
    wmma::store_matrix_sync(work.product(), product, ROW, TIME_CONTIGUOUS ? wmma::mem_col_major : wmma::mem_row_major);
}

// The number in a matrix of a lane's channel and a step of the sweep.
__device__ __forceinline__ int place_of(int lane, int step) {
    const int m = REVERSE ? TILE - 1 - step : step;
    return TIME_CONTIGUOUS ? lane * ROW + m : m * ROW + lane;
}

// What a block that begins at step `turn` of a tile has reached by its end, of a lane's channel.
__device__ __forceinline__ float reach_from(const Work& work, int lane, int stage, int version, int turn) {
    float begun = 0.0f;
#pragma unroll 1
    for (int r = turn; r < TILE; ++r) {
        const float a = r == turn ? 0.0f : load_shared(work.coefficients(version) + r);
        const int place = place_of(lane, r);
        float u = widen(load_shared(work.inputs(GATED ? 0 : stage) + place));
        if (GATED) u = fmaf(widen(load_shared(work.inputs(1) + place)), 1.0f / LIFTED, u);
        begun = fmaf(a, begun, u);
    }
    return begun;
}

// Repeat a tile by plain steps, a lane for each channel: results in `product`, carriers in `version`. Of gates, k v is
// in `product`.
__device__ __forceinline__ void repeat_tile(const Work& work, int lane, int stage, int version, bool linked,
                                            bool enters, bool ends, int turn) {
    if (lane >= TILE) return;
    float state = load_shared(work.carrier(1 - version) + lane);
    float local = LONG ? load_shared(work.local_carrier(1 - version) + lane) : state;
    if (!linked) state = 0.0f;
    if (enters) local = 0.0f;
#pragma unroll 1
    for (int r = 0; r < TILE; ++r) {
        const int place = place_of(lane, r);
        const float u = GATED ? load_shared(work.product() + place) : widen(load_shared(work.inputs(stage) + place));
        const float a = load_shared(work.coefficients(version) + r);
        const bool turns = SHIFTED && r == turn;
        if (turns) {
            state = local;
            local = 0.0f;  // a product with zero would keep NaN
        }
        state = fmaf(r == 0 && !linked ? 0.0f : a, state, u);
        local = fmaf((r == 0 && enters) || turns ? 0.0f : a, local, u);
        store_shared(work.product() + place, state);
    }
    store_shared(work.carrier(version) + lane, ends ? local : state);
    if (LONG) store_shared(work.local_carrier(version) + lane, local);
}
