// Sums over the channels that share coefficients: those of a thread first, then those of LANES neighbouring threads,
// always in the same order. If more threads share them, each group of LANES has sums of its own.
//
// Macros: those of lines.cuh, and
//   SUM     number type of the sums
//   LANES   threads, up to 32, whose channels are added up; 1 if COEFFICIENTS is CHANNELS
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

// The gradients of a step's coefficients in the order of the sweep, COEFFICIENT_STEPS of them to an access.
struct Sums {
    static constexpr int CHANNELS_OF_ONE = COEFFICIENTS == 1 ? LANES * CHANNELS : 1;
    static constexpr bool PAIRED = (LANES & (LANES - 1)) == 0;  // lanes exchange with each other

    Vector<SUM, COEFFICIENTS * COEFFICIENT_STEPS> sums;

    // Take those of a step, from the products of its channels. All threads that share them come here together.
    __device__ __forceinline__ void take(int step, const Number (&products)[CHANNELS]) {
        if (COEFFICIENTS == 1) {
            const unsigned int lane = threadIdx.x % 32;
            const unsigned int mask = LANES == 32 ? 0xffffffffu : ((1u << (LANES % 32)) - 1) << (lane - lane % LANES);
            Number sum = products[0];
#pragma unroll
            for (int c = 1; c < CHANNELS; ++c) sum = add(sum, products[c]);
#pragma unroll
            for (int distance = 1; distance < LANES; distance *= 2) {
                const bool there = PAIRED || lane % LANES + distance < LANES;
                const Number other = of_lane(mask, sum, PAIRED ? lane ^ distance : there ? lane + distance : lane);
                if (there) sum = add(sum, other);
            }
            sums.set(in_access(step, COEFFICIENT_STEPS), sum);
        } else {
#pragma unroll
            for (int c = 0; c < COEFFICIENTS; ++c) sums.set(c, products[c]);
        }
    }
    // Put an access where its first step is.
    __device__ __forceinline__ void store(const SUM* first) const {
        if (LANES == 1 || threadIdx.x % 32 % LANES == 0)
            store_vector(const_cast<SUM*>(first) + access_start(COEFFICIENT_STEPS), sums);
    }
};
