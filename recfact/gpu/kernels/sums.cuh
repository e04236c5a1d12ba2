// Sums over the channels that share coefficients: those of a thread first, then those of up to LANES neighbouring threads,
// always in the same order. If more threads share them, each group of LANES has sums of its own.
//
// Macros: those of owners.cuh and lines.cuh, and
//   SUM     number type of the sums
//   LANES   threads, up to 32, of a group whose channels are added up
//   UNEVEN  1 if the last group of those that share coefficients has fewer
#pragma once

#include "lines.cuh"
#include "owners.cuh"

// The same number of another lane.
__device__ __forceinline__ float of_lane(unsigned int mask, float x, int lane) { return __shfl_sync(mask, x, lane); }
__device__ __forceinline__ double of_lane(unsigned int mask, double x, int lane) { return __shfl_sync(mask, x, lane); }
__device__ __forceinline__ float2 of_lane(unsigned int mask, float2 x, int lane) {
    return make_float2(of_lane(mask, x.x, lane), of_lane(mask, x.y, lane));
}
__device__ __forceinline__ double2 of_lane(unsigned int mask, double2 x, int lane) {
    return make_double2(of_lane(mask, x.x, lane), of_lane(mask, x.y, lane));
}

// An owner among the `sharing` lines next to each other that share coefficients. Each of their groups has LANES places
// in a warp, so the last places of the last group may be empty.
struct Member : Owner {
    long long group;
    int lanes;  // of its group

    __device__ __forceinline__ Member(long long segments, long long all, long long sharing)
        : Owner(segments, LANES == 1 ? all : all / sharing * places(sharing), LANES), group(0), lanes(LANES) {
        if (LANES == 1) return;
        const long long before = line / places(sharing), place = line - before * places(sharing);
        line = before * sharing + place;
        group = place / LANES;
        if (UNEVEN) {
            exists = exists && place < sharing;
            if (sharing - group * LANES < LANES) lanes = static_cast<int>(sharing - group * LANES);
        }
    }
    __device__ __forceinline__ static long long places(long long sharing) {
        return (sharing + LANES - 1) / LANES * LANES;
    }
};

// The gradients of a step's coefficients in the order of the sweep, COEFFICIENT_STEPS of them to an access.
struct Sums {
    static constexpr bool PAIRED = !UNEVEN && (LANES & (LANES - 1)) == 0;  // lanes exchange with each other

    Vector<SUM, COEFFICIENTS * COEFFICIENT_STEPS> sums;

    // Take those of a step, from the products of its channels. All `lanes` that share them come here together.
    __device__ __forceinline__ void take(int step, const Number (&products)[CHANNELS], int lanes) {
        const unsigned int lane = threadIdx.x % 32;
        const unsigned int mask = (0xffffffffu >> (32 - (UNEVEN ? lanes : LANES))) << (lane - lane % LANES);
#pragma unroll
        for (int k = 0; k < COEFFICIENTS; ++k) {
            Number sum = products[k];
#pragma unroll
            for (int c = 1; c < CHANNELS / COEFFICIENTS; ++c) sum = add(sum, products[c]);
#pragma unroll
            for (int distance = 1; distance < LANES; distance *= 2) {
                const bool there = PAIRED || lane % LANES + distance < (UNEVEN ? lanes : LANES);
                const Number other = of_lane(mask, sum, PAIRED ? lane ^ distance : there ? lane + distance : lane);
                if (there) sum = add(sum, other);
            }
            sums.set(COEFFICIENTS == 1 ? in_access(step, COEFFICIENT_STEPS) : k, sum);
        }
    }
    // Put an access where its first step is.
    __device__ __forceinline__ void store(const SUM* first) const {
        if (LANES == 1 || threadIdx.x % 32 % LANES == 0)
            store_vector(const_cast<SUM*>(first) + access_start(COEFFICIENT_STEPS), sums);
    }
};
