// Sums over the channels that share coefficients: those of a thread first, then those of LANES neighbouring threads,
// always in the same order.
//
// Macros: those of lines.cuh, and
//   LANES   threads, a power of two up to 32, whose channels share their coefficients; 1 if COEFFICIENTS is CHANNELS
#pragma once

#include "lines.cuh"

// The same number of another lane.
__device__ __forceinline__ float of_lane(unsigned int mask, float x, int lane) { return __shfl_sync(mask, x, lane); }
__device__ __forceinline__ double of_lane(unsigned int mask, double x, int lane) { return __shfl_sync(mask, x, lane); }
__device__ __forceinline__ float2 of_lane(unsigned int mask, float2 x, int lane) {
    return make_float2(of_lane(mask, x.x, lane), of_lane(mask, x.y, lane));
}
__device__ __forceinline__ double2 of_lane(unsigned int mask, double2 x, int lane) {
    return make_double2(of_lane(mask, x.x, lane), of_lane(mask, x.y, lane));
}

// Put the gradients of a step's coefficients at `place`. All threads that share them come here together.
__device__ __forceinline__ void store_sums(OUTPUT* place, const Number (&products)[CHANNELS]) {
    Vector<OUTPUT, COEFFICIENTS> sums;
    const unsigned int lane = threadIdx.x % 32;
    if (COEFFICIENTS == 1) {
        const unsigned int mask = LANES == 32 ? 0xffffffffu : ((1u << (LANES % 32)) - 1) << (lane - lane % LANES);
        Number sum = products[0];
#pragma unroll
        for (int c = 1; c < CHANNELS; ++c) sum = add(sum, products[c]);
#pragma unroll
        for (int distance = 1; distance < LANES; distance *= 2) sum = add(sum, of_lane(mask, sum, lane ^ distance));
        sums.set(0, sum);
    } else {
#pragma unroll
        for (int c = 0; c < COEFFICIENTS; ++c) sums.set(c, products[c]);
    }
    if (LANES == 1 || lane % LANES == 0) store_vector(place, sums);
}
