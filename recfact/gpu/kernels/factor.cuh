// L_t: the products of a tile's coefficients, two lanes to a row, in one term of half precision or in two.
//
// Macros: those of b2p.cu
#pragma once

#include "tiles.cuh"

constexpr unsigned int EVERYONE = 0xffffffffu;
// The rest of an entry is stored so many times larger.
constexpr float RAISED = same<INPUT, half> ? 65536.0f : 1.0f;

// Of a lane: its half of a row of L_t, in terms, and g of the row (in the first 16 lanes).
struct Factor {
    Inputs terms[1 + SPLIT];
    float through;

    // From the coefficients in shared memory.
    __device__ __forceinline__ void build(const float* coefficients, const Place& at) {
        Floats a;
        a.packets[0] = read16(coefficients + at.factor_half * HALF);
        a.packets[1] = read16(coefficients + at.factor_half * HALF + 4);
        // From the diagonal to the left, as if the half began here. What is masked are the coefficients, so that the
        // entries wait for nothing but each other.
        float entries[HALF];
        entries[HALF - 1] = at.one[HALF - 1];
#pragma unroll
        for (int k = HALF - 2; k >= 0; --k)
            entries[k] = fmaf(__uint_as_float(__float_as_uint(a.items[k + 1]) & at.keep[k]), entries[k + 1], at.one[k]);
        through = entries[0] * a.items[0];
        // The left half of a lower row goes on from its right half.
        float seed = __shfl_down_sync(EVERYONE, through, TILE);
        if (at.factor_half == 1 || at.factor_row < HALF) seed = 1.0f;
        through *= seed;
#pragma unroll
        for (int k = 0; k < HALF; ++k) {
            const int place = REVERSE ? HALF - 1 - k : k;
            entries[k] *= seed;
            terms[0].set(place, entries[k]);
        }
#if SPLIT
#pragma unroll
        for (int k = 0; k < HALF; ++k) {
            const int place = REVERSE ? HALF - 1 - k : k;
            terms[1].set(place, (entries[k] - terms[0][place]) * RAISED);
        }
#endif
    }

    // To shared memory, with g in the order of memory if a lane takes it from there.
    __device__ __forceinline__ void write(const Work& work, const Place& at, int lane, int version) const {
        const int offset = REVERSE ? (TILE - 1 - at.factor_row) * ROW + (1 - at.factor_half) * HALF
                                   : at.factor_row * ROW + at.factor_half * HALF;
#pragma unroll
        for (int term = 0; term <= SPLIT; ++term) write16(work.factor(term) + offset, terms[term].packets[0]);
        if (TIME_CONTIGUOUS && lane < TILE)
            store_shared(work.products(version) + (REVERSE ? TILE - 1 - lane : lane), through);
    }
};
